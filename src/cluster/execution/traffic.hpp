#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cluster/schedule/topology.hpp"

namespace cldist::cluster {

/// The contents of a message.
enum class Carries : std::uint8_t {
    data,       ///< bytes of buffers and images, and host memory that a remote command reads
    result,     ///< bytes that a read or a map delivers to the program
    end,        ///< the status of a command that has ended
    agreement,  ///< values that processes exchange during a call
    calls,      ///< a central host's calls
};
inline constexpr std::array carries_names{"buffer data", "results", "ends", "agreement", "calls"};

/// Counts the messages between this process and each other process. Thread-safe.
class Traffic {
public:
    struct Sum {
        std::uint64_t messages = 0;
        std::uint64_t bytes = 0;
    };
    using Sums = std::array<Sum, carries_names.size()>;
    struct Peer {
        Sums sent;
        Sums received;
    };

    explicit Traffic(Process processes) : peers_(processes) {}

    void sent(Process to, Carries what, std::size_t bytes) { add(&Peer::sent, to, what, bytes); }
    void received(Process from, Carries what, std::size_t bytes) {
        add(&Peer::received, from, what, bytes);
    }

    /// Indexed by rank.
    [[nodiscard]] std::vector<Peer> peers() const {
        const std::lock_guard lock(mutex_);
        return peers_;
    }

private:
    void add(Sums Peer::*direction, Process peer, Carries what, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        Sum &sum = (peers_[peer].*direction)[static_cast<std::size_t>(what)];
        ++sum.messages;
        sum.bytes += bytes;
    }

    mutable std::mutex mutex_;
    std::vector<Peer> peers_;
};

}  // namespace cldist::cluster
