#include "hosts.hpp"

#include <chrono>
#include <stdexcept>

namespace smith_waterman {

Times run_serial(Search &search, std::FILE *file) {
    using Clock = std::chrono::steady_clock;
    const auto seconds = [](Clock::time_point from, Clock::time_point to) {
        return std::chrono::duration<double>(to - from).count();
    };
    const Queue queue = search.make_queue();
    std::byte *block = search.host_block(0);
    Times times;

    for (std::size_t n = 0; n < search.chunks().size(); ++n) {
        const auto start = Clock::now();
        if (std::fread(block, 1, search.size_of(n), file) != search.size_of(n))
            throw std::runtime_error("the database ended early");
        const auto read = Clock::now();
        check(clEnqueueWriteBuffer(queue.get(), search.buffer(n), CL_TRUE, 0, search.size_of(n),
                                   block, 0, nullptr, nullptr),
              "writing a chunk");
        const auto written = Clock::now();
        const Event computed = search.enqueue_kernel(queue, n, {});
        check(clFinish(queue.get()), "clFinish");
        times.kernels += duration(computed);
        times.file += seconds(start, read);
        times.copy += seconds(read, written);
    }
    return times;
}

}  // namespace smith_waterman
