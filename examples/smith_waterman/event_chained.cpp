#include "hosts.hpp"

#include <CL/cl_ext_dist.h>

#include <array>

namespace smith_waterman {
namespace {

/// Adds the times of a complete transfer's stages.
void add(Times &sum, const Event &transfer) {
    std::array<cl_transfer_stage, 8> stages;
    std::size_t size;
    check(
        clGetTransferInfo(transfer.get(), CL_TRANSFER_STAGES, sizeof stages, stages.data(), &size),
        "clGetTransferInfo");
    for (std::size_t n = 0; n < size / sizeof stages[0]; ++n) {
        const double seconds = double(stages[n].end - stages[n].start) * 1e-9;
        if (stages[n].stage == CL_STAGE_FILE) sum.file += seconds;
        if (stages[n].stage == CL_STAGE_DEVICE) sum.copy += seconds;
    }
}

}  // namespace

// One in-order queue reads the file chunk by chunk, another one computes. A kernel waits for the
// read of its chunk. A read waits for the kernel of the last chunk in its buffer. The host enqueues
// everything and waits at the end. With many chunks, it also waits from time to time for kernels
// that were enqueued long before.
Times run_event_chained(Search &search, std::FILE *file) {
    const Queue files = search.make_queue(), kernels = search.make_queue();
    const std::size_t chunks = search.chunks().size();
    std::vector<Event> read(chunks), computed(chunks);
    Times times;
    std::size_t complete = 0;

    const auto wait_for = [&](std::size_t count) {
        wait(computed[count - 1]);
        for (; complete < count; ++complete) {
            times.kernels += duration(computed[complete]);
            add(times, read[complete]);
            computed[complete] = Event();
            read[complete] = Event();
        }
    };

    for (std::size_t n = 0; n < chunks; ++n) {
        if (n % in_a_round == 0 && n > in_a_round) wait_for(n - in_a_round);
        const WaitList buffer_free{n < search.buffers() ? nullptr
                                                        : computed[n - search.buffers()].get()};
        check(clEnqueueWriteBufferFromStdioFile(files.get(), search.buffer(n), CL_FALSE, 0,
                                                search.size_of(n), file, buffer_free.count(),
                                                buffer_free.data(), read[n].put()),
              "clEnqueueWriteBufferFromStdioFile");
        computed[n] = search.enqueue_kernel(kernels, n, {read[n].get()});
    }
    wait_for(chunks);
    return times;
}

}  // namespace smith_waterman
