#include "pipeline/file_operation.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/forks.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "pipeline/block_transfer.hpp"
#include "pipeline/cleanup.hpp"

namespace cldist {
namespace {

class FileTransfer final : public Operation {
public:
    FileTransfer(std::shared_ptr<Record> record, DeviceRange range, Direction direction,
                 std::shared_ptr<FileAccess> access, bool calls_itself)
        : Operation(std::move(record)),
          range_(std::move(range)),
          direction_(direction),
          access_(std::move(access)),
          driver_{{}, calls_itself} {}

    void woken_by(const Waker &waker) override { driver_.wake = waker; }
    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        if (!access_->ends_always() && (!gate.ok() || range_.size == 0)) {
            access_.reset();  // after the end of the event the library must not use the file
            return;
        }
        const std::size_t size = gate.ok() ? range_.size : 0;
        const Plan plan = plan_of(size);
        record()->chosen(plan.path, plan.block, plan.depth);
        attempt([&] {
            blocks_.emplace(range_, direction_, size, plan,
                            make_file_endpoint(access_, direction_, size, plan, driver_, record()),
                            record(), gate);
        });
    }

    Progress poll() override {
        if (!blocks_) return Progress::done;
        const Progress progress = blocks_->poll();
        if (progress == Progress::done && !blocks_->status().ok()) fail(blocks_->status());
        return progress;
    }

    // Always, because running calls use the memory.
    [[nodiscard]] bool bytes_in_flight() const override { return blocks_.has_value(); }
    [[nodiscard]] bool wakes() const override { return !blocks_ || !blocks_->device_busy(); }

private:
    [[nodiscard]] Plan plan_of(std::size_t size) const {
        if (size == 0) return {Path::mapped, 1, 1, false};
        const bool threads = access_->is_memory() ||
                             (direction_ == Direction::from_file && access_->parallel_reads());
        const std::size_t first = access_->first_block();
        Situation situation{range_.host_memory(),
                            range_.mapped != nullptr && fits(range_.mapped + first), false};
        situation.advice = file_advice(*range_.resources, direction_, *access_);
        return plan_file(
            size, situation,
            {threads ? io_thread_count() : 1, access_->granularity(), first, access_->is_memory()},
            config());
    }

    [[nodiscard]] bool fits(const std::byte *memory) const {
        return reinterpret_cast<std::uintptr_t>(memory) % access_->memory_alignment() == 0;
    }

    const DeviceRange range_;
    const Direction direction_;
    std::shared_ptr<FileAccess> access_;
    FileDriver driver_;
    std::optional<BlockTransfer> blocks_;
};

std::atomic<ProgressThread *> progress_thread{nullptr};
std::atomic<void (*)()> give_up_at_end{nullptr};

void at_exit() {
    if (in_forked_child()) return;
    if (!file_progress_thread().wait_idle(config().stall_seconds))
        log_error("the program ends, but these commands have not ended:{}",
                  pending_records().account(true));
    file_progress_thread().stop(std::nullopt);
    if (void (*const give_up)() = give_up_at_end) give_up();
    trace::flush();
}

ProgressThread *make_file_progress_thread() {
    start_cleanup_thread();
    auto *made = new ProgressThread(nullptr, config().stall_seconds);
    std::atexit(&at_exit);
    at_cleanup_rounds([] {
        if (ProgressThread *const files = find_file_progress_thread()) files->remains().release();
    });
    return progress_thread = made;
}

}  // namespace

ProgressThread &file_progress_thread() {
    static ProgressThread &made = *make_file_progress_thread();
    return made;
}

ProgressThread *find_file_progress_thread() { return progress_thread; }

void at_end_of_files(void (*give_up)()) { give_up_at_end = give_up; }

std::unique_ptr<Operation> make_file_transfer(DeviceRange range, Direction direction,
                                              std::shared_ptr<FileAccess> access,
                                              bool calls_itself) {
    auto record = std::make_shared<Record>(direction, access->name(), range.size);
    return std::make_unique<FileTransfer>(std::move(record), std::move(range), direction,
                                          std::move(access), calls_itself);
}

}  // namespace cldist
