#include "cluster/world/mpi_transport.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "cluster/world/channel_transfer.hpp"
#include "cluster/world/host_memory_transfer.hpp"
#include "cluster/world/kernel_transfer.hpp"
#include "cluster/world/require_mpi.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist::cluster {
namespace {

constexpr std::size_t relay_piece = std::size_t{4} << 20U;
constexpr std::size_t relay_depth = 4;  // pieces whose receives are posted

Wire wire_of(const Runtime &runtime, MPI_Comm comm, const Message &message) {
    const auto tag =
        static_cast<int>(message.number % (static_cast<std::uint64_t>(runtime.max_tag()) + 1));
    return {comm, static_cast<int>(message.peer), tag};
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

// A smaller copy costs less as a message.
constexpr std::size_t least_copied_by_owner = std::size_t{64} << 10U;

class RelayOperation final : public Operation {
public:
    /// If `reach` is not null, the sender copies the bytes to the memory of process 0 itself.
    /// Process 0 then first sends the address, and receives one byte in place of the result.
    RelayOperation(Result result, Wire from, std::vector<Wire> to, std::shared_ptr<Ending> ending,
                   TimesOfCommand times, const HostMemoryReach *reach, MessageDriver &driver)
        : Operation(record_of_relay(from, to, result.size)),
          result_(std::move(result)),
          reach_(reach),
          data_pieces_(reach != nullptr ? 1 : (result_.size + relay_piece - 1) / relay_piece),
          pieces_(data_pieces_ + (times ? 1 : 0)),
          from_(from),
          to_(std::move(to)),
          ending_(std::move(ending)),
          times_of_command_(std::move(times)),
          driver_(driver) {}
    ~RelayOperation() override { ending_->set(CL_TRANSFER_ABANDONED); }

    void woken_by(const Waker &waker) override {
        waker_ = waker;
        address_ticket_.waker = &waker_;
    }
    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        if (from_.comm != MPI_COMM_NULL) {
            if (reach_ != nullptr) {
                address_ = reinterpret_cast<std::uint64_t>(result_.data);
                driver_.send(&address_, sizeof address_, from_.rank, from_.tag, reach_->comm(),
                             address_ticket_);
            }
            post_receives();
            return;
        }
        if (gate.ok() && times_of_command_ && *times_of_command_) times_ = (*times_of_command_)();
        start_ns_ = now_ns();
        if (reach_ != nullptr) {
            const Wire &wire = to_.front();
            driver_.receive(&address_, sizeof address_, wire.rank, wire.tag, reach_->comm(),
                            address_ticket_);
        } else {
            send_all();
        }
    }

    Progress poll() override {
        if (reach_ != nullptr && !address_ticket_.done) return Progress::idle;
        if (reach_ != nullptr && from_.comm == MPI_COMM_NULL && !copied_ && !copy_to_host())
            return Progress::idle;
        if (turn_.waits() && !send_all()) return Progress::idle;
        bool moved = false;
        while (arrived_ < posted_ && receives_.front().done) {
            take();
            moved = true;
        }
        if (from_.comm != MPI_COMM_NULL && arrived_ < pieces_) {
            post_receives();
            return moved ? Progress::moved : Progress::idle;
        }
        while (!sends_.empty() && sends_.front().done) {
            if (sends_.front().error != MPI_SUCCESS)
                fail(mpi_failure(sends_.front().error, "MPI_Isend"));
            sends_.pop_front();
            moved = true;
        }
        if (!sends_.empty()) return moved ? Progress::moved : Progress::idle;
        if (!arrive()) return Progress::idle;
        // The command's end time includes the copy to the program's memory in this process.
        if (from_.comm == MPI_COMM_NULL && passed_on_ < pieces_) {
            if (times_.back() != 0) times_.back() += now_ns() - start_ns_;
            pass_on(passed_on_++);
            if (!sends_.empty()) return Progress::moved;
        }
        ending_->set(status().code, times_);
        return Progress::done;
    }

    [[nodiscard]] bool wakes() const override {
        const auto has_ended = [](const auto &tickets) {
            return !tickets.empty() && tickets.front().done;
        };
        return waker_ && !has_ended(receives_) && !has_ended(sends_);
    }
    [[nodiscard]] bool bytes_in_flight() const override {
        return from_.comm == MPI_COMM_NULL || arrived_ > 0;
    }

private:
    [[nodiscard]] std::span<std::byte> bytes_of(std::size_t piece) {
        if (piece == data_pieces_) return std::as_writable_bytes(std::span(times_));
        if (reach_ != nullptr) return std::as_writable_bytes(std::span(&there_, 1));
        const std::size_t begin = piece * relay_piece;
        return {result_.data + begin, std::min(result_.size - begin, relay_piece)};
    }

    /// Returns true if the bytes are in the program's memory. The first call copies them there.
    bool arrive() {
        if (!status().ok() || !result_.arrived) return true;
        if (arrived_at_program_ == nullptr) {
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
        if (!*arrived_at_program_) return false;
        return true;
    }

    /// In the device's process. Returns true if the copy to the memory of process 0 has ended.
    bool copy_to_host() {
        if (address_ticket_.error != MPI_SUCCESS)
            fail(mpi_failure(address_ticket_.error, "MPI_Irecv"));
        if (status().ok()) {
            const Outcome copied =
                copy_.poll(*reach_, address_, result_.data, result_.size, true, waker_);
            if (!copied) return false;
            if (!copied->ok()) fail(*copied);
        }
        copied_ = true;
        send_all();
        return true;
    }

    /// In the device's process. Returns false if the operation must wait for its permission.
    bool send_all() {
        if (!to_.empty() && pieces_ == 1 && bytes_of(0).size() <= small_message &&
            !turn_.take(waker_))
            return false;
        const std::size_t known = result_.arrived ? data_pieces_ : pieces_;
        for (std::size_t i = 0; i < known; ++i) pass_on(i);
        passed_on_ = known;
        record()->moved(result_.size);
        return true;
    }

    void post_receives() {
        for (; posted_ < pieces_ && posted_ < arrived_ + relay_depth; ++posted_) {
            receives_.emplace_back().waker = &waker_;
            const auto bytes = bytes_of(posted_);
            driver_.receive(bytes.data(), bytes.size(), from_.rank, from_.tag, from_.comm,
                            receives_.back());
        }
    }

    // The sender reports a failure by a piece that is too short.
    void take() {
        const MessageTicket &ticket = receives_.front();
        if (ticket.error != MPI_SUCCESS)
            fail(mpi_failure(ticket.error, "MPI_Irecv"));
        else if (ticket.bytes != bytes_of(arrived_).size())
            fail(Status::failure(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                                 "the command failed in the process that owns its device"));
        else
            record()->moved(ticket.bytes);
        receives_.pop_front();
        pass_on(arrived_++);
    }

    void pass_on(std::size_t piece) {
        for (const Wire &wire : to_) {
            sends_.emplace_back().waker = &waker_;
            const auto bytes = bytes_of(piece);
            driver_.send(bytes.data(), status().ok() ? bytes.size() : 0, wire.rank, wire.tag,
                         wire.comm, sends_.back());
        }
    }

    const Result result_;
    const HostMemoryReach *const reach_;
    const std::size_t data_pieces_;
    const std::size_t pieces_;  ///< includes the one for the times
    const Wire from_;
    const std::vector<Wire> to_;
    const std::shared_ptr<Ending> ending_;
    const TimesOfCommand times_of_command_;
    Times times_{};
    std::uint64_t start_ns_ = 0;
    std::shared_ptr<std::atomic<bool>> arrived_at_program_;
    MessageDriver &driver_;
    Waker waker_;
    SendTurn turn_;
    std::uint64_t address_ = 0;  ///< of the result in process 0
    MessageTicket address_ticket_;
    OwnCopy copy_;
    bool copied_ = false;
    char there_ = 1;             ///< sent in place of the result
    std::size_t posted_ = 0;     ///< receives
    std::size_t arrived_ = 0;    ///< pieces
    std::size_t passed_on_ = 0;  ///< pieces; only in the device's process
    std::deque<MessageTicket> receives_;
    std::deque<MessageTicket> sends_;
};

}  // namespace

MpiTransport::MpiTransport(std::shared_ptr<Runtime> runtime, MPI_Comm comm)
    : runtime_(std::move(runtime)), comm_(comm) {}

void MpiTransport::drive(Command &command) { cldist::drive(command, caller_driver()); }

const HostMemoryReach *MpiTransport::reach_of(bool is_here, Process peer, std::size_t size) const {
    if (reach_ == nullptr || size < least_copied_by_owner) return nullptr;
    return reach_->has(is_here ? reach_->self() : static_cast<int>(peer)) ? reach_.get() : nullptr;
}

std::unique_ptr<Operation> MpiTransport::transfer(DeviceRange range, Direction direction,
                                                  const Message &message, const Link &link) {
    require_mpi();
    const HostMemoryReach *const reach =
        link.sends_program_memory ? reach_of(direction == Direction::recv, message.peer, range.size)
                                  : nullptr;
    if (reach != nullptr)
        return make_host_memory_transfer(std::move(range), direction,
                                         wire_of(*runtime_, comm_, message), *reach,
                                         runtime_->progress_driver());
    return make_channel_transfer(std::move(range), direction, wire_of(*runtime_, comm_, message),
                                 link, *runtime_->communicators().links(),
                                 runtime_->progress_driver());
}

static_assert(most_bytes_by_kernel == DeviceLinks::most_bytes);

Event MpiTransport::transfer_by_kernel(const KernelMessage &message) {
    require_mpi();
    const DeviceRange &range = message.range;
    const Wire wire = wire_of(*runtime_, comm_, message.message);
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
    return std::make_unique<StatusSend>(wire_of(*runtime_, comm_, message), std::move(times),
                                        runtime_->progress_driver());
}

std::unique_ptr<Operation> MpiTransport::receive_status(const Message &message,
                                                        std::shared_ptr<Ending> ending) {
    require_mpi();
    return std::make_unique<StatusReceive>(wire_of(*runtime_, comm_, message), std::move(ending),
                                           runtime_->progress_driver());
}

std::unique_ptr<Operation> MpiTransport::relay(Result result, const Relay &relay,
                                               std::shared_ptr<Ending> ending, TimesOfCommand times,
                                               bool by_caller) {
    require_mpi();
    const Wire from =
        relay.from ? wire_of(*runtime_, comm_, *relay.from) : Wire{MPI_COMM_NULL, 0, 0};
    std::vector<Wire> to;
    for (const Message &message : relay.to) to.push_back(wire_of(*runtime_, comm_, message));
    const bool is_end = relay.from.has_value() == relay.to.empty();
    const HostMemoryReach *const reach =
        is_end ? reach_of(!relay.from, relay.from ? relay.from->peer : 0, result.size) : nullptr;
    return std::make_unique<RelayOperation>(
        std::move(result), from, std::move(to), std::move(ending), std::move(times), reach,
        by_caller ? caller_driver() : runtime_->progress_driver());
}

}  // namespace cldist::cluster
