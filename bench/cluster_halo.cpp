/// Exchanges halos between several devices through pageable memory, with one thread per device.
///
/// Each device has its own context and a cube of cells with 19 values each, as in lattice-Boltzmann
/// codes. The cubes form a ring. In a step, five values of each cell move up, and five move down.
/// Each thread reads the faces of its cube into memory from malloc, waits for the other threads,
/// and writes its neighbours' faces to its device. Prints million cell updates per second, and a
/// checksum of all values for comparison with other runs.
#include <barrier>
#include <thread>

#include "common.hpp"

using namespace cluster;

namespace {

constexpr std::size_t moving = 5, values = 19;

constexpr char source[] = R"CL(
kernel void start(global uint *to, uint device) {
    const size_t i = get_global_id(0);
    to[i] = (uint)i * 2654435761u + device;
}
// Faces: what leaves upwards, then what leaves downwards.
kernel void update(global const uint *from, global uint *to, global const uint *from_below, global const uint *from_above,
                   global uint *faces) {
    const size_t x = get_global_id(0), z = get_global_id(1), plane = get_global_size(0), side = get_global_size(1);
    const size_t cells = plane * side, cell = z * plane + x;
    uint value[19], sum = 0;
    for (int v = 0; v < 5; ++v) value[v] = z > 0 ? from[v * cells + cell - plane] : from_below[v * plane + x];
    for (int v = 5; v < 10; ++v) value[v] = z + 1 < side ? from[v * cells + cell + plane] : from_above[(v - 5) * plane + x];
    for (int v = 10; v < 19; ++v) value[v] = from[v * cells + cell];
    for (int v = 0; v < 19; ++v) sum = sum * 31u + value[v];
    for (int v = 0; v < 19; ++v) to[v * cells + cell] = value[v] * 3u + sum;
    if (z + 1 == side) for (int v = 0; v < 5; ++v) faces[v * plane + x] = value[v] * 3u + sum;
    if (z == 0) for (int v = 5; v < 10; ++v) faces[v * plane + x] = value[v] * 3u + sum;
}
kernel void add_up(global const uint *from, ulong count, global uint *sum) {
    uint mine = 0;
    for (size_t i = get_global_id(0); i < count; i += get_global_size(0)) mine += (from[i] ^ from[i] >> 15) * (2 * (uint)i + 1);
    atomic_add(sum, mine);
}
)CL";

std::vector<cl_uint> memory_for(std::size_t side) {
    return std::vector<cl_uint>(2 * moving * side * side);
}

struct Cube {
    Cube(cl_device_id device, cl_uint number, std::size_t side)
        : cells(side * side * side), plane(side * side) {
        cl_int code = CL_SUCCESS;
        context = Context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code));
        check(code, "clCreateContext");
        queue = Queue(clCreateCommandQueue(context.get(), device, 0, &code));
        check(code, "clCreateCommandQueue");
        const char *text = source;
        program = Program(clCreateProgramWithSource(context.get(), 1, &text, nullptr, &code));
        check(code, "clCreateProgramWithSource");
        check(clBuildProgram(program.get(), 1, &device, "", nullptr, nullptr), "clBuildProgram");
        update = make_kernel(program, "update");
        from = buffer(values * cells);
        to = buffer(values * cells);
        below = buffer(moving * plane);
        above = buffer(moving * plane);
        faces = buffer(2 * moving * plane);
        sum = buffer(1);
        const Kernel start = make_kernel(program, "start");
        set_arguments(start, from, number);
        launch(queue.get(), start, {values * cells});
        for (const Buffer *face : {&below, &above}) {
            set_arguments(start, *face, number);
            launch(queue.get(), start, {moving * plane});
        }
        check(clFinish(queue.get()), "clFinish");
    }

    Buffer buffer(std::size_t count) const {
        cl_int code = CL_SUCCESS;
        Buffer made(clCreateBuffer(context.get(), CL_MEM_READ_WRITE, count * sizeof(cl_uint),
                                   nullptr, &code));
        check(code, "clCreateBuffer");
        return made;
    }
    void compute_and_read(std::vector<cl_uint> &host) {
        set_arguments(update, from, to, below, above, faces);
        launch(queue.get(), update, {plane, cells / plane});
        std::swap(from, to);
        const std::size_t half = moving * plane * sizeof(cl_uint);
        for (std::size_t face = 0; face < 2; ++face)
            check(clEnqueueReadBuffer(queue.get(), faces.get(), CL_FALSE, face * half, half,
                                      host.data() + face * moving * plane, 0, nullptr, nullptr),
                  "clEnqueueReadBuffer");
        check(clFinish(queue.get()), "clFinish");
    }
    void write_faces(const std::vector<cl_uint> &lower, const std::vector<cl_uint> &upper) {
        write(queue.get(), below, std::span(lower).first(moving * plane));
        write(queue.get(), above, std::span(upper).last(moving * plane));
        check(clFlush(queue.get()), "clFlush");
    }
    cl_uint total() {
        cl_uint result = 0;
        const Kernel add_up = make_kernel(program, "add_up");
        set_arguments(add_up, from, cl_ulong(values * cells), sum);
        write(queue.get(), sum, std::span<const cl_uint>(&result, 1));
        launch(queue.get(), add_up, {65536});
        read(queue.get(), sum, CL_TRUE, std::span(&result, 1));
        return result;
    }

    const std::size_t cells, plane;
    Context context;
    Queue queue;
    Program program;
    Kernel update;
    Buffer from, to, below, above, faces, sum;
};

/// Returns a checksum of all values after the steps, and the seconds of each repetition.
std::pair<cl_uint, std::vector<double>> exchange(const std::vector<cl_device_id> &devices,
                                                 std::size_t side, int steps, int repeat) {
    const std::size_t count = devices.size();
    std::vector<std::vector<cl_uint>> host[2];
    for (auto &memories : host) memories.assign(count, memory_for(side));
    std::vector<double> seconds(std::size_t(repeat) + 1);
    std::vector<cl_uint> sums(count);
    std::barrier all(static_cast<std::ptrdiff_t>(count));
    const auto drive = [&](std::size_t d) {
        Cube cube(devices[d], cl_uint(d), side);
        for (double &of_run : seconds) {
            all.arrive_and_wait();
            const double begin = now();
            for (int step = 0; step < steps; ++step) {
                // Two memories alternate, because the previous step's writes may be pending.
                auto &memories = host[step % 2];
                cube.compute_and_read(memories[d]);
                all.arrive_and_wait();
                cube.write_faces(memories[(d + count - 1) % count], memories[(d + 1) % count]);
            }
            check(clFinish(cube.queue.get()), "clFinish");
            all.arrive_and_wait();
            if (d == 0) of_run = now() - begin;
        }
        sums[d] = cube.total();
    };
    std::vector<std::thread> threads;
    for (std::size_t d = 1; d < count; ++d) threads.emplace_back(drive, d);
    drive(0);
    for (std::thread &thread : threads) thread.join();
    seconds.erase(seconds.begin());  // the first run warmed up
    cl_uint sum = 0;
    for (const cl_uint part : sums) sum += part;
    return {sum, seconds};
}

/// Returns the same checksum, computed by the host.
cl_uint expected(std::size_t count, std::size_t side, int steps) {
    const std::size_t plane = side * side, cells = plane * side;
    std::vector<std::vector<cl_uint>> from(count, std::vector<cl_uint>(values * cells)), to = from;
    const auto initial = [](std::size_t i, std::size_t device) {
        return cl_uint(i) * 2654435761U + cl_uint(device);
    };
    for (std::size_t d = 0; d < count; ++d)
        for (std::size_t i = 0; i < values * cells; ++i) from[d][i] = initial(i, d);
    for (int step = 0; step < steps; ++step) {
        for (std::size_t d = 0; d < count; ++d)
            for (std::size_t cell = 0; cell < cells; ++cell) {
                const std::size_t z = cell / plane, x = cell % plane;
                cl_uint value[values], sum = 0;
                for (std::size_t v = 0; v < values; ++v) {
                    const std::size_t last = v * cells + (side - 1) * plane + x;
                    if (v >= 2 * moving)
                        value[v] = from[d][v * cells + cell];
                    else if (v < moving)
                        value[v] = z > 0      ? from[d][v * cells + cell - plane]
                                   : step > 0 ? from[(d + count - 1) % count][last]
                                              : initial(v * plane + x, d);
                    else
                        value[v] = z + 1 < side ? from[d][v * cells + cell + plane]
                                   : step > 0   ? from[(d + 1) % count][v * cells + x]
                                                : initial((v - moving) * plane + x, d);
                    sum = sum * 31U + value[v];
                }
                for (std::size_t v = 0; v < values; ++v)
                    to[d][v * cells + cell] = value[v] * 3U + sum;
            }
        from.swap(to);
    }
    cl_uint sum = 0;
    for (const auto &of_device : from)
        for (std::size_t i = 0; i < of_device.size(); ++i)
            sum += (of_device[i] ^ of_device[i] >> 15U) * (2 * cl_uint(i) + 1);
    return sum;
}

void measure_halos(const Options &options) {
    const std::vector<cl_device_id> devices = find_devices(options.devices);
    const std::size_t side = std::size_t(number(options.size.c_str(), 1));
    if (options.check) {
        constexpr std::size_t small = 24;
        constexpr int steps = 5;
        const cl_uint sum = exchange(devices, small, steps, 0).first;
        if (const cl_uint right = expected(devices.size(), small, steps); sum != right)
            throw std::runtime_error(
                fmt::format("the sum of {} values per device is {}, expected {}",
                            values * small * small * small, sum, right));
    }
    auto [sum, seconds] = exchange(devices, side, options.iterations, options.repeat);
    const double updates = double(devices.size()) * double(side * side * side) * options.iterations;
    fmt::print(
        "{{\"bench\": \"cluster_halo\", \"devices\": {}, \"side\": {}, \"face_bytes\": {}, "
        "\"mega_updates\": {:.0f}, "
        "\"us_per_step\": {:.1f}, \"sum\": {}}}\n",
        devices.size(), side, moving * side * side * sizeof(cl_uint),
        updates / median(seconds) / 1e6, median(seconds) / options.iterations * 1e6, sum);
}

}  // namespace

int main(int argc, char **argv) {
    return run_program(
        {"cluster_halo",
         "Exchanges halos through pageable memory, with one thread and one context per device.",
         "cells along an edge of each device's cube",
         "steps",
         {.size = "256", .iterations = 20, .repeat = 5}},
        argc, argv, measure_halos);
}
