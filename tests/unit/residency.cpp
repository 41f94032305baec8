#include "cluster/schedule/residency.hpp"

#include <malloc.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <random>

#include <doctest/doctest.h>

using namespace cldist::cluster;

namespace {

// Two hosts with two processes each, which own two devices each: (0 1) (2 3) and (4 5) (6 7).
const Topology two_hosts({0, 0, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3});

std::vector<Copy> read(Residency &residency, const Topology &topology, MemoryId reader,
                       std::size_t begin, std::size_t end) {
    std::vector<Copy> copies;
    residency.read(topology, reader, begin, end, copies);
    return copies;
}

Topology one_device_each(std::uint32_t processes, std::uint32_t per_host) {
    std::vector<std::uint32_t> hosts(processes);
    std::vector<Process> devices(processes);
    std::iota(devices.begin(), devices.end(), 0);
    for (Process p = 0; p < processes; ++p) hosts[p] = p / per_host;
    return {hosts, devices};
}

/// Bytes of the heap in use. Always 0 with a sanitizer's allocator.
std::size_t heap_in_use() { return mallinfo2().uordblks; }

}  // namespace

TEST_CASE("bytes that were never written need no copy") {
    Residency residency(two_hosts, 100, Contents::undefined);
    CHECK(read(residency, two_hosts, 3, 0, 100).empty());
    residency.write(two_hosts, 0, 10, 20);
    CHECK(read(residency, two_hosts, 3, 0, 100) == std::vector<Copy>{{10, 20, 0}});
    CHECK(read(residency, two_hosts, 3, 0, 100).empty());
}

TEST_CASE("a buffer that every process initialised needs no copy until it is written") {
    Residency residency(two_hosts, 100, Contents::everywhere);
    for (MemoryId d = 0; d < 8; ++d) CHECK(read(residency, two_hosts, d, 0, 100).empty());
    residency.write(two_hosts, 5, 50, 100);
    CHECK(read(residency, two_hosts, 0, 0, 100) == std::vector<Copy>{{50, 100, 5}});
}

TEST_CASE("the nearest holder is the source: same process first, then same host, then any") {
    Residency residency(two_hosts, 1, Contents::undefined);
    residency.write(two_hosts, 4, 0, 1);
    CHECK(read(residency, two_hosts, 0, 0, 1) == std::vector<Copy>{{0, 1, 4}});  // another host
    // Device 0, because it is on the same host, although device 4 has had the byte longer.
    CHECK(read(residency, two_hosts, 2, 0, 1) == std::vector<Copy>{{0, 1, 0}});
    CHECK(read(residency, two_hosts, 3, 0, 1) == std::vector<Copy>{{0, 1, 2}});  // same process
    CHECK(read(residency, two_hosts, 5, 0, 1) == std::vector<Copy>{{0, 1, 4}});
    CHECK(read(residency, two_hosts, 5, 0, 1).empty());
}

TEST_CASE("bytes that wait for a later user event are copied separately") {
    Residency residency(two_hosts, 100, Contents::undefined);
    residency.write(two_hosts, 0, 0, 30);
    residency.write(two_hosts, 0, 30, 50, 7);
    residency.write(two_hosts, 0, 50, 60, 7);
    residency.write(two_hosts, 0, 60, 80, 9);
    residency.write(two_hosts, 0, 80, 100);
    CHECK(read(residency, two_hosts, 3, 0, 100) ==
          std::vector<Copy>{{0, 30, 0}, {30, 60, 0, 7}, {60, 80, 0, 9}, {80, 100, 0}});
    CHECK(read(residency, two_hosts, 2, 20, 40) == std::vector<Copy>{{20, 30, 3}, {30, 40, 3, 7}});
    residency.write(two_hosts, 0, 0, 100);
    CHECK(read(residency, two_hosts, 3, 0, 100) == std::vector<Copy>{{0, 100, 0}});
}

TEST_CASE("hosts and processes may have any numbers") {
    // Ranks alternate between the hosts; the devices' processes are in no order.
    const Topology mixed({7, 3, 7, 3}, {3, 0, 2, 1, 0});
    Residency residency(mixed, 1, Contents::undefined);
    residency.write(mixed, 0, 0, 1);                                         // process 3, host 3
    CHECK(read(residency, mixed, 1, 0, 1) == std::vector<Copy>{{0, 1, 0}});  // process 0, host 7
    CHECK(read(residency, mixed, 3, 0, 1) == std::vector<Copy>{{0, 1, 0}});  // process 1, host 3
    CHECK(read(residency, mixed, 2, 0, 1) == std::vector<Copy>{{0, 1, 1}});  // process 2, host 7
    CHECK(read(residency, mixed, 4, 0, 1) == std::vector<Copy>{{0, 1, 1}});  // process 0
}

TEST_CASE(
    "each piece of a range comes from its holder, and neighbours with one source are one copy") {
    Residency residency(two_hosts, 40, Contents::undefined);
    for (MemoryId d = 0; d < 4; ++d) residency.write(two_hosts, 2 * d, d * 10, d * 10 + 10);
    CHECK(residency.holders().pieces() == 4);
    CHECK(read(residency, two_hosts, 2, 0, 20) == std::vector<Copy>{{0, 10, 0}});
    // [0, 10) has holders 0 and 2, [10, 20) has 2.
    CHECK(read(residency, two_hosts, 3, 5, 35) ==
          std::vector<Copy>{{5, 20, 2}, {20, 30, 4}, {30, 35, 6}});
    residency.write(two_hosts, 1, 0, 40);
    CHECK(residency.holders().pieces() == 1);
    CHECK(read(residency, two_hosts, 3, 0, 40) == std::vector<Copy>{{0, 40, 1}});
}

TEST_CASE("neighbouring ranges are one piece only if the same devices hold them") {
    const Topology topology = one_device_each(16, 4);
    for (const MemoryId holders : {2U, 4U, 5U, 9U}) {
        Residency residency(topology, 20, Contents::undefined);
        residency.write(topology, 0, 0, 20);
        // The halves get their holders in different orders, which does not matter. The second half
        // lacks device 1.
        for (MemoryId d = 1; d < holders; ++d) read(residency, topology, d, 0, 10);
        for (MemoryId d = holders - 1; d > 1; --d) read(residency, topology, d, 10, 20);
        CHECK(residency.holders().pieces() == 2);
        read(residency, topology, 15, 10, 20);
        CHECK(residency.holders().pieces() == 2);
        read(residency, topology, 15, 0, 10);
        read(residency, topology, 1, 10, 20);
        CHECK(residency.holders().pieces() == 1);
    }
}

TEST_CASE("copies to many readers spread as a tree, once to each host") {
    std::mt19937_64 random(3);
    for (const std::uint32_t per_host : {1U, 8U, 64U}) {
        const Topology topology = one_device_each(256, per_host);
        std::vector<MemoryId> readers(256);
        std::iota(readers.begin(), readers.end(), 0);
        for (const bool shuffled : {false, true}) {
            if (shuffled) std::shuffle(readers.begin() + 1, readers.end(), random);
            Residency residency(topology, 16, Contents::undefined);
            residency.write(topology, readers[0], 0, 16);
            std::map<MemoryId, int> depth{{readers[0], 0}};
            std::map<MemoryId, int> sent;
            std::uint32_t between_hosts = 0;
            for (auto reader = readers.begin() + 1; reader != readers.end(); ++reader) {
                const auto copies = read(residency, topology, *reader, 0, 16);
                REQUIRE(copies.size() == 1);
                const MemoryId source = copies[0].source;
                REQUIRE(depth.count(source) == 1);
                depth[*reader] = depth[source] + 1;
                ++sent[source];
                if (topology.host_of(source) != topology.host_of(*reader)) ++between_hosts;
            }
            const auto most = [](const std::map<MemoryId, int> &counts) {
                return std::max_element(
                           counts.begin(), counts.end(),
                           [](const auto &a, const auto &b) { return a.second < b.second; })
                    ->second;
            };
            CHECK(between_hosts == 256 / per_host - 1);
            // 8 for readers in order; slightly more if they are shuffled.
            CHECK(most(depth) <= (shuffled ? 16 : 10));
            CHECK(most(sent) <= (shuffled ? 24 : 14));
        }
    }
}

TEST_CASE(
    "a broadcast from a root reaches each process once, and each host once from another host") {
    for (const std::uint32_t per_host : {1U, 3U, 4U, 13U}) {
        const std::uint32_t processes = 13;
        const Topology topology = one_device_each(processes, per_host);
        for (Process root = 0; root < processes; ++root) {
            std::uint32_t between_hosts = 0;
            std::uint32_t roots = 0;
            for (Process p = 0; p < processes; ++p) {
                const Topology::Branch branch = topology.branch(root, p);
                if (!branch.parent) {
                    ++roots;
                    CHECK(p == root);
                }
                for (const Process child : branch.children) {
                    CHECK(topology.branch(root, child).parent == p);
                    if (topology.host_of(child) != topology.host_of(p)) ++between_hosts;
                }
                // A short path leads from each process to the root, so the branches form a tree.
                int steps = 0;
                for (Process at = p; at != root; at = *topology.branch(root, at).parent)
                    REQUIRE(++steps <= 8);
            }
            CHECK(roots == 1);
            CHECK(between_hosts == (processes + per_host - 1) / per_host - 1);
        }
    }
}

TEST_CASE("a set of holders behaves like a set of numbers, in whatever order they were added") {
    constexpr std::uint32_t places = 200;
    std::mt19937_64 random(5);
    for (int round = 0; round < 200; ++round) {
        // A few ascending and descending runs.
        std::vector<std::uint32_t> order;
        std::vector<bool> in(places);
        const auto add_place = [&](std::uint32_t place) {
            if (place < places && !in[place]) order.push_back(place);
            if (place < places) in[place] = true;
        };
        for (std::size_t runs = 1 + random() % 7; runs > 0; --runs) {
            const auto begin = static_cast<std::uint32_t>(random() % places);
            const auto length = static_cast<std::uint32_t>(1 + random() % 40);
            const bool down = random() % 2 == 0;
            for (std::uint32_t i = 0; i < length; ++i) add_place(down ? begin - i : begin + i);
        }
        Holders holders;
        for (const std::uint32_t place : order) holders.add(place, places);
        CHECK(holders.count() == order.size());
        for (std::uint32_t place = 0; place < places; ++place)
            REQUIRE(holders.contains(place) == in[place]);

        const auto begin = static_cast<std::uint32_t>(random() % places);
        const Topology::Places range{
            begin, static_cast<std::uint32_t>(begin + random() % (places - begin + 1))};
        const auto within = static_cast<std::size_t>(
            std::count(in.begin() + range.begin, in.begin() + range.end, true));
        REQUIRE(holders.count_in(range) == within);
        std::vector<bool> seen(places);
        for (std::size_t n = 0; n < within; ++n) {
            const std::uint32_t place = holders.nth_in(range, n);
            REQUIRE((place >= range.begin && place < range.end && in[place] && !seen[place]));
            seen[place] = true;
        }

        std::shuffle(order.begin(), order.end(), random);
        Holders shuffled;
        for (const std::uint32_t place : order) shuffled.add(place, places);
        CHECK(holders == shuffled);
        CHECK(shuffled == holders);
        // A set in which one place differs is not equal.
        Holders other;
        const auto free =
            static_cast<std::uint32_t>(std::find(in.begin(), in.end(), false) - in.begin());
        for (std::size_t i = 1; i < order.size(); ++i) other.add(order[i], places);
        other.add(free, places);
        CHECK_FALSE(holders == other);
    }
    Holders ends;  // 0 and 3; they have the same sum as 1 and 2
    Holders middle;
    for (const std::uint32_t place : {0U, 3U}) ends.add(place, 4);
    for (const std::uint32_t place : {1U, 2U}) middle.add(place, 4);
    CHECK_FALSE(ends == middle);
    CHECK(Holders(4).count() == 4);
    for (const std::uint32_t place : {1U, 2U}) ends.add(place, 4);
    CHECK(ends == Holders(4));
}

TEST_CASE("copies of a set of holders are independent of each other") {
    Holders holders;
    for (std::uint32_t place = 0; place < 100; place += 3) holders.add(place, 100);
    Holders copy = holders;
    copy.add(1, 100);
    CHECK(copy.contains(1));
    CHECK_FALSE(holders.contains(1));
    holders.set_only(7);
    CHECK(copy.contains(99));
    CHECK(holders.is_only(7));
}

TEST_CASE("the memory for a buffer's holders grows with the pieces in use, not with the devices") {
    constexpr std::uint32_t devices = 4096;
    constexpr std::size_t part = 64;
    constexpr std::size_t each = 256;  // bytes of memory per piece
    const Topology topology = one_device_each(devices, 8);
    const std::size_t before = heap_in_use();
    Residency residency(topology, devices * part, Contents::everywhere);
    CHECK(heap_in_use() - before <= 2 * each);
    for (MemoryId d = 0; d < devices; ++d) residency.write(topology, d, d * part, (d + 1) * part);
    CHECK(residency.holders().pieces() == devices);
    CHECK(heap_in_use() - before <= devices * each);
    // Half of the devices read everything, one after another, so each piece has that many holders.
    std::vector<Copy> copies;
    for (MemoryId d = 0; d < devices / 2; ++d) {
        copies.clear();
        residency.read(topology, d, 0, devices * part, copies);
    }
    CHECK(residency.holders().pieces() > devices / 4);
    copies = {};
    CHECK(heap_in_use() - before <= devices * each);
}
