#include "base/backoff.hpp"

#include <doctest/doctest.h>

using namespace cldist;
using namespace std::chrono_literals;

TEST_CASE("a fresh wait yields instead of sleeping, longer with patience and while bytes are in flight") {
    CHECK(Backoff::sleep_after(0, false, 1) == 0ns);
    CHECK(Backoff::sleep_after(9'000, false, 1) == 0ns);
    CHECK(Backoff::sleep_after(11'000, false, 1) > 0ns);
    CHECK(Backoff::sleep_after(29'000, true, 1) == 0ns);
    CHECK(Backoff::sleep_after(31'000, true, 1) > 0ns);
    CHECK(Backoff::sleep_after(4'000'000, false, 500) == 0ns);
}

TEST_CASE("a long wait sleeps for a sixteenth of the time already waited, up to 1 ms, a very long one for 1/256") {
    CHECK(Backoff::sleep_after(1'600'000, false, 1) == 100us);
    CHECK(Backoff::sleep_after(1'600'000, true, 1) == 100us);
    CHECK(Backoff::sleep_after(30'000, false, 1) == 5us);
    CHECK(Backoff::sleep_after(100'000'000, false, 1) == 1ms);
    CHECK(Backoff::sleep_after(512'000'000, false, 1) == 2ms);
    CHECK(Backoff::sleep_after(60'000'000'000, false, 1) == 10ms);
    CHECK(Backoff::sleep_after(60'000'000'000, true, 1) == 200us);
}
