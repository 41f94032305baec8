#include "pipeline/device_endpoint.hpp"

#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/error_code.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist {

Exports DeviceRange::exports() const {
    if (resources == nullptr || !resources->exports()) return Exports::nothing;
    return ExportedMemory::of(buffer.get()) != nullptr ? Exports::range : Exports::landing;
}

cl_event *DeviceCommand::begin() {
    start_ns_ = now_ns();
    return event_.out();
}

void DeviceCommand::enqueued(cl_int code, const char *call, cl_command_queue queue, bool wait) {
    code_ = code;
    call_ = call;
    if (code != CL_SUCCESS) return;
    // Without a flush the command may never run.
    flush_if_needed(queue);
    const cl_event event = event_.get();
    if (wait) clWaitForEvents(1, &event);
}

Outcome DeviceCommand::ended() {
    if (code_ == CL_SUCCESS && event_) {
        const cl_int status = execution_status(event_.get());
        if (status > CL_COMPLETE) return std::nullopt;
        code_ = status;
        event_.reset();
    }
    if (code_ == CL_SUCCESS) return Status{};
    return Status::failure(code_, fmt::format("{} failed with {}", call_, code_text(code_)));
}

namespace {

// Device memory for the packed bytes of a strided range.
struct Packed {
    cl_mem buffer;
    std::size_t offset;  // bytes
};

RectCopy rect_copy(const DeviceRange &range, std::size_t offset, std::size_t size,
                   const Packed &packed) {
    return {*range.strided, range.buffer.get(), range.offset, offset,
            size,           packed.buffer,      packed.offset};
}

void start_packed_read(DeviceCommand &command, const DeviceRange &range, std::size_t offset,
                       std::size_t size, const Packed &packed, void *to) {
    cl_event *event = command.begin();
    const cl_command_queue queue = range.read_queue();
    Event ready;
    const cl_int code = range.resources->rect_kernels().enqueue(
        RectKernels::Way::pack, queue, rect_copy(range, offset, size, packed), nullptr,
        ready.out());
    if (code != CL_SUCCESS) {
        command.enqueued(code, "packing a strided region", queue, false);
        return;
    }
    const cl_event after = ready.get();
    command.enqueued(clEnqueueReadBuffer(queue, packed.buffer, CL_FALSE, packed.offset, size, to, 1,
                                         &after, event),
                     "clEnqueueReadBuffer", queue, false);
}

void start_packed_write(DeviceCommand &command, const DeviceRange &range, std::size_t offset,
                        std::size_t size, const Packed &packed, const void *from) {
    cl_event *event = command.begin();
    const cl_command_queue queue = range.write_queue();
    Event written;
    const cl_int code = clEnqueueWriteBuffer(queue, packed.buffer, CL_FALSE, packed.offset, size,
                                             from, 0, nullptr, written.out());
    if (code != CL_SUCCESS) {
        command.enqueued(code, "clEnqueueWriteBuffer", queue, false);
        return;
    }
    command.enqueued(range.resources->rect_kernels().enqueue(RectKernels::Way::unpack, queue,
                                                             rect_copy(range, offset, size, packed),
                                                             written.get(), event),
                     "unpacking a strided region", queue, false);
}

}  // namespace

void start_read(DeviceCommand &command, const DeviceRange &range, std::size_t offset,
                std::size_t size, void *to, bool wait) {
    if (range.strided) {
        command.scratch() = range.resources->scratch().lease(size);
        start_packed_read(command, range, offset, size, {command.scratch().get(), 0}, to);
        return;
    }
    cl_event *event = command.begin();
    command.enqueued(clEnqueueReadBuffer(range.read_queue(), range.buffer.get(), CL_FALSE,
                                         range.offset + offset, size, to, 0, nullptr, event),
                     "clEnqueueReadBuffer", range.read_queue(), wait);
}

void start_write(DeviceCommand &command, const DeviceRange &range, std::size_t offset,
                 std::size_t size, const void *from, bool wait) {
    if (range.strided) {
        command.scratch() = range.resources->scratch().lease(size);
        start_packed_write(command, range, offset, size, {command.scratch().get(), 0}, from);
        return;
    }
    cl_event *event = command.begin();
    command.enqueued(clEnqueueWriteBuffer(range.write_queue(), range.buffer.get(), CL_FALSE,
                                          range.offset + offset, size, from, 0, nullptr, event),
                     "clEnqueueWriteBuffer", range.write_queue(), wait);
}

void start_copy(DeviceCommand &command, const DeviceRange &range, std::size_t size, cl_mem from,
                std::size_t from_offset) {
    const cl_command_queue queue = range.write_queue();
    cl_event *const event = command.begin();
    const cl_int code = range.strided
                            ? range.resources->rect_kernels().enqueue(
                                  RectKernels::Way::unpack, queue,
                                  rect_copy(range, 0, size, {from, from_offset}), nullptr, event)
                            : clEnqueueCopyBuffer(queue, from, range.buffer.get(), from_offset,
                                                  range.offset, size, 0, nullptr, event);
    command.enqueued(code, "copying a message to a buffer", queue, false);
}

void read_mapped(const DeviceRange &range, std::size_t offset, std::size_t size, std::byte *to) {
    if (range.strided)
        pack(*range.strided, range.mapped, offset, size, to);
    else
        std::memcpy(to, range.mapped + offset, size);
}

void write_mapped(const DeviceRange &range, std::size_t offset, std::size_t size,
                  const std::byte *from) {
    if (range.strided)
        unpack(*range.strided, range.mapped, offset, size, from);
    else
        std::memcpy(range.mapped + offset, from, size);
}

namespace {

// Copies blocks with a command per slot.
class CopyingDevice : public DeviceEndpoint {
public:
    CopyingDevice(const DeviceRange &range, Direction direction, const Plan &plan,
                  std::shared_ptr<Record> record)
        : range_(range),
          sends_(reads_device(direction)),
          block_(plan.block),
          slots_(plan.depth),
          record_(std::move(record)) {}

    void skip(const Block &block) override { slots_[block.slot].reset(); }

    Outcome ended(const Block &block) override {
        auto &command = slots_[block.slot];
        if (!command) return Status{};
        Outcome outcome = command->ended();
        if (!outcome) return std::nullopt;
        record_->stage_done(Stage::device, command->start_ns());
        command.reset();
        return outcome;
    }

protected:
    const DeviceRange &range_;
    const bool sends_;
    const std::size_t block_;
    std::vector<std::optional<DeviceCommand>> slots_;
    const std::shared_ptr<Record> record_;
};

// Copies through staging blocks, one per slot, which are in a Ring if two processes share them. The
// device's commands copy, or the calling thread copies if the range is mapped.
class StagedDevice final : public CopyingDevice {
public:
    StagedDevice(const DeviceRange &range, Direction direction, const Plan &plan,
                 std::shared_ptr<Record> record, std::shared_ptr<Ring> ring)
        : CopyingDevice(range, direction, plan, std::move(record)), ring_(std::move(ring)) {}

    Outcome open() override {
        opened_ = true;
        try {
            if (ring_ == nullptr)
                staging_ = range_.resources->staging().lease(block_ * slots_.size());
            else if (range_.mapped == nullptr && sends_)
                range_.resources->lock_pages(*ring_);
            if (range_.strided && range_.mapped == nullptr) open_packed();
        } catch (const Error &error) {
            return error.status();
        }
        return Status{};
    }

    std::byte *host(const Block &block) override {
        return (ring_ != nullptr ? ring_->data() : staging_.get()) + block.slot * block_;
    }

    void start(const Block &block) override {
        if (range_.mapped != nullptr) {
            copy_mapped(block);
            return;
        }
        DeviceCommand &command = slots_[block.slot].emplace();
        const bool wait = slots_.size() == 1 && range_.waits_for_copies();
        if (range_.strided)
            start_packed(command, block);
        else if (sends_)
            start_read(command, range_, block.offset, block.size, block.host, wait);
        else
            start_write(command, range_, block.offset, block.size, block.host, wait);
    }

    // Page-locking may overwrite the memory with old contents. A receiver therefore page-locks the
    // ring here, when the sender fills no block.
    Outcome close() override {
        // A transfer that failed before its start may not even have a range.
        if (opened_ && ring_ != nullptr && range_.mapped == nullptr && !sends_) {
            try {
                range_.resources->lock_pages(*ring_);
            } catch (const Error &error) {
                return error.status();
            }
        }
        return Status{};
    }

private:
    // Makes the calls that may fail, before the first block.
    void open_packed() {
        packed_ = range_.resources->scratch().lease(packed_block() * slots_.size());
        range_.resources->rect_kernels();
    }
    // Bytes per slot, rounded up so that each slot is aligned for any element.
    [[nodiscard]] std::size_t packed_block() const { return (block_ + 15) / 16 * 16; }

    void start_packed(DeviceCommand &command, const Block &block) {
        const Packed packed{packed_.get(), block.slot * packed_block()};
        if (sends_)
            start_packed_read(command, range_, block.offset, block.size, packed, block.host);
        else
            start_packed_write(command, range_, block.offset, block.size, packed, block.host);
    }

    void copy_mapped(const Block &block) {
        const std::uint64_t start = now_ns();
        if (sends_)
            read_mapped(range_, block.offset, block.size, block.host);
        else
            write_mapped(range_, block.offset, block.size, block.host);
        record_->stage_done(Stage::device, start);
    }

    const std::shared_ptr<Ring> ring_;
    bool opened_ = false;
    StagingPool::Lease staging_;
    ScratchPool::Lease packed_;  ///< for a strided range: one part per slot
};

// Copies on the device, from or to device memory that is shared with another process.
class DirectDevice final : public CopyingDevice {
public:
    DirectDevice(const DeviceRange &range, Direction direction, const Plan &plan,
                 std::shared_ptr<Record> record, SharedPlace place)
        : CopyingDevice(range, direction, plan, std::move(record)), place_(std::move(place)) {}

    std::byte *host(const Block &) override { return nullptr; }

    void start(const Block &block) override {
        const cl_command_queue queue = sends_ ? range_.read_queue() : range_.write_queue();
        if (sends_ && place_.is_range) {
            // In a blocking call, earlier commands of the queue must end before the other process
            // reads.
            if (range_.caller_queue && block.index == 0) clFinish(queue);
            return;
        }
        const cl_mem own = range_.buffer.get();
        const cl_mem shared = place_.device.get();
        const std::size_t at = range_.offset + block.offset;
        const std::size_t there =
            place_.offset + (place_.is_range ? block.offset : block.slot * block_);
        DeviceCommand &command = slots_[block.slot].emplace();
        cl_event *const event = command.begin();
        const cl_int code =
            sends_
                ? clEnqueueCopyBuffer(queue, own, shared, at, there, block.size, 0, nullptr, event)
                : clEnqueueCopyBuffer(queue, shared, own, there, at, block.size, 0, nullptr, event);
        command.enqueued(code, "clEnqueueCopyBuffer", queue, false);
    }

private:
    const SharedPlace place_;
};

// Uses the device's memory in place.
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

std::unique_ptr<DeviceEndpoint> make_device_endpoint(const DeviceRange &range, Direction direction,
                                                     const Plan &plan,
                                                     std::shared_ptr<Record> record,
                                                     SharedPlace shared) {
    if (plan.path == Path::peer_to_peer)
        return std::make_unique<DirectDevice>(range, direction, plan, std::move(record),
                                              std::move(shared));
    if (plan.path == Path::mapped) return std::make_unique<MappedDevice>(range.mapped);
    return std::make_unique<StagedDevice>(range, direction, plan, std::move(record),
                                          std::move(shared.ring));
}

}  // namespace cldist
