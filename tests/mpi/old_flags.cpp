// A kernel of a collective waits for the flag of its round, whatever an old flag contains: the
// values wrap around after 2^31 rounds. The test takes the place of the other process.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include "bare_device.hpp"
#include "pipeline/collective_kernels.hpp"
#include "pipeline/slot_kernels.hpp"

using namespace cldist;
using namespace cldist_test;

namespace {

constexpr std::uint32_t value = 5;  ///< of the flag for which the kernel waits

/// Returns true if a kernel takes bytes while the flag is `flag`. Otherwise the kernel must take
/// the bytes that arrive before the flag of its round.
bool takes(const bare_device &d, std::uint32_t flag) {
    constexpr std::size_t size = 16;
    // Kernels of the CPU device access the host's memory.
    alignas(128) std::atomic<std::uint32_t> flags[2][2 * CollectiveKernels::most_groups] = {};
    alignas(128) unsigned char arena[8 * size] = {};
    alignas(128) TransferSlot slot{};
    alignas(128) std::uint32_t shared[8] = {};
    unsigned char in[size] = {}, out[size] = {};
    flags[0][0] = flag;
    cl_int error = CL_SUCCESS;
    const auto buffer = [&](void *memory, std::size_t bytes) {
        return Mem::adopt(clCreateBuffer(d.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes,
                                         memory, &error));
    };
    const Mem slots = buffer(&slot, sizeof slot), words = buffer(shared, sizeof shared);
    const Mem from = buffer(in, size), to = buffer(out, size);
    const auto address = [](auto *memory) { return reinterpret_cast<std::uint64_t>(memory); };
    CollectiveWork work{};
    work.scheme = CollectiveScheme::exchange;
    work.count = 2;
    work.groups = work.rounds = work.phases = 1;
    work.block = work.stride = size;
    CollectiveWork::Member &other = work.members[1];
    other.from = address(arena);
    other.to = address(arena + 4 * size);
    other.from_flag = address(flags[0]);
    other.to_flag = address(flags[1]);
    other.from_value = value - 1;
    other.give_size = other.take_size = size;
    other.rounds = 1;
    CollectiveKernels kernels(d.context, d.id);
    expect("the kernel",
           kernels.enqueue(d.queue, kernels.prepare(work, {}), work, slots.get(), words.get(), 0,
                           false, from.get(), to.get(), {}, nullptr),
           CL_SUCCESS);
    clFlush(d.queue);
    while (flags[1][0] == 0) std::this_thread::yield();
    // Gives the kernel time to take the bytes although it should wait.
    for (int i = 0; i < 100 && slot.ended == 0; ++i) {
        const unsigned char zero = 0;
        clEnqueueFillBuffer(d.other_queue, d.buffer, &zero, 1, 0, 1, 0, nullptr, nullptr);
        clFinish(d.other_queue);
    }
    const bool ended = slot.ended != 0;
    std::memset(arena, 7, size);
    flags[0][0] = value;
    clFinish(d.queue);
    expect("whether the kernel has ended", slot.ended, 1);
    unsigned char found[size] = {};
    clEnqueueReadBuffer(d.queue, to.get(), CL_TRUE, 0, size, found, 0, nullptr, nullptr);
    if (!ended) expect("the bytes", found[0], 7);
    return ended;
}

}  // namespace

int main() {
    const bare_device d(16);
    for (const std::uint32_t ahead : {0U, 2U})
        expect("whether a kernel takes bytes if the flag is new", takes(d, value + ahead), 1);
    for (const std::uint32_t behind :
         {1U, 1000U, 0x40000000U, 0x7fffffffU, 0x80000000U, 0x80000001U, 0xc0000000U, 0xfffffff0U})
        expect("whether a kernel takes bytes if the flag is old", takes(d, value - behind), 0);
    d.release();
    return failures == 0 ? 0 : 1;
}
