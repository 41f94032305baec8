#pragma once

#include <cstddef>
#include <cstdint>

#include "cluster/calls/call_log.hpp"
#include "cluster/execution/transport.hpp"
#include "cluster/world/agreement.hpp"
#include "cluster/world/call_stream.hpp"

namespace cldist::cluster {

/// The job that this process is one of: which processes there are, and how they are spoken to.
class Job {
public:
    /// A process among those of its host.
    struct Place {
        std::uint32_t host = 0;  ///< the same for all of a host
        std::size_t number = 0;
        std::size_t count = 1;
    };

    Job() = default;
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    virtual ~Job() = default;

    virtual Agreement &agreement() = 0;
    virtual Transport &transport() = 0;
    /// The place of a process that this one speaks for (see Agreement).
    [[nodiscard]] virtual Place place_of(Process process) const = 0;

    /// The stream of a central host's calls. The first call is collective. Throws an Error.
    virtual CallStream &call_stream() = 0;
    /// There are several processes: from now on their calls are compared.
    virtual void compare(CallLog &calls) = 0;
    /// The program has ended, and its log says so. Returns when that holds for all processes.
    virtual void finish_comparison() = 0;
    /// All is done.
    virtual void end() = 0;
};

}  // namespace cldist::cluster
