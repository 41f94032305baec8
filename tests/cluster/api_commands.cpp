// Commands on buffers.
#include <array>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

constexpr std::array<std::size_t, 6> sizes = {1, 7, 4096, 100001, MiB + 3, 40 * MiB};

using triple = std::array<std::size_t, 3>;

/// A box in memory with pitches, for the expected results of the Rect commands.
struct box {
    triple origin;
    std::size_t row_pitch;
    std::size_t slice_pitch;

    [[nodiscard]] std::size_t at(std::size_t x, std::size_t y, std::size_t z) const {
        return (origin[2] + z) * slice_pitch + (origin[1] + y) * row_pitch + origin[0] + x;
    }
};

void copy_box(bytes &to, const box &to_box, const bytes &from, const box &from_box,
              const triple &region) {
    for (std::size_t z = 0; z < region[2]; ++z)
        for (std::size_t y = 0; y < region[1]; ++y)
            for (std::size_t x = 0; x < region[0]; ++x)
                to[to_box.at(x, y, z)] = from[from_box.at(x, y, z)];
}

// Gaps in both memories, in one, or in none; several rows, or a single row.
struct rect_case {
    box device;
    box host;
    triple region;
};
const std::vector<rect_case> rect_cases = {
    {{{3, 2, 1}, 20, 200}, {{1, 0, 2}, 31, 310}, {11, 5, 3}},
    {{{0, 0, 0}, 11, 55}, {{4, 1, 0}, 17, 170}, {11, 5, 3}},
    {{{5, 1, 2}, 40, 400}, {{0, 0, 0}, 11, 55}, {11, 5, 3}},
    {{{0, 0, 0}, 11, 55}, {{0, 0, 0}, 11, 55}, {11, 5, 3}},
    {{{2, 3, 0}, 64, 640}, {{7, 1, 0}, 32, 320}, {25, 4, 1}},
    {{{9, 0, 0}, 100, 1000}, {{13, 0, 0}, 90, 900}, {50, 1, 1}},
};
constexpr std::size_t rect_bytes = 4000;

}  // namespace

TEST_CASE("all devices read what one device wrote") {
    const setup cl;
    for (const std::size_t size : sizes) {
        CAPTURE(size);
        const buffer_handle buffer = cl.buffer(size);
        // With many devices and a large buffer, only one device writes.
        const std::size_t writers = size <= 100001 ? cl.count() : 1;
        for (std::size_t i = 0; i < writers; ++i) {
            const bytes data = pattern(size + i, size);
            write(cl.queues[cl.count() - 1 - i], buffer, 0, data);
            expect(cl, buffer, data);
        }
    }
}

TEST_CASE("non-blocking commands, ordered by events, move bytes from device to device") {
    const setup cl;
    for (const std::size_t size : {std::size_t{1}, std::size_t{5000}, 3 * MiB}) {
        CAPTURE(size);
        for (std::size_t i = 0; i < cl.count(); ++i) {
            for (std::size_t j = 0; j < cl.count(); ++j) {
                CAPTURE(i);
                CAPTURE(j);
                const buffer_handle buffer = cl.buffer(size);
                const bytes data = pattern(i * 100 + j, size);
                bytes found(size);
                event_handle written;
                event_handle done;
                CL_OK(clEnqueueWriteBuffer(cl.queues[i], buffer, CL_FALSE, 0, size, data.data(), 0,
                                           nullptr, written.out()));
                const cl_event wait = written;
                CL_OK(clEnqueueReadBuffer(cl.queues[j], buffer, CL_FALSE, 0, size, found.data(), 1,
                                          &wait, done.out()));
                complete(done);
                check_equal(found, data);
            }
        }
    }
}

TEST_CASE("ranges that several devices wrote are read as one") {
    const setup cl;
    constexpr std::size_t part = 12345;
    const buffer_handle buffer = cl.buffer(cl.count() * part);
    bytes all;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        const bytes data = pattern(i, part);
        write(cl.queues[i], buffer, i * part, data);
        all.insert(all.end(), data.begin(), data.end());
    }
    for (std::size_t i = 0; i < cl.count(); ++i)
        check_equal(read(cl.queues[i], buffer, part / 2, (cl.count() - 1) * part + 17),
                    bytes(all.begin() + part / 2,
                          all.begin() + static_cast<std::ptrdiff_t>(part / 2 +
                                                                    (cl.count() - 1) * part + 17)));
    expect(cl, buffer, all);
}

TEST_CASE("patterns of all sizes fill exactly their range") {
    const setup cl;
    for (std::size_t size = 1; size <= 128; size *= 2) {
        CAPTURE(size);
        for (std::size_t i = 0; i < cl.count(); ++i) {
            const buffer_handle buffer = cl.buffer(1024);
            bytes model = pattern(1, 1024);
            write(cl.queues[0], buffer, 0, model);
            const bytes filling = pattern(size + i, size);
            CL_OK(clEnqueueFillBuffer(cl.queues[i], buffer, filling.data(), size, 128, 640, 0,
                                      nullptr, nullptr));
            CL_OK(clFinish(cl.queues[i]));
            for (std::size_t at = 0; at < 640; ++at) model[128 + at] = filling[at % size];
            expect(cl, buffer, model);
        }
    }
}

TEST_CASE("a device copies what another device wrote, and a third device reads it") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (std::size_t j = 0; j < cl.count(); ++j) {
            CAPTURE(i);
            CAPTURE(j);
            const buffer_handle source = cl.buffer(9000);
            const buffer_handle target = cl.buffer(9500);
            const bytes data = pattern(i, 9000);
            bytes model = pattern(77, 9500);
            write(cl.queues[i], source, 0, data);
            write(cl.queues[cl.count() - 1], target, 0, model);
            CL_OK(clEnqueueCopyBuffer(cl.queues[j], source, target, 1000, 33, 7000, 0, nullptr,
                                      nullptr));
            CL_OK(clFinish(cl.queues[j]));
            std::copy_n(data.begin() + 1000, 7000, model.begin() + 33);
            expect(cl, target, model);
            // A copy within one buffer.
            CL_OK(clEnqueueCopyBuffer(cl.queues[j], target, target, 0, 5000, 4500, 0, nullptr,
                                      nullptr));
            CL_OK(clFinish(cl.queues[j]));
            std::copy_n(model.begin(), 4500, model.begin() + 5000);
            if (is_cluster()) {  // PoCL 3.1 refuses an empty copy
                event_handle nothing;
                CL_OK(clEnqueueCopyBuffer(cl.queues[j], source, target, 9000, 1, 0, 0, nullptr,
                                          nothing.out()));
                complete(nothing);
            }
            expect(cl, target, model);
        }
    }
}

TEST_CASE("boxes are written and read with their pitches, and no other byte changes") {
    const setup cl;
    for (const rect_case &each : rect_cases) {
        for (std::size_t i = 0; i < cl.count(); ++i) {
            for (const cl_bool blocking : {CL_TRUE, CL_FALSE}) {
                const cl_command_queue queue = cl.queues[i];
                const cl_command_queue other = cl.queues[(i + 1) % cl.count()];
                const buffer_handle buffer = cl.buffer(rect_bytes);
                bytes model = pattern(5, rect_bytes);
                const bytes host = pattern(6, rect_bytes);
                write(cl.queues[0], buffer, 0, model);
                CL_OK(clEnqueueWriteBufferRect(
                    queue, buffer, blocking, each.device.origin.data(), each.host.origin.data(),
                    each.region.data(), each.device.row_pitch, each.device.slice_pitch,
                    each.host.row_pitch, each.host.slice_pitch, host.data(), 0, nullptr, nullptr));
                CL_OK(clFinish(queue));
                copy_box(model, each.device, host, each.host, each.region);
                expect(cl, buffer, model);

                bytes found = pattern(7, rect_bytes);
                bytes wanted = found;
                CL_OK(clEnqueueReadBufferRect(
                    other, buffer, blocking, each.device.origin.data(), each.host.origin.data(),
                    each.region.data(), each.device.row_pitch, each.device.slice_pitch,
                    each.host.row_pitch, each.host.slice_pitch, found.data(), 0, nullptr, nullptr));
                CL_OK(clFinish(other));
                copy_box(wanted, each.host, model, each.device, each.region);
                check_equal(found, wanted);
            }
        }
    }
}

TEST_CASE("boxes are copied with their pitches, and no other byte changes") {
    const setup cl;
    for (const rect_case &each : rect_cases) {
        for (std::size_t i = 0; i < cl.count(); ++i) {
            const buffer_handle source = cl.buffer(rect_bytes);
            const buffer_handle target = cl.buffer(rect_bytes);
            const bytes data = pattern(8, rect_bytes);
            bytes model = pattern(9, rect_bytes);
            write(cl.queues[0], source, 0, data);
            write(cl.queues[cl.count() - 1], target, 0, model);
            CL_OK(clEnqueueCopyBufferRect(
                cl.queues[i], source, target, each.device.origin.data(), each.host.origin.data(),
                each.region.data(), each.device.row_pitch, each.device.slice_pitch,
                each.host.row_pitch, each.host.slice_pitch, 0, nullptr, nullptr));
            CL_OK(clFinish(cl.queues[i]));
            copy_box(model, each.host, data, each.device, each.region);
            expect(cl, target, model);
        }
    }
}

TEST_CASE(
    "a mapping shows what any device wrote, and after the unmap on any queue all devices see the "
    "changes") {
    const setup cl;
    constexpr std::size_t size = 20000;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (std::size_t j = 0; j < cl.count(); ++j) {
            for (const cl_bool blocking : {CL_TRUE, CL_FALSE}) {
                CAPTURE(i);
                CAPTURE(j);
                CAPTURE(blocking);
                const buffer_handle buffer = cl.buffer(size);
                bytes model = pattern(i, size);
                write(cl.queues[(i + 1) % cl.count()], buffer, 0, model);
                cl_int code = CL_SUCCESS;
                auto *const mapped = static_cast<unsigned char *>(
                    clEnqueueMapBuffer(cl.queues[i], buffer, blocking, CL_MAP_READ | CL_MAP_WRITE,
                                       1024, 10000, 0, nullptr, nullptr, &code));
                CL_OK(code);
                CL_OK(clFinish(cl.queues[i]));
                check_equal(bytes(mapped, mapped + 10000),
                            bytes(model.begin() + 1024, model.begin() + 11024));
                const bytes news = pattern(j + 50, 10000);
                std::copy(news.begin(), news.end(), mapped);
                CL_OK(clEnqueueUnmapMemObject(cl.queues[j], buffer, mapped, 0, nullptr, nullptr));
                CL_OK(clFinish(cl.queues[j]));
                std::copy(news.begin(), news.end(), model.begin() + 1024);
                expect(cl, buffer, model);
            }
        }
    }
}

TEST_CASE(
    "a range may be mapped several times, even after a failed mapping, and unmapped in any order") {
    setup cl;
    for (const queue_handle &queue : cl.queues) {
        const buffer_handle buffer = cl.buffer(4096);
        const bytes data = pattern(5, 4096);
        write(queue, buffer, 0, data);
        const event_handle user = cl.user_event();
        const cl_event wait = user;
        event_handle failing;
        cl_int error = CL_SUCCESS;
        clEnqueueMapBuffer(queue, buffer, CL_FALSE, CL_MAP_READ, 0, 4096, 1, &wait, failing.out(),
                           &error);
        CL_OK(error);
        CL_OK(clFlush(queue));
        CL_OK(clSetUserEventStatus(user, -7));
        const cl_event event = failing;
        CHECK(clWaitForEvents(1, &event) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        for (const bool last_first : {true, false}) {
            std::vector<void *> mapped;
            for (int i = 0; i < 3; ++i) {
                mapped.push_back(clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, 4096, 0,
                                                    nullptr, nullptr, &error));
                CL_OK(error);
            }
            if (last_first) std::reverse(mapped.begin(), mapped.end());
            for (void *const memory : mapped) {
                CHECK(std::memcmp(memory, data.data(), data.size()) == 0);
                CL_OK(clEnqueueUnmapMemObject(queue, buffer, memory, 0, nullptr, nullptr));
            }
            CL_OK(clFinish(queue));
        }
    }
}

TEST_CASE("a mapping may be undone by a later command before its bytes have arrived") {
    const setup cl;
    // The C library returns memory of this size to the system as soon as it is freed.
    const std::size_t size = 34 * MiB;
    const buffer_handle buffer = cl.buffer(size);
    for (const std::size_t i : {std::size_t{0}, cl.count() - 1}) {
        const bytes data = pattern(i, 1000);
        write(cl.queues[i], buffer, 0, data);
        const event_handle go = cl.user_event();
        const cl_event wait = go;
        cl_int error = CL_SUCCESS;
        void *const mapped = clEnqueueMapBuffer(cl.queues[i], buffer, CL_FALSE, CL_MAP_READ, 0,
                                                size, 1, &wait, nullptr, &error);
        CL_OK(error);
        CL_OK(clEnqueueUnmapMemObject(cl.queues[i], buffer, mapped, 0, nullptr, nullptr));
        CL_OK(clFlush(cl.queues[i]));
        CL_OK(clSetUserEventStatus(go, CL_COMPLETE));
        CL_OK(clFinish(cl.queues[i]));
        expect(cl, buffer, data);
    }
}

TEST_CASE("a write-only mapping replaces its range and leaves other bytes unchanged") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (std::size_t j = 0; j < cl.count(); ++j) {
            for (const cl_map_flags flags :
                 {cl_map_flags{CL_MAP_WRITE_INVALIDATE_REGION}, cl_map_flags{CL_MAP_WRITE}}) {
                const buffer_handle buffer = cl.buffer(5000);
                bytes model = pattern(1, 5000);
                write(cl.queues[0], buffer, 0, model);
                cl_int code = CL_SUCCESS;
                void *const mapped = clEnqueueMapBuffer(cl.queues[i], buffer, CL_TRUE, flags, 100,
                                                        3000, 0, nullptr, nullptr, &code);
                CL_OK(code);
                const bytes news = pattern(i + 7, 3000);
                std::memcpy(mapped, news.data(), news.size());
                CL_OK(clEnqueueUnmapMemObject(cl.queues[j], buffer, mapped, 0, nullptr, nullptr));
                CL_OK(clFinish(cl.queues[j]));
                std::copy(news.begin(), news.end(), model.begin() + 100);
                expect(cl, buffer, model);
            }
        }
    }
}

TEST_CASE("several mappings of a buffer are counted and undone in any order") {
    const setup cl;
    const buffer_handle buffer = cl.buffer(4096);
    const bytes model = pattern(3, 4096);
    write(cl.queues[0], buffer, 0, model);
    std::vector<void *> mapped;
    for (std::size_t i = 0; i < cl.count() + 2; ++i) {
        cl_int code = CL_SUCCESS;
        mapped.push_back(clEnqueueMapBuffer(cl.queues[i % cl.count()], buffer, CL_TRUE, CL_MAP_READ,
                                            64 * i, 1000, 0, nullptr, nullptr, &code));
        CL_OK(code);
        CHECK(std::memcmp(mapped[i], model.data() + 64 * i, 1000) == 0);
        CHECK(info<cl_uint>(clGetMemObjectInfo, CL_MEM_MAP_COUNT, buffer.get()) == i + 1);
    }
    for (std::size_t i = 0; i < mapped.size(); ++i) {
        CL_OK(clEnqueueUnmapMemObject(cl.queues[(i + 1) % cl.count()], buffer, mapped[i], 0,
                                      nullptr, nullptr));
        CL_OK(clFinish(cl.queues[(i + 1) % cl.count()]));
    }
    CHECK(info<cl_uint>(clGetMemObjectInfo, CL_MEM_MAP_COUNT, buffer.get()) == 0);
    expect(cl, buffer, model);
}

TEST_CASE("host memory provides a buffer's first contents, with every flag") {
    const setup cl;
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, 9 * MiB}) {
        for (const cl_mem_flags flags :
             {cl_mem_flags{CL_MEM_USE_HOST_PTR}, cl_mem_flags{CL_MEM_COPY_HOST_PTR},
              cl_mem_flags{CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR}}) {
            CAPTURE(size);
            CAPTURE(flags);
            bytes host = pattern(size, size);
            bytes model = host;
            const buffer_handle buffer = cl.buffer(size, CL_MEM_READ_WRITE | flags, host.data());
            if ((flags & CL_MEM_COPY_HOST_PTR) != 0) std::fill(host.begin(), host.end(), 0);
            expect(cl, buffer, model);
            for (std::size_t i = 0; i < cl.count(); ++i) {
                model[size / 2] = static_cast<unsigned char>(i + 1);
                write(cl.queues[i], buffer, size / 2, {model[size / 2]});
                expect(cl, buffer, model);
            }
        }
    }
}

TEST_CASE("a mapping of a buffer in host memory returns that memory") {
    const setup cl;
    for (std::size_t i = 0; i < cl.count(); ++i) {
        alignas(128) static std::array<unsigned char, 4096> host{};
        bytes model = pattern(i, host.size());
        std::copy(model.begin(), model.end(), host.begin());
        const buffer_handle buffer =
            cl.buffer(host.size(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, host.data());
        const bytes news = pattern(i + 1, 100);
        write(cl.queues[(i + 1) % cl.count()], buffer, 300, news);
        std::copy(news.begin(), news.end(), model.begin() + 300);
        cl_int code = CL_SUCCESS;
        void *const mapped =
            clEnqueueMapBuffer(cl.queues[i], buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 256, 2000,
                               0, nullptr, nullptr, &code);
        CL_OK(code);
        CHECK(mapped == host.data() + 256);
        CHECK(std::memcmp(mapped, model.data() + 256, 2000) == 0);
        host[1000] = 1;
        model[1000] = 1;
        CL_OK(clEnqueueUnmapMemObject(cl.queues[i], buffer, mapped, 0, nullptr, nullptr));
        CL_OK(clFinish(cl.queues[i]));
        expect(cl, buffer, model);
    }
}

TEST_CASE("migrated buffers keep their bytes") {
    const setup cl;
    const buffer_handle first = cl.buffer(5000);
    const buffer_handle second = cl.buffer(6000);
    const bytes first_data = pattern(1, 5000);
    const bytes second_data = pattern(2, 6000);
    write(cl.queues[0], first, 0, first_data);
    write(cl.queues[cl.count() - 1], second, 0, second_data);
    const std::array<cl_mem, 2> both = {first, second};
    for (std::size_t i = 0; i < cl.count(); ++i) {
        for (const cl_mem_migration_flags flags :
             {cl_mem_migration_flags{0}, cl_mem_migration_flags{CL_MIGRATE_MEM_OBJECT_HOST}}) {
            event_handle event;
            CL_OK(clEnqueueMigrateMemObjects(cl.queues[i], 2, both.data(), flags, 0, nullptr,
                                             event.out()));
            complete(event);
            CHECK(info<cl_command_type>(clGetEventInfo, CL_EVENT_COMMAND_TYPE, event.get()) ==
                  CL_COMMAND_MIGRATE_MEM_OBJECTS);
        }
    }
    expect(cl, first, first_data);
    expect(cl, second, second_data);
    // Afterwards the contents are undefined and may be overwritten.
    CL_OK(clEnqueueMigrateMemObjects(cl.queues[0], 1, both.data(),
                                     CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, nullptr, nullptr));
    write(cl.queues[0], first, 0, second_data.size() > 5000 ? first_data : second_data);
    expect(cl, first, first_data);
}

TEST_CASE("the program gets a map for writing only behind earlier reads") {
    const setup cl;
    if (!has_several_processes()) return;  // the driver alone orders commands on the same memory
    const bytes data = pattern(1, 1000);
    for (const cl_map_flags flags : {CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION}) {
        for (std::size_t i = 0; i < cl.count(); ++i) {
            CAPTURE(i);
            const buffer_handle buffer = cl.buffer(data.size());
            const buffer_handle copy = cl.buffer(data.size());
            const queue_handle other = cl.out_of_order(i);
            write(other, buffer, 0, data);
            const event_handle begin = cl.user_event();
            const cl_event after = begin;
            CL_OK(clEnqueueCopyBuffer(cl.queues[i], buffer, copy, 0, 0, data.size(), 1, &after,
                                      nullptr));
            event_handle mapped;
            cl_int code = CL_SUCCESS;
            void *const memory = clEnqueueMapBuffer(other, buffer, CL_FALSE, flags, 0, data.size(),
                                                    0, nullptr, mapped.out(), &code);
            CL_OK(code);
            // On another queue: on NVIDIA's driver, a waiting command blocks its queue.
            const queue_handle unordered = cl.out_of_order(i);
            const buffer_handle unrelated = cl.buffer(data.size());
            write(unordered, unrelated, 0, data);
            CHECK(status_of(mapped) > CL_COMPLETE);
            CL_OK(clSetUserEventStatus(begin, CL_COMPLETE));
            complete(mapped);
            std::memset(memory, 1, data.size());
            CL_OK(clEnqueueUnmapMemObject(other, buffer, memory, 0, nullptr, nullptr));
            expect(cl, copy, data);
            expect(cl, buffer, bytes(data.size(), 1));
        }
    }
}

TEST_CASE("buffers are migrated to the host while blocks of messages arrive in them") {
    const setup cl;
    const buffer_handle buffer = cl.buffer(1 << 20U);
    for (std::uint64_t round = 0; round < 20; ++round) {
        const bytes data = pattern(round, 1 << 20U);
        write(cl.queues[round % cl.count()], buffer, 0, data);
        for (std::size_t i = 0; i < 200 * cl.count(); ++i) {
            cl_command_queue const queue = cl.queues[i % cl.count()];
            // The first migrations of a round let the messages start.
            const cl_mem memory = buffer;
            CL_OK(clEnqueueMigrateMemObjects(queue, 1, &memory,
                                             i < cl.count() ? 0 : CL_MIGRATE_MEM_OBJECT_HOST, 0,
                                             nullptr, nullptr));
        }
        expect(cl, buffer, data);
    }
}

TEST_CASE("commands refuse invalid arguments") {
    const setup cl;
    const setup other(setup::of::its_own);
    const cl_command_queue queue = cl.queues.back();
    const cl_command_queue foreign = other.queues.front();
    const buffer_handle buffer = cl.buffer(1000);
    const buffer_handle second = cl.buffer(1000);
    const buffer_handle no_read = cl.buffer(1000, CL_MEM_HOST_WRITE_ONLY);
    const buffer_handle no_write = cl.buffer(1000, CL_MEM_HOST_READ_ONLY);
    const buffer_handle no_access = cl.buffer(1000, CL_MEM_HOST_NO_ACCESS);
    bytes host(1000);
    void *const ptr = host.data();
    const std::array<std::size_t, 3> zero = {0, 0, 0};
    const std::array<std::size_t, 3> region = {10, 10, 1};
    const std::array<std::size_t, 3> empty = {10, 0, 1};
    const std::array<std::size_t, 3> large = {10, 101, 1};
    const cl_event none = nullptr;
    const event_handle event = other.user_event();
    const cl_event foreign_event = event;
    CL_OK(clSetUserEventStatus(event, CL_COMPLETE));

    // Checks common to reads, writes and maps; `begin` and `bytes` are a range of the buffer.
    const auto common = [&](auto &&enqueue) {
        CL_FAILS(CL_INVALID_COMMAND_QUEUE, enqueue(nullptr, buffer.get(), 0, 10, ptr, 0, nullptr));
        CL_FAILS(CL_INVALID_MEM_OBJECT, enqueue(queue, nullptr, 0, 10, ptr, 0, nullptr));
        CL_FAILS(CL_INVALID_CONTEXT, enqueue(foreign, buffer.get(), 0, 10, ptr, 0, nullptr));
        CL_FAILS(CL_INVALID_CONTEXT, enqueue(queue, buffer.get(), 0, 10, ptr, 1, &foreign_event));
        CL_FAILS(CL_INVALID_VALUE, enqueue(queue, buffer.get(), 991, 10, ptr, 0, nullptr));
        CL_FAILS(CL_INVALID_VALUE, enqueue(queue, buffer.get(), 2000, 10, ptr, 0, nullptr));
        CL_FAILS(CL_INVALID_EVENT_WAIT_LIST, enqueue(queue, buffer.get(), 0, 10, ptr, 1, nullptr));
        CL_FAILS(CL_INVALID_EVENT_WAIT_LIST, enqueue(queue, buffer.get(), 0, 10, ptr, 0, &none));
        CL_FAILS(CL_INVALID_EVENT_WAIT_LIST, enqueue(queue, buffer.get(), 0, 10, ptr, 1, &none));
        CL_FAILS(CL_INVALID_OPERATION, enqueue(queue, no_access.get(), 0, 10, ptr, 0, nullptr));
    };
    const auto read = [](cl_command_queue q, cl_mem m, std::size_t at, std::size_t size, void *p,
                         cl_uint n, const cl_event *w) {
        return clEnqueueReadBuffer(q, m, CL_FALSE, at, size, p, n, w, nullptr);
    };
    const auto write = [](cl_command_queue q, cl_mem m, std::size_t at, std::size_t size, void *p,
                          cl_uint n, const cl_event *w) {
        return clEnqueueWriteBuffer(q, m, CL_FALSE, at, size, p, n, w, nullptr);
    };
    const auto map = [](cl_command_queue q, cl_mem m, std::size_t at, std::size_t size, void *,
                        cl_uint n, const cl_event *w) {
        cl_int error = CL_SUCCESS;
        CHECK(clEnqueueMapBuffer(q, m, CL_FALSE, CL_MAP_READ, at, size, n, w, nullptr, &error) ==
              nullptr);
        return error;
    };
    SUBCASE("reading, writing, mapping") {
        common(read);
        common(write);
        common(map);
        CL_FAILS(CL_INVALID_VALUE, read(queue, buffer, 0, 10, nullptr, 0, nullptr));
        CL_FAILS(CL_INVALID_VALUE, write(queue, buffer, 0, 10, nullptr, 0, nullptr));
        CL_FAILS(CL_INVALID_OPERATION, read(queue, no_read, 0, 10, ptr, 0, nullptr));
        CL_FAILS(CL_INVALID_OPERATION, write(queue, no_write, 0, 10, ptr, 0, nullptr));
        CL_FAILS(CL_INVALID_OPERATION, map(queue, no_read, 0, 10, ptr, 0, nullptr));
        CL_FAILS_TO_MAKE(CL_INVALID_OPERATION,
                         clEnqueueMapBuffer(queue, no_write, CL_FALSE, CL_MAP_WRITE, 0, 10, 0,
                                            nullptr, nullptr, &error));
        if (is_cluster())  // PoCL 3.1 maps the buffer
            CL_FAILS_TO_MAKE(CL_INVALID_VALUE, clEnqueueMapBuffer(queue, buffer, CL_FALSE, 0x700, 0,
                                                                  10, 0, nullptr, nullptr, &error));
        CL_FAILS(CL_INVALID_VALUE,
                 clEnqueueUnmapMemObject(queue, buffer, ptr, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_MEM_OBJECT,
                 clEnqueueUnmapMemObject(queue, nullptr, ptr, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_COMMAND_QUEUE,
                 clEnqueueUnmapMemObject(nullptr, buffer, ptr, 0, nullptr, nullptr));
    }
    SUBCASE("boxes") {
        const auto read_box = [&](cl_mem m, const std::size_t *what, std::size_t row,
                                  std::size_t slice, void *p) {
            return clEnqueueReadBufferRect(queue, m, CL_FALSE, zero.data(), zero.data(), what, row,
                                           slice, 0, 0, p, 0, nullptr, nullptr);
        };
        const auto write_box = [&](cl_mem m, const std::size_t *what, std::size_t row,
                                   std::size_t slice, void *p) {
            return clEnqueueWriteBufferRect(queue, m, CL_FALSE, zero.data(), zero.data(), what, row,
                                            slice, 0, 0, p, 0, nullptr, nullptr);
        };
        const auto copy_box = [&](cl_mem m, const std::size_t *what, std::size_t row,
                                  std::size_t slice, void *) {
            return clEnqueueCopyBufferRect(queue, m, second, zero.data(), zero.data(), what, row,
                                           slice, 0, 0, 0, nullptr, nullptr);
        };
        const auto boxes = [&](auto &&enqueue) {
            // PoCL 3.1 crashes in empty copies.
            if (is_cluster()) {
                CL_FAILS(CL_INVALID_MEM_OBJECT, enqueue(nullptr, region.data(), 0, 0, ptr));
                // Twice this pitch is 2^64.
                const std::array<std::size_t, 3> rows{8, 3, 1};
                CL_FAILS(CL_INVALID_VALUE,
                         enqueue(buffer.get(), rows.data(), std::size_t{1} << 63U, 0, ptr));
            }
            CL_FAILS(CL_INVALID_VALUE, enqueue(buffer.get(), empty.data(), 0, 0, ptr));
            CL_FAILS(CL_INVALID_VALUE, enqueue(buffer.get(), large.data(), 0, 0, ptr));
            CL_FAILS(CL_INVALID_VALUE, enqueue(buffer.get(), region.data(), 9, 0, ptr));
            CL_FAILS(CL_INVALID_VALUE, enqueue(buffer.get(), region.data(), 10, 99, ptr));
            CL_FAILS(CL_INVALID_VALUE, enqueue(buffer.get(), region.data(), 10, 105, ptr));
        };
        boxes(read_box);
        boxes(write_box);
        boxes(copy_box);
        CL_FAILS(CL_INVALID_VALUE, read_box(buffer, region.data(), 0, 0, nullptr));
        CL_FAILS(CL_INVALID_VALUE, write_box(buffer, region.data(), 0, 0, nullptr));
        CL_FAILS(CL_INVALID_OPERATION, read_box(no_read, region.data(), 0, 0, ptr));
        CL_FAILS(CL_INVALID_OPERATION, write_box(no_write, region.data(), 0, 0, ptr));
        const std::array<std::size_t, 3> near = {5, 5, 0};
        CL_FAILS(CL_MEM_COPY_OVERLAP,
                 clEnqueueCopyBufferRect(queue, buffer, buffer, zero.data(), near.data(),
                                         region.data(), 20, 400, 20, 400, 0, nullptr, nullptr));
        const buffer_handle first_part = cl.sub_buffer(buffer, 0, 512);
        const buffer_handle second_part = cl.sub_buffer(buffer, 256, 512);
        const std::array<std::size_t, 3> at_256 = {256, 0, 0}, flat = {8, 2, 1};
        if (is_cluster())  // PoCL 3.1 crashes
            CL_FAILS(
                CL_MEM_COPY_OVERLAP,
                clEnqueueCopyBufferRect(queue, first_part, second_part, at_256.data(), zero.data(),
                                        flat.data(), 20, 0, 20, 0, 0, nullptr, nullptr));
    }
    SUBCASE("filling and copying") {
        const auto fill = [&](cl_mem m, const void *what, std::size_t size, std::size_t at,
                              std::size_t length) {
            return clEnqueueFillBuffer(queue, m, what, size, at, length, 0, nullptr, nullptr);
        };
        CL_FAILS(CL_INVALID_COMMAND_QUEUE,
                 clEnqueueFillBuffer(nullptr, buffer, ptr, 4, 0, 8, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_CONTEXT,
                 clEnqueueFillBuffer(foreign, buffer, ptr, 4, 0, 8, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_MEM_OBJECT, fill(nullptr, ptr, 4, 0, 8));
        CL_FAILS(CL_INVALID_VALUE, fill(buffer, nullptr, 4, 0, 8));
        for (const std::size_t size : {0, 3, 12, 256})
            CL_FAILS(CL_INVALID_VALUE, fill(buffer, ptr, size, 0, 0));
        CL_FAILS(CL_INVALID_VALUE, fill(buffer, ptr, 4, 2, 8));
        CL_FAILS(CL_INVALID_VALUE, fill(buffer, ptr, 4, 0, 10));
        CL_FAILS(CL_INVALID_VALUE, fill(buffer, ptr, 4, 996, 8));
        const auto copy = [&](cl_mem from, cl_mem to, std::size_t at, std::size_t to_at,
                              std::size_t length) {
            return clEnqueueCopyBuffer(queue, from, to, at, to_at, length, 0, nullptr, nullptr);
        };
        CL_FAILS(CL_INVALID_COMMAND_QUEUE,
                 clEnqueueCopyBuffer(nullptr, buffer, second, 0, 0, 8, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_CONTEXT,
                 clEnqueueCopyBuffer(foreign, buffer, second, 0, 0, 8, 0, nullptr, nullptr));
        CL_FAILS(CL_INVALID_MEM_OBJECT, copy(nullptr, second, 0, 0, 8));
        CL_FAILS(CL_INVALID_MEM_OBJECT, copy(buffer, nullptr, 0, 0, 8));
        CL_FAILS(CL_INVALID_VALUE, copy(buffer, second, 993, 0, 8));
        CL_FAILS(CL_INVALID_VALUE, copy(buffer, second, 0, 993, 8));
        CL_FAILS(CL_MEM_COPY_OVERLAP, copy(buffer, buffer, 0, 7, 8));
    }
    SUBCASE("migrating") {
        const cl_mem memory = buffer;
        const cl_mem no_memory = nullptr;
        const auto migrate = [&](cl_command_queue q, cl_uint n, const cl_mem *list,
                                 cl_mem_migration_flags flags) {
            return clEnqueueMigrateMemObjects(q, n, list, flags, 0, nullptr, nullptr);
        };
        CL_FAILS(CL_INVALID_COMMAND_QUEUE, migrate(nullptr, 1, &memory, 0));
        CL_FAILS(CL_INVALID_CONTEXT, migrate(foreign, 1, &memory, 0));
        CL_FAILS(CL_INVALID_MEM_OBJECT, migrate(queue, 1, &no_memory, 0));
        CL_FAILS(CL_INVALID_VALUE, migrate(queue, 0, &memory, 0));
        CL_FAILS(CL_INVALID_VALUE, migrate(queue, 1, nullptr, 0));
        CL_FAILS(CL_INVALID_VALUE, migrate(queue, 1, &memory, 1U << 20U));
    }
}
