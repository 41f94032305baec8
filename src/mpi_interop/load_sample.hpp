#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <CL/cl.h>

#include "mpi_interop/device_load.hpp"

namespace cldist {

/// The times of one message's kernel, from which DeviceLoad learns. Not thread-safe.
class LoadSample {
public:
    /// The message is enqueued in this round of DeviceLoad.
    void begin(unsigned round) { round_ = round; }
    /// Send: measure how long the kernel waits for the device. It may run when `before` has ended.
    void measure(cl_event before);
    void enqueued(std::uint64_t now_ns) { enqueued_ns_ = now_ns; }
    /// Send: the kernel runs.
    void runs(DeviceLoad &load, std::size_t bytes) const;
    /// Receive: the kernel may run.
    void released(std::uint64_t now_ns) { released_ns_ = now_ns; }
    /// Receive: the kernel has ended.
    void ended(DeviceLoad &load, std::size_t bytes) const;

private:
    unsigned round_ = 0;
    std::uint64_t enqueued_ns_ = 0;
    std::uint64_t released_ns_ = 0;
    /// The time from which on a send's kernel may run; 0 if it is not known yet. Null if it is not
    /// measured.
    std::shared_ptr<std::atomic<std::uint64_t>> may_run_ns_;
};

}  // namespace cldist
