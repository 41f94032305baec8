/// The schedules of collectives on several devices, played with numbers in place of memory.

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "collectives/schedule.hpp"

using namespace cldist::collectives;

namespace {

/// An element stands for what was combined, in order: "0.3" is element 3 of source 0, "0.3 1.3" that combined with source 1's.
using Elements = std::vector<std::string>;

Elements elements_of(std::size_t source, std::size_t count) {
    Elements all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(std::to_string(source) + "." + std::to_string(i));
    return all;
}

std::size_t given_by(const Task &task) {
    const bool blocks =
        task.kind == Kind::scatter || task.kind == Kind::all_to_all || task.kind == Kind::reduce_scatter;
    return blocks ? task.n * task.bytes : task.bytes;
}
std::size_t got_by(const Task &task) {
    const bool blocks = task.kind == Kind::gather || task.kind == Kind::all_gather || task.kind == Kind::all_to_all;
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

/// What destination `i` is to have.
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
            case Kind::all_to_all: all.push_back(element(k / task.bytes, i * task.bytes + k % task.bytes)); break;
            case Kind::reduce:
            case Kind::all_reduce: all.push_back(combined(task.n - 1, k)); break;
            case Kind::reduce_scatter: all.push_back(combined(task.n - 1, i * task.bytes + k)); break;
            case Kind::scan: all.push_back(combined(i, k)); break;
        }
    }
    return all;
}

void play(const Task &task, Algorithm algorithm) {
    const std::string what = std::string(name_of(algorithm)) + ", kind " + std::to_string(static_cast<int>(task.kind)) +
                             ", " + std::to_string(task.n) + " of " + std::to_string(task.bytes) +
                             (task.in_place ? " in place" : "");
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
    // In place the destination is the source's memory: then it is a part of it, or the other way round.
    const bool destination_in_source = given_by(task) >= got_by(task);
    const auto place = [&](const Place &at) -> std::string & {
        if (at.role == Role::own) return own.at(at.index).at(at.offset);
        if (at.role == Role::source && task.in_place && !destination_in_source)
            return destination.at(at.index).at(at.index * task.bytes + at.offset);
        if (at.role == Role::destination && task.in_place && destination_in_source)
            return source.at(at.index).at(at.offset);
        return at.role == Role::source ? source.at(at.index).at(at.offset) : destination.at(at.index).at(at.offset);
    };
    if (task.in_place && !destination_in_source)
        for (std::size_t i = 0; i < sources; ++i)
            for (std::size_t k = 0; k < task.bytes; ++k) destination[i][i * task.bytes + k] = source[i][k];
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
        for (std::size_t k = 0; k < got_by(task); ++k) found.push_back(place({Role::destination, i, k}));
        CHECK((found == wanted(task, i)));
    }
}

constexpr std::size_t KiB = 1024;

}  // namespace

TEST_CASE(
    "every algorithm of every collective brings each element to its place, combined in the order of the sources") {
    const std::vector<std::pair<Kind, std::vector<Algorithm>>> all{
        {Kind::broadcast, {Algorithm::linear, Algorithm::binomial, Algorithm::parts}},
        {Kind::scatter, {Algorithm::linear}},
        {Kind::gather, {Algorithm::linear}},
        {Kind::all_gather, {Algorithm::direct}},
        {Kind::all_to_all, {Algorithm::direct}},
        {Kind::reduce, {Algorithm::linear}},
        {Kind::all_reduce, {Algorithm::direct, Algorithm::through_first, Algorithm::parts}},
        {Kind::reduce_scatter, {Algorithm::direct}},
        {Kind::scan, {Algorithm::chain}},
    };
    for (const auto &[kind, algorithms] : all)
        for (const Algorithm algorithm : algorithms)
            for (std::size_t n = 1; n <= 9; ++n)
                for (const std::size_t bytes : {0, 1, 2, 5, 16, 18})
                    for (const bool in_place : {false, true}) {
                        if (in_place && (one_source(kind) || one_destination(kind))) continue;
                        play({kind, n, bytes, bytes % 2 == 0 ? 2U : 1U, in_place}, algorithm);
                    }
}

TEST_CASE("a collective's algorithm is chosen by number and size") {
    CHECK(choose(Kind::broadcast, 2, 64 * KiB * KiB, true) == Algorithm::linear);
    CHECK(choose(Kind::broadcast, 3, 64 * KiB * KiB, true) == Algorithm::binomial);
    CHECK(choose(Kind::broadcast, 4, 512 * KiB - 1, true) == Algorithm::binomial);
    CHECK(choose(Kind::broadcast, 4, 512 * KiB, true) == Algorithm::parts);
    // On one host nobody gains by passing on.
    CHECK(choose(Kind::broadcast, 8, 64 * KiB * KiB, false) == Algorithm::linear);
    for (const bool apart : {false, true}) {
        CHECK(choose(Kind::scatter, 8, 64 * KiB, apart) == Algorithm::linear);
        CHECK(choose(Kind::gather, 8, 64 * KiB, apart) == Algorithm::linear);
        CHECK(choose(Kind::all_gather, 8, 64 * KiB * KiB, apart) == Algorithm::direct);
        CHECK(choose(Kind::all_to_all, 8, 1, apart) == Algorithm::direct);
        CHECK(choose(Kind::reduce, 8, 64 * KiB, apart) == Algorithm::linear);
        CHECK(choose(Kind::all_reduce, 2, 64 * KiB * KiB, apart) == Algorithm::direct);
        CHECK(choose(Kind::all_reduce, 3, KiB * KiB - 1, apart) == Algorithm::through_first);
        CHECK(choose(Kind::all_reduce, 3, KiB * KiB, apart) == Algorithm::parts);
        CHECK(choose(Kind::reduce_scatter, 8, 64 * KiB, apart) == Algorithm::direct);
        CHECK(choose(Kind::scan, 8, 64 * KiB, apart) == Algorithm::chain);
    }
}

TEST_CASE("a broadcast's tree has as many steps in a row as the number's logarithm") {
    const Schedule schedule = make_schedule({Kind::broadcast, 8, 100}, Algorithm::binomial);
    REQUIRE(schedule.steps.size() == 8);
    std::vector<int> depth(8, 0);
    for (const Step &step : schedule.steps)
        depth[step.to.index] = step.from.role == Role::source ? 1 : depth[step.from.index] + 1;
    CHECK(*std::max_element(depth.begin(), depth.end()) == 4);
}
