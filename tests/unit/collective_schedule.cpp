/// The schedules of collectives on several devices, executed on texts in place of memory.

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "collectives/schedule.hpp"

using namespace cldist::collectives;

namespace {

/// An element lists its operands in order: "0.3" is element 3 of source 0; "0.3 1.3" is its
/// combination with source 1's.
using Elements = std::vector<std::string>;

Elements elements_of(std::size_t source, std::size_t count) {
    Elements all;
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(std::to_string(source) + "." + std::to_string(i));
    return all;
}

std::size_t given_by(const Task &task) {
    const bool blocks = task.kind == Kind::scatter || task.kind == Kind::all_to_all ||
                        task.kind == Kind::reduce_scatter;
    return blocks ? task.n * task.bytes : task.bytes;
}
std::size_t got_by(const Task &task) {
    const bool blocks =
        task.kind == Kind::gather || task.kind == Kind::all_gather || task.kind == Kind::all_to_all;
    return blocks ? task.n * task.bytes : task.bytes;
}
bool one_source(Kind kind) { return kind == Kind::broadcast || kind == Kind::scatter; }
bool one_destination(Kind kind) { return kind == Kind::gather || kind == Kind::reduce; }

std::string combined(std::size_t last, std::size_t element) {
    std::string all;
    for (std::size_t i = 0; i <= last; ++i)
        all += (i == 0 ? "" : " ") + std::to_string(i) + "." + std::to_string(element);
    return all;
}

/// The expected contents of destination `i`.
Elements wanted(const Task &task, std::size_t i) {
    Elements all;
    const auto element = [](std::size_t source, std::size_t at) {
        return std::to_string(source) + "." + std::to_string(at);
    };
    for (std::size_t k = 0; k < got_by(task); ++k) {
        switch (task.kind) {
            case Kind::broadcast: all.push_back(element(0, k)); break;
            case Kind::scatter: all.push_back(element(0, i * task.bytes + k)); break;
            case Kind::gather:
            case Kind::all_gather: all.push_back(element(k / task.bytes, k % task.bytes)); break;
            case Kind::all_to_all:
                all.push_back(element(k / task.bytes, i * task.bytes + k % task.bytes));
                break;
            case Kind::reduce:
            case Kind::all_reduce: all.push_back(combined(task.n - 1, k)); break;
            case Kind::reduce_scatter:
                all.push_back(combined(task.n - 1, i * task.bytes + k));
                break;
            case Kind::scan: all.push_back(combined(i, k)); break;
        }
    }
    return all;
}

void play(const Task &task, Algorithm algorithm) {
    std::string what = std::string(name_of(task.kind)) + ", " + name_of(algorithm) + ", " +
                       std::to_string(task.n) + " of " + std::to_string(task.bytes) +
                       (task.in_place ? " in place" : "");
    for (const std::uint32_t process : task.processes) what += " " + std::to_string(process);
    CAPTURE(what);
    const Schedule schedule = make_schedule(task, algorithm);
    REQUIRE(schedule.own.size() == task.n);
    const std::size_t sources = one_source(task.kind) ? 1 : task.n;
    const std::size_t destinations = one_destination(task.kind) ? 1 : task.n;
    std::vector<Elements> source(sources);
    std::vector<Elements> destination(destinations, Elements(got_by(task)));
    std::vector<Elements> own;
    for (std::size_t i = 0; i < sources; ++i) source[i] = elements_of(i, given_by(task));
    for (const std::size_t size : schedule.own) own.emplace_back(size);
    // In place, source and destination share memory: the smaller one is a range of the larger.
    const bool destination_in_source = given_by(task) >= got_by(task);
    const auto place = [&](const Place &at) -> std::string & {
        if (at.role == Role::own) return own.at(at.index).at(at.offset);
        if (at.role == Role::source && task.in_place && !destination_in_source)
            return destination.at(at.index).at(at.index * task.bytes + at.offset);
        if (at.role == Role::destination && task.in_place && destination_in_source)
            return source.at(at.index).at(at.offset);
        return at.role == Role::source ? source.at(at.index).at(at.offset)
                                       : destination.at(at.index).at(at.offset);
    };
    if (task.in_place && !destination_in_source)
        for (std::size_t i = 0; i < sources; ++i)
            for (std::size_t k = 0; k < task.bytes; ++k)
                destination[i][i * task.bytes + k] = source[i][k];
    for (const Step &step : schedule.steps) {
        REQUIRE(step.queue < task.n);
        REQUIRE(step.size % task.element == 0);
        for (std::size_t k = 0; k < step.size; ++k) {
            const std::string from = place({step.from.role, step.from.index, step.from.offset + k});
            std::string &to = place({step.to.role, step.to.index, step.to.offset + k});
            to = step.combines ? to + " " + from : from;
        }
    }
    for (std::size_t i = 0; i < destinations; ++i) {
        Elements found;
        for (std::size_t k = 0; k < got_by(task); ++k)
            found.push_back(place({Role::destination, i, k}));
        CHECK((found == wanted(task, i)));
    }
}

constexpr std::size_t KiB = 1024;
constexpr std::size_t GiB = KiB * KiB * KiB;

const std::vector<std::pair<Kind, std::vector<Algorithm>>> algorithms_of{
    {Kind::broadcast, {Algorithm::linear, Algorithm::parts}},
    {Kind::scatter, {Algorithm::linear}},
    {Kind::gather, {Algorithm::linear}},
    {Kind::all_gather, {Algorithm::pairwise}},
    {Kind::all_to_all, {Algorithm::pairwise}},
    {Kind::reduce, {Algorithm::linear}},
    {Kind::all_reduce,
     {Algorithm::pairwise, Algorithm::through_first, Algorithm::tree, Algorithm::parts}},
    {Kind::reduce_scatter, {Algorithm::pairwise}},
    {Kind::scan, {Algorithm::chain}},
};

/// Processes of the devices: one each, one for all, and mixtures.
std::vector<std::vector<std::uint32_t>> placements(std::size_t n) {
    std::vector<std::vector<std::uint32_t>> all(5);
    for (std::size_t i = 0; i < n; ++i) {
        all[1].push_back(static_cast<std::uint32_t>(i));
        all[2].push_back(static_cast<std::uint32_t>(i / 2));
        all[3].push_back(static_cast<std::uint32_t>(i / 3));
        // One process has devices at two separate places of the list.
        all[4].push_back(i == 0 || i + 1 == n ? 7
                         : i / 2 == 1         ? 3
                                              : static_cast<std::uint32_t>(i % 2));
    }
    return all;
}

/// Bytes sent between processes. A process gets a range only once until the range is overwritten.
std::size_t bytes_between(const Task &task, const Schedule &schedule) {
    struct Copy {
        std::uint32_t process;
        Place from;
        std::size_t size;
    };
    std::vector<Copy> copies;
    const auto same = [](const Place &a, const Place &b) {
        return a.role == b.role && a.index == b.index;
    };
    const auto process = [&](const Place &at) { return task.processes.at(at.index); };
    std::size_t bytes = 0;
    for (const Step &step : schedule.steps) {
        const auto has = [&](const Copy &copy) {
            return copy.process == process(step.to) && same(copy.from, step.from) &&
                   copy.from.offset == step.from.offset && copy.size == step.size;
        };
        if (process(step.to) != process(step.from) &&
            std::none_of(copies.begin(), copies.end(), has)) {
            bytes += step.size;
            copies.push_back({process(step.to), step.from, step.size});
        }
        const auto written = [&](const Copy &copy) {
            return same(copy.from, step.to) && copy.from.offset < step.to.offset + step.size &&
                   step.to.offset < copy.from.offset + copy.size;
        };
        copies.erase(std::remove_if(copies.begin(), copies.end(), written), copies.end());
    }
    return bytes;
}

}  // namespace

TEST_CASE(
    "every algorithm of every collective delivers each element, combined in the order of the "
    "sources") {
    for (const auto &[kind, algorithms] : algorithms_of)
        for (const Algorithm algorithm : algorithms)
            for (std::size_t n = 1; n <= 9; ++n)
                for (const auto &processes : placements(n))
                    for (const std::size_t bytes : {0, 1, 2, 5, 18})
                        for (const bool in_place : {false, true}) {
                            if (in_place && (one_source(kind) || one_destination(kind))) continue;
                            play({kind, n, bytes, bytes % 2 == 0 ? 2U : 1U, in_place, processes},
                                 algorithm);
                        }
}

TEST_CASE("algorithms that cut at alignment boundaries deliver each element as well") {
    for (const Algorithm algorithm : {Algorithm::parts, Algorithm::through_first})
        for (const std::size_t n : {2, 3, 5})
            for (const auto &processes : placements(n))
                for (const bool in_place : {false, true})
                    play({Kind::all_reduce, n, 24 * KiB + 12, 12, in_place, processes}, algorithm);
    play({Kind::broadcast, 4, 24 * KiB + 12, 1, false, {0, 1, 2, 3}}, Algorithm::parts);
    const Schedule schedule = make_schedule({Kind::all_reduce, 4, GiB + 4, 4}, Algorithm::parts);
    for (const Step &step : schedule.steps) CHECK(step.to.offset % KiB == 0);
}

TEST_CASE("a collective's algorithm is chosen by number of devices and size") {
    struct Row {
        Kind kind;
        std::size_t processes, devices, bytes;
        Algorithm chosen;
    };
    const Row rows[] = {
        {Kind::broadcast, 2, 2, 64 * GiB, Algorithm::linear},
        {Kind::broadcast, 3, 3, 64 * GiB, Algorithm::linear},
        {Kind::broadcast, 4, 4, 512 * KiB - 1, Algorithm::linear},
        {Kind::broadcast, 4, 4, 512 * KiB, Algorithm::parts},
        {Kind::broadcast, 3, 6, 512 * KiB, Algorithm::linear},
        {Kind::broadcast, 1, 8, 64 * GiB, Algorithm::linear},
        {Kind::scatter, 8, 8, 64 * KiB, Algorithm::linear},
        {Kind::gather, 8, 8, 64 * KiB, Algorithm::linear},
        {Kind::all_gather, 8, 8, 64 * GiB, Algorithm::pairwise},
        {Kind::all_to_all, 8, 8, 1, Algorithm::pairwise},
        {Kind::reduce, 8, 8, 64 * KiB, Algorithm::linear},
        {Kind::all_reduce, 2, 2, 64 * GiB, Algorithm::pairwise},
        {Kind::all_reduce, 1, 2, 64 * GiB, Algorithm::pairwise},
        {Kind::all_reduce, 3, 3, KiB * KiB - 1, Algorithm::through_first},
        {Kind::all_reduce, 8, 8, KiB * KiB - 1, Algorithm::through_first},
        {Kind::all_reduce, 9, 9, KiB * KiB - 1, Algorithm::tree},
        {Kind::all_reduce, 2, 16, KiB * KiB - 1, Algorithm::through_first},
        {Kind::all_reduce, 3, 3, KiB * KiB, Algorithm::parts},
        {Kind::reduce_scatter, 8, 8, 64 * KiB, Algorithm::pairwise},
        {Kind::scan, 8, 8, 64 * KiB, Algorithm::chain},
    };
    for (const Row &row : rows) {
        CAPTURE(name_of(row.kind));
        CAPTURE(row.processes);
        CAPTURE(row.bytes);
        CHECK(std::string(name_of(choose(row.kind, row.processes, row.devices, row.bytes))) ==
              name_of(row.chosen));
    }
}

TEST_CASE("devices of one process combine first, and processes exchange only the combined result") {
    constexpr std::size_t bytes = 64 * KiB;
    const auto between = [](Kind kind, Algorithm algorithm,
                            const std::vector<std::uint32_t> &processes) {
        const Task task{kind, processes.size(), bytes, 4, false, processes};
        return bytes_between(task, make_schedule(task, algorithm));
    };
    // Two processes with four devices each exchange as much as two devices.
    const std::vector<std::uint32_t> two{0, 0, 0, 0, 1, 1, 1, 1};
    CHECK(between(Kind::broadcast, Algorithm::linear, two) == bytes);
    CHECK(between(Kind::all_gather, Algorithm::pairwise, two) == 8 * bytes);
    CHECK(between(Kind::all_reduce, Algorithm::through_first, two) == 2 * bytes);
    CHECK(between(Kind::all_reduce, Algorithm::tree, two) == 2 * bytes);
    // Each process sends half of the sum and half of the result.
    CHECK(between(Kind::all_reduce, Algorithm::parts, two) == 2 * bytes);
    CHECK(between(Kind::reduce_scatter, Algorithm::pairwise, two) == 8 * bytes);
    CHECK(between(Kind::scan, Algorithm::chain, two) == bytes);
    // Each of three processes sends two thirds and receives two thirds, twice.
    const std::vector<std::uint32_t> three{0, 0, 1, 1, 2, 2};
    const std::size_t parts = between(Kind::all_reduce, Algorithm::parts, three);
    CHECK(parts == 4 * bytes);
}

TEST_CASE("sizes beyond 4 GiB neither overlap nor leave gaps") {
    for (const auto &[kind, algorithms] : algorithms_of)
        for (const Algorithm algorithm : algorithms)
            for (const std::size_t n : {2, 3, 5})
                for (const bool in_place : {false, true})
                    for (const auto &processes : placements(n)) {
                        if (in_place && (one_source(kind) || one_destination(kind))) continue;
                        const std::size_t element = 8;
                        const Task task{kind,    n,        7 * GiB + 3 * element,
                                        element, in_place, processes};
                        CAPTURE(name_of(kind));
                        CAPTURE(name_of(algorithm));
                        const Schedule schedule = make_schedule(task, algorithm);
                        std::vector<std::vector<std::pair<std::size_t, std::size_t>>> written(n);
                        for (const Step &step : schedule.steps) {
                            CHECK(step.size % element == 0);
                            CHECK(step.size <= n * task.bytes);
                            const auto end_of = [&](const Place &at) {
                                return at.role == Role::source        ? given_by(task)
                                       : at.role == Role::destination ? got_by(task)
                                                                      : schedule.own[at.index];
                            };
                            CHECK(step.to.offset + step.size <= end_of(step.to));
                            CHECK(step.from.offset + step.size <= end_of(step.from));
                            if (step.to.role == Role::destination)
                                written[step.to.index].emplace_back(step.to.offset,
                                                                    step.to.offset + step.size);
                        }
                        for (std::size_t i = 0; i < (one_destination(kind) ? 1 : n); ++i) {
                            std::sort(written[i].begin(), written[i].end());
                            std::size_t end = 0;
                            for (const auto &[from, to] : written[i]) {
                                CHECK(from <= end);
                                end = std::max(end, to);
                            }
                            CHECK(end == got_by(task));
                        }
                    }
}

TEST_CASE("the number of steps of a tree is the logarithm of the number of devices") {
    const Schedule schedule = make_schedule(
        {Kind::all_reduce, 8, 100, 1, false, {0, 1, 2, 3, 4, 5, 6, 7}}, Algorithm::tree);
    std::vector<int> depth(8, 0);
    for (const Step &step : schedule.steps)
        if (step.combines && step.to.role == Role::destination &&
            step.from.role == Role::destination)
            depth[step.to.index] = std::max(depth[step.to.index], depth[step.from.index]) + 1;
    CHECK(depth[0] == 2);
}
