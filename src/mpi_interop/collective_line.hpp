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
#include "pipeline/endpoint.hpp"

namespace cldist {

/// The library's own communicator that reaches all processes of a program's one, and the numbers that its collectives use.
struct CollectiveRoutes {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm self = MPI_COMM_NULL;  ///< of this process alone
    std::vector<int> ranks{};       ///< there, of each process of the program's communicator
    std::shared_ptr<Channels> contexts{};
};

/// The FIFO of the collective commands on one communicator of the program, and the tags of their messages on the library's
/// communicator. The first command posts its messages, then leaves, so that all processes send and receive in the order in
/// which the commands were enqueued.
///
/// Each process chooses the tags of the messages to itself: no two of its communicators have the same. The processes
/// exchange their choices by one non-blocking collective on the program's communicator. The call that enqueues the first
/// command makes it, and programs make these calls in the order of their own collectives (docs/dev/decisions/0027).
class CollectiveLine : public Line {
public:
    /// So many exchanges of messages on one communicator may be in flight at once.
    static constexpr int window = 16;
    /// Contexts for which MPI has tags; the largest two tags remain.
    static int largest_context(int max_tag) { return (max_tag - 2 - window) / window; }

    /// Begins the exchange of the tags: collective over `comm`, but does not wait. Throws an Error.
    CollectiveLine(MPI_Comm comm, CollectiveRoutes routes);
    CollectiveLine(const CollectiveLine &) = delete;
    CollectiveLine &operator=(const CollectiveLine &) = delete;
    ~CollectiveLine();

    /// Whether the tags are known; nothing while other processes are missing. For the command that is first.
    Outcome ready();
    /// Whether ready() has returned success.
    [[nodiscard]] bool agreed() const { return agreed_; }
    /// Whether a process compares the calls of all (CLDIST_CHECK). Once ready().
    [[nodiscard]] bool compares_calls() const { return compares_calls_; }

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return static_cast<int>(routes_.ranks.size()); }
    /// As the program named it.
    [[nodiscard]] const std::string &name() const { return name_; }

    // Values of the library's communicator.
    [[nodiscard]] MPI_Comm comm() const { return routes_.comm; }
    [[nodiscard]] MPI_Comm self() const { return routes_.self; }
    [[nodiscard]] const std::vector<int> &ranks() const { return routes_.ranks; }
    /// For messages to `rank` in the exchange with that number; to this process with its own rank. Once ready().
    [[nodiscard]] int tag(int rank, unsigned exchange) const {
        return context(rank) * window + static_cast<int>(exchange % window);
    }
    /// The number that `rank` has chosen. Once ready().
    [[nodiscard]] int context(int rank) const { return numbers_->all[static_cast<std::size_t>(rank)].context; }
    [[nodiscard]] int own_context() const { return numbers_->own.context; }

    /// The number of a new exchange; nothing while `window` are in flight. For the command that is first.
    std::optional<unsigned> begin_exchange();
    void end_exchange(unsigned exchange) { in_flight_[exchange % window] = false; }

    /// Numbers a command, and lists it until it is removed. `call` describes it.
    std::uint64_t add(std::shared_ptr<const Record> record, std::function<std::string()> call);
    void remove(std::uint64_t number);
    struct Pending {
        std::uint64_t number;
        std::shared_ptr<const Record> record;
        std::string call;
    };
    /// The first `most`.
    [[nodiscard]] std::vector<Pending> pending(std::size_t most) const;
    /// How many commands there have been.
    [[nodiscard]] std::uint64_t commands() const;

private:
    const CollectiveRoutes routes_;
    int rank_ = 0;
    std::string name_;
    /// What the processes exchange.
    struct Choice {
        int context = -1;
        int compares_calls = 0;
    };
    struct Numbers {
        MPI_Request request = MPI_REQUEST_NULL;
        Choice own;
        std::vector<Choice> all;  ///< of each process
    };
    std::unique_ptr<Numbers> numbers_ = std::make_unique<Numbers>();
    Outcome made_;
    std::atomic<bool> agreed_ = false;
    bool compares_calls_ = false;
    unsigned next_exchange_ = 0;
    std::array<std::atomic<bool>, window> in_flight_{};

    mutable std::mutex mutex_;
    std::uint64_t commands_ = 0;
    struct Listed {
        std::shared_ptr<const Record> record;
        std::function<std::string()> call;
    };
    std::map<std::uint64_t, Listed> pending_;
};

}  // namespace cldist
