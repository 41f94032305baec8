#include "base/backoff.hpp"
#include "base/crowding.hpp"

#include <doctest/doctest.h>

using namespace cldist;
using namespace std::chrono_literals;

TEST_CASE("a fresh wait yields; it yields longer if it is patient or bytes are in flight") {
    CHECK(Backoff::sleep_after(0, false, 1) == 0ns);
    CHECK(Backoff::sleep_after(9'000, false, 1) == 0ns);
    CHECK(Backoff::sleep_after(11'000, false, 1) > 0ns);
    CHECK(Backoff::sleep_after(29'000, true, 1) == 0ns);
    CHECK(Backoff::sleep_after(31'000, true, 1) > 0ns);
    CHECK(Backoff::sleep_after(4'000'000, false, 500) == 0ns);
}

TEST_CASE(
    "a long wait sleeps for 1/16 of the time already waited, at most 1 ms; a very long wait for "
    "1/256") {
    CHECK(Backoff::sleep_after(1'600'000, false, 1) == 100us);
    CHECK(Backoff::sleep_after(1'600'000, true, 1) == 100us);
    CHECK(Backoff::sleep_after(30'000, false, 1) == 5us);
    CHECK(Backoff::sleep_after(100'000'000, false, 1) == 1ms);
    CHECK(Backoff::sleep_after(512'000'000, false, 1) == 2ms);
    CHECK(Backoff::sleep_after(60'000'000'000, false, 1) == 10ms);
    CHECK(Backoff::sleep_after(60'000'000'000, true, 1) == 200us);
}

TEST_CASE("a slow check is repeated later, but never postponed forever") {
    constexpr auto most = 20ms;
    CHECK(Backoff::after_check(0ns, 1us, most) == 2us);
    CHECK(Backoff::after_check(1ms, 1us, most) == 1ms);
    CHECK(Backoff::after_check(1ms, 3ms, most) == 6ms);
    CHECK(Backoff::after_check(1ms, 300ms, most) == most);
    CHECK(Backoff::after_check(30ms, 300ms, most) == most);
}

TEST_CASE(
    "a process is crowded for a while if it loses its time slices while none of its threads runs") {
    constexpr std::uint64_t ms = 1'000'000;
    Crowding crowding(0, {});
    CHECK_FALSE(crowding.at(1'000 * ms));
    crowding.came_back_late(1'000 * ms, 500 * ms);
    CHECK_FALSE(crowding.at(1'000 * ms));  // one loss may be chance
    crowding.came_back_late(1'004 * ms, 501 * ms);
    CHECK(crowding.at(1'004 * ms));
    CHECK(crowding.at(1'004 * ms + Crowding::holds_ns - 1));
    CHECK_FALSE(crowding.at(1'004 * ms + Crowding::holds_ns));
}

TEST_CASE(
    "a process is not crowded if its own threads use its time slices, or if it rarely loses one") {
    constexpr std::uint64_t ms = 1'000'000;
    Crowding crowding(0, {});
    std::uint64_t now = 1'000 * ms;
    for (int i = 0; i < 100; ++i, now += 4 * ms) {
        // One of the process's own threads computes all the time.
        crowding.came_back_late(now, now - 900 * ms);
        CHECK_FALSE(crowding.at(now));
    }
    const std::uint64_t used = now;
    for (int i = 0; i < 10; ++i) {
        now += Crowding::holds_ns + 1;
        crowding.came_back_late(now, used);
        CHECK_FALSE(crowding.at(now));
    }
}

TEST_CASE(
    "a process of a job with more processes than cores is crowded while other programs use half a "
    "core") {
    constexpr std::uint64_t ms = 1'000'000;
    Crowding crowding(1'000 * ms, {5'000 * ms, 1'000 * ms});
    CHECK_FALSE(crowding.at(1'000 * ms));
    CHECK_FALSE(crowding.wants_times(1'099 * ms));
    CHECK(crowding.wants_times(1'100 * ms));
    crowding.note(1'200 * ms, {5'300 * ms, 1'200 * ms});
    CHECK(crowding.at(1'200 * ms));
    CHECK(crowding.at(1'200 * ms + Crowding::holds_ns - 1));
    CHECK_FALSE(crowding.at(1'200 * ms + Crowding::holds_ns));
}

TEST_CASE(
    "a job's own load does not make its processes crowded, however late their yields return") {
    constexpr std::uint64_t ms = 1'000'000;
    Crowding crowding(1'000 * ms, {});
    for (std::uint64_t i = 1; i < 50; ++i) {
        const std::uint64_t now = (1'000 + i * 120) * ms;
        // Other programs use a third of one of the two cores.
        crowding.note(now, {i * 240 * ms, i * 200 * ms});
        CHECK_FALSE(crowding.at(now));
    }
}

TEST_CASE("times over too short a period, or from a job that lost a process, are ignored") {
    constexpr std::uint64_t ms = 1'000'000;
    Crowding crowding(1'000 * ms, {500 * ms, 400 * ms});
    crowding.note(1'050 * ms, {600 * ms, 400 * ms});
    CHECK_FALSE(crowding.at(1'050 * ms));
    crowding.note(1'200 * ms, {900 * ms, 300 * ms});
    CHECK_FALSE(crowding.at(1'200 * ms));
}

TEST_CASE("the kernel reports the core time of all programs and of the job") {
    const CoreTime before = read_core_time();
    if (before.all_ns == 0) {
        MESSAGE("SKIP: core times: /proc/stat can't be read");
        return;
    }
    const auto end = std::chrono::steady_clock::now() + 300ms;
    while (std::chrono::steady_clock::now() < end) {
    }
    const CoreTime after = read_core_time();
    CHECK(after.job_ns > before.job_ns);
    CHECK(after.all_ns > before.all_ns);
}

TEST_CASE(
    "next to other programs a wait spins for a moment, then sleeps, at first briefly, and never "
    "yields") {
    CHECK(Backoff::sleep_in_crowd(0, false) == 0ns);
    CHECK(Backoff::sleep_in_crowd(49'000, true) == 0ns);
    CHECK(Backoff::sleep_in_crowd(50'000, false) == 10us);
    CHECK(Backoff::sleep_in_crowd(50'000, true) == 10us);
    CHECK(Backoff::sleep_in_crowd(1'600'000, false) == 100us);
    CHECK(Backoff::sleep_in_crowd(60'000'000'000, true) == 200us);
    CHECK(Backoff::sleep_in_crowd(60'000'000'000, false) == 10ms);
}
