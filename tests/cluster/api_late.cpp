// Commands must access the program's memory only after they may start, and never if they fail.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

constexpr std::size_t side = 16;
constexpr std::array<std::size_t, 3> origin{};
constexpr std::array<std::size_t, 3> region{side, side, 1};
constexpr std::array<std::size_t, 3> box{4 * side, side, 1};

/// The queue and the wait list of a command.
struct place {
    cl_command_queue queue;
    std::vector<cl_event> waits;

    [[nodiscard]] cl_uint count() const { return static_cast<cl_uint>(waits.size()); }
    [[nodiscard]] const cl_event *list() const { return waits.empty() ? nullptr : waits.data(); }
};

/// A kind of write and the size of its data, in bytes.
struct kind {
    const char *name;
    std::size_t size;
    std::function<cl_int(const place &, cl_mem, void *memory, cl_event *)> write;
    bool of_image = false;
};

std::vector<kind> kinds() {
    std::vector<kind> all;
    for (const std::size_t size : {std::size_t{16}, std::size_t{4096}, std::size_t{3} << 20U})
        all.push_back({"a write", size,
                       [size](const place &at, cl_mem buffer, void *memory, cl_event *event) {
                           return clEnqueueWriteBuffer(at.queue, buffer, CL_FALSE, 0, size, memory,
                                                       at.count(), at.list(), event);
                       }});
    // On other devices, the driver determines when boxes and images are read.
    if (!are_cpus(devices())) return all;
    all.push_back({"a box", 4 * side * side,
                   [](const place &at, cl_mem buffer, void *memory, cl_event *event) {
                       return clEnqueueWriteBufferRect(at.queue, buffer, CL_FALSE, origin.data(),
                                                       origin.data(), box.data(), 0, 0, 0, 0,
                                                       memory, at.count(), at.list(), event);
                   }});
    all.push_back({"an image", 4 * side * side,
                   [](const place &at, cl_mem image, void *memory, cl_event *event) {
                       return clEnqueueWriteImage(at.queue, image, CL_FALSE, origin.data(),
                                                  region.data(), 0, 0, memory, at.count(),
                                                  at.list(), event);
                   },
                   true});
    return all;
}

buffer_handle make_object(const setup &cl, const kind &each) {
    if (!each.of_image) return cl.buffer(each.size);
    const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc desc{};
    desc.image_type = CL_MEM_OBJECT_IMAGE2D;
    desc.image_width = desc.image_height = side;
    cl_int code = CL_SUCCESS;
    buffer_handle image(
        clCreateImage(cl.context, CL_MEM_READ_WRITE, &format, &desc, nullptr, &code));
    CL_OK(code);
    return image;
}

bool is_first() {
    const char *const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return rank != nullptr && *rank == '0';
}

bytes contents(cl_command_queue queue, cl_mem object, const kind &each) {
    if (!each.of_image) return read(queue, object, 0, each.size);
    bytes data(each.size);
    CL_OK(clEnqueueReadImage(queue, object, CL_TRUE, origin.data(), region.data(), 0, 0,
                             data.data(), 0, nullptr, nullptr));
    return data;
}

}  // namespace

TEST_CASE(
    "a command that waits for a user event reads the program's memory once the event is set, on "
    "all devices") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (const kind &each : kinds()) {
            for (const std::string way :
                 {"the user event", "a marker behind it", "a command before it in the queue",
                  "a barrier before it in a queue out of order"}) {
                CAPTURE(i);
                CAPTURE(each.name);
                CAPTURE(each.size);
                CAPTURE(way);
                const event_handle user = cl.user_event();
                const cl_event wait = user;
                const queue_handle queue =
                    way.find("barrier") != std::string::npos ? cl.out_of_order(i) : cl.queue(i, 0);
                const buffer_handle object = make_object(cl, each);
                place at{queue, {}};
                event_handle marker;
                if (way == "the user event") {
                    at.waits.push_back(wait);
                } else if (way == "a marker behind it") {
                    const queue_handle &other = cl.queues[(i + 1) % cl.count()];
                    CL_OK(clEnqueueMarkerWithWaitList(other, 1, &wait, marker.out()));
                    at.waits.push_back(marker);
                } else if (way == "a command before it in the queue") {
                    CL_OK(clEnqueueMarkerWithWaitList(queue, 1, &wait, nullptr));
                } else {
                    CL_OK(clEnqueueBarrierWithWaitList(queue, 1, &wait, nullptr));
                }
                bytes memory(each.size, 1);
                event_handle written;
                CL_OK(each.write(at, object, memory.data(), written.out()));
                CL_OK(clFlush(queue));
                std::fill(memory.begin(), memory.end(), static_cast<unsigned char>(7));
                CL_OK(clSetUserEventStatus(user, CL_COMPLETE));
                complete(written);
                std::fill(memory.begin(), memory.end(), static_cast<unsigned char>(2));
                check_equal(contents(queue, object, each), bytes(each.size, 7));
            }
        }
    }
}

TEST_CASE(
    "a command that waits for a user event writes the program's memory once the event is set, on "
    "all devices") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (const bool by_marker : {false, true}) {
            CAPTURE(i);
            CAPTURE(by_marker);
            const buffer_handle buffer = cl.buffer(4096);
            write(cl.queues[i], buffer, 0, bytes(4096, 7));
            const event_handle user = cl.user_event();
            const cl_event wait = user;
            event_handle marker;
            CL_OK(clEnqueueMarkerWithWaitList(cl.queues[(i + 1) % cl.count()], 1, &wait,
                                              marker.out()));
            const cl_event behind = by_marker ? marker.get() : wait;
            bytes memory(4096, 1);
            event_handle end;
            CL_OK(clEnqueueReadBuffer(cl.queues[i], buffer, CL_FALSE, 0, 4096, memory.data(), 1,
                                      &behind, end.out()));
            CL_OK(clFlush(cl.queues[i]));
            // Only this process delays its event; the other processes set theirs at once.
            if (is_first()) usleep(10'000);
            check_equal(memory, bytes(4096, 1));
            CL_OK(clSetUserEventStatus(user, CL_COMPLETE));
            complete(end);
            check_equal(memory, bytes(4096, 7));
        }
    }
}

TEST_CASE(
    "memory that a waiting command copies during the call has the contents of that moment, on all "
    "devices") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const event_handle user = cl.user_event();
        const cl_event wait = user;
        const buffer_handle filled = cl.buffer(4096);
        bytes memory(4096, 1);
        CL_OK(clEnqueueFillBuffer(cl.queues[i], filled, memory.data(), 16, 0, 4096, 1, &wait,
                                  nullptr));
        const buffer_handle copied =
            cl.buffer(4096, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, memory.data());
        std::fill(memory.begin(), memory.end(), static_cast<unsigned char>(7));
        CL_OK(clSetUserEventStatus(user, CL_COMPLETE));
        check_equal(read(cl.queues[i], filled, 0, 4096), bytes(4096, 1));
        check_equal(read(cl.queues[i], copied, 0, 4096), bytes(4096, 1));
    }
}

TEST_CASE("data written into a mapping reaches all devices, whatever the unmap waits for") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const event_handle user = cl.user_event();
        const cl_event wait = user;
        const buffer_handle buffer = cl.buffer(4096);
        cl_int code = CL_SUCCESS;
        void *const mapped =
            clEnqueueMapBuffer(cl.queues[i], buffer, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                               4096, 0, nullptr, nullptr, &code);
        CL_OK(code);
        std::memset(mapped, 5, 4096);
        CL_OK(clEnqueueUnmapMemObject(cl.queues[i], buffer, mapped, 1, &wait, nullptr));
        CL_OK(clFlush(cl.queues[i]));
        CL_OK(clSetUserEventStatus(user, CL_COMPLETE));
        CL_OK(clFinish(cl.queues[i]));
        expect(cl, buffer, bytes(4096, 5));
    }
}

TEST_CASE("a command whose user event fails does not read the program's memory, on all devices") {
    // In a single process, PoCL 3.1 may abort if commands fail (decision 5).
    if (!has_several_processes()) return;
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (const kind &each : kinds()) {
            const buffer_handle object = make_object(cl, each);
            for (int round = 0; round < 5; ++round) {
                CAPTURE(i);
                CAPTURE(each.name);
                CAPTURE(round);
                void *const memory = mmap(nullptr, each.size, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                REQUIRE(memory != MAP_FAILED);
                const event_handle user = cl.user_event();
                const queue_handle queue = cl.out_of_order(i);
                // The user event fails before the call in round 0, and after it in later rounds.
                if (round == 0) CL_OK(clSetUserEventStatus(user, -77));
                event_handle written;
                CL_OK(each.write({queue, {user}}, object, memory, written.out()));
                CL_OK(clFlush(queue));
                if (round > 0) CL_OK(clSetUserEventStatus(user, -77));
                const cl_event end = written;
                CL_FAILS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, clWaitForEvents(1, &end));
                REQUIRE(munmap(memory, each.size) == 0);
                CL_OK(clFinish(queue));
            }
        }
    }
    const buffer_handle buffer = cl.buffer(100);
    write(cl.queues.back(), buffer, 0, bytes(100, 3));
    expect(cl, buffer, bytes(100, 3));
}
