#include <algorithm>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "choices.hpp"
#include "doctor_opencl.hpp"
#include "load.hpp"
#include "measure.hpp"
#include "schedule.hpp"
#include "support.hpp"
#include "ways.hpp"

using namespace cldist;
using namespace cldist::tool;

namespace {

constexpr Way eager{Path::mapped, true, true, 0, 1};
constexpr Way in_place{Path::mapped, true, false, mib, 16};
constexpr Way chunked{Path::chunked, true, false, 256 * kib, 3};
constexpr Way staged{Path::staged, false, false, 0, 1};

bool contains(const std::vector<Way> &ways, const Way &way) {
    return std::find(ways.begin(), ways.end(), way) != ways.end();
}

// SimulatedClock transfers, which only advance a clock. The time of a transfer is linear in its
// size, times a factor for its path, block size and depth.
class SimulatedClock final : public Transfers {
public:
    double startup = 10e-6;
    double seconds_per_byte = 1e-9;
    double pinned_factor = 1.5;
    unsigned good_depth = 6;
    double noise = 0;  ///< the largest random increase of a time, as a fraction of that time
    std::size_t wrong_at = 0;
    double clock = 0;
    std::set<std::pair<std::size_t, std::string>> checked{};
    std::vector<std::size_t> sizes{};

    double seconds(const Way &way, std::size_t size, unsigned count) override {
        const double one =
            time_of(way, size) * (1 + noise * std::uniform_real_distribution<double>()(random));
        clock += 2 * one * count;
        if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
        return one;
    }
    bool arrives(const Way &way, std::size_t size) override {
        clock += 2 * time_of(way, size);
        checked.emplace(size, describe(way));
        return size != wrong_at;
    }
    [[nodiscard]] Task task(Route route, double budget) {
        return {route,
                true,
                64 * mib,
                budget,
                0.004,
                [this] { return clock; },
                [](std::size_t, double) {}};
    }

private:
    std::mt19937_64 random{5};

    [[nodiscard]] double time_of(const Way &way, std::size_t size) const {
        double time = startup + seconds_per_byte * static_cast<double>(size);
        if (way.path == Path::staged) time *= pinned_factor;
        if (way.path == Path::chunked) time *= way.block == 512 * kib ? 0.5 : 0.9;
        if (way.path != Path::staged && !way.eager && way.depth < good_depth) time *= 1.2;
        return time;
    }
};

Profile some_profile() {
    Profile profile;
    profile.system = {"a-host", "a device", "1.2", "MPI 4"};
    profile.ceilings = {
        {to_host_ceiling, 1e-6, 1e-10}, {"MPI, same host", 1e-6, 2e-10}, {"file read", 0, 1e-11}};
    profile.routes[0] =
        Profile::Measurement{"2026-01-02T03:04:05Z",
                             "a-host",
                             {{eager, {{kib, 1e-6}, {64 * kib, 20e-6}}},
                              {in_place, {{kib, 15e-6}, {64 * kib, 20.5e-6}, {64 * mib, 20e-3}}},
                              {chunked, {{mib, 101e-6}, {64 * mib, 6e-3}}}}};
    return profile;
}

constexpr Here host_device{true, 2};

}  // namespace

TEST_CASE(
    "messages are measured from 1 KiB, files from 64 KiB, with more sizes where choices change") {
    const std::vector<std::size_t> messages = sizes_of(Route::same_host, 64 * mib);
    CHECK(messages == std::vector<std::size_t>{kib, 4 * kib, 16 * kib, 32 * kib, 64 * kib,
                                               128 * kib, 256 * kib, 512 * kib, mib, 4 * mib,
                                               16 * mib, 64 * mib});
    CHECK(sizes_of(Route::to_file, 64 * mib).front() == 64 * kib);
    CHECK(sizes_of(Route::other_host, 5 * mib).back() == 4 * mib);
}

TEST_CASE(
    "mapped ranges are copied only if device memory is host memory, and no way appears twice") {
    for (const Route route :
         {Route::same_host, Route::other_host, Route::from_file, Route::to_file}) {
        for (const bool host_memory : {true, false}) {
            const std::vector<Way> ways = ways_of(route, host_memory);
            for (std::size_t i = 0; i < ways.size(); ++i) {
                CHECK((host_memory || !ways[i].maps || ways[i].path == Path::mapped));
                CHECK((route == Route::same_host ||
                       (ways[i].path != Path::shared && ways[i].path != Path::peer_to_peer)));
                CHECK(std::count(ways.begin(), ways.end(), ways[i]) == 1);
            }
            CHECK(contains(ways, staged));
        }
    }
    CHECK(contains(ways_of(Route::same_host, true), eager));
    CHECK(contains(ways_of(Route::same_host, true), chunked));
    CHECK(ways_of(Route::same_host, true).size() == 2 + 3 + 16 + 3 + 1);
    CHECK(ways_of(Route::same_host, false).size() == 1 + 8 + 3 + 2 + 1);
    CHECK(ways_of(Route::other_host, false).size() == 1 + 8 + 1);
    CHECK(ways_of(Route::from_file, true).size() == 3 + 6 + 1);
    for (const Way &way : ways_of(Route::from_file, true)) CHECK_FALSE(way.eager);
}

TEST_CASE(
    "blocks are smaller than the message and at most 512, and equivalent ways are measured once") {
    CHECK_FALSE(is_measured(chunked, 256 * kib));
    CHECK(is_measured(chunked, 512 * kib));
    CHECK_FALSE(is_measured({Path::chunked, true, false, 64 * kib, 4}, 64 * mib));
    CHECK(is_measured(eager, mib));
    CHECK_FALSE(is_measured(eager, 4 * mib));
    const Way larger{Path::mapped, true, false, 16 * mib, 16};
    CHECK(as_done(in_place, mib) == as_done(larger, mib));
    CHECK(as_done(in_place, 4 * mib) != as_done(larger, 4 * mib));
    CHECK(as_done(in_place, 4 * mib).depth == 4);
    CHECK(as_done(staged, mib) == staged);
}

TEST_CASE(
    "the spread of times is that of their middle half, so that one slow time does not matter") {
    CHECK(spread({1, 1, 1}) == 0);
    CHECK(spread({1, 2, 3, 4, 5}) == doctest::Approx(2.0 / 3));
    CHECK(spread({9, 1, 1, 1, 1}) == 0);
    CHECK(spread({1.0, 1.1, 1.05}) < widest_spread);
    CHECK(spread({1, 3, 2}) > widest_spread);
    CHECK(spread({1}) == 0);
}

TEST_CASE("the load of other programs is the core time that is not idle between two readings") {
    const std::string before = "cpu  100 0 50 1000 50 0 0 0 0 0";
    CHECK(busy_cores(before, "cpu  250 0 100 1190 60 0 0 0 0 0", 8) == doctest::Approx(4));
    CHECK(busy_cores(before, "cpu  100 0 50 1400 50 0 0 0 0 0", 8) == doctest::Approx(0));
    CHECK_FALSE(busy_cores(before, before, 8));
    CHECK_FALSE(busy_cores("", "nothing", 8));
    CHECK(load_warning("a-host", 0.1, 2).empty());
    CHECK(has(load_warning("a-host", 1.73, 2), "1.7 of the 2 cores of a-host"));
}

TEST_CASE("the spread of a route is known from its races") {
    SimulatedClock transfers;
    std::vector<double> spreads;
    Task task = transfers.task(Route::same_host, 30);
    task.spreads = &spreads;
    CHECK_FALSE(measure(transfers, task).empty());
    CHECK(median(spreads) == 0);
    transfers.noise = 3;
    spreads.clear();
    CHECK_FALSE(measure(transfers, task).empty());
    CHECK(median(spreads) > widest_spread);
}

TEST_CASE("a loop fills its time, and has at least one transfer") {
    CHECK(repetitions(1e-3, 0.004) == 2);
    CHECK(repetitions(1, 0.004) == 1);
    CHECK(repetitions(0, 0.004) == 2000);
}

TEST_CASE("after two rounds, ways more than twice as slow as the best are dropped") {
    CHECK(still_measured({{1, 1}, {1.9, 1.9}, {2.1, 2.1}, {}}) ==
          std::vector<bool>{true, true, false, false});
    CHECK(still_measured({{1}, {9}}) == std::vector<bool>{true, true});
}

TEST_CASE(
    "if time is short only the fastest ways are measured, and none if there is no time for two") {
    // A race takes as long as twelve transfers: its rounds and their overhead.
    CHECK(affordable({0.3, 0.1, 0.2}, 0, 12 * 0.61) == std::vector<std::size_t>{0, 1, 2});
    CHECK(affordable({0.3, 0.1, 0.2}, 0, 12 * 0.31) == std::vector<std::size_t>{1, 2});
    CHECK(affordable({0.3, 0.1, 0.2}, 0, 12 * 0.11).empty());
    CHECK(affordable({0, 0, 0}, 0.001, 1).size() == 3);
    CHECK(affordable({1e-6, 1e-6, 1e-6}, 0.1, 0.7).size() == 2);
}

TEST_CASE("routes share the time, messages get more of it, and later routes get unused time") {
    Budget budget(100, 1000,
                  {Route::same_host, Route::from_file, Route::to_file, Route::other_host});
    const double first = budget.share_of(Route::same_host, 1000);
    CHECK(first == doctest::Approx(30));
    CHECK(budget.rest() == doctest::Approx(60));
    CHECK(budget.share_of(Route::from_file, 1000 + first) == doctest::Approx(15));
    CHECK(budget.share_of(Route::to_file, 1040) == doctest::Approx(50.0 / 3));
    CHECK(budget.share_of(Route::other_host, 1050) == doctest::Approx(40));
    CHECK(budget.rest() == doctest::Approx(0));
    CHECK(Budget(1, 0, {Route::to_file}).share_of(Route::to_file, 5) == 0);
}

TEST_CASE(
    "the usual depth is chosen if it is within 10% of the best, otherwise the smallest depth "
    "within 2%") {
    CHECK(good_depth({{2, 1.5}, {3, 1.019}, {4, 1.0}, {8, 1.001}}, 12) == 3);
    CHECK(good_depth({{2, 1.5}, {3, 1.021}, {4, 1.0}}, 12) == 4);
    CHECK(good_depth({{5, 1}}, 3) == 5);
    CHECK(good_depth({{2, 1.5}, {3, 1.099}, {4, 1.0}, {8, 1.001}}, 3) == 3);
    CHECK(good_depth({{2, 1.5}, {3, 1.101}, {4, 1.0}}, 3) == 4);
    CHECK(median({3, 1, 2}) == 2);
    CHECK(median({1, 2, 3, 10}) == 2.5);
}

TEST_CASE(
    "a route is measured in all its ways and sizes, its bytes are checked, and depths are chosen") {
    SimulatedClock transfers;
    const std::vector<Curve> curves = measure(transfers, transfers.task(Route::same_host, 55));
    CHECK(curves.size() == ways_of(Route::same_host, true).size());
    for (const Curve &curve : curves) {
        CAPTURE(describe(curve.way));
        for (const Curve::Point &point : curve.points) CHECK(is_measured(curve.way, point.size));
        if (curve.way.path == Path::mapped && !curve.way.eager) {
            CHECK(curve.points.size() == 12);
            CHECK(curve.way.depth == 6);
        }
        if (curve.way.path == Path::chunked) CHECK(curve.way.depth == 6);
    }
    CHECK(transfers.checked.contains(
        {64 * mib, describe({Path::chunked, true, false, 512 * kib, 3})}));
    CHECK(transfers.checked.contains({kib, describe(eager)}));
    CHECK(rank(curves, 16 * mib).best->way.block == 512 * kib);
    CHECK(transfers.clock <= 55);
}

TEST_CASE("on a slow network large sizes are left out, and the time limit is kept") {
    for (const double seconds_per_byte : {8e-8, 8e-7}) {
        SimulatedClock transfers;
        transfers.startup = 1e-3;
        transfers.seconds_per_byte = seconds_per_byte;
        transfers.pinned_factor = 1;
        const std::vector<Curve> curves = measure(transfers, transfers.task(Route::other_host, 30));
        CHECK(transfers.clock <= 33);
        CHECK(curves.size() > 3);
        CHECK(transfers.sizes.back() <= 4 * mib);
        CHECK(rank(curves, mib).best != nullptr);
    }
}

TEST_CASE("wrong bytes end the measurement, and the error reports size and way") {
    SimulatedClock transfers;
    transfers.wrong_at = 128 * kib;
    CHECK_THROWS_WITH_AS(
        static_cast<void>(measure(transfers, transfers.task(Route::same_host, 45))),
        "device to device, same host, 128 KiB, whole, mapped: the received bytes differ from the "
        "sent bytes",
        TuneError);
}

TEST_CASE(
    "a choice is the library's choice, with its expected time, the runner-up and the ceiling") {
    const Profile profile = some_profile();
    const Choice small = choose(&profile, Route::same_host, 4 * kib, host_device);
    CHECK(small.way == eager);
    REQUIRE(small.runner_up);
    CHECK(small.runner_up->path == Path::mapped);
    CHECK(small.bound->what == "MPI, same host");
    const Choice large = choose(&profile, Route::same_host, 64 * mib, host_device);
    CHECK(large.way == chunked);
    CHECK(*large.seconds == doctest::Approx(6e-3));
    CHECK(*large.runner_up_seconds == doctest::Approx(20e-3));
    // Blocks are at most as large as the message, and at most as many are in flight as there are.
    CHECK(choose(&profile, Route::same_host, 128 * kib, host_device).way.block == 128 * kib);
    CHECK(choose(&profile, Route::same_host, 128 * kib, host_device).way.depth == 1);
    // A route that the profile lacks gets the built-in choice.
    const Choice built_in = choose(&profile, Route::to_file, mib, host_device);
    CHECK_FALSE(built_in.seconds);
    CHECK(built_in.way == choose(nullptr, Route::to_file, mib, host_device).way);
}

TEST_CASE("the ceiling of an in-place transfer is not that of a copy") {
    const std::vector<Ceiling> ceilings{{to_host_ceiling, 0, 5e-10}, {"MPI, same host", 0, 2e-10}};
    CHECK(bound_of(ceilings, Route::same_host, in_place, mib)->what == "MPI, same host");
    CHECK(bound_of(ceilings, Route::same_host, chunked, mib)->what == to_host_ceiling);
    CHECK(bound_of(ceilings, Route::from_file, in_place, mib) == std::nullopt);
}

TEST_CASE("tables have a line for each size and list the routes that were not measured") {
    const Profile profile = some_profile();
    const std::string text = explain_text(&profile, {4 * kib, 64 * mib}, host_device);
    CHECK(has(text, "device to device, same host (measured 2026-01-02T03:04:05Z, a-host)\n"));
    CHECK(has(text, "   4 KiB  whole, mapped "));
    CHECK(has(text,
              "  64 MiB  chunked, mapped  256 KiB       3  6.00 ms  11.18  mapped, 1 MiB x 16: "
              "20.00 ms"));
    CHECK(has(text, "device to file: not measured, the built-in choice\n"));
    CHECK(has(explain_text(nullptr, {mib}, host_device),
              "device to device, same host: not measured"));
    CHECK(has(result_text(profile, Route::same_host, host_device), "instead of"));
    CHECK(has(result_text(profile, Route::same_host, host_device),
              "64 MiB  chunked, 256 KiB x 3, mapped  11.18  chunked, 512 KiB x 3, mapped\n"));
}

TEST_CASE("the tables show the algorithm of device collectives by number and size") {
    const std::string text = explain_collectives({4 * kib, 64 * mib});
    CHECK(has(text,
              "always: scan: chain; scatter, gather, reduce: linear; all-gather, all-to-all, "
              "reduce-scatter: pairwise\n"));
    CHECK(has(text, "broadcast of devices, hosts x devices of each\n"));
    CHECK(has(text, "  64 MiB  linear  linear  parts   parts   parts\n"));
    CHECK(has(text, "all-reduce of devices, processes x devices of each\n"));
    CHECK(
        has(text,
            "   4 KiB  pairwise  through the first  through the first  through the first  tree\n"));
}

TEST_CASE("a plot shows the measurements, the choice and the relevant ceilings") {
    const nlohmann::json plot = plot_data(some_profile(), host_device);
    REQUIRE(plot.at("routes").size() == 1);
    const auto &route = plot["routes"][0];
    CHECK(route.at("paths").size() == 3);
    CHECK(route["paths"][0].at("label") == "whole, mapped");
    CHECK(route["paths"][0].at("points").size() == 2);
    CHECK(route.at("ceilings").size() == 2);
    CHECK(route.at("chosen").size() == 4 * 16 + 1);
}

TEST_CASE("sizes are read with and without a unit") {
    CHECK(parse_size("4096") == 4096);
    CHECK(parse_size("64k") == 64 * kib);
    CHECK(parse_size("4M") == 4 * mib);
    CHECK(parse_size("1G") == 1024 * mib);
    for (const char *wrong : {"", "0", "k", "4kk", "4x", "-1", "1.5M", "99999999999G"})
        CHECK_FALSE(parse_size(wrong));
    CHECK(usual_sizes().front() == kib);
    CHECK(usual_sizes().back() == 256 * mib);
}

TEST_CASE("routes not measured this time keep their old values if the system is the same") {
    const Profile before = some_profile();
    Profile measured;
    measured.system = before.system;
    measured.ceilings = {{"file read", 0, 3e-11}};
    measured.routes[2] = Profile::Measurement{"later", "/tmp", {{staged, {{mib, 1}}}}};
    const Profile both = merged(measured, before);
    CHECK(both.routes[0] == before.routes[0]);
    CHECK(both.routes[2] == measured.routes[2]);
    REQUIRE(both.ceilings.size() == 3);
    CHECK(both.ceilings[0].seconds_per_byte == 3e-11);
    measured.system.driver = "1.3";
    CHECK(merged(measured, before) == measured);
}

TEST_CASE("doctor reports which profile is in use, or why a profile is not used") {
    using Level = Finding::Level;
    CHECK(judge_profile("device 0.0", {}).level == Level::note);
    CHECK(has(judge_profile("device 0.0", {}).advice, "cldist tune"));
    const Finding in_use =
        judge_profile("device 0.0", {"/a/b.toml", std::make_shared<Profile>(some_profile())});
    CHECK(in_use.level == Level::ok);
    CHECK(has(in_use.fact, "/a/b.toml, measured 2026-01-02T03:04:05Z"));
    const Finding refused = judge_profile("device 0.0", {"/a/b.toml", nullptr, "line 3: damaged"});
    CHECK(refused.level == Level::note);
    CHECK(has(refused.fact, "line 3: damaged"));
}
