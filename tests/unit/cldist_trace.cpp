#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/clock_sync.hpp"
#include "base/trace.hpp"
#include "intervals.hpp"
#include "rank_trace.hpp"
#include "support.hpp"
#include "trace_merge.hpp"
#include "trace_table.hpp"

using namespace cldist;
using namespace cldist::tool;

namespace {

std::string event(const std::string &phase, const std::string &name, int id, double at,
                  const std::string &args = "") {
    return fmt::format(
        "{{\"ph\":\"{}\",\"name\":\"{}\",\"cat\":\"cldist\",\"id\":{},\"ts\":{},\"args\":{{{}}}}},"
        "\n",
        phase, name, id, at, args);
}

std::string span(const std::string &name, int id, double start, double end,
                 const std::string &args = "") {
    return event("b", name, id, start) + event("e", name, id, end, args);
}

std::string kernel(const std::string &name, double start, double duration) {
    return fmt::format(
        "{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"kernel\",\"ts\":{},\"dur\":{},\"tid\":1,\"pid\":"
        "1}},\n",
        name, start, duration);
}

std::string trace_text(int rank, int ranks, const std::string &events,
                       const std::string &clock = "", const std::string &boot = "b") {
    return fmt::format(
        "{{\"otherData\":{{\"rank\":{},\"ranks\":{},\"host\":\"h{}\",\"boot\":\"{}\",\"clock\":[{}]"
        "}},\n"
        "\"traceEvents\":[\n{}{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{{}}}}\n]"
        "}}\n",
        rank, ranks, rank, boot, clock, events);
}

/// A folder that is deleted at the end of the test.
struct Folder {
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "cldist-unit-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;

    void write(const std::string &name, const std::string &text) const {
        std::ofstream(path / name) << text;
    }

    std::filesystem::path path;
};

std::string what_is_wrong(const std::filesystem::path &folder) {
    std::vector<std::string> left_out;
    try {
        [[maybe_unused]] const auto traces = read_traces(folder, false, left_out);
    } catch (const TraceError &error) {
        return error.what();
    }
    return "nothing";
}

}  // namespace

TEST_CASE("each byte that is not UTF-8 becomes U+FFFD in a trace") {
    const std::string none = "\xef\xbf\xbd";
    CHECK(trace::json_escaped("a\"b\\\n@") == "a\\\"b\\\\\\u000a\\u0040");
    for (const std::string text :
         {"", "plain", "\u00e9", "\u20ac", "\ud7ff", "\ue000", "\U0001f600", "\U0010ffff"})
        CHECK(trace::json_escaped(text) == text);
    CHECK(trace::json_escaped("fi\xff\xc3(") == "fi" + none + none + "(");
    CHECK(trace::json_escaped("cut \xe2\x82") == "cut " + none + none);
    CHECK(trace::json_escaped("\xe9t\xe9") == none + "t" + none);
    for (const std::string text : {"\xc0\x80", "\xc1\xbf"})
        CHECK(trace::json_escaped(text) == none + none);
    for (const std::string text : {"\xe0\x9f\xbf", "\xed\xa0\x80"})
        CHECK(trace::json_escaped(text) == none + none + none);
    for (const std::string text : {"\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
        CHECK(trace::json_escaped(text) == none + none + none + none);
}

TEST_CASE("intervals that touch or overlap are merged, empty intervals are dropped") {
    CHECK(union_of({{5, 6}, {1, 3}, {2, 4}, {4, 4.5}, {7, 7}, {9, 8}}) ==
          Intervals{{1, 4.5}, {5, 6}});
    CHECK(union_of({{1, 10}, {2, 3}}) == Intervals{{1, 10}});
    CHECK(union_of({}).empty());
}

TEST_CASE("the intersection of two lists contains the common parts") {
    const Intervals a{{0, 4}, {6, 10}, {20, 21}};
    CHECK(intersection_of(a, {{1, 2}, {3, 7}, {9, 30}}) ==
          Intervals{{1, 2}, {3, 4}, {6, 7}, {9, 10}, {20, 21}});
    CHECK(intersection_of(a, {{4, 6}}).empty());
    CHECK(length_of(intersection_of(a, a)) == doctest::Approx(9));
}

TEST_CASE("a clock's offset is taken from the shortest round trip") {
    const std::vector<RoundTrip> trips{{1000, 5000, 3000}, {4000, 7050, 4100}, {6000, 9500, 7000}};
    const ClockSample sample = clock_sample(trips);
    CHECK(sample.at_ns == 4050);
    CHECK(sample.offset_ns == 3000);
    CHECK(sample.uncertainty_ns == 50);
}

TEST_CASE(
    "the reported uncertainty covers the offset's error, however unequal the two directions of a "
    "round trip are") {
    std::mt19937_64 random(7);
    std::uniform_int_distribution<std::uint64_t> delay(0, 100000);
    for (const std::int64_t offset : {-7'000'000'000LL, -1LL, 0LL, 1LL, 123'456'789'012LL}) {
        for (int run = 0; run < 200; ++run) {
            std::vector<RoundTrip> trips;
            std::uint64_t now = 10'000'000'000;
            for (int i = 0; i < 8; ++i) {
                const std::uint64_t there = delay(random);
                const std::uint64_t back = delay(random);
                trips.push_back(
                    {now,
                     static_cast<std::uint64_t>(static_cast<std::int64_t>(now + there) + offset),
                     now + there + back});
                now += there + back;
            }
            const ClockSample sample = clock_sample(trips);
            const auto error = static_cast<std::uint64_t>(std::abs(sample.offset_ns - offset));
            REQUIRE(error <= sample.uncertainty_ns);
        }
    }
}

TEST_CASE("a clock with a drifting offset is converted to rank 0's clock") {
    // Rank 1's clock is 5 s behind at its time 100 s, and loses 20 us per second.
    const ClockCorrection clock(
        {{100'000'000'000, 5'000'000'000, 300}, {200'000'000'000, 5'002'000'000, 500}});
    CHECK(clock.apply(100e6) == doctest::Approx(105e6).epsilon(1e-12));
    CHECK(clock.apply(150e6) == doctest::Approx(155.001e6).epsilon(1e-12));
    CHECK(clock.apply(200e6) == doctest::Approx(205.002e6).epsilon(1e-12));
    CHECK(clock.drift_ppm() == doctest::Approx(20));
    CHECK(clock.uncertainty_us() == doctest::Approx(0.5));
    // A single measurement gives no drift.
    CHECK(ClockCorrection({{100'000'000'000, -1000, 1}}).apply(500) == doctest::Approx(499));
}

TEST_CASE(
    "ranks under one kernel keep their times, other ranks' times are corrected, and the table "
    "explains it") {
    const RankTrace first = parse_trace(trace_text(0, 2, ""));
    const std::string near = R"({"at_ns":1000,"offset_ns":-40,"uncertainty_ns":50})";
    const std::string far = R"({"at_ns":1000,"offset_ns":8000000,"uncertainty_ns":50})";
    CHECK(choose_clock(first, &first).explanation.empty());

    const ClockChoice same = choose_clock(parse_trace(trace_text(1, 2, "", near)), &first);
    CHECK(same.correction.apply(1) == 1);
    CHECK(has(same.explanation, "the times of all ranks are on this clock"));

    const ClockChoice other_kernel =
        choose_clock(parse_trace(trace_text(1, 2, "", near, "c")), &first);
    CHECK(other_kernel.correction.apply(1) == doctest::Approx(0.96));

    // A container may have its own clock.
    const ClockChoice own_clock = choose_clock(parse_trace(trace_text(1, 2, "", far)), &first);
    CHECK(own_clock.correction.apply(1) == doctest::Approx(8001));
    CHECK(has(own_clock.explanation, "no measurement at MPI_Finalize"));

    const ClockChoice unknown = choose_clock(parse_trace(trace_text(1, 2, "", "", "c")), &first);
    CHECK(unknown.correction.apply(1) == 1);
    CHECK(has(unknown.explanation, "CANNOT BE COMPARED"));
}

TEST_CASE("a command's time begins when its wait list is complete") {
    const RankTrace trace = parse_trace(trace_text(
        0, 1,
        event("b", "send", 7, 10, R"("peer":1,"size":5000)") + span("wait", 7, 10, 30) +
            span("device", 7, 30, 40) + span("message", 7, 35, 50) + kernel("jacobi", 0, 33) +
            event("e", "send", 7, 52, R"("peer":1,"bytes":4096)")));
    const std::vector<Command> commands = commands_of(trace);
    REQUIRE(commands.size() == 2);
    CHECK(commands[0].kind == "kernel jacobi");
    CHECK(commands[0].time == Interval{0, 33});
    CHECK(commands[1].kind == "send");
    CHECK(commands[1].time == Interval{30, 52});
    CHECK(commands[1].bytes == 4096);
    CHECK(commands[1].stages.size() == 3);
}

TEST_CASE(
    "a command without an end, because its process was killed, lasts until the end of the trace") {
    const RankTrace trace = parse_trace(
        trace_text(0, 1,
                   event("b", "recv", 8, 60) + span("wait", 8, 60, 61) + event("b", "send", 9, 62) +
                       span("wait", 9, 62, 65) + event("e", "send", 9, 99)));
    const std::vector<Command> commands = commands_of(trace);
    REQUIRE(commands.size() == 2);
    CHECK(commands[0].kind == "send");
    CHECK(commands[1].kind == "recv, not ended");
    CHECK(commands[1].time == Interval{61, 99});
    CHECK(commands[1].stages.size() == 1);
}

TEST_CASE("a damaged trace is refused with the reason") {
    CHECK_THROWS_AS((void)parse_trace(""), const TraceError &);
    CHECK_THROWS_AS((void)parse_trace("{\"traceEvents\":[]}"), const TraceError &);
    CHECK_THROWS_AS((void)parse_trace("{\"traceEvents\":7,\"otherData\":{}}"), const TraceError &);
    const std::string whole = trace_text(0, 1, span("send", 1, 1, 2));
    CHECK_THROWS_AS((void)parse_trace(whole.substr(0, whole.size() / 2)), const TraceError &);
    for (const char *event :
         {R"({"ph":"e","name":"send","id":1,"ts":5},)",
          R"({"ph":"b","name":"wait","id":1,"ts":5},)",
          R"({"ph":"X","name":"k","ts":"five","dur":1},)", R"({"name":"send"},)", "7,",
          // Only a merge of all ranks' traces needs these events.
          R"({"ph":"i","ts":1,"dur":"long"},)", R"({"ph":"M","name":7},)",
          R"({"ph":"M","name":"process_name","args":[]},)"})
        CHECK_THROWS_AS((void)commands_of(parse_trace(trace_text(0, 1, event))),
                        const TraceError &);
}

TEST_CASE("missing and damaged files are all listed, or skipped on request") {
    const Folder folder;
    CHECK(has(what_is_wrong(folder.path / "none"), "none"));
    CHECK(has(what_is_wrong(folder.path), "CLDIST_TRACE="));
    folder.write("cldist-trace-0.json", trace_text(0, 4, span("send", 1, 1, 2)));
    folder.write("cldist-trace-2.json", "{\"traceEvents\":[");
    folder.write("cldist-trace-3.json", trace_text(5, 4, ""));
    folder.write("cldist-trace-9.json", trace_text(9, 10, ""));
    folder.write("merged.json", "not a rank's");
    const std::string wrong = what_is_wrong(folder.path);
    CHECK(has(wrong, "cldist-trace-1.json is missing; the run had 4 ranks"));
    CHECK(has(wrong, "cldist-trace-2.json: is damaged at byte "));
    CHECK(has(wrong, "cldist-trace-3.json: contains the trace of rank 5"));
    CHECK(has(wrong, "cldist-trace-9.json is from a run of 10 ranks"));
    CHECK_FALSE(has(wrong, "merged.json"));
    std::vector<std::string> left_out;
    CHECK(read_traces(folder.path, true, left_out).size() == 1);
    CHECK(left_out.size() == 4);
}

TEST_CASE("the table counts each kind of command, and its overlap with kernels of the same rank") {
    // Rank 0: two sends that overlap each other; kernels run during half of their time. Rank 1: one
    // send, no kernel.
    const std::vector<Command> first{{"send", {0, 10}, 1000, {{"message", {2, 10}}}},
                                     {"send", {5, 20}, 3000, {}},
                                     {"kernel k", {10, 40}, 0, {}}};
    const std::vector<Command> second{{"send", {0, 30}, 2000, {}}};
    const std::vector<Row> rows = summarise({first, second});
    REQUIRE(rows.size() == 3);
    CHECK(rows[0].kind == "send");
    CHECK(rows[0].stage.empty());
    CHECK(rows[0].count == 3);
    CHECK(rows[0].bytes == 6000);
    CHECK(rows[0].total_us == doctest::Approx(55));
    CHECK(rows[0].median_us == doctest::Approx(15));
    CHECK(rows[0].busy_us == doctest::Approx(50));
    CHECK(rows[0].under_us == doctest::Approx(10));
    CHECK(rows[1].stage == "message");
    CHECK(rows[1].count == 1);
    CHECK(rows[1].under_us == 0);
    CHECK(rows[2].kernel);
    CHECK(has(format_table(rows), "20.0 %"));
    // 6000 bytes in 50 us
    CHECK(has(format_table(rows), "0.120"));
}

TEST_CASE("merged traces get new ids and begin at the first event") {
    RankTrace first = parse_trace(trace_text(0, 2, span("send", 1, 1000, 1010)));
    RankTrace second = parse_trace(trace_text(1, 2, span("recv", 1, 500, 520)));
    correct(second, ClockCorrection({{0, 600'000, 1}}));
    const nlohmann::json all = merged({first, second});
    std::vector<std::string> ids;
    std::vector<double> times;
    for (const auto &event : all.at("traceEvents")) {
        if (!event.contains("ts")) continue;
        ids.push_back(event.at("id"));
        times.push_back(event.at("ts"));
    }
    CHECK(ids == std::vector<std::string>{"0.1", "0.1", "1.1", "1.1"});
    CHECK(times == std::vector<double>{0, 10, 100, 120});
}

TEST_CASE("merged traces have no slices that overlap in one track and do not nest") {
    // Stages: 10 to 20 and 15 to 25 overlap, 16 to 19 is within the first, and 30 to 40 follows.
    const RankTrace trace = parse_trace(trace_text(
        0, 1,
        event("b", "send", 1, 0) + span("device", 1, 10, 20) + span("message", 1, 15, 25) +
            span("file", 1, 16, 19) + span("message", 1, 30, 40) + event("e", "send", 1, 50) +
            kernel("k", 0, 10) + kernel("k", 5, 10) + kernel("k", 20, 10)));
    std::vector<std::string> ids;
    std::vector<int> threads;
    std::vector<std::string> names;
    const nlohmann::json all = merged({trace});
    for (const auto &event : all.at("traceEvents")) {
        if (event.at("ph") == "b") ids.push_back(event.at("id"));
        if (event.at("ph") == "X") threads.push_back(event.at("tid"));
        if (event.at("name") == "thread_name") names.push_back(event.at("args").at("name"));
    }
    CHECK(ids == std::vector<std::string>{"0.1", "0.1", "0.1/1", "0.1", "0.1"});
    CHECK(threads == std::vector<int>{1, 2, 1});
    CHECK(names == std::vector<std::string>{"kernels, 2"});
}
