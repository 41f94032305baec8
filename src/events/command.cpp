#include "events/command.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "events/failure.hpp"

namespace cldist {

Command::Command(Operations operations, std::unique_ptr<Bridge> bridge, cl_device_id device)
    : operations_(std::move(operations)),
      done_(operations_.size(), false),
      bridge_(std::move(bridge)),
      device_(device) {
    for (const auto &operation : operations_) {
        if (bridge_ != nullptr) operation->record()->waits_for(bridge_->start().wait_list);
        pending_records().add(operation->record());
        operation->record()->enqueued();
    }
}

Command::~Command() {
    for (const auto &operation : operations_) pending_records().remove(*operation->record());
}

void Command::publish_failure(const Status &gate) {
    for (const auto &operation : operations_) operation->record()->failed(gate);
}

void Command::take_position() {
    for (const auto &operation : operations_) operation->announce();
}

void Command::woken_by(const Waker &waker) {
    for (const auto &operation : operations_) operation->woken_by(waker);
}

void Command::start(const Status &gate) {
    for (const auto &operation : operations_) {
        const std::shared_ptr<Record> record = operation->record();
        record->stage_done(Stage::wait, record->created_ns);
        if (!gate.ok()) record->failed(gate);
        operation->start(gate);
        // Last, because a thread that sees the start may rely on the command's position in the
        // message order.
        record->started();
    }
    if (!gate.ok()) end(gate);
}

Progress Command::poll() {
    bool moved = false;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        if (done_[i]) continue;
        const Progress progress = operations_[i]->poll();
        if (progress == Progress::idle) continue;
        moved = true;
        if (progress != Progress::done) continue;
        done_[i] = true;
        if (first_error_.ok()) first_error_ = operations_[i]->status();
        if (!operations_[i]->ends_in_queue())
            operations_[i]->record()->finished(operations_[i]->status());
    }
    const bool all_done = std::find(done_.begin(), done_.end(), false) == done_.end();
    if (all_done && (bridge_ == nullptr || bridge_->may_end())) {
        end(first_error_);
        const bool visible = bridge_ == nullptr || bridge_->ended();
        if (visible && unused()) {
            finish_in_queue();
            return Progress::done;
        }
    }
    return moved ? Progress::moved : Progress::idle;
}

// Ends the records of the operations that a kernel has completed.
void Command::finish_in_queue() {
    for (std::size_t i = 0; i < operations_.size(); ++i)
        if (done_[i] && operations_[i]->ends_in_queue())
            operations_[i]->record()->finished(operations_[i]->status());
}

// Returns true if the queue does not use memory of the library any more. A failed command's bridge
// is kept for longer.
bool Command::unused() const {
    return (bridge_ == nullptr || !status_.ok() || !bridge_->copies_back() || bridge_->settled()) &&
           std::all_of(operations_.begin(), operations_.end(),
                       [](const auto &o) { return o->unused(); });
}

bool Command::bytes_in_flight() const {
    return std::any_of(operations_.begin(), operations_.end(),
                       [](const auto &o) { return o->bytes_in_flight(); });
}

bool Command::wakes() const {
    bool waits = false;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        if (done_[i]) continue;
        if (!operations_[i]->wakes()) return false;
        waits = true;
    }
    return waits;  // if all operations have finished, the command waits for its bridge
}

void Command::abandon(const Status &status) {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        if (done_[i]) continue;
        operations_[i]->abandon(status);
        operations_[i]->record()->finished(status);
    }
    finish_in_queue();
    end(first_error_.ok() ? status : first_error_);
}

void Command::end(const Status &status) {
    if (std::exchange(ended_, true)) return;
    status_ = status;
    if (bridge_ == nullptr || !bridge_->has_user_visible_event()) return;
    if (!status.ok() && device_ != nullptr) {
        std::string account = status.message;
        for (const auto &operation : operations_)
            account += "\n  " + describe(*operation->record(), now_ns());
        failure_policy(device_, account);
    }
    if (!status.ok() && before_failure) before_failure();
    bridge_->complete(status.code);
}

std::unique_ptr<Bridge> Command::take_failed_bridge() {
    return status_.ok() ? nullptr : std::move(bridge_);
}

}  // namespace cldist
