/// When messages avoid kernels because the device is busy.
#include <initializer_list>

#include <doctest/doctest.h>

#include "mpi_interop/device_load.hpp"

using namespace cldist;

namespace {

constexpr std::uint64_t quick = 50'000, slow = 2'000'000;
constexpr std::size_t size = std::size_t{1} << 20U;

/// The number of messages before the next trial.
unsigned avoided(DeviceLoad &load) {
    unsigned count = 0;
    while (load.avoids_kernels()) ++count;
    return count;
}

}  // namespace

TEST_SUITE("device load") {
    TEST_CASE("quick messages keep using kernels") {
        DeviceLoad load;
        for (int i = 0; i < 1000; ++i) {
            CHECK(!load.avoids_kernels());
            load.took(load.round(), quick, size);
        }
        CHECK(!load.is_heavy());
    }

    TEST_CASE("a large message may take as long as copy engines need for it") {
        DeviceLoad load;
        load.took(load.round(), 1'200'000, 32 * size);
        CHECK(!load.is_heavy());
        load.took(load.round(), 1'200'000, size);
        CHECK(load.is_heavy());
    }

    TEST_CASE("after a slow message the next ones avoid kernels, then one is a trial") {
        DeviceLoad load;
        load.took(load.round(), slow, size);
        CHECK(avoided(load) == 32);
        CHECK(avoided(load) == 32);  // the result of the trial is not known yet
    }

    TEST_CASE("messages that were enqueued before the slow one was known change nothing") {
        DeviceLoad load;
        const unsigned before = load.round();
        load.took(before, slow, size);
        for (int i = 0; i < 10; ++i) load.took(before, i % 2 == 0 ? quick : slow, size);
        CHECK(avoided(load) == 32);
    }

    TEST_CASE("slow trials become rare, and quick ones end it") {
        DeviceLoad load;
        load.took(load.round(), slow, size);
        for (const unsigned interval : {32U, 64U, 128U, 256U, 512U, 512U}) {
            CHECK(avoided(load) == interval);
            load.took(load.round(), slow, size);
        }
        for (const unsigned interval : {512U, 256U, 128U, 64U, 32U}) {
            CHECK(load.is_heavy());
            CHECK(avoided(load) == interval);
            load.took(load.round(), quick, size);
        }
        CHECK(!load.is_heavy());
        CHECK(avoided(load) == 0);
    }

    TEST_CASE("sends are measured after a late send, but not all sends of a long chain") {
        DeviceLoad load;
        load.ran_after(quick);
        CHECK(!load.measures_send());
        unsigned measured = 0;
        for (int i = 0; i < 10 * 136; ++i) {
            load.ran_after(slow);
            if (load.measures_send()) ++measured;
        }
        CHECK(measured == 80);
    }

    TEST_CASE("each trial is measured") {
        DeviceLoad load;
        load.took(load.round(), slow, size);
        for (int i = 0; i < 100; ++i) CHECK(load.measures_send());
    }
}
