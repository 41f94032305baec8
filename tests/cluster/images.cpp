// Images of all types, on all devices.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include "images.hpp"

namespace images_test {

// ---- Creation and queries ---------------------------------------------------------------------

TEST_CASE("the number of devices is as required") {
    const char *const wanted = std::getenv("CLDIST_TEST_DEVICES");
    if (wanted != nullptr && cldist_test::are_cpus(machine::get().devices))
        CHECK(std::to_string(machine::get().count()) == wanted);
}

TEST_CASE("an image reports its properties") {
    for_all_images([](const shape &of, const pixel_format &format) {
        const tested_image tested(of, format);
        const auto told = image_info<cl_image_format>(tested.image, CL_IMAGE_FORMAT);
        CHECK(told.image_channel_order == format.format.image_channel_order);
        CHECK(told.image_channel_data_type == format.format.image_channel_data_type);
        const cl_image_desc desc = of.desc();
        CHECK(image_info<std::size_t>(tested.image, CL_IMAGE_ELEMENT_SIZE) == format.size);
        CHECK(image_info<std::size_t>(tested.image, CL_IMAGE_WIDTH) == desc.image_width);
        CHECK(image_info<std::size_t>(tested.image, CL_IMAGE_HEIGHT) == desc.image_height);
        CHECK(image_info<std::size_t>(tested.image, CL_IMAGE_DEPTH) == desc.image_depth);
        CHECK(image_info<std::size_t>(tested.image, CL_IMAGE_ARRAY_SIZE) == desc.image_array_size);
        CHECK(image_info<std::size_t>(tested.image, CL_IMAGE_ROW_PITCH) >=
              desc.image_width * format.size);
        CHECK((image_info<std::size_t>(tested.image, CL_IMAGE_SLICE_PITCH) != 0) ==
              of.has_slices());
        CHECK(image_info<cl_mem>(tested.image, CL_IMAGE_BUFFER) == tested.buffer);
        CHECK(image_info<cl_uint>(tested.image, CL_IMAGE_NUM_MIP_LEVELS) == 0);
        CHECK(image_info<cl_uint>(tested.image, CL_IMAGE_NUM_SAMPLES) == 0);
        cl_mem_object_type type = 0;
        CL_OK(clGetMemObjectInfo(tested.image, CL_MEM_TYPE, sizeof type, &type, nullptr));
        CHECK(type == of.type);
        std::size_t size = 0;
        CL_OK(clGetMemObjectInfo(tested.image, CL_MEM_SIZE, sizeof size, &size, nullptr));
        CHECK(size >= tested.expected.size());
    });
}

TEST_CASE("images of all supported formats keep their bytes") {
    const machine &m = machine::get();
    for (const shape &of : shapes) {
        CAPTURE(of.name);
        cl_uint count = 0;
        CL_OK(
            clGetSupportedImageFormats(m.context, CL_MEM_READ_WRITE, of.type, 0, nullptr, &count));
        REQUIRE(count > 0);
        std::vector<cl_image_format> list(count);
        CL_OK(clGetSupportedImageFormats(m.context, CL_MEM_READ_WRITE, of.type, count, list.data(),
                                         nullptr));
        CHECK(std::any_of(list.begin(), list.end(), [](const cl_image_format &f) {
            return f.image_channel_order == CL_RGBA && f.image_channel_data_type == CL_UNORM_INT8;
        }));
        for (const cl_image_format &format : list) {
            CAPTURE(format.image_channel_order);
            CAPTURE(format.image_channel_data_type);
            const cl_image_desc desc = shapes[3].desc();
            cl_int code = CL_SUCCESS;
            const memory_handle probe(
                clCreateImage(m.context, CL_MEM_READ_WRITE, &format, &desc, nullptr, &code));
            CL_OK(code);
            tested_image tested(
                of, {"", format, image_info<std::size_t>(probe, CL_IMAGE_ELEMENT_SIZE)});
            tested.write_all(m.queue(0), format.image_channel_data_type);
            tested.check(m.queue(m.count() - 1));
        }
    }
}

TEST_CASE("an image has its initial contents with any pitches, on every device") {
    const machine &m = machine::get();
    for_all_images([&](const shape &of, const pixel_format &format) {
        if (of.type == CL_MEM_OBJECT_IMAGE1D_BUFFER) return;  // its contents are the buffer's
        tested_image tested(of, format);                      // provides the expected bytes
        for (const std::size_t gap : {0, 3}) {
            CAPTURE(gap);
            cl_image_desc desc = of.desc();
            layout host = tested.tight();
            if (of.type == CL_MEM_OBJECT_IMAGE1D_ARRAY) host.slice = host.row;
            if (gap > 0) {
                host.row = (of.extent[0] + gap) * format.size;
                // The rows of a 1D array are its slices.
                if (of.type == CL_MEM_OBJECT_IMAGE1D_ARRAY) host.row *= 2;
                host.slice = of.type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? host.row
                                                                    : host.row * (of.extent[1] + 1);
                if (of.type != CL_MEM_OBJECT_IMAGE1D) desc.image_row_pitch = host.row;
                if (of.has_slices()) desc.image_slice_pitch = host.slice;
            }
            for (const cl_mem_flags flag : {CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR}) {
                CAPTURE(flag);
                const unsigned seed = static_cast<unsigned>(gap + flag);
                tested.expected = random_bytes(tested.expected.size(), seed);
                bytes memory(std::max(host.slice, host.row * of.extent[1]) * of.extent[2] +
                             host.row * of.extent[1]);
                copy_box(memory.data(), host, tested.expected.data(), tested.tight(), of.extent,
                         format.size);
                cl_int code = CL_SUCCESS;
                tested.image = memory_handle(
                    clCreateImage(m.context, flag, &format.format, &desc, memory.data(), &code));
                CL_OK(code);
                if (flag == CL_MEM_COPY_HOST_PTR) std::fill(memory.begin(), memory.end(), 0);
                for (std::size_t i = 0; i < m.count(); ++i) tested.check(m.queue(i));
                if (flag == CL_MEM_COPY_HOST_PTR) continue;

                // A mapping returns the program's memory.
                const auto [origin, region] = inner_part(of.extent);
                std::size_t row = 0;
                std::size_t slice = 0;
                auto *const mapped = static_cast<unsigned char *>(clEnqueueMapImage(
                    m.queue(0), tested.image, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, origin.data(),
                    region.data(), &row, &slice, 0, nullptr, nullptr, &code));
                CL_OK(code);
                CHECK(mapped == memory.data() + origin[2] * host.slice + origin[1] * host.row +
                                    origin[0] * format.size);
                if (region[1] > 1 && of.type != CL_MEM_OBJECT_IMAGE1D_ARRAY) CHECK(row == host.row);
                CHECK(slice == (of.has_slices() ? host.slice : 0));
                const bytes part = random_bytes(volume(region) * format.size, seed + 1);
                const layout tight{region[0] * format.size, region[0] * region[1] * format.size};
                copy_box(mapped, host, part.data(), tight, region, format.size);
                copy_box(tested.at(origin), tested.tight(), part.data(), tight, region,
                         format.size);
                CL_OK(
                    clEnqueueUnmapMemObject(m.queue(0), tested.image, mapped, 0, nullptr, nullptr));
                CL_OK(clFinish(m.queue(0)));
                for (std::size_t i = 0; i < m.count(); ++i) tested.check(m.queue(i));

                // Data written by a device is visible after the next mapping.
                tested.write_all(m.queue(m.count() - 1), seed + 2);
                const box start{};
                void *const all =
                    clEnqueueMapImage(m.queue(0), tested.image, CL_TRUE, CL_MAP_READ, start.data(),
                                      of.extent.data(), &row, &slice, 0, nullptr, nullptr, &code);
                CL_OK(code);
                CHECK(all == memory.data());
                bytes found(tested.expected.size());
                copy_box(found.data(), tested.tight(), memory.data(), host, of.extent, format.size);
                CHECK(found == tested.expected);
                CL_OK(clEnqueueUnmapMemObject(m.queue(0), tested.image, all, 0, nullptr, nullptr));
                CL_OK(clFinish(m.queue(0)));
            }
        }
    });
}

TEST_CASE("the calls of OpenCL 1.1 create images") {
    const machine &m = machine::get();
    const bytes contents = random_bytes(4 * 3 * 2 * 4, 7);
    const cl_image_format format = formats[0].format;
    const box origin{};
    cl_int code = CL_SUCCESS;
    const memory_handle flat(clCreateImage2D(m.context, CL_MEM_COPY_HOST_PTR, &format, 4, 6, 16,
                                             const_cast<unsigned char *>(contents.data()), &code));
    CL_OK(code);
    const memory_handle deep(clCreateImage3D(m.context, CL_MEM_COPY_HOST_PTR, &format, 4, 3, 2, 0,
                                             0, const_cast<unsigned char *>(contents.data()),
                                             &code));
    CL_OK(code);
    bytes found(contents.size());
    const box flat_region{4, 6, 1};
    CL_OK(clEnqueueReadImage(m.queue(1), flat, CL_TRUE, origin.data(), flat_region.data(), 0, 0,
                             found.data(), 0, nullptr, nullptr));
    CHECK(found == contents);
    found.assign(found.size(), 0);
    const box deep_region{4, 3, 2};
    CL_OK(clEnqueueReadImage(m.queue(1), deep, CL_TRUE, origin.data(), deep_region.data(), 0, 0,
                             found.data(), 0, nullptr, nullptr));
    CHECK(found == contents);
}

// ---- Reading, writing, filling ----------------------------------------------------------------

TEST_CASE("each device reads what another device wrote") {
    const machine &m = machine::get();
    for_all_images([&](const shape &of, const pixel_format &format) {
        tested_image tested(of, format);
        for (std::size_t i = 0; i < m.count(); ++i) {
            tested.write_all(m.queue(i), static_cast<unsigned>(i));
            for (std::size_t j = 0; j < m.count(); ++j) tested.check(m.queue(j));
        }
    });
}

TEST_CASE("parts are written from and read into memory with gaps, and no other byte changes") {
    const machine &m = machine::get();
    for_all_images([&](const shape &of, const pixel_format &format) {
        tested_image tested(of, format);
        const auto [origin, region] = inner_part(of.extent);
        const std::size_t row = (region[0] + 2) * format.size;
        const bool rows_are_slices = of.type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
        const layout host{row, rows_are_slices ? row : row * (region[1] + 1)};
        const std::size_t slice = of.has_slices() ? host.slice : 0;
        for (std::size_t i = 0; i < m.count(); ++i) {
            tested.write_all(m.queue(i + 1), static_cast<unsigned>(i));
            const bytes memory = random_bytes(host.slice * region[2] + host.row * region[1],
                                              static_cast<unsigned>(i + 10));
            CL_OK(clEnqueueWriteImage(m.queue(i), tested.image, CL_TRUE, origin.data(),
                                      region.data(), host.row, slice, memory.data(), 0, nullptr,
                                      nullptr));
            copy_box(tested.at(origin), tested.tight(), memory.data(), host, region, format.size);
            tested.check(m.queue(i + 1));

            bytes read(memory.size(), 0xee);
            CL_OK(clEnqueueReadImage(m.queue(i + 1), tested.image, CL_TRUE, origin.data(),
                                     region.data(), host.row, slice, read.data(), 0, nullptr,
                                     nullptr));
            bytes expected(memory.size(), 0xee);
            copy_box(expected.data(), host, memory.data(), host, region, format.size);
            CHECK(read == expected);
        }
    });
}

TEST_CASE("one device writes one part, the next device another part") {
    const machine &m = machine::get();
    tested_image tested(shapes[3], formats[0]);
    // Unwritten bytes are undefined, so all parts must be written.
    for (std::size_t y = 0; y < tested.of.extent[1]; ++y) {
        const bytes row = random_bytes(tested.tight().row, static_cast<unsigned>(y));
        const box origin{0, y, 0};
        const box region{tested.of.extent[0], 1, 1};
        CL_OK(clEnqueueWriteImage(m.queue(y), tested.image, CL_TRUE, origin.data(), region.data(),
                                  0, 0, row.data(), 0, nullptr, nullptr));
        std::copy(row.begin(), row.end(), tested.at(origin));
    }
    for (std::size_t i = 0; i < m.count(); ++i) tested.check(m.queue(i));
}

TEST_CASE("images are filled completely and in part") {
    const machine &m = machine::get();
    for_all_images([&](const shape &of, const pixel_format &format) {
        if (of.type == CL_MEM_OBJECT_IMAGE1D_BUFFER) return;  // PoCL 3.1 crashes
        tested_image tested(of, format);
        const auto fill = [&](std::size_t on, const box &origin, const box &region, int value) {
            bytes element(format.size);
            cl_int code = CL_SUCCESS;
            if (format.format.image_channel_data_type == CL_FLOAT) {
                const std::array<float, 4> color{static_cast<float>(value), 0, 0, 1};
                std::memcpy(element.data(), color.data(), sizeof(float));
                code = clEnqueueFillImage(m.queue(on), tested.image, color.data(), origin.data(),
                                          region.data(), 0, nullptr, nullptr);
            } else if (format.format.image_channel_data_type == CL_UNSIGNED_INT8) {
                const auto u = static_cast<cl_uint>(value);
                const std::array<cl_uint, 4> color{u, u + 1, u + 2, u + 3};
                std::copy(color.begin(), color.end(), element.begin());
                code = clEnqueueFillImage(m.queue(on), tested.image, color.data(), origin.data(),
                                          region.data(), 0, nullptr, nullptr);
            } else {
                const std::array<cl_int, 4> color{value, -value, value + 1, -value - 1};
                std::array<cl_short, 4> shorts{};
                std::transform(color.begin(), color.end(), shorts.begin(),
                               [](cl_int c) { return static_cast<cl_short>(c); });
                std::memcpy(element.data(), shorts.data(), element.size());
                code = clEnqueueFillImage(m.queue(on), tested.image, color.data(), origin.data(),
                                          region.data(), 0, nullptr, nullptr);
            }
            CL_OK(code);
            for (std::size_t z = 0; z < region[2]; ++z)
                for (std::size_t y = 0; y < region[1]; ++y)
                    for (std::size_t x = 0; x < region[0]; ++x)
                        std::copy(element.begin(), element.end(),
                                  tested.at({origin[0] + x, origin[1] + y, origin[2] + z}));
        };
        fill(0, {0, 0, 0}, of.extent, 17);
        tested.check(m.queue(1));
        const auto [origin, region] = inner_part(of.extent);
        fill(1, origin, region, 100);
        tested.check(m.queue(0));
        tested.check(m.queue(1));
    });
}

TEST_CASE("an image without host access still moves between devices") {
    const machine &m = machine::get();
    tested_image source(shapes[3], formats[0]);
    tested_image hidden(shapes[3], formats[0], CL_MEM_HOST_NO_ACCESS);
    tested_image target(shapes[3], formats[0]);
    const box origin{};
    source.write_all(m.queue(0), 1);
    CL_OK(clEnqueueCopyImage(m.queue(0), source.image, hidden.image, origin.data(), origin.data(),
                             source.of.extent.data(), 0, nullptr, nullptr));
    CL_OK(clFinish(m.queue(0)));
    CL_OK(clEnqueueCopyImage(m.queue(1), hidden.image, target.image, origin.data(), origin.data(),
                             source.of.extent.data(), 0, nullptr, nullptr));
    target.expected = source.expected;
    target.check(m.queue(1));
}

TEST_CASE("an image of several megabytes passes through all devices") {
    const machine &m = machine::get();
    tested_image tested({"2D", CL_MEM_OBJECT_IMAGE2D, {1031, 1027, 1}}, formats[0]);
    for (std::size_t i = 0; i < m.count(); ++i) {
        tested.write_all(m.queue(i), static_cast<unsigned>(i));
        for (std::size_t j = i; j <= i + m.count(); ++j) tested.check(m.queue(j));
    }
}

TEST_CASE("non-blocking commands follow the order of their events") {
    const machine &m = machine::get();
    tested_image tested(shapes[4], formats[0]);
    cl_int code = CL_SUCCESS;
    const event_handle start(clCreateUserEvent(m.context, &code));
    CL_OK(code);
    const bytes first = random_bytes(tested.expected.size(), 1);
    const box origin{};
    event_handle written;
    cl_event wait = start;
    CL_OK(clEnqueueWriteImage(m.queue(0), tested.image, CL_FALSE, origin.data(),
                              tested.of.extent.data(), 0, 0, first.data(), 1, &wait,
                              written.out()));
    bytes read(first.size());
    event_handle arrived;
    wait = written;
    CL_OK(clEnqueueReadImage(m.queue(1), tested.image, CL_FALSE, origin.data(),
                             tested.of.extent.data(), 0, 0, read.data(), 1, &wait, arrived.out()));
    for (const cl_command_queue queue : m.queues) CL_OK(clFlush(queue));
    CL_OK(clSetUserEventStatus(start, CL_COMPLETE));
    wait = arrived;
    CL_OK(clWaitForEvents(1, &wait));
    CHECK(read == first);
}

TEST_CASE("after a failed write an image can be written and read again") {
    const machine &m = machine::get();
    tested_image tested(shapes[3], formats[0]);
    tested.write_all(m.queue(0), 1);
    cl_int code = CL_SUCCESS;
    const event_handle start(clCreateUserEvent(m.context, &code));
    CL_OK(code);
    const box origin{};
    const bytes never(tested.expected.size());
    bytes read(never.size());
    event_handle written;
    event_handle arrived;
    cl_event wait = start;
    CL_OK(clEnqueueWriteImage(m.queue(0), tested.image, CL_FALSE, origin.data(),
                              tested.of.extent.data(), 0, 0, never.data(), 1, &wait,
                              written.out()));
    wait = written;
    CL_OK(clEnqueueReadImage(m.queue(1), tested.image, CL_FALSE, origin.data(),
                             tested.of.extent.data(), 0, 0, read.data(), 1, &wait, arrived.out()));
    for (const cl_command_queue queue : m.queues) CL_OK(clFlush(queue));
    CL_OK(clSetUserEventStatus(start, -5));
    wait = arrived;
    CHECK(clWaitForEvents(1, &wait) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    tested.write_all(m.queue(0), 2);
    for (std::size_t i = 0; i < m.count(); ++i) tested.check(m.queue(i));
}

// ---- Copies -----------------------------------------------------------------------------------

TEST_CASE("images are copied to images of other types, across devices") {
    const machine &m = machine::get();
    for (const pixel_format &format : formats) {
        CAPTURE(format.name);
        for (const shape &from : shapes)
            for (const shape &to : shapes) {
                const bool of_buffer = from.type == CL_MEM_OBJECT_IMAGE1D_BUFFER ||
                                       to.type == CL_MEM_OBJECT_IMAGE1D_BUFFER;
                if (of_buffer && !on_cluster()) continue;  // PoCL 3.1 refuses it
                const bool one_is_1d_array = (from.type == CL_MEM_OBJECT_IMAGE1D_ARRAY) !=
                                             (to.type == CL_MEM_OBJECT_IMAGE1D_ARRAY);
                if (one_is_1d_array && !copies_arrays_of_1d_images()) continue;
                CAPTURE(from.name);
                CAPTURE(to.name);
                tested_image source(from, format);
                tested_image target(to, format);
                source.write_all(m.queue(0), 1);
                target.write_all(m.queue(1), 2);
                box region{};
                for (std::size_t i = 0; i < 3; ++i)
                    region[i] = std::min(from.extent[i], to.extent[i]);
                box source_origin{};
                box target_origin{};
                for (std::size_t i = 0; i < 3; ++i) {
                    source_origin[i] = from.extent[i] - region[i];
                    target_origin[i] = to.extent[i] - region[i];
                }
                CL_OK(clEnqueueCopyImage(m.queue(1), source.image, target.image,
                                         source_origin.data(), target_origin.data(), region.data(),
                                         0, nullptr, nullptr));
                copy_box(target.at(target_origin), target.tight(), source.at(source_origin),
                         source.tight(), region, format.size);
                CL_OK(clFinish(m.queue(1)));
                target.check(m.queue(2));
                source.check(m.queue(1));
            }
    }
}

TEST_CASE("parts of one image are copied within it") {
    const machine &m = machine::get();
    tested_image tested(shapes[5], formats[0]);
    tested.write_all(m.queue(0), 1);
    const box from{};
    const box to{0, 0, 2};
    const box region{tested.of.extent[0], tested.of.extent[1], 2};
    CL_OK(clEnqueueCopyImage(m.queue(1), tested.image, tested.image, from.data(), to.data(),
                             region.data(), 0, nullptr, nullptr));
    copy_box(tested.at(to), tested.tight(), tested.at(from), tested.tight(), region,
             tested.element);
    CL_OK(clFinish(m.queue(1)));
    tested.check(m.queue(0));
}

TEST_CASE("images are copied to buffers and back, across devices") {
    const machine &m = machine::get();
    for_all_images([&](const shape &of, const pixel_format &format) {
        if (of.type == CL_MEM_OBJECT_IMAGE1D_BUFFER && !on_cluster()) return;  // PoCL 3.1 crashes
        if (of.type == CL_MEM_OBJECT_IMAGE1D_ARRAY && !copies_arrays_of_1d_images()) return;
        tested_image source(of, format);
        tested_image target(of, format);
        const auto [origin, region] = inner_part(of.extent);
        const std::size_t size = volume(region) * format.size;
        const std::size_t offset = 16;
        bytes expected = random_bytes(offset + size + 9, 3);
        const memory_handle buffer = make_buffer(expected.size(), expected.data());
        source.write_all(m.queue(0), 1);
        target.write_all(m.queue(2), 2);
        CL_OK(clEnqueueCopyImageToBuffer(m.queue(1), source.image, buffer, origin.data(),
                                         region.data(), offset, 0, nullptr, nullptr));
        const layout tight{region[0] * format.size, region[0] * region[1] * format.size};
        copy_box(expected.data() + offset, tight, source.at(origin), source.tight(), region,
                 format.size);
        CL_OK(clFinish(m.queue(1)));
        bytes found(expected.size());
        CL_OK(clEnqueueReadBuffer(m.queue(0), buffer, CL_TRUE, 0, found.size(), found.data(), 0,
                                  nullptr, nullptr));
        CHECK(found == expected);

        CL_OK(clEnqueueCopyBufferToImage(m.queue(2), buffer, target.image, offset, origin.data(),
                                         region.data(), 0, nullptr, nullptr));
        copy_box(target.at(origin), target.tight(), expected.data() + offset, tight, region,
                 format.size);
        CL_OK(clFinish(m.queue(2)));
        target.check(m.queue(1));
    });
}

TEST_CASE("an image of a buffer shares the buffer's bytes") {
    const machine &m = machine::get();
    cl_uint alignment = 0;
    CL_OK(clGetDeviceInfo(m.devices[0], CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof alignment, &alignment,
                          nullptr));
    const std::size_t begin = alignment / 8;
    bytes expected = random_bytes(begin + 4096, 1);
    const memory_handle buffer = make_buffer(expected.size(), expected.data());
    cl_image_desc desc{};
    desc.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER;
    desc.image_width = 100;
    desc.buffer = buffer;
    cl_int code = CL_SUCCESS;
    const memory_handle image(
        clCreateImage(m.context, CL_MEM_READ_WRITE, &formats[0].format, &desc, nullptr, &code));
    CL_OK(code);
    cl_mem associated = nullptr;
    CL_OK(clGetMemObjectInfo(image, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof associated, &associated,
                             nullptr));
    CHECK(associated == buffer);
    const box origin{};
    const box region{100, 1, 1};
    bytes found(400);
    for (std::size_t i = 0; i < m.count(); ++i) {
        bytes some = random_bytes(40, static_cast<unsigned>(i));
        CL_OK(clEnqueueWriteBuffer(m.queue(i), buffer, CL_TRUE, 20, some.size(), some.data(), 0,
                                   nullptr, nullptr));
        std::copy(some.begin(), some.end(), expected.begin() + 20);
        CL_OK(clEnqueueReadImage(m.queue(i + 1), image, CL_TRUE, origin.data(), region.data(), 0, 0,
                                 found.data(), 0, nullptr, nullptr));
        CHECK(found == bytes(expected.begin(), expected.begin() + 400));
        const box at{50, 0, 0};
        const box part{10, 1, 1};
        CL_OK(clEnqueueWriteImage(m.queue(i), image, CL_TRUE, at.data(), part.data(), 0, 0,
                                  some.data(), 0, nullptr, nullptr));
        std::copy(some.begin(), some.end(), expected.begin() + 200);
        bytes all(expected.size());
        CL_OK(clEnqueueReadBuffer(m.queue(i + 1), buffer, CL_TRUE, 0, all.size(), all.data(), 0,
                                  nullptr, nullptr));
        CHECK(all == expected);
    }
    const memory_handle result = make_buffer(sizeof(cl_uint));
    const kernel_handle kernel = make_kernel("sum_buffer");
    set_memory(kernel, 0, image);
    set_memory(kernel, 1, result);
    set_argument(kernel, 2, cl_int{100});  // PoCL 3.1 can't query such an image's width in a kernel
    cl_uint sum = 0;
    for (std::size_t x = 0; x < 100; ++x) sum += expected[4 * x];
    for (std::size_t i = 0; i < m.count(); ++i) {
        const std::size_t one = 1;
        cl_uint got = 0;
        CL_OK(clEnqueueNDRangeKernel(m.queue(i), kernel, 1, nullptr, &one, nullptr, 0, nullptr,
                                     nullptr));
        CL_OK(clEnqueueReadBuffer(m.queue(i), result, CL_TRUE, 0, sizeof got, &got, 0, nullptr,
                                  nullptr));
        CHECK(got == sum);
    }
}

TEST_CASE("a 2D image of a buffer shares its bytes, if all devices have such images") {
    const machine &m = machine::get();
    const bool possible = std::all_of(m.devices.begin(), m.devices.end(), [](cl_device_id device) {
        return text_of(device, CL_DEVICE_EXTENSIONS).find("cl_khr_image2d_from_buffer") !=
               std::string::npos;
    });
    if (!possible) {
        MESSAGE("skipped: a device lacks cl_khr_image2d_from_buffer");
        return;
    }
    cl_uint pixels = 0;
    CL_OK(clGetDeviceInfo(m.devices[0], CL_DEVICE_IMAGE_PITCH_ALIGNMENT, sizeof pixels, &pixels,
                          nullptr));
    const std::size_t pitch = std::max<std::size_t>(pixels, 16) * 4;
    bytes expected = random_bytes(pitch * 5, 1);
    const memory_handle buffer = make_buffer(expected.size(), expected.data());
    cl_image_desc desc{};
    desc.image_type = CL_MEM_OBJECT_IMAGE2D;
    desc.image_width = 11;
    desc.image_height = 5;
    desc.image_row_pitch = pitch;
    desc.buffer = buffer;
    cl_int code = CL_SUCCESS;
    const memory_handle image(
        clCreateImage(m.context, CL_MEM_READ_WRITE, &formats[0].format, &desc, nullptr, &code));
    CL_OK(code);
    const box origin{};
    const box region{11, 5, 1};
    for (std::size_t i = 0; i < m.count(); ++i) {
        const bytes rows = random_bytes(44 * 5, static_cast<unsigned>(i));
        CL_OK(clEnqueueWriteImage(m.queue(i), image, CL_TRUE, origin.data(), region.data(), 0, 0,
                                  rows.data(), 0, nullptr, nullptr));
        copy_box(expected.data(), {pitch, 0}, rows.data(), {44, 0}, region, 4);
        bytes found(expected.size());
        CL_OK(clEnqueueReadBuffer(m.queue(i + 1), buffer, CL_TRUE, 0, found.size(), found.data(), 0,
                                  nullptr, nullptr));
        CHECK(found == expected);
    }
}

// ---- Mapping ----------------------------------------------------------------------------------

TEST_CASE("parts are mapped for reading, for writing and for overwriting") {
    const machine &m = machine::get();
    for_all_images([&](const shape &of, const pixel_format &format) {
        tested_image tested(of, format);
        const auto [inner_origin, inner_region] = inner_part(of.extent);
        for (const bool whole : {true, false})
            for (const cl_map_flags flags : {cl_map_flags{CL_MAP_READ}, cl_map_flags{CL_MAP_WRITE},
                                             cl_map_flags{CL_MAP_READ | CL_MAP_WRITE},
                                             cl_map_flags{CL_MAP_WRITE_INVALIDATE_REGION}}) {
                CAPTURE(whole);
                CAPTURE(flags);
                const box origin = whole ? box{} : inner_origin;
                const box region = whole ? of.extent : inner_region;
                tested.write_all(m.queue(0), static_cast<unsigned>(flags));
                std::size_t row = 0;
                std::size_t slice = 0;
                cl_int code = CL_SUCCESS;
                auto *const mapped = static_cast<unsigned char *>(
                    clEnqueueMapImage(m.queue(1), tested.image, CL_TRUE, flags, origin.data(),
                                      region.data(), &row, &slice, 0, nullptr, nullptr, &code));
                CL_OK(code);
                REQUIRE(mapped != nullptr);
                cl_uint count = 0;
                CL_OK(clGetMemObjectInfo(tested.image, CL_MEM_MAP_COUNT, sizeof count, &count,
                                         nullptr));
                // PoCL 3.1 counts mappings of a 1D buffer image for its buffer.
                const bool counts = of.type != CL_MEM_OBJECT_IMAGE1D_BUFFER || on_cluster();
                if (counts) CHECK(count == 1);
                const layout host{of.type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice : row, slice};
                const layout tight{region[0] * format.size, region[0] * region[1] * format.size};
                bytes part(volume(region) * format.size);
                if ((flags & (CL_MAP_READ | CL_MAP_WRITE)) != 0) {
                    bytes expected(part.size());
                    copy_box(expected.data(), tight, tested.at(origin), tested.tight(), region,
                             format.size);
                    copy_box(part.data(), tight, mapped, host, region, format.size);
                    CHECK(part == expected);
                }
                if (flags != CL_MAP_READ) {
                    part = random_bytes(part.size(), static_cast<unsigned>(flags) + 10);
                    copy_box(mapped, host, part.data(), tight, region, format.size);
                    copy_box(tested.at(origin), tested.tight(), part.data(), tight, region,
                             format.size);
                }
                CL_OK(
                    clEnqueueUnmapMemObject(m.queue(1), tested.image, mapped, 0, nullptr, nullptr));
                CL_OK(clFinish(m.queue(1)));
                CL_OK(clGetMemObjectInfo(tested.image, CL_MEM_MAP_COUNT, sizeof count, &count,
                                         nullptr));
                CHECK(count == 0);
                for (std::size_t i = 0; i < m.count(); ++i) tested.check(m.queue(i));
            }
    });
}

TEST_CASE("the bytes of a non-blocking mapping have arrived when its event has ended") {
    const machine &m = machine::get();
    tested_image tested(shapes[5], formats[0]);
    tested.write_all(m.queue(0), 1);
    std::size_t row = 0;
    std::size_t slice = 0;
    cl_int code = CL_SUCCESS;
    const box origin{};
    event_handle there;
    void *const mapped =
        clEnqueueMapImage(m.queue(1), tested.image, CL_FALSE, CL_MAP_READ, origin.data(),
                          tested.of.extent.data(), &row, &slice, 0, nullptr, there.out(), &code);
    CL_OK(code);
    const cl_event event = there;
    CL_OK(clWaitForEvents(1, &event));
    bytes found(tested.expected.size());
    copy_box(found.data(), tested.tight(), static_cast<unsigned char *>(mapped), {row, slice},
             tested.of.extent, 4);
    CHECK(found == tested.expected);
    CL_OK(clEnqueueUnmapMemObject(m.queue(1), tested.image, mapped, 0, nullptr, nullptr));
    CL_OK(clFinish(m.queue(1)));
}

// ---- Kernels ----------------------------------------------------------------------------------

TEST_CASE("kernels on all devices pass an image on in a chain") {
    const machine &m = machine::get();
    const shape &of = shapes[3];
    const pixel_format format{"RGBA, float", {CL_RGBA, CL_FLOAT}, 16};
    tested_image one(of, format);
    tested_image other(of, format);
    std::vector<float> values(volume(of.extent) * 4);
    std::iota(values.begin(), values.end(), 0.0F);
    const box origin{};
    CL_OK(clEnqueueWriteImage(m.queue(0), one.image, CL_TRUE, origin.data(), of.extent.data(), 0, 0,
                              values.data(), 0, nullptr, nullptr));
    const kernel_handle kernel = make_kernel("add_2d");
    const cl_float4 what = {{1, 2, 3, 4}};
    set_argument(kernel, 2, what);
    const std::size_t rounds = 4 * m.count() + 1;
    for (std::size_t i = 0; i < rounds; ++i) {
        set_memory(kernel, 0, i % 2 == 0 ? one.image : other.image);
        set_memory(kernel, 1, i % 2 == 0 ? other.image : one.image);
        CL_OK(clEnqueueNDRangeKernel(m.queue(i), kernel, 2, nullptr, of.extent.data(), nullptr, 0,
                                     nullptr, nullptr));
        CL_OK(clFinish(m.queue(i)));
        for (std::size_t v = 0; v < values.size(); ++v) values[v] += what.s[v % 4];
    }
    std::vector<float> found(values.size());
    CL_OK(clEnqueueReadImage(m.queue(rounds), other.image, CL_TRUE, origin.data(), of.extent.data(),
                             0, 0, found.data(), 0, nullptr, nullptr));
    CHECK(found == values);
}

TEST_CASE("a kernel that writes a part of an image leaves the rest unchanged") {
    const machine &m = machine::get();
    const shape &of = shapes[4];
    tested_image source(of, formats[0]);
    tested_image target(of, formats[0]);
    const kernel_handle kernel = make_kernel("add_2d_array");
    set_memory(kernel, 0, source.image);
    set_memory(kernel, 1, target.image);
    set_argument(kernel, 2, cl_uint4{{0, 0, 0, 0}});
    for (std::size_t i = 0; i < m.count(); ++i) {
        source.write_all(m.queue(i), static_cast<unsigned>(i));
        target.write_all(m.queue(i), static_cast<unsigned>(i + 100));
        const box part{of.extent[0], 2, 2};
        CL_OK(clEnqueueNDRangeKernel(m.queue(i + 1), kernel, 3, nullptr, part.data(), nullptr, 0,
                                     nullptr, nullptr));
        CL_OK(clFinish(m.queue(i + 1)));
        const box origin{};
        copy_box(target.at(origin), target.tight(), source.at(origin), source.tight(), part,
                 target.element);
        target.check(m.queue(i));
    }
}

TEST_CASE("kernels read images of one and three dimensions, and with samplers") {
    const machine &m = machine::get();
    const memory_handle result = make_buffer(16 * 8);
    const pixel_format format{"R, 32 bits", {CL_R, CL_UNSIGNED_INT32}, 4};
    for (const auto &[kernel_name, of] :
         {std::pair{"sum_1d", shapes[0]}, std::pair{"sum_3d", shapes[5]}}) {
        const std::string name = kernel_name;
        CAPTURE(name);
        tested_image tested(of, format);
        tested.write_all(m.queue(0), 5);
        std::vector<cl_uint> values(volume(of.extent));
        std::memcpy(values.data(), tested.expected.data(), tested.expected.size());
        const cl_uint sum = std::accumulate(values.begin(), values.end(), cl_uint{0});
        const kernel_handle kernel = make_kernel(kernel_name);
        set_memory(kernel, 0, tested.image);
        set_memory(kernel, 1, result);
        for (std::size_t i = 0; i < m.count(); ++i) {
            const std::size_t one = 1;
            cl_uint got = 0;
            CL_OK(clEnqueueNDRangeKernel(m.queue(i), kernel, 1, nullptr, &one, nullptr, 0, nullptr,
                                         nullptr));
            CL_OK(clEnqueueReadBuffer(m.queue(i), result, CL_TRUE, 0, sizeof got, &got, 0, nullptr,
                                      nullptr));
            CHECK(got == sum);
        }
    }
    tested_image row({"2D", CL_MEM_OBJECT_IMAGE2D, {8, 1, 1}},
                     {"RGBA, float", {CL_RGBA, CL_FLOAT}, 16});
    std::vector<float> values(32);
    std::iota(values.begin(), values.end(), 0.0F);
    const box origin{};
    CL_OK(clEnqueueWriteImage(m.queue(0), row.image, CL_TRUE, origin.data(), row.of.extent.data(),
                              0, 0, values.data(), 0, nullptr, nullptr));
    cl_int code = CL_SUCCESS;
    const sampler_handle nearest(
        clCreateSampler(m.context, CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, &code));
    CL_OK(code);
    const kernel_handle kernel = make_kernel("sample");
    set_memory(kernel, 0, row.image);
    set_argument(kernel, 1, static_cast<cl_sampler>(nearest));
    set_memory(kernel, 2, result);
    for (std::size_t i = 0; i < m.count(); ++i) {
        const std::size_t seven = 7;
        std::vector<float> got(28);
        CL_OK(clEnqueueNDRangeKernel(m.queue(i), kernel, 1, nullptr, &seven, nullptr, 0, nullptr,
                                     nullptr));
        CL_OK(clEnqueueReadBuffer(m.queue(i), result, CL_TRUE, 0, got.size() * sizeof(float),
                                  got.data(), 0, nullptr, nullptr));
        CHECK(got == std::vector<float>(values.begin() + 4, values.end()));
    }
}

// ---- A random program -------------------------------------------------------------------------

TEST_CASE("a random program on many devices has the same result as on one array") {
    const machine &m = machine::get();
    const char *const seed = std::getenv("CLDIST_TEST_SEED");
    std::mt19937 random(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 1);
    const auto below = [&random](std::size_t end) {
        return static_cast<std::size_t>(random() % end);
    };
    const pixel_format &format = formats[0];
    std::vector<tested_image> images;
    for (const shape &of : shapes) {
        if (of.type == CL_MEM_OBJECT_IMAGE1D_BUFFER && !on_cluster()) continue;  // PoCL 3.1 crashes
        if (of.type == CL_MEM_OBJECT_IMAGE1D_ARRAY && !copies_arrays_of_1d_images()) continue;
        images.emplace_back(of, format);
        images.back().write_all(m.queue(below(m.count())), static_cast<unsigned>(images.size()));
    }
    bytes expected = random_bytes(4096, 99);
    const memory_handle buffer = make_buffer(expected.size(), expected.data());
    event_handle last;  // event of the previous step
    for (int step = 0; step < 400; ++step) {
        CAPTURE(step);
        const cl_command_queue queue = m.queue(below(m.count()));
        tested_image &image = images[below(images.size())];
        CAPTURE(image.of.name);
        box origin{};
        box region{};
        for (std::size_t i = 0; i < 3; ++i) {
            region[i] = below(2) == 0 ? image.of.extent[i] : 1 + below(image.of.extent[i]);
            origin[i] = below(image.of.extent[i] - region[i] + 1);
        }
        const layout tight{region[0] * 4, region[0] * region[1] * 4};
        const std::size_t size = volume(region) * 4;
        const std::size_t offset = 4 * below((expected.size() - size) / 4 + 1);
        const event_handle before = std::move(last);
        last = event_handle();
        const cl_event wait = before;
        const cl_uint waits = wait != nullptr ? 1 : 0;
        const cl_event *const wait_list = wait != nullptr ? &wait : nullptr;
        switch (below(6)) {
            case 0: {
                const bytes some = random_bytes(size, random());
                CL_OK(clEnqueueWriteImage(queue, image.image, CL_TRUE, origin.data(), region.data(),
                                          0, 0, some.data(), waits, wait_list, last.out()));
                copy_box(image.at(origin), image.tight(), some.data(), tight, region, 4);
                break;
            }
            case 1: {
                bytes found(size);
                bytes wanted(size);
                CL_OK(clEnqueueReadImage(queue, image.image, CL_TRUE, origin.data(), region.data(),
                                         0, 0, found.data(), waits, wait_list, last.out()));
                copy_box(wanted.data(), tight, image.at(origin), image.tight(), region, 4);
                CHECK(found == wanted);
                break;
            }
            case 2: {
                CL_OK(clEnqueueCopyImageToBuffer(queue, image.image, buffer, origin.data(),
                                                 region.data(), offset, waits, wait_list,
                                                 last.out()));
                copy_box(expected.data() + offset, tight, image.at(origin), image.tight(), region,
                         4);
                break;
            }
            case 3: {
                CL_OK(clEnqueueCopyBufferToImage(queue, buffer, image.image, offset, origin.data(),
                                                 region.data(), waits, wait_list, last.out()));
                copy_box(image.at(origin), image.tight(), expected.data() + offset, tight, region,
                         4);
                break;
            }
            case 4: {
                std::size_t row = 0;
                std::size_t slice = 0;
                cl_int code = CL_SUCCESS;
                auto *const mapped = static_cast<unsigned char *>(clEnqueueMapImage(
                    queue, image.image, CL_TRUE, CL_MAP_WRITE, origin.data(), region.data(), &row,
                    &slice, waits, wait_list, nullptr, &code));
                CL_OK(code);
                const bytes some = random_bytes(region[0] * 4, random());
                std::copy(some.begin(), some.end(), mapped);
                std::copy(some.begin(), some.end(), image.at(origin));
                CL_OK(clEnqueueUnmapMemObject(queue, image.image, mapped, 0, nullptr, last.out()));
                break;
            }
            default: {
                bytes found(expected.size());
                CL_OK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, found.size(), found.data(),
                                          waits, wait_list, last.out()));
                CHECK(found == expected);
            }
        }
        CL_OK(clFlush(queue));
    }
    for (const cl_command_queue queue : m.queues) CL_OK(clFinish(queue));
    for (const tested_image &image : images)
        for (const cl_command_queue queue : m.queues) image.check(queue);
}

}  // namespace images_test
