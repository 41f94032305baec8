#include "cluster/world/mpi_transport.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "cluster/execution/operations.hpp"
#include "cluster/world/channel_transfer.hpp"
#include "cluster/world/host_memory_transfer.hpp"
#include "cluster/world/kernel_transfer.hpp"
#include "cluster/world/message_tag.hpp"
#include "cluster/world/require_mpi.hpp"
#include "cluster/world/result_forward.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist::cluster {
namespace {

constexpr std::size_t relay_piece = std::size_t{4} << 20U;
constexpr std::size_t relay_depth = 4;  // pieces whose receives are posted

Wire wire_of(const Runtime &runtime, MPI_Comm comm, const Message &message, Content content,
             std::size_t size) {
    return {comm, static_cast<int>(message.peer),
            message_tag(runtime.max_tag(), message.number, content, size)};
}

// The most small (eager) messages in transit: Open MPI scans all postponed messages at each call,
// and sorts them again at the receiver. Larger messages are not counted: they may wait for the
// receiver's program, and must not delay others.
constexpr std::size_t small_message = 1024;
constexpr std::size_t most_small_messages = 128;

std::shared_ptr<Record> record_of_relay(const Wire &from, const std::vector<Wire> &to,
                                        std::size_t size) {
    if (from.comm != MPI_COMM_NULL) return record_of(Direction::recv, from, size);
    if (!to.empty()) return record_of(Direction::send, to.front(), size);
    return std::make_shared<Record>(Direction::event, MPI_UNDEFINED, MPI_UNDEFINED, MPI_ANY_TAG,
                                    size);
}

// The largest result that the driving thread itself copies to the program's memory.
constexpr std::size_t copied_by_driver = 65536;

/// An operation's permission to send a small message. Operations without waker, which their callers
/// drive, need none. Only the progress thread may use an object that waits for or holds one.
class SendTurn {
public:
    SendTurn() = default;
    SendTurn(const SendTurn &) = delete;
    SendTurn &operator=(const SendTurn &) = delete;
    ~SendTurn() {
        if (waits_) std::erase(waiting(), this);
        give_back();
    }

    /// Returns true if the operation may send. Otherwise, `waker` is called when to try again.
    bool take(const Waker &waker) {
        if (has_ || !waker) return true;
        if (taken() >= most_small_messages || (!waits_ && !waiting().empty())) {
            if (!waits_) waiting().push_back(this);
            waits_ = true;
            waker_ = &waker;
            return false;
        }
        if (waits_) std::erase(waiting(), this);
        waits_ = false;
        has_ = true;
        ++taken();
        wake_next();
        return true;
    }
    void give_back() {
        if (!std::exchange(has_, false)) return;
        --taken();
        wake_next();
    }
    [[nodiscard]] bool waits() const { return waits_; }

private:
    static std::size_t &taken() {
        static std::size_t count = 0;
        return count;
    }
    static std::deque<SendTurn *> &waiting() {
        static auto &all = *new std::deque<SendTurn *>;
        return all;
    }
    static void wake_next() {
        if (taken() < most_small_messages && !waiting().empty()) (*waiting().front()->waker_)();
    }

    bool has_ = false;
    bool waits_ = false;
    const Waker *waker_ = nullptr;
};

class StatusSend final : public Operation {
public:
    StatusSend(Wire wire, TimesOfCommand times, MessageDriver &driver)
        : Operation(record_of(Direction::send, wire, sizeof end_)),
          wire_(wire),
          times_(std::move(times)),
          driver_(driver) {}

    void woken_by(const Waker &waker) override {
        waker_ = waker;
        ticket_.waker = &waker_;
    }
    void start(const Status &gate) override {
        end_.code = gate.code;
        if (gate.ok() && times_ && *times_) end_.times = (*times_)();
        send();
    }
    Progress poll() override {
        if (turn_.waits() && !send()) return Progress::idle;
        if (!ticket_.done) return Progress::idle;
        if (ticket_.error != MPI_SUCCESS) fail(mpi_failure(ticket_.error, "MPI_Isend"));
        return Progress::done;
    }
    [[nodiscard]] bool wakes() const override { return waker_ && !ticket_.done; }
    [[nodiscard]] bool bytes_in_flight() const override { return true; }

private:
    bool send() {
        if (!turn_.take(waker_)) return false;
        driver_.send(&end_, sizeof end_, wire_.rank, wire_.tag, wire_.comm, ticket_);
        return true;
    }

    const Wire wire_;
    const TimesOfCommand times_;
    MessageDriver &driver_;
    EndMessage end_;
    Waker waker_;
    SendTurn turn_;
    MessageTicket ticket_;
};

class StatusReceive final : public Operation {
public:
    StatusReceive(Wire wire, std::shared_ptr<Ending> ending, MessageDriver &driver)
        : Operation(record_of(Direction::recv, wire, sizeof end_)),
          wire_(wire),
          ending_(std::move(ending)),
          driver_(driver) {}
    ~StatusReceive() override { ending_->set(CL_TRANSFER_ABANDONED); }

    void woken_by(const Waker &waker) override {
        waker_ = waker;
        ticket_.waker = &waker_;
    }
    void start(const Status &) override {
        driver_.receive(&end_, sizeof end_, wire_.rank, wire_.tag, wire_.comm, ticket_);
    }
    Progress poll() override {
        if (!ticket_.done) return Progress::idle;
        const bool whole = ticket_.bytes == sizeof end_ && end_.code <= CL_COMPLETE;
        if (ticket_.error != MPI_SUCCESS || !whole) {
            fail(ticket_.error != MPI_SUCCESS
                     ? mpi_failure(ticket_.error, "MPI_Irecv")
                     : Status::failure(CL_MPI_ERROR,
                                       "an unexpected message arrived; do all hosts have the same "
                                       "version of cldist?"));
            end_.code = CL_MPI_ERROR;
        }
        ending_->set(end_.code, end_.times);
        return Progress::done;
    }
    [[nodiscard]] bool wakes() const override { return waker_ && !ticket_.done; }
    [[nodiscard]] bool bytes_in_flight() const override { return false; }

private:
    const Wire wire_;
    const std::shared_ptr<Ending> ending_;
    MessageDriver &driver_;
    EndMessage end_;
    Waker waker_;
    MessageTicket ticket_;
};

/// Passes a result on along a tree of processes. Between processes that reach each other's memory,
/// the parent copies the bytes itself: the child first sends the address, and gets one byte in
/// place of the result.
class RelayOperation final : public Operation {
public:
    RelayOperation(Result result, Wire from, const std::vector<Wire> &to,
                   std::shared_ptr<Ending> ending, TimesOfCommand times,
                   const HostMemoryReach *reach, MessageDriver &driver)
        : Operation(record_of_relay(from, to, result.size)),
          result_(std::move(result)),
          reach_(reach),
          from_(from),
          from_copies_(!is_root() && copies_directly(from)),
          has_times_(bool(times)),
          ending_(std::move(ending)),
          times_of_command_(std::move(times)),
          driver_(driver) {
        if (result_.forward != nullptr) {
            // MpiTransport::forward() has made it.
            auto target = static_cast<const ResultTargets &>(*result_.forward).all().begin();
            for (const Wire &wire : to) children_.emplace_back(wire, *target++);
            return;
        }
        for (const Wire &wire : to)
            children_.emplace_back(
                wire, copies_directly(wire) ? std::make_shared<ResultTarget>(wire) : nullptr);
    }
    ~RelayOperation() override { ending_->set(CL_TRANSFER_ABANDONED); }

    void woken_by(const Waker &waker) override {
        waker_ = waker;
        address_ticket_.waker = &waker_;
        if (result_.forward != nullptr) return;
        for (Child &child : children_)
            if (child.target != nullptr) child.target->ticket.waker = &waker_;
    }
    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        start_ns_ = now_ns();
        for (Child &child : children_)
            if (child.target != nullptr && result_.forward == nullptr)
                driver_.receive(&child.target->address, sizeof child.target->address,
                                child.wire.rank, child.wire.tag, reach_->comm(),
                                child.target->ticket);
        if (is_root()) {
            if (gate.ok() && times_of_command_ && *times_of_command_)
                times_ = (*times_of_command_)();
            knows_times_ = !result_.arrived;
            pass_on();
            return;
        }
        if (from_copies_) {
            address_ = reinterpret_cast<std::uint64_t>(result_.data);
            driver_.send(&address_, sizeof address_, from_.rank, from_.tag, reach_->comm(),
                         address_ticket_);
        }
        post_receives();
    }

    Progress poll() override {
        bool moved = false;
        while (arrived_ < posted_ && receives_.front().done) {
            take();
            moved = true;
        }
        if (!is_root()) post_receives();
        moved = pass_on() || moved;
        while (!sends_.empty() && sends_.front().done) {
            if (sends_.front().error != MPI_SUCCESS)
                fail(mpi_failure(sends_.front().error, "MPI_Isend"));
            sends_.pop_front();
            moved = true;
        }
        const Progress pending = moved ? Progress::moved : Progress::idle;
        if (!has_all() || !arrive() || !sends_.empty() || !has_passed(data_only)) return pending;
        if (from_copies_ && !address_ticket_.done) return pending;
        if (!knows_times_) {
            // The command's end time includes the copy to the program's memory in this process.
            if (times_.back() != 0) times_.back() += now_ns() - start_ns_;
            knows_times_ = true;
            pass_on();
        }
        if (!has_passed(with_times) || !sends_.empty()) return Progress::moved;
        if (is_root() && status().ok()) record()->moved(result_.size);
        ending_->set(status().code, times_);
        return Progress::done;
    }

    [[nodiscard]] bool wakes() const override {
        const auto has_ended = [](const auto &tickets) {
            return !tickets.empty() && tickets.front().done;
        };
        const bool misses_address =
            result_.forward != nullptr && std::ranges::any_of(children_, [](const Child &child) {
                return !child.target->ticket.done;
            });
        return waker_ && !has_ended(receives_) && !has_ended(sends_) && !misses_address;
    }
    [[nodiscard]] bool bytes_in_flight() const override { return is_root() || arrived_ > 0; }

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
    enum Pieces { data_only, with_times };

    [[nodiscard]] bool is_root() const { return from_.comm == MPI_COMM_NULL; }
    [[nodiscard]] bool copies_directly(const Wire &wire) const {
        return reach_ != nullptr && reach_->has(wire.rank, result_.size);
    }
    [[nodiscard]] std::size_t data_pieces(bool copies) const {
        return copies ? 1 : (result_.size + relay_piece - 1) / relay_piece;
    }
    [[nodiscard]] std::size_t pieces(bool copies, Pieces which) const {
        return data_pieces(copies) + (which == with_times && has_times_ ? 1 : 0);
    }
    [[nodiscard]] bool has_all() const {
        return is_root() || arrived_ == pieces(from_copies_, with_times);
    }
    [[nodiscard]] bool has_passed(Pieces which) const {
        return std::ranges::all_of(children_, [&](const Child &child) {
            return child.passed >= pieces(child.target != nullptr, which);
        });
    }
    /// The number of bytes that are at `result_.data`.
    [[nodiscard]] std::size_t bytes_here() const {
        if (is_root() || arrived_ >= data_pieces(from_copies_)) return result_.size;
        return from_copies_ ? 0 : arrived_ * relay_piece;
    }
    [[nodiscard]] std::span<std::byte> bytes_of(std::size_t piece, bool copies) {
        if (piece == data_pieces(copies)) return std::as_writable_bytes(std::span(times_));
        if (copies) return std::as_writable_bytes(std::span(&there_, 1));
        const std::size_t begin = piece * relay_piece;
        return {result_.data + begin, std::min(result_.size - begin, relay_piece)};
    }

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

    void post_receives() {
        for (; posted_ < pieces(from_copies_, with_times) && posted_ < arrived_ + relay_depth;
             ++posted_) {
            receives_.emplace_back().waker = &waker_;
            const auto bytes = bytes_of(posted_, from_copies_);
            driver_.receive(bytes.data(), bytes.size(), from_.rank, from_.tag, from_.comm,
                            receives_.back());
        }
    }

    // The sender reports a failure by a piece that is too short.
    void take() {
        const MessageTicket &ticket = receives_.front();
        const bool is_data = arrived_ < data_pieces(from_copies_);
        if (ticket.error != MPI_SUCCESS)
            fail(mpi_failure(ticket.error, "MPI_Irecv"));
        else if (ticket.bytes != bytes_of(arrived_, from_copies_).size())
            fail(Status::failure(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                                 "the command failed in the process that owns its device"));
        else if (is_data)
            record()->moved(from_copies_ ? result_.size : ticket.bytes);
        receives_.pop_front();
        knows_times_ = ++arrived_ == pieces(from_copies_, with_times);
    }

    /// Passes on what is here. Returns true if it has started a send.
    bool pass_on() {
        if (!may_send()) return false;
        bool sent = false;
        for (Child &child : children_) {
            while (child.passed <
                       pieces(child.target != nullptr, knows_times_ ? with_times : data_only) &&
                   is_ready(child)) {
                sends_.emplace_back().waker = &waker_;
                const auto bytes = bytes_of(child.passed++, child.target != nullptr);
                driver_.send(bytes.data(), status().ok() ? bytes.size() : 0, child.wire.rank,
                             child.wire.tag, child.wire.comm, sends_.back());
                sent = true;
            }
        }
        return sent;
    }

    /// Returns false if the operation must wait for its permission.
    bool may_send() {
        if (!is_root() || children_.empty()) return true;
        const bool copies = children_.front().target != nullptr;
        return pieces(copies, with_times) != 1 || bytes_of(0, copies).size() > small_message ||
               turn_.take(waker_);
    }

    /// Returns true if the child's next piece is here. If necessary, first copies the bytes to the
    /// child's memory.
    bool is_ready(Child &child) {
        if (child.passed == data_pieces(child.target != nullptr)) return true;
        if (child.target == nullptr)
            return std::min(result_.size, (child.passed + 1) * relay_piece) <= bytes_here();
        ResultTarget &target = *child.target;
        if (bytes_here() < result_.size || !target.ticket.done) return false;
        if (target.ticket.error != MPI_SUCCESS) fail(mpi_failure(target.ticket.error, "MPI_Irecv"));
        if (!status().ok() || target.copied == result_.size) return true;
        const Outcome copied = child.copy.poll(*reach_, child.wire.rank, target.address,
                                               result_.data, result_.size, true, waker_);
        if (!copied) return false;
        if (!copied->ok()) fail(*copied);
        target.copied = result_.size;
        return true;
    }

    const Result result_;
    const HostMemoryReach *const reach_;
    const Wire from_;
    const bool from_copies_;  ///< the parent copies the bytes to this process's memory
    const bool has_times_;
    const std::shared_ptr<Ending> ending_;
    const TimesOfCommand times_of_command_;
    Times times_{};
    bool knows_times_ = false;  ///< and may pass them on
    std::uint64_t start_ns_ = 0;
    std::shared_ptr<std::atomic<bool>> arrived_at_program_;
    MessageDriver &driver_;
    Waker waker_;
    SendTurn turn_;
    std::uint64_t address_ = 0;  ///< of the result, for the parent
    MessageTicket address_ticket_;
    std::list<Child> children_;
    char there_ = 1;           ///< sent in place of the result
    std::size_t posted_ = 0;   ///< receives
    std::size_t arrived_ = 0;  ///< pieces
    std::deque<MessageTicket> receives_;
    std::deque<MessageTicket> sends_;
};

}  // namespace

MpiTransport::MpiTransport(std::shared_ptr<Runtime> runtime, MPI_Comm comm)
    : runtime_(std::move(runtime)), comm_(comm) {}

void MpiTransport::drive(Command &command) { cldist::drive(command, caller_driver()); }

std::unique_ptr<Operation> MpiTransport::transfer(DeviceRange range, Direction direction,
                                                  const Message &message, const Link &link) {
    require_mpi();
    const Wire wire = wire_of(*runtime_, comm_, message, Content::data, range.size);
    if (link.sends_program_memory && reach_ != nullptr &&
        reach_->has(static_cast<int>(message.peer), range.size))
        return make_host_memory_transfer(std::move(range), direction, wire, *reach_,
                                         runtime_->progress_driver());
    return make_channel_transfer(std::move(range), direction, wire, link,
                                 *runtime_->communicators().links(), runtime_->progress_driver());
}

static_assert(most_bytes_by_kernel == DeviceLinks::most_bytes);

Event MpiTransport::transfer_by_kernel(const KernelMessage &message) {
    require_mpi();
    const DeviceRange &range = message.range;
    const Wire wire = wire_of(*runtime_, comm_, message.message, Content::data, range.size);
    HostLinks &rings = *runtime_->communicators().links();
    const std::shared_ptr<DeviceLinks> &links = rings.devices();
    if (!links->connected(wire.rank, range.resources)) return {};
    const auto copy = [&range] {
        return DeviceRange{
            range.resources, Mem::share(range.buffer.get()), range.offset, range.size, nullptr, {}};
    };
    KernelEnd end{copy(), message.queue, message.wait_list, wire};
    MessageDriver &driver = runtime_->progress_driver();
    if (message.direction == Direction::send)
        return send_by_kernel(std::move(end), links, driver, progress_thread());
    Link link = message.link;
    link.by_kernels = false;
    return receive_by_kernel(
        std::move(end), links, driver, progress_thread(),
        make_channel_transfer(copy(), message.direction, wire, link, rings, driver));
}

std::unique_ptr<Operation> MpiTransport::send_status(const Message &message, TimesOfCommand times) {
    require_mpi();
    return std::make_unique<StatusSend>(wire_of(*runtime_, comm_, message, Content::status, 0),
                                        std::move(times), runtime_->progress_driver());
}

std::unique_ptr<Operation> MpiTransport::receive_status(const Message &message,
                                                        std::shared_ptr<Ending> ending) {
    require_mpi();
    return std::make_unique<StatusReceive>(wire_of(*runtime_, comm_, message, Content::status, 0),
                                           std::move(ending), runtime_->progress_driver());
}

std::shared_ptr<ResultForward> MpiTransport::forward(const Relay &relay, std::size_t size) {
    require_mpi();
    const auto reached = [&](const Message &message) {
        return reach_ != nullptr && reach_->has(static_cast<int>(message.peer), size);
    };
    if (!std::ranges::all_of(relay.to, reached)) return nullptr;
    auto targets = std::make_shared<ResultTargets>(*reach_);
    for (const Message &message : relay.to)
        targets->add(wire_of(*runtime_, comm_, message, Content::result, size));
    progress_thread().submit(command_of(make_address_receive(targets, runtime_->progress_driver())),
                             {});
    return targets;
}

std::unique_ptr<Operation> MpiTransport::relay(Result result, const Relay &relay,
                                               std::shared_ptr<Ending> ending, TimesOfCommand times,
                                               bool by_caller) {
    require_mpi();
    const auto wire = [&](const Message &message) {
        return wire_of(*runtime_, comm_, message, Content::result, result.size);
    };
    const Wire from = relay.from ? wire(*relay.from) : Wire{MPI_COMM_NULL, 0, 0};
    std::vector<Wire> to;
    for (const Message &message : relay.to) to.push_back(wire(message));
    return std::make_unique<RelayOperation>(
        std::move(result), from, to, std::move(ending), std::move(times), reach_.get(),
        by_caller ? caller_driver() : runtime_->progress_driver());
}

}  // namespace cldist::cluster
