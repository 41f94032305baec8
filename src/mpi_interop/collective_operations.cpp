#include "mpi_interop/collective_operations.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "events/failure.hpp"
#include "mpi_interop/collective_check.hpp"
#include "mpi_interop/host_collective.hpp"
#include "pipeline/cleanup.hpp"

namespace cldist {

namespace {

// The bytes that the command moves in this process.
std::size_t bytes_of(const Collective &what, const CollectiveSide &send,
                     const CollectiveSide &recv) {
    return traits_of(what.kind).in_blocks ? what.bytes : std::max(send.range.size, recv.range.size);
}

// The decision between kernels and hosts (CLDIST_PATH=device), and this process's kernel.
class DevicePath {
public:
    // Without `ordered`, this process has no kernel, so the hosts carry out the command.
    DevicePath(DeviceCollectives &devices, std::uint64_t number, CollectiveWork &work,
               std::unique_ptr<OrderedCollective> ordered)
        : devices_(devices), number_(number), ordered_(std::move(ordered)) {
        if (ordered_ != nullptr) ordered_->number = number_;
        devices_.enter(number_, work, ordered_ != nullptr ? ordered_->queue : nullptr);
    }
    DevicePath(const DevicePath &) = delete;
    DevicePath &operator=(const DevicePath &) = delete;
    ~DevicePath() { devices_.leave(number_); }

    [[nodiscard]] bool has_kernel() const { return ordered_ != nullptr; }
    [[nodiscard]] bool announced() const { return announced_; }
    [[nodiscard]] bool released() const { return released_; }
    [[nodiscard]] bool kernel_moves_bytes() const {
        return has_kernel() && ordered_->on_devices.value_or(false);
    }
    [[nodiscard]] bool kernel_failed() { return has_kernel() && ordered_->command.failed(); }
    [[nodiscard]] bool kernel_ended() { return ordered_->command.ended(); }

    void announce(const Collective &what, const std::vector<PartSizes> &parts) {
        const bool may_post = !has_kernel() || ordered_->command.may_post();
        announced_ = may_post && devices_.announce(number_, has_kernel(), what, parts);
    }

    // Returns true if kernels carry out the command. This process's kernel may then start. Returns
    // false if the hosts do and this host may start. Throws an Error if the processes' calls
    // differ.
    std::optional<bool> decision(const Collective &what) {
        if (!announced_) return {};
        if (!has_kernel()) return false;
        std::optional<bool> &on_devices = ordered_->on_devices;
        if (!on_devices) {
            on_devices = devices_.decision(number_, what);
            if (kernel_moves_bytes()) ordered_->command.go();
        }
        if (on_devices == false && !ordered_->command.started()) return {};
        return on_devices;
    }

    // The host has moved the bytes. The kernel still has to end.
    void release() {
        ordered_->command.release();
        released_ = true;
    }

private:
    DeviceCollectives &devices_;
    const std::uint64_t number_;
    const std::unique_ptr<OrderedCollective> ordered_;
    bool announced_ = false;
    bool released_ = false;
};

class CollectiveOperation final : public Operation {
public:
    CollectiveOperation(Collective what, CollectiveSide send, CollectiveSide recv,
                        std::shared_ptr<CollectiveLine> line, MessageDriver &driver,
                        std::unique_ptr<OrderedCollective> ordered, CollectiveWork *work)
        : Operation(make_record(what, send, recv, *line)),
          what_(std::move(what)),
          send_(std::move(send)),
          recv_(std::move(recv)),
          transport_{std::move(line), driver, turn_->waker},
          number_(
              this->line().pending().add(record(), [this] { return text_of(summary_of(what_)); })) {
        if (DeviceCollectives *const devices = this->line().devices(); devices != nullptr) {
            CollectiveWork not_used;
            if (ordered == nullptr) not_used = devices->plan(what_, send_, recv_);
            device_path_.emplace(*devices, number_, ordered != nullptr ? *work : not_used,
                                 std::move(ordered));
        }
        this->line().enter(this, [turn = turn_] {
            const std::lock_guard lock(turn->mutex);
            if (turn->waker) turn->waker();
        });
    }
    ~CollectiveOperation() override {
        line().leave(this);
        line().pending().remove(number_);
        release_later(std::move(send_.range.buffer));
        release_later(std::move(recv_.range.buffer));
    }

    void announce() override {
        if (device_path_ && !device_path_->announced()) device_path_->announce(what_, part_sizes());
    }

    void woken_by(const Waker &waker) override {
        const std::lock_guard lock(turn_->mutex);
        turn_->waker = waker;
    }

    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        start_ns_ = now_ns();
    }

    void abandon(const Status &status) override {
        if (!has_kernel()) return;
        end_job(fmt::format("{}\n  {}", status.message, describe(*record(), now_ns())),
                "because a kernel of this collective is in a queue, and a kernel cannot fail "
                "(CLDIST_PATH=device)");
    }

    Progress poll() override {
        const Progress progress = step();
        // Before the event is complete: the hosts carry out the next command if one of the hosts is
        // still pending.
        if (progress == Progress::done) device_path_.reset();
        return progress;
    }

    [[nodiscard]] bool bytes_in_flight() const override {
        return host_ || check_ != nullptr || (device_path_ && device_path_->kernel_moves_bytes());
    }
    [[nodiscard]] bool wakes() const override {
        const std::lock_guard lock(turn_->mutex);
        if (!turn_->waker || has_kernel() || (device_path_ && !device_path_->announced()))
            return false;
        return host_ ? host_->waits_for_messages() : !line().is_first(this);
    }

private:
    struct Turn {
        mutable std::mutex mutex;
        Waker waker;  ///< only the driving thread changes it, and reads it without the mutex
    };

    Progress step() {
        if (device_path_ && device_path_->kernel_failed()) {
            fail(OrderedCommand::failure());
            abandon(status());
        }
        if (device_path_ && device_path_->released())
            return device_path_->kernel_ended() ? Progress::done : Progress::idle;
        if (!host_) {
            announce();
            if (device_path_) {
                std::optional<bool> by_kernels;
                if (!attempt([&] { by_kernels = device_path_->decision(what_); }))
                    abandon(status());
                if (!by_kernels) return Progress::idle;
                if (*by_kernels) return poll_kernel();
            }
            if (!line().is_first(this)) return Progress::idle;
            const Outcome ready = line().ready();
            if (!ready) return Progress::idle;
            if (!ready->ok()) return refuse(*ready);
            if (line().compares_calls()) {
                const Outcome same = compare_calls();
                if (!same) return Progress::idle;
                if (!same->ok()) return refuse(*same);
            }
            host_.emplace(what_, send_, recv_, transport_, *record(), status());
        }
        return poll_host();
    }

    [[nodiscard]] CollectiveLine &line() const { return *transport_.line; }
    [[nodiscard]] bool has_kernel() const { return device_path_ && device_path_->has_kernel(); }

    // No process moves data.
    Progress refuse(const Status &why) {
        fail(why);
        abandon(why);
        line().leave(this);
        return Progress::done;
    }

    Progress poll_kernel() {
        if (!device_path_->kernel_ended()) return Progress::idle;
        const std::size_t size = bytes_of(what_, send_, recv_);
        record()->chosen(Path::device, std::max<std::size_t>(size, 1), 1);
        record()->stage_done(Stage::device, start_ns_);
        record()->moved(size);
        line().leave(this);
        return Progress::done;
    }

    Progress poll_host() {
        const bool posted = host_->posted();
        const Progress progress = host_->poll();
        if (!posted && host_->posted()) line().leave(this);
        if (progress != Progress::done) return progress;
        fail(host_->status());
        if (!has_kernel()) return Progress::done;
        if (!status().ok()) abandon(status());
        device_path_->release();
        return Progress::moved;
    }

    Outcome compare_calls() {
        if (check_ == nullptr)
            check_ = std::make_unique<CollectiveCheck>(what_, part_sizes(), number_, transport_);
        return check_->poll();
    }
    // By rank. Empty for collectives without sizes per process.
    [[nodiscard]] std::vector<PartSizes> part_sizes() const {
        std::vector<PartSizes> all;
        for (int i = 0; traits_of(what_.kind).has_sizes && i < line().size(); ++i)
            all.push_back({given_to(what_, send_, line().rank(), i).size,
                           got_from(what_, recv_, line().rank(), i).size});
        return all;
    }

    const Collective what_;
    CollectiveSide send_;
    CollectiveSide recv_;
    const std::shared_ptr<Turn> turn_ = std::make_shared<Turn>();
    const CollectiveTransport transport_;
    const std::uint64_t number_;             ///< position in the line
    std::optional<DevicePath> device_path_;  ///< empty: kernels carry out no command of the line
    std::uint64_t start_ns_ = 0;
    std::unique_ptr<CollectiveCheck> check_;
    std::optional<HostCollective> host_;  ///< empty until the hosts begin
};

}  // namespace

std::unique_ptr<Operation> make_collective(
    Collective what, CollectiveSide send, CollectiveSide recv, std::shared_ptr<CollectiveLine> line,
    MessageDriver &driver, std::unique_ptr<OrderedCollective> ordered, CollectiveWork *work) {
    return std::make_unique<CollectiveOperation>(std::move(what), std::move(send), std::move(recv),
                                                 std::move(line), driver, std::move(ordered), work);
}

std::shared_ptr<Record> make_record(const Collective &what, const CollectiveSide &send,
                                    const CollectiveSide &recv, const CollectiveLine &line) {
    return std::make_shared<Record>(
        Direction::collective,
        fmt::format("{} of {} processes", traits_of(what.kind).name, line.size()),
        bytes_of(what, send, recv));
}

}  // namespace cldist
