#include "hosts.hpp"

#include <chrono>
#include <stdexcept>

namespace smith_waterman {

// The host reads chunks into two alternating blocks of memory, while the device computes earlier
// chunks. It waits until a block has been written to the device, and, like event-chained, from time
// to time for kernels that were enqueued long before.
Times run_hand_optimised(Search &search, std::FILE *file) {
    using Clock = std::chrono::steady_clock;
    const Queue writes = search.make_queue(), kernels = search.make_queue();
    const std::size_t chunks = search.chunks().size();
    std::vector<Event> written(chunks), computed(chunks);
    Times times;
    std::size_t complete = 0;

    const auto wait_for = [&](std::size_t count) {
        wait(computed[count - 1]);
        for (; complete < count; ++complete) {
            times.kernels += duration(computed[complete]);
            times.copy += duration(written[complete]);
            computed[complete] = Event();
            written[complete] = Event();
        }
    };

    for (std::size_t n = 0; n < chunks; ++n) {
        if (n % in_a_round == 0 && n > in_a_round) wait_for(n - in_a_round);
        std::byte *block = search.host_block(n);
        if (n >= Search::host_blocks) wait(written[n - Search::host_blocks]);
        const auto start = Clock::now();
        if (std::fread(block, 1, search.size_of(n), file) != search.size_of(n))
            throw std::runtime_error("the database ended early");
        times.file += std::chrono::duration<double>(Clock::now() - start).count();
        const WaitList buffer_free{n < search.buffers() ? nullptr
                                                        : computed[n - search.buffers()].get()};
        check(
            clEnqueueWriteBuffer(writes.get(), search.buffer(n), CL_FALSE, 0, search.size_of(n),
                                 block, buffer_free.count(), buffer_free.data(), written[n].put()),
            "writing a chunk");
        check(clFlush(writes.get()), "clFlush");
        computed[n] = search.enqueue_kernel(kernels, n, {written[n].get()});
    }
    wait_for(chunks);
    return times;
}

}  // namespace smith_waterman
