#include "pipeline/device_endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "ocl/query.hpp"

namespace cldist {

cl_event *DeviceCommand::begin(bool blocking) {
    start_ns_ = now_ns();
    event_.reset();
    return blocking ? nullptr : event_.out();
}

void DeviceCommand::enqueued(cl_int code, const char *call, cl_command_queue queue) {
    code_ = code;
    call_ = call;
    // Without a flush the command may never run.
    if (code == CL_SUCCESS && event_) clFlush(queue);
}

Outcome DeviceCommand::ended() {
    if (code_ == CL_SUCCESS && event_) {
        const cl_int status = execution_status(event_.get());
        if (status > CL_COMPLETE) return std::nullopt;
        code_ = status;
        event_.reset();
    }
    if (code_ == CL_SUCCESS) return Status{};
    return Status::failure(code_, fmt::format("{} failed with {}", call_, code_));
}

void start_read(DeviceCommand &command, const DeviceRange &range, std::size_t offset, std::size_t size, void *to,
                bool blocking) {
    cl_event *event = command.begin(blocking);
    command.enqueued(clEnqueueReadBuffer(range.read_queue(), range.buffer.get(), blocking ? CL_TRUE : CL_FALSE,
                                         range.offset + offset, size, to, 0, nullptr, event),
                     "clEnqueueReadBuffer", range.read_queue());
}

void start_write(DeviceCommand &command, const DeviceRange &range, std::size_t offset, std::size_t size,
                 const void *from, bool blocking) {
    cl_event *event = command.begin(blocking);
    command.enqueued(clEnqueueWriteBuffer(range.write_queue(), range.buffer.get(), blocking ? CL_TRUE : CL_FALSE,
                                          range.offset + offset, size, from, 0, nullptr, event),
                     "clEnqueueWriteBuffer", range.write_queue());
}

namespace {

// Copies through a ring of staging blocks: by commands of the device, or, where the range is mapped, at once.
class StagedDevice final : public DeviceEndpoint {
public:
    StagedDevice(const DeviceRange &range, Direction direction, const Plan &plan, std::shared_ptr<Record> record)
        : range_(range), direction_(direction), block_(plan.block), slots_(plan.depth), record_(std::move(record)) {}

    Outcome open() override {
        try {
            staging_ = range_.resources->staging().lease(block_ * slots_.size());
        } catch (const Error &error) {
            return error.status();
        }
        return Status{};
    }

    std::byte *host(const Block &block) override { return staging_.data() + block.slot * block_; }

    void start(const Block &block) override {
        if (range_.mapped != nullptr) {
            copy_mapped(block);
            return;
        }
        DeviceCommand &command = slots_[block.slot].emplace();
        if (direction_ == Direction::send)
            start_read(command, range_, block.offset, block.size, block.host, false);
        else
            start_write(command, range_, block.offset, block.size, block.host, false);
    }

    void skip(const Block &block) override { slots_[block.slot].reset(); }

    Outcome ended(const Block &block) override {
        auto &command = slots_[block.slot];
        if (!command) return Status{};
        const Outcome outcome = command->ended();
        if (outcome) record_->stage_done(Stage::device, command->start_ns());
        return outcome;
    }

private:
    void copy_mapped(const Block &block) {
        const std::uint64_t start = now_ns();
        if (direction_ == Direction::send)
            std::memcpy(block.host, range_.mapped + block.offset, block.size);
        else
            std::memcpy(range_.mapped + block.offset, block.host, block.size);
        record_->stage_done(Stage::device, start);
    }

    const DeviceRange &range_;
    const Direction direction_;
    const std::size_t block_;
    StagingPool::Lease staging_;
    std::vector<std::optional<DeviceCommand>> slots_;
    const std::shared_ptr<Record> record_;
};

// Gives the device's memory itself.
class MappedDevice final : public DeviceEndpoint {
public:
    explicit MappedDevice(std::byte *memory) : memory_(memory) {}

    std::byte *host(const Block &block) override { return memory_ + block.offset; }
    void start(const Block &) override {}
    void skip(const Block &) override {}
    Outcome ended(const Block &) override { return Status{}; }

private:
    std::byte *const memory_;
};

}  // namespace

std::unique_ptr<DeviceEndpoint> make_device_endpoint(const DeviceRange &range, Direction direction, const Plan &plan,
                                                     std::shared_ptr<Record> record) {
    if (plan.path == Path::mapped) return std::make_unique<MappedDevice>(range.mapped);
    return std::make_unique<StagedDevice>(range, direction, plan, std::move(record));
}

}  // namespace cldist
