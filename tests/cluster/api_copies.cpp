// Copies between devices and the program's memory: when the calls return, in which order the copies
// access that memory, and what the end of a copy guarantees.
#include <algorithm>
#include <array>
#include <memory>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

// The sizes select copies during the call, by another thread, and in blocks.
constexpr std::array<std::size_t, 5> copied_sizes = {1, 4096, 100001, MiB + 3, 9 * MiB};

void enqueue_write(cl_command_queue queue, cl_mem buffer, const bytes &from,
                   const std::vector<cl_event> &after = {}, cl_event *event = nullptr) {
    CL_OK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, from.size(), from.data(),
                               static_cast<cl_uint>(after.size()),
                               after.empty() ? nullptr : after.data(), event));
}
void enqueue_read(cl_command_queue queue, cl_mem buffer, bytes &to,
                  const std::vector<cl_event> &after = {}, cl_event *event = nullptr) {
    CL_OK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, to.size(), to.data(),
                              static_cast<cl_uint>(after.size()),
                              after.empty() ? nullptr : after.data(), event));
}

}  // namespace

TEST_CASE("non-blocking copies return before they can begin") {
    const setup cl;
    for (const std::size_t size : copied_sizes) {
        CAPTURE(size);
        const cl_command_queue queue = cl.queues.back();
        const buffer_handle buffer = cl.buffer(size);
        const bytes data = pattern(size, size);
        bytes found(size);
        const event_handle begin = cl.user_event();
        event_handle written;
        event_handle read_back;
        enqueue_write(queue, buffer, data, {begin}, written.out());
        enqueue_read(queue, buffer, found, {}, read_back.out());
        CL_OK(clFlush(queue));
        CHECK(status_of(written) > CL_COMPLETE);
        CHECK(status_of(read_back) > CL_COMPLETE);
        CL_OK(clSetUserEventStatus(begin, CL_COMPLETE));
        complete(read_back);
        check_equal(found, data);
        CHECK(status_of(written) == CL_COMPLETE);
    }
}

TEST_CASE("copies access the program's memory in the order of their queue") {
    const setup cl;
    for (const std::size_t size : copied_sizes) {
        CAPTURE(size);
        const cl_command_queue queue = cl.queues.back();
        const buffer_handle first = cl.buffer(size);
        const buffer_handle second = cl.buffer(size);
        const buffer_handle third = cl.buffer(size);
        const bytes one = pattern(1, size);
        const bytes two = pattern(2, size);
        for (int round = 0; round < 5; ++round) {
            bytes memory(size);
            bytes found(size);
            enqueue_write(queue, first, one);
            enqueue_write(queue, second, two);
            enqueue_read(queue, second, memory);
            enqueue_read(queue, first, memory);
            enqueue_write(queue, third, memory);
            enqueue_read(queue, second, memory);
            enqueue_read(queue, third, found);
            CL_OK(clFinish(queue));
            check_equal(memory, two);
            check_equal(found, one);
        }
    }
}

TEST_CASE("copies of boxes and of ranges access the same memory in the order of their queue") {
    const setup cl;
    constexpr std::size_t size = 100000;
    constexpr std::array<std::size_t, 3> origin{};
    constexpr std::array<std::size_t, 3> region{100, 1000, 1};
    const cl_command_queue queue = cl.queues.front();
    const buffer_handle first = cl.buffer(size);
    const buffer_handle second = cl.buffer(size);
    const bytes one = pattern(1, size);
    const bytes two = pattern(2, size);
    const auto read_box = [&](cl_mem buffer, bytes &to) {
        CL_OK(clEnqueueReadBufferRect(queue, buffer, CL_FALSE, origin.data(), origin.data(),
                                      region.data(), 0, 0, 0, 0, to.data(), 0, nullptr, nullptr));
    };
    for (int round = 0; round < 5; ++round) {
        bytes memory(size);
        bytes found(size);
        enqueue_write(queue, first, one);
        enqueue_write(queue, second, two);
        enqueue_read(queue, first, memory);
        read_box(second, memory);
        enqueue_write(queue, first, memory);
        enqueue_read(queue, first, found);
        read_box(second, memory);
        enqueue_read(queue, first, memory);
        CL_OK(clFinish(queue));
        check_equal(found, two);
        check_equal(memory, two);
    }
}

TEST_CASE(
    "reads into memory with gaps and other copies access that memory in the order of their queue") {
    const setup cl;
    constexpr std::size_t width = 1024;
    constexpr std::size_t rows = 4096;
    constexpr std::size_t pitch = 2 * width;
    constexpr std::array<std::size_t, 3> origin{};
    constexpr std::array<std::size_t, 3> region{width, rows, 1};
    const bytes one = pattern(1, width * rows);
    const bytes two = pattern(2, width);
    for (const queue_handle &queue : cl.queues) {
        const buffer_handle large = cl.buffer(width * rows);
        const buffer_handle small = cl.buffer(width);
        const buffer_handle copy = cl.buffer(pitch * rows);
        write(queue, large, 0, one);
        write(queue, small, 0, two);
        for (int round = 0; round < 3; ++round) {
            bytes memory(pitch * rows, 9);
            const auto read_box = [&] {
                CL_OK(clEnqueueReadBufferRect(queue, large, CL_FALSE, origin.data(), origin.data(),
                                              region.data(), 0, 0, pitch, 0, memory.data(), 0,
                                              nullptr, nullptr));
            };
            bytes wanted(pitch * rows, 9);
            for (std::size_t y = 0; y < rows; ++y)
                std::copy_n(one.begin() + static_cast<std::ptrdiff_t>(y * width), width,
                            wanted.begin() + static_cast<std::ptrdiff_t>(y * pitch));
            read_box();
            enqueue_write(queue, copy, memory);
            CL_OK(clFinish(queue));
            check_equal(memory, wanted);
            check_equal(read(queue, copy, 0, wanted.size()), wanted);
            read_box();
            unsigned char *const last_row = memory.data() + (rows - 1) * pitch;
            CL_OK(clEnqueueReadBuffer(queue, small, CL_FALSE, 0, width, last_row, 0, nullptr,
                                      nullptr));
            CL_OK(clFinish(queue));
            check_equal(bytes(last_row, last_row + width), two);
        }
    }
}

TEST_CASE(
    "copies ordered by events access the program's memory in that order, on any kind of queue") {
    const setup cl;
    for (const std::size_t size : copied_sizes) {
        CAPTURE(size);
        const queue_handle queue = cl.out_of_order(0);
        const buffer_handle first = cl.buffer(size);
        const buffer_handle second = cl.buffer(size);
        const bytes data = pattern(3, size);
        bytes memory(size);
        bytes found(size);
        event_handle written;
        event_handle read_back;
        event_handle passed_on;
        event_handle done;
        enqueue_write(queue, first, data, {}, written.out());
        enqueue_read(queue, first, memory, {written}, read_back.out());
        enqueue_write(queue, second, memory, {read_back}, passed_on.out());
        enqueue_read(queue, second, found, {passed_on}, done.out());
        complete(done);
        check_equal(memory, data);
        check_equal(found, data);
    }
}

TEST_CASE("a large write takes what a small read of another queue has brought") {
    setup cl;
    constexpr std::size_t small = 4096;
    constexpr std::size_t large = 2 * MiB;
    constexpr std::size_t work = 16 * MiB;
    const cl_command_queue reader = cl.queues.front();
    const cl_command_queue writer = cl.queues.back();
    const kernel_handle add = cl.kernel("add");
    const buffer_handle busy = cl.buffer(work);
    const buffer_handle source = cl.buffer(small);
    const buffer_handle target = cl.buffer(large);
    const cl_mem worked_on = busy;
    const cl_uchar value = 1;
    CL_OK(clSetKernelArg(add, 0, sizeof worked_on, &worked_on));
    CL_OK(clSetKernelArg(add, 1, 1, &value));
    write(reader, busy, 0, bytes(work));
    write(reader, source, 0, pattern(1, small));
    bytes memory = pattern(2, large);
    bytes wanted = memory;
    std::ranges::copy(pattern(1, small), wanted.begin() + large / 2);
    event_handle brought;
    event_handle written;
    CL_OK(clEnqueueNDRangeKernel(reader, add, 1, nullptr, &work, nullptr, 0, nullptr, nullptr));
    CL_OK(clEnqueueReadBuffer(reader, source, CL_FALSE, 0, small, memory.data() + large / 2, 0,
                              nullptr, brought.out()));
    enqueue_write(writer, target, memory, {brought}, written.out());
    CL_OK(clFlush(reader));
    complete(written);
    check_equal(read(writer, target, 0, large), wanted);
}

TEST_CASE("the end of a later command guarantees a copy's bytes, and its memory may be freed") {
    const setup cl;
    for (const std::size_t size : copied_sizes) {
        CAPTURE(size);
        const cl_command_queue queue = cl.queues.front();
        const buffer_handle buffer = cl.buffer(size);
        const bytes data = pattern(4, size);
        for (int round = 0; round < 5; ++round) {
            auto from = std::make_unique<bytes>(data);
            auto to = std::make_unique<bytes>(size);
            event_handle written;
            enqueue_write(queue, buffer, *from, {}, written.out());
            complete(written);
            from.reset();
            enqueue_read(queue, buffer, *to);
            event_handle marker;
            CL_OK(clEnqueueMarkerWithWaitList(queue, 0, nullptr, marker.out()));
            complete(marker);
            check_equal(*to, data);
        }
    }
}

TEST_CASE("mapped memory may be used by copies of other buffers") {
    const setup cl;
    constexpr std::size_t size = 50000;
    const cl_command_queue queue = cl.queues.back();
    const buffer_handle buffer = cl.buffer(size, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR);
    const buffer_handle other = cl.buffer(size);
    const bytes data = pattern(5, size);
    write(queue, buffer, 0, data);
    cl_int code = CL_SUCCESS;
    void *const mapped = clEnqueueMapBuffer(queue, buffer, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                            size, 0, nullptr, nullptr, &code);
    CL_OK(code);
    CL_OK(clEnqueueWriteBuffer(queue, other, CL_FALSE, 0, size, mapped, 0, nullptr, nullptr));
    CL_OK(clFinish(queue));
    check_equal(read(queue, other, 0, size), data);
    const bytes changed = pattern(6, size);
    write(queue, other, 0, changed);
    CL_OK(clEnqueueReadBuffer(queue, other, CL_FALSE, 0, size, mapped, 0, nullptr, nullptr));
    CL_OK(clFinish(queue));
    CL_OK(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, nullptr, nullptr));
    check_equal(read(queue, buffer, 0, size), changed);
}

TEST_CASE(
    "mapped memory stays valid until the mapping and other buffers' copies have ended, on any "
    "device") {
    const setup cl;
    // The C library returns memory of this size to the system as soon as it is freed.
    constexpr std::size_t size = 34 * MiB;
    const std::size_t count = cl.count();
    enum class use { reads, writes, none };
    for (const use kind : {use::reads, use::writes, use::none}) {
        const bool reads = kind == use::reads;
        const bool fills = kind != use::writes;
        for (std::size_t i = 0; i < 2 * count; ++i) {
            CAPTURE(static_cast<int>(kind));
            CAPTURE(i);
            const cl_command_queue maps = cl.queues[i % count];
            const cl_command_queue copies = cl.queues[(i + 1) % count];
            const cl_command_queue unmaps = cl.queues[(i + (i < count ? 1 : 2)) % count];
            const buffer_handle other = cl.buffer(size);
            const buffer_handle result = cl.buffer(size);
            const bytes data = pattern(i, 1000);
            buffer_handle buffer = cl.buffer(size);
            if (kind != use::none) write(maps, reads ? other : buffer, size - 1000, data);
            const event_handle go = cl.user_event();
            const cl_event gate = go;
            event_handle mapped;
            event_handle copied;
            event_handle unmapped;
            cl_int code = CL_SUCCESS;
            void *const memory =
                clEnqueueMapBuffer(maps, buffer, kind == use::none,
                                   fills ? CL_MAP_WRITE_INVALIDATE_REGION : CL_MAP_READ, 0, size, 0,
                                   nullptr, mapped.out(), &code);
            CL_OK(code);
            const std::array<cl_event, 2> waits = {mapped, gate};
            if (kind == use::none) {
                std::copy(data.begin(), data.end(),
                          static_cast<unsigned char *>(memory) + size - 1000);
                CL_OK(clEnqueueMarkerWithWaitList(copies, 2, waits.data(), copied.out()));
            } else if (reads)
                CL_OK(clEnqueueReadBuffer(copies, other, CL_FALSE, 0, size, memory, 2, waits.data(),
                                          copied.out()));
            else
                CL_OK(clEnqueueWriteBuffer(copies, result, CL_FALSE, 0, size, memory, 2,
                                           waits.data(), copied.out()));
            const cl_event wait = copied;
            CL_OK(clEnqueueUnmapMemObject(unmaps, buffer, memory, 1, &wait, unmapped.out()));
            if (fills) {
                const cl_event after = unmapped;
                CL_OK(clEnqueueCopyBuffer(unmaps, buffer, result, 0, 0, size, 1, &after, nullptr));
            }
            buffer = buffer_handle();
            for (const queue_handle &queue : cl.queues) CL_OK(clFlush(queue));
            CL_OK(clSetUserEventStatus(gate, CL_COMPLETE));
            for (const queue_handle &queue : cl.queues) CL_OK(clFinish(queue));
            check_equal(read(unmaps, result, size - 1000, 1000), data);
        }
    }
}

TEST_CASE("the profiling times of a copy of any size are in order") {
    const setup cl;
    for (const std::size_t size : copied_sizes) {
        CAPTURE(size);
        const buffer_handle buffer = cl.buffer(size);
        bytes data(size);
        event_handle written;
        event_handle read_back;
        enqueue_write(cl.queues.back(), buffer, data, {}, written.out());
        enqueue_read(cl.queues.back(), buffer, data, {}, read_back.out());
        for (const cl_event event : {written.get(), read_back.get()}) {
            complete(event);
            cl_ulong before = 1;
            for (const cl_profiling_info what :
                 {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT,
                  CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END}) {
                const auto time = info<cl_ulong>(clGetEventProfilingInfo, what, event);
                CHECK(time >= before);
                before = time;
            }
        }
    }
}

TEST_CASE("a read after a failed command does not change the program's memory") {
    const setup cl;
    for (const std::size_t size : copied_sizes) {
        CAPTURE(size);
        const buffer_handle buffer = cl.buffer(size);
        const bytes data = pattern(7, size);
        bytes memory = data;
        const event_handle user = cl.user_event();
        event_handle read_back;
        enqueue_read(cl.queues.back(), buffer, memory, {user}, read_back.out());
        CL_OK(clSetUserEventStatus(user, -5));
        const cl_event event = read_back;
        clWaitForEvents(1, &event);
        CHECK(status_of(event) < 0);
        check_equal(memory, data);
    }
}
