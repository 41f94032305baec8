/// Measures the time that one process of the cluster platform needs to decide a command, on
/// simulated clusters. Each process has one device, and each host has eight processes. This process
/// is the last one. Its own commands are printed as "local".
///
/// Targets: A remote command takes 200 ns, with any number of devices. Recording a call takes 20
/// ns. 100 rounds of N (N - 1) copies of 16 bytes take 5 s with N = 512.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <numeric>
#include <vector>

#include "cluster/calls/call_log.hpp"
#include "cluster/schedule/schedule.hpp"

namespace {

std::uint64_t allocations = 0;

}  // namespace

// NOLINTNEXTLINE(misc-new-delete-overloads)
void *operator new(std::size_t size) {
    ++allocations;
    if (void *memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace cldist::cluster;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Schedule last_of(std::uint32_t devices) {
    std::vector<std::uint32_t> hosts(devices);
    std::vector<Process> processes(devices);
    std::iota(processes.begin(), processes.end(), 0);
    std::transform(processes.begin(), processes.end(), hosts.begin(),
                   [](Process process) { return process / 8; });
    return {Topology(hosts, processes), devices - 1};
}

std::vector<BufferId> buffers_of(Schedule &schedule, std::uint32_t count, std::size_t size) {
    std::vector<BufferId> buffers(count);
    for (BufferId &buffer : buffers) buffer = schedule.create_buffer(size, Contents::undefined);
    return buffers;
}

/// Runs `round`, which returns its number of commands, in 301 batches of at least a millisecond.
/// Prints the time per command in the median batch, and the allocations per command.
template <typename Round>
void measure(std::uint32_t devices, const char *what, Round &&round) {
    round();
    std::vector<double> took;
    std::uint64_t commands = 0;
    const std::uint64_t allocations_before = allocations;
    took.reserve(301);
    while (took.size() < 301) {
        std::uint64_t in_batch = 0;
        const double start = now();
        double end = start;
        for (; end - start < 1e-3; end = now()) {
            for (std::uint64_t enough = in_batch + 1000; in_batch < enough;) in_batch += round();
        }
        took.push_back((end - start) * 1e9 / static_cast<double>(in_batch));
        commands += in_batch;
    }
    const auto allocated = static_cast<double>(allocations - allocations_before);
    std::nth_element(took.begin(), took.begin() + 150, took.end());
    std::printf("%6u  %-62s %8.1f ns  %5.2f allocations\n", devices, what, took[150],
                allocated / static_cast<double>(commands));
}

void commands(std::uint32_t devices) {
    constexpr std::size_t size = 4096;
    {
        Schedule schedule = last_of(devices);
        const auto buffers = buffers_of(schedule, devices, size);
        measure(devices, "remote, whole buffer of each device, read and written", [&] {
            for (MemoryId d = 0; d + 1 < devices; ++d) {
                const Access access{buffers[d], 0, size, AccessMode::read_write};
                schedule.decide({d, d, {&access, 1}, {}, false});
            }
            return devices - 1;
        });
    }
    {
        Schedule schedule = last_of(devices);
        const auto buffers = buffers_of(schedule, 1, size);
        measure(devices, "remote, one buffer, read and written by device after device", [&] {
            for (MemoryId d = 0; d + 1 < devices; ++d) {
                const Access access{buffers[0], 0, size, AccessMode::read_write};
                schedule.decide({d, d, {&access, 1}, {}, false});
            }
            return devices - 1;
        });
    }
    {
        Schedule schedule = last_of(devices);
        const auto buffers = buffers_of(schedule, 1, size);
        measure(devices, "remote, one buffer, written by the first and read by all", [&] {
            for (MemoryId d = 0; d + 1 < devices; ++d) {
                const Access access{buffers[0], 0, size,
                                    d == 0 ? AccessMode::write : AccessMode::read};
                schedule.decide({d, d, {&access, 1}, {}, false});
            }
            return devices - 1;
        });
    }
    {
        Schedule schedule = last_of(devices);
        const auto buffers = buffers_of(schedule, 2, devices * size);
        std::size_t step = 0;
        measure(devices, "remote, stencil: writes its part, reads it and its neighbours'", [&] {
            for (MemoryId d = 0; d + 1 < devices; ++d) {
                const std::array<Access, 2> accesses{
                    Access{buffers[step % 2], d == 0 ? 0 : d * size - 64, (d + 1) * size + 64,
                           AccessMode::read},
                    Access{buffers[(step + 1) % 2], d * size, (d + 1) * size, AccessMode::write}};
                schedule.decide({d, d, accesses, {}, false});
            }
            ++step;
            return devices - 1;
        });
    }
    {
        Schedule schedule = last_of(devices);
        const auto buffers = buffers_of(schedule, 1, size);
        const Access access{buffers[0], 0, size, AccessMode::read_write};
        measure(devices, "local, whole buffer, read and written", [&] {
            schedule.decide({devices - 1, devices - 1, {&access, 1}, {}, false});
            return 1U;
        });
    }
}

constexpr Call call{"clEnqueueReadBuffer",
                    Comparison::always,
                    {calls::object("queue"), calls::object("buffer"), calls::scalar("blocking"),
                     calls::scalar("offset"), calls::scalar("size")}};

void recorded_calls() {
    CallLog log;
    std::uint64_t offset = 0;
    measure(1, "a call with five arguments, recorded", [&] {
        log.record<call>(3, 7, true, offset += 64, 4096);
        return 1U;
    });
}

/// Each device copies its buffer to all others: in their queues if `by_target`, else in its own.
void all_to_all(std::uint32_t devices, std::uint32_t rounds, bool by_target) {
    constexpr std::size_t size = 16;
    Schedule schedule = last_of(devices);
    const auto buffers = buffers_of(schedule, devices, size);
    for (MemoryId d = 0; d < devices; ++d) {
        const Access access{buffers[d], 0, size, AccessMode::write};
        schedule.decide({d, d, {&access, 1}, {}, false});
    }
    const double start = now();
    std::uint64_t commands = 0;
    std::uint64_t transfers = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        for (MemoryId i = 0; i < devices; ++i) {
            for (MemoryId j = 0; j < devices; ++j) {
                if (j == i) continue;
                const MemoryId device = by_target ? j : i;
                const std::array<Access, 2> accesses{
                    Access{buffers[i], 0, size, AccessMode::read},
                    Access{buffers[j], 0, size, AccessMode::write}};
                transfers +=
                    schedule.decide({device, device, accesses, {}, false}).transfers.size();
                ++commands;
            }
        }
    }
    const double seconds = now() - start;
    std::printf(
        "%6u  %u rounds of N (N - 1) copies on the %s device: %.2f s, %.0f ns for each; own "
        "transfers: %llu\n",
        devices, rounds, by_target ? "target's" : "source's", seconds,
        seconds * 1e9 / static_cast<double>(commands), static_cast<unsigned long long>(transfers));
}

}  // namespace

int main() {
    std::printf("devices\n");
    for (const std::uint32_t devices : {4U, 64U, 512U, 4096U}) commands(devices);
    recorded_calls();
    for (const bool by_target : {false, true}) all_to_all(512, 100, by_target);
}
