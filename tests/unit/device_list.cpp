#include "cluster/objects/device.hpp"

#include <doctest/doctest.h>

#include "cluster/objects/lock.hpp"

using namespace cldist::cluster;

const cl_icd_dispatch cldist::cluster::dispatch_table{};

namespace {

Ref<DeviceObject> make_device() {
    auto *const device = new DeviceObject(0, 0, {});
    Ref<DeviceObject> held(device);
    device->release();
    return held;
}

}  // namespace

TEST_CASE(
    "a list of devices finds the index of each device, the first index of a duplicate, and none of "
    "unknown devices") {
    const Locked lock;
    constexpr std::size_t count = 5000;
    std::vector<Ref<DeviceObject>> devices;
    for (std::size_t i = 0; i < count; ++i) devices.push_back(make_device());
    DeviceList odd;
    for (std::size_t i = 1; i < count; i += 2) odd.add(*devices[i]);
    odd.add(*devices[1]);
    CHECK(odd.size() == count / 2 + 1);
    for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(odd.contains(*devices[i]) == (i % 2 == 1));
        REQUIRE(odd.position(*devices[i]) == (i % 2 == 1 ? i / 2 : DeviceList::nowhere));
    }
    CHECK_FALSE(DeviceList().contains(*devices[0]));
}

TEST_CASE("serial numbers of released devices are reused") {
    // Objects are deleted when the lock is released.
    const auto serial_of_next = [] {
        const Locked lock;
        return make_device()->serial;
    };
    const Ref<DeviceObject> device = make_device();
    DeviceList list;
    list.add(*device);
    const std::uint32_t serial = serial_of_next();
    for (int i = 0; i < 1000; ++i) {
        const Locked lock;
        const Ref<DeviceObject> sub_device = make_device();
        REQUIRE(sub_device->serial == serial);
        REQUIRE_FALSE(list.contains(*sub_device));
    }
}
