#include "pipeline/file_endpoint.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
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

// A transfer's memory of the budget.
class StagingShare {
public:
    explicit StagingShare(std::size_t size) : size_(size) {}

    /// See StagingBudget::take(). Only the first success takes memory.
    bool take(bool at_once, const Waker &wake) {
        return size_ == 0 || taken_ || (taken_ = staging_budget().take(size_, at_once, wake));
    }
    void give_back() const {
        if (taken_) staging_budget().give_back(size_);
    }

private:
    const std::size_t size_;  ///< bytes of page-locked memory
    bool taken_ = false;
};

// A transfer's calls on its file, which may block. Only access() may run in several threads at
// once.
class TransferFile {
public:
    TransferFile(std::shared_ptr<FileAccess> access, bool writes, std::shared_ptr<Record> record)
        : access_(std::move(access)), writes_(writes), record_(std::move(record)) {}

    [[nodiscard]] bool writes() const { return writes_; }
    [[nodiscard]] bool is_memory() const { return access_->is_memory(); }

    const Status &begin() {
        if (!begun_) begun_ = access_->begin();
        return *begun_;
    }
    FileResult access(std::size_t offset, std::byte *host, std::size_t size) {
        const std::uint64_t start = now_ns();
        accessed_ = true;
        FileResult result =
            writes_ ? access_->write(offset, host, size) : access_->read(offset, host, size);
        record_->stage_done(Stage::file, start);
        return result;
    }
    Status end() {
        Status last;
        if (access_->ends_always() && begin().ok() && access_->collective() && !accessed_)
            last = access(0, nullptr, 0).status;
        if (access_->direct_io()) record_->uses_direct_io();
        if (begun_ && begun_->ok()) access_->end();
        return last;
    }

private:
    const std::shared_ptr<FileAccess> access_;
    const bool writes_;
    const std::shared_ptr<Record> record_;
    std::optional<Status> begun_;
    std::atomic<bool> accessed_ = false;
};

// Calls that run one after the other.
class CallQueue {
public:
    using Call = std::function<void()>;

    void add(Call call) {
        const std::lock_guard lock(mutex_);
        calls_.push_back(std::move(call));
    }
    /// Returns true if there are calls that no thread runs. The caller must then run them.
    bool claim() {
        const std::lock_guard lock(mutex_);
        return !calls_.empty() && !std::exchange(running_, true);
    }
    void run() {
        for (;;) {
            Call call;
            {
                const std::lock_guard lock(mutex_);
                if (calls_.empty()) {
                    running_ = false;
                    return;
                }
                call = std::move(calls_.front());
                calls_.pop_front();
            }
            call();
        }
    }

private:
    std::mutex mutex_;
    std::deque<Call> calls_;
    bool running_ = false;
};

/// Its calls may outlive the transfer, because an abandoned command is destroyed early.
class FileEndpoint final : public Endpoint, public std::enable_shared_from_this<FileEndpoint> {
public:
    FileEndpoint(std::shared_ptr<FileAccess> access, Direction direction, std::size_t size,
                 const Plan &plan, FileDriver driver, std::shared_ptr<Record> record)
        : lane_(access->lane()),
          at_once_(access->is_memory() || (direction != Direction::to_file && lane_ == nullptr &&
                                           plan.depth > 1 && access->parallel_reads())),
          size_(size),
          driver_(std::move(driver)),
          file_(std::move(access), direction == Direction::to_file, std::move(record)),
          staging_(plan.path == Path::mapped ? 0 : plan.block * plan.depth),
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
        if (!file_.writes() && !has_turn()) return std::nullopt;
        if (!driver_.calls_itself && !staging_.take(lane_ != nullptr && has_turn(), driver_.wake))
            return std::nullopt;
        if (!at_once_ || file_.is_memory()) return Status{};
        if (!std::exchange(opened_.asked, true))
            post([this] {
                opened_.set(file_.begin());
                driver_.wake();
            });
        return opened_.outcome();
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
        if (file_.is_memory()) return Status{};
        take_turn();
        if (!closed_.done && !std::exchange(closed_.asked, true)) post([this] { finish(); });
        return closed_.outcome();
    }

    // Called when the transfer and its memory are destroyed. Calls may still run.
    void abandon() {
        staging_.give_back();
        if (lane_ != nullptr) lane_->leave(this);
    }

private:
    struct Slot {
        std::atomic<bool> done = true;
        FileResult result;

        void set(FileResult the_result) {
            result = std::move(the_result);
            done = true;
        }
    };

    // The result of opening or closing, which a call sets and the driving thread reads.
    struct Answer {
        bool asked = false;  ///< only used by the driving thread
        std::atomic<bool> done = false;
        Status status;

        void set(Status the_status) {
            status = std::move(the_status);
            done = true;
        }
        [[nodiscard]] Outcome outcome() const { return done ? Outcome(status) : std::nullopt; }
    };

    // When finished, the transfer has left the lane and does not use the file any more.
    [[nodiscard]] bool has_turn() const {
        return lane_ == nullptr || closed_.done || lane_->is_first(this);
    }

    // Queues a call. Queued calls run one after the other, and only in the transfer's turn.
    void post(CallQueue::Call call) {
        calls_.add(std::move(call));
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
        if (!has_turn() || !calls_.claim()) return;
        if (driver_.calls_itself)
            calls_.run();
        else
            (lane_ != nullptr ? lane_->thread() : io_threads()).run([self = shared_from_this()] {
                self->calls_.run();
            });
    }

    void call(Slot &slot, const Block &block) {
        slot.set(file_.access(block.offset, block.host, block.size));
        driver_.wake();
    }

    void call_in_order(Slot &slot, const Block &block) {
        if (!failure_.ok()) {
            slot.set({0, failure_});
        } else if (const Status &begun = file_.begin(); !begun.ok()) {
            slot.set({0, begun});
        } else {
            FileResult result = file_.access(block.offset, block.host, block.size);
            failure_ = result.status;
            slot.set(std::move(result));
        }
        // Now, so that the next transfer of the lane need not wait for the device.
        if (!failure_.ok() || block.offset + block.size == size_) finish();
        driver_.wake();
    }

    void finish() {
        if (closed_.done) return;
        closed_.set(file_.end());
        if (lane_ != nullptr) lane_->leave(this);
        driver_.wake();
    }

    const std::shared_ptr<FileLane> lane_;
    /// Several threads read blocks, or write blocks to memory, in parallel.
    const bool at_once_;
    const std::size_t size_;
    const FileDriver driver_;
    TransferFile file_;
    StagingShare staging_;  ///< only used by the driving thread
    CallQueue calls_;
    Status failure_;  ///< only used by queued calls
    std::vector<Slot> slots_;
    Answer opened_;
    Answer closed_;
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
