#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mpi_interop/collective_exchange.hpp"
#include "mpi_interop/collective_operations.hpp"
#include "mpi_interop/collective_records.hpp"

namespace cldist {

/// A collective that the hosts carry out with messages. At its end all processes have agreed
/// whether any of them has failed. Its command must be first in the line until posted() is true.
class HostCollective {
public:
    /// The referenced objects must outlive it. `gate`: the result of the wait list. If it failed,
    /// the collective does not touch the buffers, but sends and receives what the other processes
    /// need.
    HostCollective(const Collective &what, const CollectiveSide &send, const CollectiveSide &recv,
                   const CollectiveTransport &transport, Record &record, Status gate);

    Progress poll();
    /// Returns true if no more messages will be posted, except for later rounds of exchanges that
    /// have begun.
    [[nodiscard]] bool posted() const { return agreement_.begun; }
    /// Returns true if it waits only for messages, whose ends call the transport's waker.
    [[nodiscard]] bool waits_for_messages() const {
        return agreement_.begun && steps_.storing == steps_.stored;
    }
    /// The first error, or success. Final after poll() has returned done.
    [[nodiscard]] const Status &status() const { return status_; }

private:
    /// A block in flight.
    struct Slot {
        std::byte *in = nullptr;
        std::byte *out = nullptr;
        std::byte *scratch = nullptr;
        std::deque<DeviceCommand> copies;
        CollectiveExchange exchange;
        std::shared_ptr<std::byte> copy_of_sent;
        std::uint64_t posted_ns = 0;
    };
    struct Staging {
        std::shared_ptr<std::byte> memory;
        bool in = false;  ///< the data to send is copied to it
        bool out = false;
    };
    /// The number of blocks, and how many of them have passed each step: copy from the device
    /// started, messages posted, copy to the device started, done.
    struct Steps {
        std::size_t blocks = 1;
        std::size_t loading = 0;
        std::size_t posted = 0;
        std::size_t storing = 0;
        std::size_t stored = 0;

        bool operator==(const Steps &) const = default;
    };
    /// What a process reports. The maximum of all processes applies.
    enum Result : int { devices_ready, success, failure };
    struct Agreement {
        bool begun = false;
        std::uint64_t begun_ns = 0;
        int result = success;
        std::array<int, 32> scratch{};
        CollectiveExchange exchange;
    };

    void begin_with_records();
    void begin_with_blocks();
    void check_operator();
    [[nodiscard]] bool in_place(const CollectiveSide &side) const;
    [[nodiscard]] std::size_t staged_size(const CollectiveSide &side) const;
    std::byte *stage(std::size_t size);

    void load(std::size_t block);
    bool post(std::size_t block);
    bool post_records(Slot &slot);
    bool exchanged(Slot &slot);
    void take_records_of_all(const Slot &slot);
    void store(std::size_t block);
    template <typename Copy, typename Enqueue>
    void copy_pieces(const CollectiveSide &side, std::size_t block, std::byte *memory, Copy copy,
                     Enqueue enqueue);
    bool copied(Slot &slot);
    void agree();
    [[nodiscard]] Result own_result() const;
    bool take_result();
    void end();

    Slot &slot(std::size_t block) { return slots_[block % slots_.size()]; }
    [[nodiscard]] std::size_t bytes_per_block() const;
    [[nodiscard]] Span span(std::size_t block) const;
    [[nodiscard]] Rounds rounds(std::size_t block) const;
    [[nodiscard]] std::byte *head_of(int rank) const;
    [[nodiscard]] std::byte *record_of(int rank) const { return head_of(rank) + Records::head; }
    [[nodiscard]] const CollectiveTraits &kind() const { return traits_of(what_.kind); }
    [[nodiscard]] CollectiveLine &line() const { return *transport_.line; }
    [[nodiscard]] Member me() const { return {line().rank(), line().size()}; }
    void fail(Status status) {
        if (status_.ok()) status_ = std::move(status);
    }

    const Collective &what_;
    const CollectiveSide &send_;
    const CollectiveSide &recv_;
    const CollectiveTransport &transport_;
    Record &record_;
    Status status_;
    Steps steps_;
    std::optional<Records> records_;  ///< in the staging memory, in the order of the ranks
    Staging staging_;
    std::vector<Slot> slots_;
    Agreement agreement_;
};

}  // namespace cldist
