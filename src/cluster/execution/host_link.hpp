#pragma once

#include <cstddef>
#include <span>

namespace cldist::cluster {

/// Where the program runs, as this process sees it.
enum class HostRole {
    replicated,  ///< in every process
    central,     ///< in this process alone: the others follow its calls (docs/dev/decisions/0035)
    follower,    ///< in process 0 alone, which is another process
};

/// With a central host: what goes with the record of the call that is being made, to all processes
/// that follow. Under the lock.
class HostLink {
public:
    HostLink() = default;
    HostLink(const HostLink &) = delete;
    HostLink &operator=(const HostLink &) = delete;
    virtual ~HostLink() = default;

    /// In the host: `kind` is the caller's.
    virtual void give(unsigned kind, std::span<const std::byte> bytes) = 0;
    struct Given {
        unsigned kind;
        std::span<const std::byte> bytes;  ///< until the next call
    };
    /// In the others, as often as the host gives.
    virtual Given take() = 0;
};

}  // namespace cldist::cluster
