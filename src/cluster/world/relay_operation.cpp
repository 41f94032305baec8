#include "cluster/world/relay_operation.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "cluster/world/result_forward.hpp"
#include "cluster/world/send_turn.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist::cluster {
namespace {

constexpr std::size_t relay_piece = std::size_t{4} << 20U;
constexpr std::size_t relay_depth = 4;  // pieces whose receives are posted

// The largest result that the driving thread itself copies to the program's memory.
constexpr std::size_t copied_by_driver = 65536;

std::shared_ptr<Record> record_of_relay(const Wire &from, const std::vector<Wire> &to,
                                        std::size_t size) {
    if (from.comm != MPI_COMM_NULL) return record_of(Direction::recv, from, size);
    if (!to.empty()) return record_of(Direction::send, to.front(), size);
    return std::make_shared<Record>(Direction::event, MPI_UNDEFINED, MPI_UNDEFINED, MPI_ANY_TAG,
                                    size);
}

bool copies_directly(const Wire &wire, std::size_t size, const HostMemoryReach *reach) {
    return wire.comm != MPI_COMM_NULL && reach != nullptr && reach->has(wire.rank, size);
}

/// A result as processes pass it on: pieces of its bytes, and then the times, if any. If the parent
/// copies the bytes to the child's memory, it sends one byte in their place.
class RelayPieces {
public:
    enum Which { data_only, with_times };

    RelayPieces(std::span<std::byte> bytes, bool has_times)
        : bytes_(bytes), has_times_(has_times) {}

    [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
    [[nodiscard]] Times &times() { return times_; }
    /// The number of pieces.
    [[nodiscard]] std::size_t count(bool copies, Which which) const {
        const std::size_t data = copies ? 1 : (bytes_.size() + relay_piece - 1) / relay_piece;
        return data + (which == with_times && has_times_ ? 1 : 0);
    }
    [[nodiscard]] std::span<std::byte> piece(std::size_t number, bool copies) {
        if (number == count(copies, data_only)) return std::as_writable_bytes(std::span(times_));
        if (copies) return std::as_writable_bytes(std::span(&there_, 1));
        const std::size_t begin = number * relay_piece;
        return bytes_.subspan(begin, std::min(bytes_.size() - begin, relay_piece));
    }
    /// The number of bytes that are here if so many pieces are.
    [[nodiscard]] std::size_t bytes_in(std::size_t pieces, bool copies) const {
        if (pieces >= count(copies, data_only)) return bytes_.size();
        return copies ? 0 : pieces * relay_piece;
    }

private:
    const std::span<std::byte> bytes_;
    const bool has_times_;
    Times times_{};
    char there_ = 1;  ///< sent in place of the bytes
};

/// Receives the pieces from the process's parent. The root has them from the beginning.
class RelayReceives {
public:
    RelayReceives(const Wire &from, const HostMemoryReach *reach, RelayPieces &pieces,
                  MessageDriver &driver, const Waker &waker)
        : from_(from),
          copies_(copies_directly(from, pieces.bytes().size(), reach)),
          pieces_(pieces),
          driver_(driver),
          waker_(waker) {}

    void start(const HostMemoryReach *reach) {
        if (copies_)
            address_.send(reinterpret_cast<std::uint64_t>(pieces_.bytes().data()),
                          {reach->comm(), from_.rank, from_.tag}, driver_, waker_);
        post();
    }
    /// Posts the receives of the next pieces.
    void post() {
        if (is_root()) return;
        const std::size_t all = pieces_.count(copies_, RelayPieces::with_times);
        for (; posted_ < all && posted_ < arrived_ + relay_depth; ++posted_) {
            tickets_.emplace_back().waker = &waker_;
            const auto bytes = pieces_.piece(posted_, copies_);
            driver_.receive(bytes.data(), bytes.size(), from_.rank, from_.tag, from_.comm,
                            tickets_.back());
        }
    }
    /// Returns true if a piece has arrived that take() has not taken.
    [[nodiscard]] bool has_ended() const { return !tickets_.empty() && tickets_.front().done; }
    /// Takes the piece. The sender reports a failure by a piece that is too short.
    [[nodiscard]] Status take(Record &record) {
        const MessageTicket ticket = tickets_.front();
        tickets_.pop_front();
        const bool is_data = arrived_ < pieces_.count(copies_, RelayPieces::data_only);
        const std::size_t expected = pieces_.piece(arrived_, copies_).size();
        ++arrived_;
        if (ticket.error != MPI_SUCCESS) return mpi_failure(ticket.error, "MPI_Irecv");
        if (ticket.bytes != expected)
            return Status::failure(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                                   "the command failed in the process that owns its device");
        if (is_data) record.moved(copies_ ? pieces_.bytes().size() : ticket.bytes);
        return {};
    }

    [[nodiscard]] bool is_root() const { return from_.comm == MPI_COMM_NULL; }
    [[nodiscard]] bool has_some() const { return is_root() || arrived_ > 0; }
    [[nodiscard]] bool has_all() const {
        return is_root() || arrived_ == pieces_.count(copies_, RelayPieces::with_times);
    }
    [[nodiscard]] bool has_sent_address() const { return !copies_ || address_.done(); }
    /// The number of the result's bytes that are in this process.
    [[nodiscard]] std::size_t bytes_here() const {
        return is_root() ? pieces_.bytes().size() : pieces_.bytes_in(arrived_, copies_);
    }

private:
    const Wire from_;
    const bool copies_;  ///< the parent copies the bytes to this process's memory
    RelayPieces &pieces_;
    MessageDriver &driver_;
    const Waker &waker_;
    ObjectMessage<std::uint64_t> address_;  ///< of the result, for the parent
    std::size_t posted_ = 0;                ///< receives
    std::size_t arrived_ = 0;
    std::deque<MessageTicket> tickets_;
};

/// Sends the pieces to the process's children.
class RelaySends {
public:
    RelaySends(const std::vector<Wire> &to, const ResultForward *forward,
               const HostMemoryReach *reach, RelayPieces &pieces, MessageDriver &driver,
               const Waker &waker)
        : reach_(reach),
          has_targets_(forward != nullptr),
          pieces_(pieces),
          driver_(driver),
          waker_(waker) {
        if (forward != nullptr) {
            // MpiTransport::forward() has made it.
            auto target = static_cast<const ResultTargets &>(*forward).all().begin();
            for (const Wire &wire : to) children_.emplace_back(wire, *target++);
            return;
        }
        for (const Wire &wire : to)
            children_.emplace_back(wire, copies_directly(wire, pieces.bytes().size(), reach)
                                             ? std::make_shared<ResultTarget>(wire)
                                             : nullptr);
    }

    /// Posts the receives of the children's addresses.
    void start() {
        if (has_targets_) return;
        for (Child &child : children_) {
            if (child.target == nullptr) continue;
            ResultTarget &target = *child.target;
            target.ticket.waker = &waker_;
            driver_.receive(&target.address, sizeof target.address, child.wire.rank, child.wire.tag,
                            reach_->comm(), target.ticket);
        }
    }
    /// Returns true if the only message is small, so that the root needs a permission to send it.
    [[nodiscard]] bool is_small() {
        if (children_.empty()) return false;
        const bool copies = children_.front().target != nullptr;
        return pieces_.count(copies, RelayPieces::with_times) == 1 &&
               pieces_.piece(0, copies).size() <= small_message;
    }
    /// Passes on the pieces of `which` that are in the first `bytes_here` bytes. After a failure,
    /// including one that it sets, it sends empty pieces. Returns true if it has started a send.
    bool pass_on(std::size_t bytes_here, RelayPieces::Which which, Status &status) {
        bool sent = false;
        for (Child &child : children_) {
            const bool copies = child.target != nullptr;
            while (child.passed < pieces_.count(copies, which) &&
                   is_ready(child, bytes_here, status)) {
                tickets_.emplace_back().waker = &waker_;
                const auto bytes = pieces_.piece(child.passed++, copies);
                driver_.send(bytes.data(), status.ok() ? bytes.size() : 0, child.wire.rank,
                             child.wire.tag, child.wire.comm, tickets_.back());
                sent = true;
            }
        }
        return sent;
    }
    /// Returns true if the oldest send has ended.
    [[nodiscard]] bool has_ended() const { return !tickets_.empty() && tickets_.front().done; }
    /// Removes the oldest send, and returns its status.
    [[nodiscard]] Status take() {
        const int error = tickets_.front().error;
        tickets_.pop_front();
        return error != MPI_SUCCESS ? mpi_failure(error, "MPI_Isend") : Status{};
    }

    /// Returns true if the pieces of `which` have been passed on, and no send is pending.
    [[nodiscard]] bool has_passed(RelayPieces::Which which) const {
        return tickets_.empty() && std::ranges::all_of(children_, [&](const Child &child) {
                   return child.passed >= pieces_.count(child.target != nullptr, which);
               });
    }
    /// Returns true if it waits for an address whose arrival does not call the waker.
    [[nodiscard]] bool misses_address() const {
        return has_targets_ && std::ranges::any_of(children_, [](const Child &child) {
                   return !child.target->ticket.done;
               });
    }

private:
    /// A process to which this one passes the result.
    struct Child {
        Child(const Wire &wire_in, std::shared_ptr<ResultTarget> target_in)
            : wire(wire_in), target(std::move(target_in)) {}

        const Wire wire;
        /// Null unless this process copies the bytes to the child's memory.
        const std::shared_ptr<ResultTarget> target;
        OwnCopy copy{};
        std::size_t passed = 0;  ///< pieces
    };

    /// Returns true if the child's next piece is here. If necessary, first copies the bytes to the
    /// child's memory.
    bool is_ready(Child &child, std::size_t bytes_here, Status &status) {
        if (child.passed == pieces_.count(child.target != nullptr, RelayPieces::data_only))
            return true;
        if (child.target == nullptr) return pieces_.bytes_in(child.passed + 1, false) <= bytes_here;
        const std::span<std::byte> bytes = pieces_.bytes();
        ResultTarget &target = *child.target;
        if (bytes_here < bytes.size() || !target.ticket.done) return false;
        if (status.ok() && target.ticket.error != MPI_SUCCESS)
            status = mpi_failure(target.ticket.error, "MPI_Irecv");
        if (!status.ok() || target.copied == bytes.size()) return true;
        const Outcome copied = child.copy.poll(*reach_, child.wire.rank, target.address,
                                               bytes.data(), bytes.size(), true, waker_);
        if (!copied) return false;
        if (!copied->ok()) status = *copied;
        target.copied = bytes.size();
        return true;
    }

    const HostMemoryReach *const reach_;
    const bool has_targets_;  ///< another operation receives the addresses
    RelayPieces &pieces_;
    MessageDriver &driver_;
    const Waker &waker_;
    std::list<Child> children_;
    std::deque<MessageTicket> tickets_;
};

/// Passes a result on along a tree of processes. Between processes that reach each other's memory,
/// the parent copies the bytes itself: the child first sends the address, and gets one byte in
/// place of the result.
class RelayOperation final : public Operation {
public:
    RelayOperation(Result result, const Wire &from, const std::vector<Wire> &to,
                   std::shared_ptr<Ending> ending, TimesOfCommand times,
                   const HostMemoryReach *reach, MessageDriver &driver)
        : Operation(record_of_relay(from, to, result.size)),
          result_(std::move(result)),
          reach_(reach),
          ending_(std::move(ending)),
          times_of_command_(std::move(times)),
          pieces_({result_.data, result_.size}, bool(times_of_command_)),
          receives_(from, reach, pieces_, driver, waker_),
          sends_(to, result_.forward.get(), reach, pieces_, driver, waker_) {}
    ~RelayOperation() override { ending_->set(CL_TRANSFER_ABANDONED); }

    void woken_by(const Waker &waker) override { waker_ = waker; }
    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        start_ns_ = now_ns();
        sends_.start();
        if (!receives_.is_root()) return receives_.start(reach_);
        if (gate.ok() && times_of_command_ && *times_of_command_)
            pieces_.times() = (*times_of_command_)();
        knows_times_ = !result_.arrived;
        pass_on();
    }

    Progress poll() override {
        bool moved = false;
        while (receives_.has_ended()) {
            fail(receives_.take(*record()));
            knows_times_ = receives_.has_all();
            moved = true;
        }
        receives_.post();
        moved = pass_on() || moved;
        while (sends_.has_ended()) {
            fail(sends_.take());
            moved = true;
        }
        const Progress pending = moved ? Progress::moved : Progress::idle;
        if (!receives_.has_all() || !arrive() || !sends_.has_passed(RelayPieces::data_only) ||
            !receives_.has_sent_address())
            return pending;
        if (!knows_times_) {
            // The command's end time includes the copy to the program's memory in this process.
            Times &times = pieces_.times();
            if (times.back() != 0) times.back() += now_ns() - start_ns_;
            knows_times_ = true;
            pass_on();
        }
        if (!sends_.has_passed(RelayPieces::with_times)) return Progress::moved;
        if (receives_.is_root() && status().ok()) record()->moved(result_.size);
        ending_->set(status().code, pieces_.times());
        return Progress::done;
    }

    [[nodiscard]] bool wakes() const override {
        return waker_ && !receives_.has_ended() && !sends_.has_ended() && !sends_.misses_address();
    }
    [[nodiscard]] bool bytes_in_flight() const override { return receives_.has_some(); }

private:
    /// Returns true if the bytes are in the program's memory. The first call copies them there.
    bool arrive() {
        if (arrived_at_program_ == nullptr) {
            if (!status().ok() || !result_.arrived) return true;
            arrived_at_program_ = std::make_shared<std::atomic<bool>>(false);
            const auto arrive = [arrived = result_.arrived, flag = arrived_at_program_,
                                 waker = waker_] {
                arrived();
                *flag = true;
                if (waker) waker();
            };
            if (waker_ && result_.size > copied_by_driver)
                io_threads().run(arrive);
            else
                arrive();
        }
        return *arrived_at_program_;
    }

    /// Passes on what is here, unless the operation must wait for its permission. Returns true if
    /// it has started a send.
    bool pass_on() {
        if (receives_.is_root() && sends_.is_small() && !turn_.take(waker_)) return false;
        Status passed = status();
        const bool sent =
            sends_.pass_on(receives_.bytes_here(),
                           knows_times_ ? RelayPieces::with_times : RelayPieces::data_only, passed);
        fail(std::move(passed));
        return sent;
    }

    const Result result_;
    const HostMemoryReach *const reach_;
    const std::shared_ptr<Ending> ending_;
    const TimesOfCommand times_of_command_;
    bool knows_times_ = false;  ///< and may pass them on
    std::uint64_t start_ns_ = 0;
    std::shared_ptr<std::atomic<bool>> arrived_at_program_;
    Waker waker_;
    SendTurn turn_;
    RelayPieces pieces_;
    RelayReceives receives_;
    RelaySends sends_;
};

}  // namespace

std::unique_ptr<Operation> make_relay(Result result, const Wire &from, const std::vector<Wire> &to,
                                      std::shared_ptr<Ending> ending, TimesOfCommand times,
                                      const HostMemoryReach *reach, MessageDriver &driver) {
    return std::make_unique<RelayOperation>(std::move(result), from, to, std::move(ending),
                                            std::move(times), reach, driver);
}

}  // namespace cldist::cluster
