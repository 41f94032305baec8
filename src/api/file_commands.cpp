#include "api/file_commands.hpp"

#include <cerrno>
#include <optional>
#include <utility>

#include "api/boundary.hpp"
#include "api/run_command.hpp"
#include "api/starting.hpp"
#include "base/wakeup.hpp"
#include "pipeline/file_operation.hpp"

namespace cldist {
namespace {

// Up to this size a blocking command copies instead of mapping.
constexpr std::size_t largest_copied_in_queue = 512 * 1024;

class FileCall final : public CheckedCall {
public:
    FileCall(const FileCommand &file, const MakeFileAccess &make_access) : range_(file.range) {
        arguments = file.arguments;
        queue = check_command(arguments, {&range_, 1});
        access_ = make_access(range_.size);
        if (range_.size != file.range.size) check_command(arguments, {&range_, 1});
        // Other processes wait for a collective command, even if its wait list has failed.
        if (arguments.blocking != CL_FALSE && !access_->collective()) check_not_failed(arguments);
        resources = resources_of(queue, {&range_.buffer, 1});
    }

    [[nodiscard]] ProgressThread &progress_thread() const override {
        return file_progress_thread();
    }

    std::span<Mapping> make_mappings(Drives driver) override {
        // A copy of a small range takes one command. Mapping and unmapping take two.
        if (driver == Drives::caller_in_queue && range_.size <= largest_copied_in_queue &&
            host_path(config()) == Path::automatic)
            return {};
        const Advice *const advice = file_advice(*resources, range_.direction, *access_);
        if (!may_map(range_, *resources, advice) || range_.size == 0) return {};
        // Not CL_MAP_WRITE_INVALIDATE_REGION, because a file may end early.
        const cl_map_flags flags = writes() ? CL_MAP_WRITE : CL_MAP_READ;
        return {&mapping_.emplace(Mapping{range_.buffer, range_.offset, range_.size, flags}), 1};
    }

    [[nodiscard]] Operations make_operations(Drives driver) const override {
        const auto [buffer, offset] = held(range_, *resources);
        std::byte *const mapped = mapping_ ? static_cast<std::byte *>(mapping_->memory) : nullptr;
        const cl_command_queue copying = driver == Drives::caller_in_queue ? queue.queue : nullptr;
        return only(make_file_transfer(
            {resources, Mem::share(buffer), offset, range_.size, mapped, Queue::share(copying)},
            range_.direction, access_, driver != Drives::progress_thread));
    }

    // The calling thread makes the file calls, except calls that several threads make. Without an
    // event, only large reads use other threads.
    void drive_here(Command &command, const Status &gate) const override {
        const auto wakeup = std::make_shared<Wakeup>();
        command.woken_by([wakeup] { wakeup->wake(); });
        command.start(gate);
        drive(command, *wakeup);
    }

    // If the command writes the file, its first copy waits in the queue instead. A file with a lane
    // needs the gate, because the command would otherwise block the lane while it waits.
    [[nodiscard]] bool needs_gate(bool has_mappings) const override {
        return has_mappings || arguments.num_events != 0 || range_.size == 0 ||
               !progress_thread().idle() || writes() || access_->lane() != nullptr;
    }

    [[nodiscard]] bool writes() const override { return !reads_device(range_.direction); }

private:
    RangeArgument range_;
    std::shared_ptr<FileAccess> access_;
    std::optional<Mapping> mapping_;
};

}  // namespace

cl_int run_file_command(const char *call, const FileCommand &command,
                        const MakeFileAccess &make_access) noexcept {
    int system_error = errno;  // errno is unchanged unless the command sets it
    const cl_int code = at_boundary(call, [&] {
        FileCall checked(command, make_access);
        // The progress thread's stall reports also cover blocking commands.
        file_progress_thread();
        Status status = run_command(checked);
        if (status.system_error != 0) system_error = status.system_error;
        if (!status.ok()) throw Error(std::move(status));
    });
    errno = system_error;
    return code;
}

}  // namespace cldist
