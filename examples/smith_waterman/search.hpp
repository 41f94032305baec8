#pragma once

#include "packed.hpp"
#include "protein.hpp"

#include "opencl.hpp"

#include <cstdio>
#include <memory>
#include <vector>

namespace smith_waterman {

using namespace examples;

struct CloseFile {
    void operator()(std::FILE *file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// The parts that all host programs use: the query and the index on a device, the kernel, and
/// rotating buffers for chunks.
class Search {
public:
    /// `lanes`: the number of proteins that a work-item computes at once, 1 or 16; 0 means 1 on
    /// GPUs and 16 on CPUs. `buffers`: the number of chunks that fit on the device. Throws
    /// std::invalid_argument if the query is too long for the device.
    Search(const Database &database, const Device &device, const Residues &query, Gap gap,
           int lanes, int buffers);

    /// Cuts the database into chunks of `block` bytes.
    void set_block(std::size_t block);

    const std::vector<Chunk> &chunks() const { return chunks_; }
    std::size_t size_of(std::size_t chunk) const {
        return chunks_[chunk].end - chunks_[chunk].begin;
    }
    std::size_t buffers() const { return residues_.size(); }
    cl_mem buffer(std::size_t chunk) const { return residues_[chunk % residues_.size()].get(); }
    static constexpr std::size_t host_blocks = 2;
    /// Page-locked memory for a chunk. Consecutive chunks use alternating blocks.
    std::byte *host_block(std::size_t chunk) const {
        return host_block_[chunk % host_blocks].data();
    }

    Queue make_queue() const { return examples::make_queue(context_, device_); }
    /// Opens the database's file, positioned at the first residue.
    File open() const;
    /// Enqueues the kernel of a chunk. It must run after the previous one, as in an in-order queue.
    Event enqueue_kernel(const Queue &queue, std::size_t chunk, const WaitList &after);

    /// Resets all scores.
    void reset();
    std::vector<int> scores() const;

private:
    const Database &database_;
    Device device_;
    Residues query_;
    bool is_wide_;       ///< whether a work-item computes 16 proteins
    std::size_t items_;  ///< the largest number of work-items of a launch
    Context context_;
    Queue queue_;
    Kernel kernel_;
    Buffer starts_, scores_, query_buffer_, blosum_, best_, gap_, carried_[2];
    std::vector<Chunk> chunks_;
    std::vector<Buffer> residues_;
    PinnedMemory host_block_[host_blocks];
};

/// Seconds between the start and the end of a complete command.
double duration(const Event &event);

}  // namespace smith_waterman
