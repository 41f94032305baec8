#include "pipeline/file_endpoint.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/config.hpp"

namespace cldist {

unsigned io_thread_count() {
    if (config().io_threads != 0) return config().io_threads;
    // Cached, because each query opens a file.
    static const unsigned chosen = std::clamp(std::thread::hardware_concurrency(), 2U, 8U);
    return chosen;
}

IoThreads &io_threads() {
    // Never destroyed, because calls may run at exit.
    static auto &instance = *new IoThreads(io_thread_count());
    return instance;
}

namespace {

// The limit of page-locked memory for all transfers of the progress thread. A transfer waits until
// memory is available, unless it is the first in its lane, where others wait for it. A thread in a
// blocking command has only one transfer, and this transfer does not wait.
constexpr std::size_t most_staging = std::size_t{256} << 20U;

class StagingBudget {
public:
    /// Takes `size` bytes and returns true. If they are not available, returns false and calls
    /// `wake` after memory is given back. `at_once`: ignores the limit.
    bool take(std::size_t size, bool at_once, const std::function<void()> &wake) {
        const std::lock_guard lock(mutex_);
        if (!at_once && in_use_ != 0 && in_use_ + size > most_staging) {
            waiting_.push_back(wake);
            return false;
        }
        in_use_ += size;
        return true;
    }
    void give_back(std::size_t size) {
        std::vector<std::function<void()>> waiting;
        {
            const std::lock_guard lock(mutex_);
            in_use_ -= size;
            waiting.swap(waiting_);
        }
        for (const auto &wake : waiting) wake();
    }

private:
    std::mutex mutex_;
    std::size_t in_use_ = 0;
    std::vector<std::function<void()>> waiting_;
};

StagingBudget &staging_budget() {
    // Never destroyed, because commands may be pending at exit.
    static auto &instance = *new StagingBudget;
    return instance;
}

/// Its calls may outlive the transfer, because an abandoned command is destroyed early.
class FileEndpoint final : public Endpoint, public std::enable_shared_from_this<FileEndpoint> {
public:
    FileEndpoint(std::shared_ptr<FileAccess> access, Direction direction, std::size_t size,
                 const Plan &plan, FileDriver driver, std::shared_ptr<Record> record)
        : access_(std::move(access)),
          lane_(access_->lane()),
          writes_(direction == Direction::to_file),
          memory_(access_->is_memory()),
          at_once_(memory_ ||
                   (!writes_ && lane_ == nullptr && plan.depth > 1 && access_->parallel_reads())),
          size_(size),
          staging_(plan.path == Path::mapped ? 0 : plan.block * plan.depth),
          driver_(std::move(driver)),
          record_(std::move(record)),
          slots_(plan.depth) {}

    void enter_lane() {
        if (lane_ == nullptr) return;
        lane_->enter(this, [weak = weak_from_this()] {
            if (const auto self = weak.lock()) self->on_first();
        });
    }

    // A read waits for its turn in the lane before it takes memory. A write may read the device
    // before its turn.
    Outcome open() override {
        take_turn();
        if (!writes_ && !has_turn()) return std::nullopt;
        if (!may_stage()) return std::nullopt;
        if (!at_once_ || memory_) return Status{};
        if (!std::exchange(open_asked_, true)) post([this] { begin(); });
        if (!opened_) return std::nullopt;
        return opened_status_;
    }

    void start(const Block &block) override {
        Slot &slot = slots_[block.slot];
        slot.done = false;
        if (at_once_)
            io_threads().run(
                [self = shared_from_this(), &slot, block] { self->call(slot, block); });
        else
            post([this, &slot, block] { call_in_order(slot, block); });
    }
    void skip(const Block &block) override { slots_[block.slot].set({}); }
    Outcome ended(const Block &block) override {
        take_turn();
        const Slot &slot = slots_[block.slot];
        if (!slot.done) return std::nullopt;
        return slot.result.status;
    }
    [[nodiscard]] std::size_t moved_of_failed(const Block &block) const override {
        return slots_[block.slot].result.bytes;
    }

    Outcome close() override {
        if (memory_) return Status{};
        take_turn();
        if (!finished_ && !std::exchange(close_asked_, true)) post([this] { finish(); });
        if (!finished_) return std::nullopt;
        return last_status_;
    }

    // Called when the transfer and its memory are destroyed. Calls may still run.
    void abandon() {
        if (staged_) staging_budget().give_back(staging_);
        if (lane_ != nullptr) lane_->leave(this);
    }

private:
    using Call = std::function<void()>;
    struct Slot {
        std::atomic<bool> done = true;
        FileResult result;

        void set(FileResult the_result) {
            result = std::move(the_result);
            done = true;
        }
    };

    bool may_stage() {
        if (staged_ || staging_ == 0 || driver_.calls_itself) return true;
        return staged_ =
                   staging_budget().take(staging_, lane_ != nullptr && has_turn(), driver_.wake);
    }

    // When finished, the transfer has left the lane and does not use the file any more.
    [[nodiscard]] bool has_turn() const {
        return lane_ == nullptr || finished_ || lane_->is_first(this);
    }

    // Queues a call. Queued calls run one after the other, and only in the transfer's turn.
    void post(Call call) {
        {
            const std::lock_guard lock(mutex_);
            in_order_.push_back(std::move(call));
        }
        run_calls();
    }

    void on_first() {
        if (!driver_.calls_itself) run_calls();
        driver_.wake();
    }
    // If the driver makes the calls itself, it makes the waiting calls here after a wake-up.
    void take_turn() {
        if (driver_.calls_itself) run_calls();
    }

    void run_calls() {
        {
            const std::lock_guard lock(mutex_);
            if (running_ || in_order_.empty() || !has_turn()) return;
            running_ = true;
        }
        if (driver_.calls_itself)
            run_until_empty();
        else
            (lane_ != nullptr ? lane_->thread() : io_threads()).run([self = shared_from_this()] {
                self->run_until_empty();
            });
    }

    void run_until_empty() {
        for (;;) {
            Call call;
            {
                const std::lock_guard lock(mutex_);
                if (in_order_.empty()) {
                    running_ = false;
                    return;
                }
                call = std::move(in_order_.front());
                in_order_.pop_front();
            }
            call();
        }
    }

    bool begin() {
        if (!std::exchange(begun_, true)) {
            opened_status_ = access_->begin();
            opened_ = true;
            driver_.wake();
        }
        return opened_status_.ok();
    }

    FileResult access(std::size_t offset, std::byte *host, std::size_t size) {
        const std::uint64_t start = now_ns();
        called_ = true;
        FileResult result =
            writes_ ? access_->write(offset, host, size) : access_->read(offset, host, size);
        record_->stage_done(Stage::file, start);
        return result;
    }

    void call(Slot &slot, const Block &block) {
        slot.set(access(block.offset, block.host, block.size));
        driver_.wake();
    }

    void call_in_order(Slot &slot, const Block &block) {
        if (!failure_.ok()) {
            slot.set({0, failure_});
        } else if (!begin()) {
            slot.set({0, opened_status_});
        } else {
            FileResult result = access(block.offset, block.host, block.size);
            failure_ = result.status;
            slot.set(std::move(result));
        }
        // Now, so that the next transfer of the lane need not wait for the device.
        if (!failure_.ok() || block.offset + block.size == size_) finish();
        driver_.wake();
    }

    void finish() {
        if (finished_) return;
        if (access_->ends_always() && begin() && access_->collective() && !called_)
            last_status_ = access(0, nullptr, 0).status;
        if (access_->direct_io()) record_->uses_direct_io();
        if (begun_ && opened_status_.ok()) access_->end();
        finished_ = true;
        if (lane_ != nullptr) lane_->leave(this);
        driver_.wake();
    }

    const std::shared_ptr<FileAccess> access_;
    const std::shared_ptr<FileLane> lane_;
    const bool writes_;
    const bool memory_;
    /// Several threads read blocks, or write blocks to memory, in parallel.
    const bool at_once_;
    const std::size_t size_;
    const std::size_t staging_;  ///< bytes of page-locked memory
    const FileDriver driver_;
    const std::shared_ptr<Record> record_;

    std::mutex mutex_;
    std::deque<Call> in_order_;
    bool running_ = false;

    // Used only by queued calls.
    bool begun_ = false;
    Status failure_;
    std::atomic<bool> called_ = false;

    // Written by calls and read by the driving thread.
    std::vector<Slot> slots_;
    std::atomic<bool> opened_ = false;
    Status opened_status_;
    std::atomic<bool> finished_ = false;
    Status last_status_;

    // Only used by the driving thread.
    bool staged_ = false;
    bool open_asked_ = false;
    bool close_asked_ = false;
};

}  // namespace

std::shared_ptr<Endpoint> make_file_endpoint(std::shared_ptr<FileAccess> access,
                                             Direction direction, std::size_t size,
                                             const Plan &plan, FileDriver driver,
                                             std::shared_ptr<Record> record) {
    const auto made = std::make_shared<FileEndpoint>(std::move(access), direction, size, plan,
                                                     std::move(driver), std::move(record));
    made->enter_lane();
    return {made.get(), [made](Endpoint *) { made->abandon(); }};
}

}  // namespace cldist
