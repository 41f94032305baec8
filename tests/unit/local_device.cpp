#include "api/local_device.hpp"

#include <doctest/doctest.h>

using namespace cldist;

namespace {

using Lists = std::vector<std::vector<DeviceIdentity>>;

/// The identities of the chosen devices, "" for a process without device.
std::vector<DeviceIdentity> taken(const Lists &lists) {
    const auto chosen = choose_devices(lists);
    std::vector<DeviceIdentity> identities;
    for (std::size_t i = 0; i < chosen.size(); ++i)
        identities.push_back(chosen[i] ? lists[i][*chosen[i]] : "");
    return identities;
}

}  // namespace

TEST_CASE("processes that see the same devices take them round robin") {
    const std::vector<DeviceIdentity> all{"a", "b", "c"};
    CHECK(taken({}).empty());
    CHECK(taken({all}) == std::vector<DeviceIdentity>{"a"});
    CHECK(taken(Lists(7, all)) == std::vector<DeviceIdentity>{"a", "b", "c", "a", "b", "c", "a"});
}

TEST_CASE("processes that see different devices spread over all of them") {
    CHECK(taken({{"a"}, {"b"}, {"c"}}) == std::vector<DeviceIdentity>{"a", "b", "c"});
    CHECK(taken({{"a", "b"}, {"c", "d"}, {"a", "b"}, {"c", "d"}}) ==
          std::vector<DeviceIdentity>{"a", "c", "b", "d"});
    CHECK(taken({{"a", "b"}, {"b", "a"}, {"b", "a"}}) ==
          std::vector<DeviceIdentity>{"a", "b", "b"});
    CHECK(taken({{"a", "b"}, {"a"}, {"a", "b"}}) == std::vector<DeviceIdentity>{"a", "a", "b"});
}

TEST_CASE("the chosen position is an index into the process's own list") {
    const auto chosen = choose_devices({{"a", "b"}, {"a", "b"}, {"c", "b", "a"}});
    REQUIRE(chosen.size() == 3);
    CHECK(chosen[0] == 0);
    CHECK(chosen[1] == 1);
    CHECK(chosen[2] == 0);
}

TEST_CASE("a process without devices takes none and does not affect the others") {
    CHECK(taken({{}, {"a", "b"}, {}, {"a", "b"}}) == std::vector<DeviceIdentity>{"", "a", "", "b"});
}

TEST_CASE("processes that took the same device share it, wherever it is in their lists") {
    const Lists lists{{"a", "b"}, {}, {"b"}, {"b", "a"}, {"c", "a"}};
    // Chosen are a, none, b, b (a and b are taken once each, so the first in the list wins) and c.
    const auto chosen = choose_devices(lists);
    CHECK(processes_sharing(lists, chosen, 0) == std::vector<std::size_t>{0});
    CHECK(processes_sharing(lists, chosen, 1).empty());
    CHECK(processes_sharing(lists, chosen, 2) == std::vector<std::size_t>{2, 3});
    CHECK(processes_sharing(lists, chosen, 3) == std::vector<std::size_t>{2, 3});
    CHECK(processes_sharing(lists, chosen, 4) == std::vector<std::size_t>{4});
}

TEST_CASE("equal identities in one list are distinguished by their order") {
    std::vector<DeviceIdentity> list{"a", "b", "a", "a"};
    number_equal(list);
    CHECK(list == std::vector<DeviceIdentity>{"a #0", "b #0", "a #1", "a #2"});
}
