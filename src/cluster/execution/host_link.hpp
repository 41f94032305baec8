#pragma once

#include <cstddef>
#include <span>

namespace cldist::cluster {

/// Where the program runs, as this process sees it.
enum class HostRole {
    replicated,  ///< in every process
    central,     ///< only in this process; the others follow its calls (docs/dev/decisions/0035)
    follower,    ///< only in process 0, whose calls this process follows
};

/// With a central host: data that the host sends to all followers together with the record of the
/// current call. Under the lock.
class HostLink {
public:
    HostLink() = default;
    HostLink(const HostLink &) = delete;
    HostLink &operator=(const HostLink &) = delete;
    virtual ~HostLink() = default;

    /// Only in the host. The caller chooses the meaning of `kind`.
    virtual void give(unsigned kind, std::span<const std::byte> bytes) = 0;
    struct Given {
        unsigned kind;
        std::span<const std::byte> bytes;  ///< valid until the next call's record is read
    };
    /// Only in followers. Must be called as often as the host calls give().
    virtual Given take() = 0;
};

}  // namespace cldist::cluster
