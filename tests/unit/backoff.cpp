#include "base/backoff.hpp"

#include <doctest/doctest.h>

using namespace cldist;
using namespace std::chrono_literals;

TEST_CASE("a fresh wait yields instead of sleeping, longer while bytes are in flight") {
    CHECK(Backoff::sleep_after(0, false) == 0ns);
    CHECK(Backoff::sleep_after(4'900'000, false) == 0ns);
    CHECK(Backoff::sleep_after(5'100'000, false) > 0ns);
    CHECK(Backoff::sleep_after(14'900'000, true) == 0ns);
    CHECK(Backoff::sleep_after(15'100'000, true) > 0ns);
}

TEST_CASE(
    "a long wait sleeps for 1/64 of the time already waited, up to 10 ms, or for 200 us while bytes are in flight") {
    CHECK(Backoff::sleep_after(6'400'000, false) == 100us);
    CHECK(Backoff::sleep_after(320'000'000, false) == 5ms);
    CHECK(Backoff::sleep_after(60'000'000'000, false) == 10ms);
    CHECK(Backoff::sleep_after(20'000'000, true) == 200us);
    CHECK(Backoff::sleep_after(60'000'000'000, true) == 200us);
}
