#pragma once

#include <cstddef>
#include <cstdint>

#include "cluster/calls/call_log.hpp"
#include "cluster/execution/transport.hpp"
#include "cluster/world/agreement.hpp"
#include "cluster/world/call_stream.hpp"

namespace cldist::cluster {

/// The processes of the job that this process belongs to, and the communication with them.
class Job {
public:
    /// A process's position among the processes of its host.
    struct Place {
        std::uint32_t host = 0;  ///< identifies the host
        std::size_t number = 0;  ///< less than `count`
        std::size_t count = 1;   ///< processes on this host
    };

    Job() = default;
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    virtual ~Job() = default;

    virtual Agreement &agreement() = 0;
    virtual Transport &transport() = 0;
    /// Only if this process speaks for `process` (Agreement::speaks_for). May be collective.
    [[nodiscard]] virtual Place place_of(Process process) const = 0;

    /// The stream of a central host's calls. The first call is collective. Throws an Error.
    virtual CallStream &call_stream() = 0;
    /// Starts the comparison of the processes' calls. Not for a process alone.
    virtual void compare(CallLog & /*calls*/) {}
    /// Call it before the program gets results. If its threads call alternately and the job might
    /// start again, waits until all processes are known to have made the same calls, at most some
    /// seconds.
    virtual void confirm_calls() {}
    /// Call it when `program_end` is recorded. Returns when all processes have recorded it.
    virtual void finish_comparison() {}
    /// Ends the communication. Must be the last call.
    virtual void end() {}
};

}  // namespace cldist::cluster
