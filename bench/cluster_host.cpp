/// Measures copies between a device and the program's memory. Prints the time of the non-blocking
/// call, the time until its copy is complete, the rate of several copies in a row, and the time of
/// a blocking call. The memory is pageable, or mapped and therefore page-locked. Checks the bytes
/// of one read per round.
#include <cstring>

#include "common.hpp"

using namespace cluster;

namespace {

constexpr std::size_t largest = std::size_t{64} << 20U;
constexpr int row = 8;  ///< number of copies in a row

/// A buffer that stays mapped.
class Mapped {
public:
    Mapped(const Devices &devices, std::size_t size)
        : queue_(devices.queue(0)),
          buffer_(devices.buffer(size, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR)) {
        cl_int code = CL_SUCCESS;
        memory_ = static_cast<std::byte *>(clEnqueueMapBuffer(queue_, buffer_.get(), CL_TRUE,
                                                              CL_MAP_READ | CL_MAP_WRITE, 0, size,
                                                              0, nullptr, nullptr, &code));
        check(code, "clEnqueueMapBuffer");
    }
    Mapped(const Mapped &) = delete;
    Mapped &operator=(const Mapped &) = delete;
    ~Mapped() {
        clEnqueueUnmapMemObject(queue_, buffer_.get(), memory_, 0, nullptr, nullptr);
        clFinish(queue_);
    }
    std::byte *memory() const { return memory_; }

private:
    cl_command_queue queue_;
    Buffer buffer_;
    std::byte *memory_ = nullptr;
};

std::byte expected(std::size_t at, int round) {
    return std::byte((at * 7 + std::size_t(round)) & 0xff);
}

struct Times {
    std::vector<double> call, done, row, blocking;
};

void measure_copies(const Options &options) {
    const Devices devices(1, std::size_t(-1));
    const cl_command_queue queue = devices.queue(0);
    const Buffer buffer = devices.buffer(largest);
    const Mapped mapped(devices, largest);
    std::vector<std::byte> ordinary(largest), data(largest);
    fmt::print(
        "| size | memory | direction | call us | done us | in a row GB/s | blocking us |\n"
        "|---:|---|---|---:|---:|---:|---:|\n");
    for (std::size_t size = 4096; size <= largest; size *= 4) {
        Times times[2][2];
        for (int round = 0; round <= options.repeat; ++round) {
            for (std::size_t at = 0; at < size; ++at) data[at] = expected(at, round);
            for (const bool is_mapped : {false, true}) {
                std::byte *const memory = is_mapped ? mapped.memory() : ordinary.data();
                for (const bool reads : {false, true}) {
                    Times &of = times[is_mapped ? 1 : 0][reads ? 1 : 0];
                    const auto copy = [&](cl_bool blocking, cl_event *event) {
                        check(reads ? clEnqueueReadBuffer(queue, buffer.get(), blocking, 0, size,
                                                          memory, 0, nullptr, event)
                                    : clEnqueueWriteBuffer(queue, buffer.get(), blocking, 0, size,
                                                           memory, 0, nullptr, event),
                              "the copy");
                    };
                    if (reads)
                        std::memset(memory, 0, size);
                    else
                        std::memcpy(memory, data.data(), size);
                    cl_event event = nullptr;
                    const double start = now();
                    copy(CL_FALSE, &event);
                    const double called = now();
                    check(clWaitForEvents(1, &event), "clWaitForEvents");
                    const double done = now();
                    clReleaseEvent(event);
                    if (reads && std::memcmp(memory, data.data(), size) != 0)
                        refuse("the read data is wrong");
                    const double begin = now();
                    for (int i = 0; i < row; ++i) copy(CL_FALSE, nullptr);
                    check(clFinish(queue), "clFinish");
                    const double end = now();
                    copy(CL_TRUE, nullptr);
                    const double last = now();
                    if (round == 0) continue;
                    of.call.push_back((called - start) * 1e6);
                    of.done.push_back((done - start) * 1e6);
                    of.row.push_back(row * double(size) / (end - begin) * 1e-9);
                    of.blocking.push_back((last - end) * 1e6);
                }
            }
        }
        for (const bool is_mapped : {false, true})
            for (const bool reads : {false, true}) {
                Times &of = times[is_mapped ? 1 : 0][reads ? 1 : 0];
                fmt::print("| {} KiB | {} | {} | {:.1f} | {:.1f} | {:.2f} | {:.1f} |\n",
                           size >> 10U, is_mapped ? "mapped" : "ordinary", reads ? "read" : "write",
                           median(of.call), median(of.done), median(of.row), median(of.blocking));
            }
        std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char **argv) {
    return run_program({"cluster_host",
                        "Measures copies between a device and the program's memory, from 4 KiB to "
                        "64 MiB; prints medians.",
                        nullptr,
                        nullptr,
                        {.repeat = 9, .check = false}},
                       argc, argv, measure_copies);
}
