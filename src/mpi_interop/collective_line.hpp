#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

#include "base/line.hpp"
#include "events/record.hpp"
#include "mpi_interop/channels.hpp"
#include "mpi_interop/device_collectives.hpp"
#include "pipeline/endpoint.hpp"

namespace cldist {

/// The library's communicator that reaches all processes of a program's communicator, and the
/// numbers that its collectives use.
struct CollectiveRoutes {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm self = MPI_COMM_NULL;  ///< contains only this process
    /// Ranks in `comm` of the processes of the program's communicator.
    std::vector<int> ranks{};
    std::shared_ptr<Channels> contexts{};
    /// Null unless CLDIST_PATH=device and `ranks` are ranks in MPI_COMM_WORLD.
    std::shared_ptr<DeviceLinks> devices{};
};

/// The pending collective commands of one communicator. Thread-safe.
class PendingCollectives {
public:
    /// Lists a command until remove() and returns its number. `call` returns its description.
    std::uint64_t add(std::shared_ptr<const Record> record, std::function<std::string()> call);
    void remove(std::uint64_t number);
    struct Pending {
        std::uint64_t number;
        std::shared_ptr<const Record> record;
        std::string call;
    };
    /// The first `most` pending commands.
    [[nodiscard]] std::vector<Pending> first(std::size_t most) const;
    /// The time at which a command was last removed.
    [[nodiscard]] std::uint64_t last_removed() const;
    /// The number of commands ever added.
    [[nodiscard]] std::uint64_t added() const;

private:
    struct Listed {
        std::shared_ptr<const Record> record;
        std::function<std::string()> call;
    };

    mutable std::mutex mutex_;
    std::uint64_t added_ = 0;
    std::uint64_t last_removed_ns_ = 0;
    std::map<std::uint64_t, Listed> listed_;
};

/// The FIFO of the collective commands on one communicator of the program, and the tags of their
/// messages on the library's communicator. The first command posts its messages and then leaves.
/// All processes therefore send and receive in the order in which commands were enqueued.
///
/// Each process chooses the tags of the messages to itself, so that no two of its communicators
/// share a tag. The processes exchange these choices with one non-blocking collective on the
/// program's communicator. The call that enqueues the first command starts it. Programs make such
/// calls in the same order as their collectives (docs/dev/decisions/0027).
class CollectiveLine : public Line {
public:
    /// The largest number of exchanges in flight on one communicator.
    static constexpr int window = 16;
    /// The largest context for which MPI has enough tags. The two largest tags are reserved;
    /// CollectiveInquiries uses the largest.
    static int largest_context(int max_tag) { return (max_tag - 2 - window) / window; }

    /// Begins the exchange of the tags. Collective over `comm`, but does not wait. Throws an Error.
    CollectiveLine(MPI_Comm comm, CollectiveRoutes routes);
    ~CollectiveLine();

    /// Returns a result when the tags are known, and nothing while other processes are missing.
    /// Only for the first command.
    Outcome ready();
    /// Returns true after ready() has returned success.
    [[nodiscard]] bool agreed() const { return agreed_; }
    /// Returns true if any process set CLDIST_CHECK. Only after ready().
    [[nodiscard]] bool compares_calls() const { return compares_calls_; }

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return static_cast<int>(routes_.ranks.size()); }
    /// The name that the program gave the communicator.
    [[nodiscard]] const std::string &name() const { return name_; }

    // These refer to the library's communicator.
    [[nodiscard]] MPI_Comm comm() const { return routes_.comm; }
    [[nodiscard]] MPI_Comm self() const { return routes_.self; }
    [[nodiscard]] const std::vector<int> &ranks() const { return routes_.ranks; }
    /// The tag of messages to `rank` in the exchange with this number. A process uses its own rank
    /// for messages to itself. Only after ready().
    [[nodiscard]] int tag(int rank, unsigned exchange) const {
        return context(rank) * window + static_cast<int>(exchange % window);
    }
    /// The context that `rank` has chosen. Only after ready().
    [[nodiscard]] int context(int rank) const {
        return numbers_->all[static_cast<std::size_t>(rank)].context;
    }
    [[nodiscard]] int own_context() const { return numbers_->own.context; }

    /// Null if kernels never carry out commands of this line.
    [[nodiscard]] DeviceCollectives *devices() const { return devices_.get(); }

    /// Returns the number of a new exchange, or nothing while `window` exchanges are in flight.
    /// Only for the first command.
    std::optional<unsigned> begin_exchange();
    void end_exchange(unsigned exchange) { in_flight_[exchange % window] = false; }

    /// Contains each command of the line until it ends.
    [[nodiscard]] PendingCollectives &pending() { return pending_; }
    [[nodiscard]] const PendingCollectives &pending() const { return pending_; }

private:
    const CollectiveRoutes routes_;
    int rank_ = 0;
    std::string name_;
    std::unique_ptr<DeviceCollectives> devices_;
    /// The choices of one process, which all processes exchange.
    struct Choice {
        int context = -1;
        int compares_calls = 0;
        DeviceLinks::Arena arena;
    };
    struct Numbers {
        MPI_Request request = MPI_REQUEST_NULL;
        Choice own;
        std::vector<Choice> all;  ///< one per process
    };
    std::unique_ptr<Numbers> numbers_ = std::make_unique<Numbers>();
    Outcome made_;  ///< the result of ready()
    std::atomic<bool> agreed_ = false;
    bool compares_calls_ = false;
    unsigned next_exchange_ = 0;
    std::array<std::atomic<bool>, window> in_flight_{};
    PendingCollectives pending_;
};

}  // namespace cldist
