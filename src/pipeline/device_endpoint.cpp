#include "pipeline/device_endpoint.hpp"

#include <algorithm>
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

void DeviceCommand::wait() {
    const cl_event event = event_.get();
    if (event != nullptr) clWaitForEvents(1, &event);
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

// Copies through a ring of staging blocks.
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
    const DeviceRange &range_;
    const Direction direction_;
    const std::size_t block_;
    StagingPool::Lease staging_;
    std::vector<std::optional<DeviceCommand>> slots_;
    const std::shared_ptr<Record> record_;
};

// Gives the device's memory itself, mapped for as long as the transfer takes.
class MappedDevice final : public DeviceEndpoint {
public:
    MappedDevice(const DeviceRange &range, Direction direction, std::size_t size, std::shared_ptr<Record> record)
        : range_(range), direction_(direction), size_(size), record_(std::move(record)) {}

    Outcome open() override {
        if (!opened_) {
            opened_ = true;
            const bool send = direction_ == Direction::send;
            cl_event *event = map_.begin(range_.blocking());
            cl_int code = CL_SUCCESS;
            memory_ = static_cast<std::byte *>(clEnqueueMapBuffer(
                queue(), range_.buffer.get(), range_.blocking() ? CL_TRUE : CL_FALSE,
                send ? CL_MAP_READ : CL_MAP_WRITE_INVALIDATE_REGION, range_.offset, size_, 0, nullptr, event, &code));
            map_.enqueued(code, "clEnqueueMapBuffer", queue());
            if (code != CL_SUCCESS) memory_ = nullptr;
        }
        const Outcome outcome = map_.ended();
        if (outcome) record_->stage_done(Stage::device, map_.start_ns());
        return outcome;
    }

    std::byte *host(const Block &block) override { return memory_ + block.offset; }
    void start(const Block &) override {}
    void skip(const Block &) override {}
    Outcome ended(const Block &) override { return Status{}; }

    Outcome close() override {
        if (memory_ != nullptr) {
            cl_event *event = unmap_.begin(false);
            unmap_.enqueued(clEnqueueUnmapMemObject(queue(), range_.buffer.get(), memory_, 0, nullptr, event),
                            "clEnqueueUnmapMemObject", queue());
            memory_ = nullptr;
            if (range_.blocking() && direction_ == Direction::recv) unmap_.wait();
        }
        // What was mapped for reading has nothing to bring back: nobody needs to wait.
        if (direction_ == Direction::send) return Status{};
        const Outcome outcome = unmap_.ended();
        if (outcome) record_->stage_done(Stage::device, unmap_.start_ns());
        return outcome;
    }

private:
    [[nodiscard]] cl_command_queue queue() const {
        return direction_ == Direction::send ? range_.read_queue() : range_.write_queue();
    }

    const DeviceRange &range_;
    const Direction direction_;
    const std::size_t size_;
    bool opened_ = false;
    std::byte *memory_ = nullptr;
    DeviceCommand map_;
    DeviceCommand unmap_;
    const std::shared_ptr<Record> record_;
};

}  // namespace

std::unique_ptr<DeviceEndpoint> make_device_endpoint(const DeviceRange &range, Direction direction, std::size_t size,
                                                     const Plan &plan, std::shared_ptr<Record> record) {
    if (plan.path == Path::mapped) return std::make_unique<MappedDevice>(range, direction, size, std::move(record));
    return std::make_unique<StagedDevice>(range, direction, plan, std::move(record));
}

}  // namespace cldist
