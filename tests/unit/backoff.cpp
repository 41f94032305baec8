#include "base/backoff.hpp"

#include <doctest/doctest.h>

using namespace cldist;

TEST_CASE("a fresh wait yields instead of sleeping") {
    Backoff backoff;
    CHECK(backoff.pause(false).count() == 0);
    CHECK(backoff.pause(true).count() == 0);
}

TEST_CASE("a long wait sleeps for a sixteenth of the time already waited, and begins anew after a reset") {
    Backoff backoff;
    const std::uint64_t begin = now_ns();
    std::chrono::nanoseconds sleep{};
    while (sleep < std::chrono::microseconds(50)) sleep = backoff.pause(false);
    CHECK(static_cast<std::uint64_t>(sleep.count()) <= (now_ns() - begin) / 16);
    CHECK(backoff.pause(true) <= std::chrono::microseconds(200));
    backoff.reset();
    CHECK(backoff.pause(false).count() == 0);
}
