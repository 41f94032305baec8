#include "base/backoff.hpp"

#include <thread>

#include <doctest/doctest.h>

using namespace cldist;

TEST_CASE("a fresh wait yields instead of sleeping") {
    Backoff backoff;
    CHECK(backoff.pause(false).count() == 0);
    CHECK(backoff.pause(true).count() == 0);
}

TEST_CASE("a long wait sleeps at most a sixteenth of the time already waited, and begins anew after a reset") {
    Backoff backoff;
    const std::uint64_t begin = now_ns();
    std::chrono::nanoseconds sleep{};
    while (sleep.count() == 0) sleep = backoff.pause(false);
    CHECK(static_cast<std::uint64_t>(sleep.count()) <= (now_ns() - begin) / 16);
    CHECK(backoff.pause(true).count() == 0);
    backoff.reset();
    CHECK(backoff.pause(false).count() == 0);
}
