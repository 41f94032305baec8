#include "trace_html.hpp"

#include <string_view>

namespace cldist::tool {
namespace {

constexpr std::string_view head = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>cldist trace</title>
<style>
body { font: 14px sans-serif; margin: 1em; }
canvas { width: 100%; border: 1px solid #bbb; cursor: grab; display: block; }
#about { min-height: 1.4em; }
</style></head><body>
<h1>Time line</h1>
<p>The mouse wheel zooms, and dragging moves. Commands are shown from the completion of their wait lists.</p>
<p id="about"></p><canvas id="line"></canvas>
<h1>Table</h1>
<pre>)";

constexpr std::string_view middle = R"(</pre>
<script type="application/json" id="trace">)";

constexpr std::string_view script = R"(</script>
<script>
"use strict";
const events = JSON.parse(document.getElementById("trace").textContent).traceEvents;
const last = events.reduce((end, e) => Math.max(end, (e.ts || 0) + (e.dur || 0)), 1);
const names = new Map(), tracks = new Map(), open = new Map();
const key = e => e.pid + "/" + e.tid;
function add(e, slice) {
    if (!tracks.has(key(e))) tracks.set(key(e), {pid: e.pid, tid: e.tid, slices: []});
    tracks.get(key(e)).slices.push(slice);
}
for (const e of events) {
    const id = e.id && e.id.split("/")[0];  // what follows "/" separates stages that overlap
    if (e.ph === "M" && e.name === "process_name") names.set(e.pid, e.args.name);
    if (e.ph === "M" && e.name === "thread_name") names.set(key(e), e.args.name);
    if (e.ph === "X") add(e, {name: e.name, begin: e.ts, end: e.ts + e.dur, args: e.args, stages: []});
    if (e.ph === "b") {
        if (!open.has(id)) {
            const command = {name: e.name, begin: e.ts, end: last, args: e.args, stages: []};
            open.set(id, {command, running: []});
            add(e, command);
        } else {
            const stage = {name: e.name, begin: e.ts, end: last};
            open.get(id).command.stages.push(stage);
            open.get(id).running.push(stage);
        }
    }
    if (e.ph === "e" && open.has(id)) {
        const {command, running} = open.get(id);
        const at = running.findLastIndex(stage => stage.name === e.name);
        if (at >= 0) {
            running.splice(at, 1)[0].end = e.ts;
            if (e.name === "wait") command.begin = e.ts;
        } else {
            command.end = e.ts;
            command.args = {...command.args, ...e.args};
            open.delete(id);
        }
    }
}
// Slices that overlap are drawn in rows below each other.
const rowHeight = 20, left = 190;
const ordered = [...tracks.values()].sort((a, b) => a.pid - b.pid || a.tid - b.tid);
let rows = 0, slices = 0;
for (const track of ordered) {
    track.first = rows;
    const ends = [];
    for (const slice of track.slices.sort((a, b) => a.begin - b.begin)) {
        let row = ends.findIndex(end => end <= slice.begin);
        if (row < 0) row = ends.length;
        ends[row] = slice.end;
        slice.row = track.first + row;
        ++slices;
    }
    rows += ends.length;
}
const canvas = document.getElementById("line"), about = document.getElementById("about");
let from = 0, to = last;
const hue = name => [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 360, 7);
function draw() {
    const width = canvas.clientWidth, height = rows * rowHeight + 24, scale = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d"), x = time => left + (time - from) / (to - from) * (width - left);
    pen.scale(scale, scale);
    pen.font = "11px sans-serif";
    for (const track of ordered) {
        const y = track.first * rowHeight;
        pen.fillStyle = "#000";
        pen.fillText(`${names.get(track.pid) || track.pid}: ${names.get(key(track)) || track.tid}`, 4, y + 14, left - 8);
        pen.save();
        pen.beginPath();
        pen.rect(left, 0, width - left, height);
        pen.clip();
        for (const slice of track.slices) {
            if (slice.end < from || slice.begin > to) continue;
            const begin = x(slice.begin), size = Math.max(x(slice.end) - begin, 1), top = slice.row * rowHeight;
            pen.fillStyle = `hsl(${hue(slice.name)} 60% 75%)`;
            pen.fillRect(begin, top + 1, size, rowHeight - 2);
            for (const stage of slice.stages) {
                if (stage.name === "wait") continue;
                pen.fillStyle = `hsl(${hue(stage.name)} 60% 50%)`;
                pen.fillRect(x(stage.begin), top + rowHeight - 6, Math.max(x(stage.end) - x(stage.begin), 1), 5);
            }
            pen.fillStyle = "#000";
            if (size > 30) pen.fillText(slice.name, Math.max(begin, left) + 3, top + 12, size - 6);
        }
        pen.restore();
        pen.fillStyle = "#ddd";
        pen.fillRect(0, y, width, 1);
    }
    pen.fillStyle = "#000";
    pen.fillText(`${(from / 1000).toFixed(3)} ms`, left, height - 8);
    const end = `${(to / 1000).toFixed(3)} ms`;
    pen.fillText(end, width - pen.measureText(end).width - 4, height - 8);
}
const time = event => from + (event.offsetX - left) / (canvas.clientWidth - left) * (to - from);
canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const at = time(event), factor = Math.exp(event.deltaY / 300);
    from = Math.max(0, at - (at - from) * factor);
    to = Math.min(last, at + (to - at) * factor);
    draw();
}, {passive: false});
canvas.addEventListener("mousemove", event => {
    if (event.buttons === 1) {
        const shift = -event.movementX / (canvas.clientWidth - left) * (to - from);
        const moved = Math.min(Math.max(shift, -from), last - to);
        from += moved;
        to += moved;
        draw();
    }
    const at = time(event), row = Math.floor(event.offsetY / rowHeight), near = (to - from) / 1000;
    const found = ordered.flatMap(track => track.slices).find(
        slice => slice.row === row && slice.begin - near <= at && at <= slice.end + near);
    about.textContent = found === undefined ? "" :
        `${found.name}: ${(found.end - found.begin).toFixed(1)} us from ${(found.begin / 1000).toFixed(3)} ms; ` +
        [...found.stages.map(stage => `${stage.name} ${(stage.end - stage.begin).toFixed(1)} us`),
         ...Object.entries(found.args || {}).map(([name, value]) => `${name} ${value}`)].join(", ");
});
window.addEventListener("resize", draw);
draw();
document.body.dataset.slices = slices;
</script></body></html>
)";

void append_escaped(std::string &page, std::string_view text) {
    for (const char letter : text) {
        if (letter == '<')
            page += "&lt;";
        else if (letter == '&')
            page += "&amp;";
        else
            page += letter;
    }
}

}  // namespace

std::string html_page(const nlohmann::json &merged, const std::string &table) {
    std::string page(head);
    append_escaped(page, table);
    page += middle;
    // In JSON, "<" occurs only in strings, where "</script>" would end the script.
    for (const char letter : merged.dump()) {
        if (letter == '<')
            page += "\\u003c";
        else
            page += letter;
    }
    page += script;
    return page;
}

}  // namespace cldist::tool
