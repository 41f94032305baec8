#include "pipeline/slot_kernels.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <CL/cl_ext.h>

#include "base/config.hpp"
#include "base/status.hpp"
#include "ocl/build_log.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/copy_source.hpp"
#include "pipeline/exported_memory.hpp"

namespace cldist {
namespace {

// Offsets in TransferSlot: order 0, address 8, size 16, flag 24, sent 64, ended 68, running 72.
//
// Only one thread reads host memory: on an H200, reads of one address by many multiprocessors take
// 2.5 us each, one after the other. This thread passes the values to the other work-groups in
// `shared`. These eight 32-bit words of device memory are: the number of work-groups that have
// ended; 1 if the other words are valid; the order; a gap; the address and the size (64 bits each).
constexpr const char *prelude = R"(
typedef volatile __global uint *Word;
#ifdef CLDIST_PTX
// Loads that acquire would empty the first-level cache that the program's kernels use.
uint load(Word p) {
    uint v;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
void store(Word p, uint v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
#define FENCE asm volatile("fence.acq_rel.sys;" ::: "memory")
#else
uint load(Word p) { return atomic_or(p, 0u); }
void store(Word p, uint v) { atomic_xchg(p, v); }
#define FENCE mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif

uint await(Word p) {
    uint v;
    while ((v = load(p)) == 0) {}
    FENCE;
    return v;
}

// Returns true in one thread of the last work-group.
bool is_last(Team team, Word shared) {
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) != 0) return false;
    FENCE;
    if (atomic_inc(shared) != team.groups - 1) return false;
    shared[0] = 0;
    shared[1] = 0;
    FENCE;
    return true;
}
)";

constexpr const char *slot_source = R"(
void send(Team team, Word slot, Word shared, __global uchar *from, Region region, ulong size, ulong address) {
    if (team.group == 0 && get_local_id(0) == 0) store(slot + 18, 1);
    if (region.x == 0) move(team, from, (__global uchar *)address, size);
    else move_region(team, true, from, region, (uint2)(0, 0), (__global uchar *)address, size);
    if (!is_last(team, shared)) return;
    store(slot + 16, 1);
    store(slot + 17, 1);
}

typedef struct {
    uint order;
    ulong address, size;
} Known;

void recv(Team team, Word slot, Word shared, __local Known *known, __global uchar *to, Region region, ulong capacity) {
    if (get_local_id(0) == 0) {
        volatile __global ulong *const passed = (volatile __global ulong *)(shared + 4);
        if (team.group == 0) {
            known->order = await(slot);
            volatile __global ulong *const given = (volatile __global ulong *)slot;
            known->address = given[1];
            known->size = min(capacity, (ulong)given[2]);
            if (known->order == 1) await((Word)given[3]);
            shared[2] = known->order;
            passed[0] = known->address;
            passed[1] = known->size;
            store(shared + 1, 1);
        } else {
            await(shared + 1);
            known->order = shared[2];
            known->address = passed[0];
            known->size = passed[1];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (known->order == 1) {
        __global uchar *const landed = (__global uchar *)known->address;
        if (region.x == 0) move(team, landed, to, known->size);
        else move_region(team, false, to, region, (uint2)(0, 0), landed, known->size);
    }
    if (is_last(team, shared)) store(slot + 17, 1);
}

#define SLOT(index) slots + (index) * 32, shared + (index) * 8

__kernel void ordered_send(Word slots, Word shared, uint index, __global uchar *from, ulong offset, Region region,
                           ulong size, ulong address) {
    send(team_from(0, get_num_groups(0)), SLOT(index), from + offset, region, size, address);
}

__kernel void ordered_recv(Word slots, Word shared, uint index, __global uchar *to, ulong offset, Region region,
                           ulong capacity) {
    __local Known known;
    recv(team_from(0, get_num_groups(0)), SLOT(index), &known, to + offset, region, capacity);
}

// The sending work-groups come first, because the others wait for another kernel of this kind.
__kernel void ordered_exchange(Word slots, Word shared, uint send_index, __global uchar *from, ulong from_offset,
                               Region from_region, ulong size, ulong address, uint recv_index, __global uchar *to,
                               ulong to_offset, Region to_region, ulong capacity, uint send_groups) {
    __local Known known;
    if (get_group_id(0) < send_groups)
        send(team_from(0, send_groups), SLOT(send_index), from + from_offset, from_region, size, address);
    else
        recv(team_from(send_groups, get_num_groups(0) - send_groups), SLOT(recv_index), &known, to + to_offset,
             to_region, capacity);
}

__kernel void address_of(__global ulong *slots, uint index, __global const uchar *buffer) {
    slots[index * 16 + 1] = (ulong)buffer;
}
)";

constexpr std::size_t words_per_slot = 8;
constexpr std::size_t slot_group_size = 256;
constexpr std::size_t contiguous_bytes_per_group = 32768;
// A thread of a strided message moves single elements, of 4 bytes or more in most programs.
constexpr std::size_t strided_bytes_per_group = 4096;
// More work-groups do not speed up sends of contiguous bytes to another H200, or other copies on an
// H200.
constexpr std::size_t most_streaming_groups = 32;

}  // namespace

Program build_slot_program(cl_context context, cl_device_id device, const char *kernels,
                           std::string options) {
    std::array<const char *, 3> text{copy_source, prelude, kernels};
    Program program = create("clCreateProgramWithSource", clCreateProgramWithSource, context, 3U,
                             text.data(), nullptr);
    if (!is_cpu(device)) options += " -cl-std=CL3.0 -DCLDIST_PTX";
    // PoCL 3.1 may fail while other processes build the same source (docs/dev/drivers.md).
    const int attempts = is_cpu(device) ? 4 : 1;
    cl_int code = CL_BUILD_PROGRAM_FAILURE;
    for (int i = 0; code == CL_BUILD_PROGRAM_FAILURE && i < attempts; ++i)
        code = clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr);
    if (code != CL_SUCCESS)
        throw Error(code, "the device's compiler rejects kernels that wait: " +
                              build_log(program.get(), device));
    return program;
}

SlotKernels::SlotKernels(cl_context context, cl_device_id device)
    : queue_(create("clCreateCommandQueue", clCreateCommandQueue, context, device, 0U)),
      program_(build_slot_program(context, device, slot_source, "")),
      is_cpu_(cldist::is_cpu(device)) {
    if (query<cl_bool>(device, CL_DEVICE_KERNEL_EXEC_TIMEOUT_NV).value_or(CL_FALSE) != CL_FALSE)
        throw Error(CL_INVALID_DEVICE, "the driver limits the run time of kernels on this GPU");
    for (auto [kernel, name] :
         {std::pair{&send_, "ordered_send"}, std::pair{&recv_, "ordered_recv"},
          std::pair{&exchange_, "ordered_exchange"}, std::pair{&address_, "address_of"}})
        *kernel = create("clCreateKernel", clCreateKernel, program_.get(), name);
    std::vector<cl_uint> zeros(TransferSlots::count * words_per_slot);
    shared_ =
        create("clCreateBuffer", clCreateBuffer, context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
               zeros.size() * sizeof(cl_uint), zeros.data());
}

cl_int SlotKernels::enqueue(cl_command_queue queue, cl_mem slots, const SlotMove *send,
                            const SlotMove *recv, std::span<const cl_event> wait_list,
                            cl_event *event) {
    const auto groups_of = [&](const SlotMove *move) -> cl_uint {
        if (move == nullptr) return 0;
        const std::size_t bytes =
            move->strided ? strided_bytes_per_group : contiguous_bytes_per_group;
        const bool streams = move == send && !move->strided;
        const std::size_t most = std::min<std::size_t>(is_cpu_   ? 2
                                                       : streams ? most_streaming_groups
                                                                 : most_move_groups,
                                                       move->most_groups);
        return static_cast<cl_uint>(
            std::clamp<std::size_t>((move->size + bytes - 1) / bytes, 1, most));
    };
    const cl_uint send_groups = groups_of(send);
    const cl_uint recv_groups = groups_of(recv);
    const std::size_t local = is_cpu_ ? 1 : slot_group_size;
    const std::size_t global = (send_groups + recv_groups) * local;
    const cl_kernel kernel = recv == nullptr   ? send_.get()
                             : send == nullptr ? recv_.get()
                                               : exchange_.get();
    const std::lock_guard lock(mutex_);
    cl_uint position = 0;
    cl_int code = CL_SUCCESS;
    const auto pass = [&](const auto &value) {
        if (code == CL_SUCCESS) code = clSetKernelArg(kernel, position++, sizeof value, &value);
    };
    pass(slots);
    pass(shared_.get());
    for (const SlotMove *const move : {send, recv}) {
        if (move == nullptr) continue;
        pass(cl_uint{move->index});
        pass(move->buffer);
        pass(cl_ulong{move->offset});
        const RectRegion region = move->strided.value_or(RectRegion{});
        pass(cl_ulong4{{region.width, region.rows, region.row_pitch, region.slice_pitch}});
        pass(cl_ulong{move->size});
        if (move == send) pass(cl_ulong{move->address});
    }
    if (send != nullptr && recv != nullptr) pass(send_groups);
    if (code != CL_SUCCESS) return code;
    const WaitArguments waits(wait_list);
    return clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, &local, waits.count,
                                  waits.events, event);
}

KernelAddress SlotKernels::address_of(TransferSlots &slots, cl_mem buffer) {
    const std::optional<std::uint32_t> index = slots.pool().take();
    if (!index) throw Error(CL_OUT_OF_RESOURCES, "no slot is free");
    KernelAddress address;
    address.slots_ = &slots;
    address.index_ = *index;
    const std::lock_guard lock(mutex_);
    check(set_arguments(address_.get(), slots.buffer(), *index, buffer), "clSetKernelArg");
    const std::size_t one = 1;
    check(clEnqueueNDRangeKernel(queue(), address_.get(), 1, nullptr, &one, nullptr, 0, nullptr,
                                 address.found_.out()),
          "clEnqueueNDRangeKernel");
    check(flush_if_needed(queue()), "clFlush");
    return address;
}

bool KernelAddress::known() {
    if (!found_) return true;
    const cl_int status = execution_status(found_.get());
    if (status > CL_COMPLETE) return false;
    if (status < 0)
        throw Error(status, "the device has failed a kernel that finds the address of a buffer");
    address_ = (*slots_)[index_].address;
    slots_->pool().give_back(index_);
    found_.reset();
    return true;
}

std::size_t most_waiting_queues(cl_device_id device) {
    // A thread of a CPU device waits for each queue.
    const std::size_t most = std::min<std::size_t>(32, channels_of(device) / 4);
    if (most == 0 && config().path == Path::device)
        throw Error(CL_INVALID_DEVICE,
                    "CUDA_DEVICE_MAX_CONNECTIONS is below 4, so kernels that wait would stop other "
                    "queues. Set it to 32, or unset it");
    return most;
}

std::string obstacle_to_kernels(cl_device_id device) {
    if (!ExportedMemory::possible(device, false))
        return "the driver does not share device memory between processes";
    try {
        const Context context =
            create("clCreateContext", clCreateContext, nullptr, 1U, &device, nullptr, nullptr);
        const TransferSlots slots(context.get(), device);
        const SlotKernels kernels(context.get(), device);
        (void)most_waiting_queues(device);
    } catch (const Error &error) {
        return error.status().message;
    }
    return {};
}

}  // namespace cldist
