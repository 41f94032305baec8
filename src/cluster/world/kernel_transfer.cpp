#include "cluster/world/kernel_transfer.hpp"

#include <utility>

#include "cluster/execution/operations.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {
namespace {

class KernelTransfer : public Operation {
public:
    KernelTransfer(KernelEnd end, const std::shared_ptr<DeviceLinks> &links, Direction direction,
                   MessageDriver &driver)
        : Operation(record_of(direction, end.wire, end.range.size)),
          end_(std::move(end)),
          driver_(driver),
          ordered_(links, direction, end_.range.size) {
        record()->chosen(Path::kernel, end_.range.size, 1);
    }

    [[nodiscard]] bool reserve() { return ordered_.reserve(end_.wire.rank, end_.queue->queue); }
    [[nodiscard]] bool bytes_in_flight() const override { return true; }

protected:
    [[nodiscard]] Event enqueue_kernel(std::span<const cl_event> wait_list) {
        Event event;
        ordered_.enqueue(ordered_.move_of(end_.range.buffer.get(), end_.range.offset), wait_list,
                         event.out());
        return event;
    }
    Progress end_with_kernel() {
        if (!ordered_.ended()) return Progress::idle;
        if (status().ok()) record()->moved(end_.range.size);
        return Progress::done;
    }

    const KernelEnd end_;
    MessageDriver &driver_;
    OrderedCommand ordered_;
    MessageHeader header_;
    MessageTicket ticket_;
};

class KernelSend final : public KernelTransfer {
public:
    KernelSend(KernelEnd end, const std::shared_ptr<DeviceLinks> &links, MessageDriver &driver)
        : KernelTransfer(std::move(end), links, Direction::send, driver) {}

    [[nodiscard]] Event enqueue(std::span<const cl_event> wait_list) {
        return enqueue_kernel(wait_list);
    }

    void start(const Status & /*gate*/) override {
        ordered_.describe(header_);
        header_.size = end_.range.size;
        driver_.send(&header_, sizeof header_, end_.wire.rank, end_.wire.tag, end_.wire.comm,
                     ticket_);
    }
    Progress poll() override {
        if (!ticket_.done) return Progress::idle;
        if (ticket_.error != MPI_SUCCESS) fail(mpi_failure(ticket_.error, "MPI_Isend"));
        if (ordered_.failed() && status().ok()) {
            fail(failed_before(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST));
            ordered_.spoil();
        }
        return end_with_kernel();
    }
};

class KernelReceive final : public KernelTransfer {
public:
    KernelReceive(KernelEnd end, const std::shared_ptr<DeviceLinks> &links, MessageDriver &driver,
                  std::unique_ptr<Operation> by_host)
        : KernelTransfer(std::move(end), links, Direction::recv, driver),
          links_(*links),
          by_host_(std::move(by_host)) {}

    [[nodiscard]] Event enqueue(std::span<const cl_event> wait_list) {
        ordered_.hold(*end_.queue, wait_list);
        return enqueue_kernel({});
    }

    void woken_by(const Waker &waker) override { by_host_->woken_by(waker); }
    void start(const Status & /*gate*/) override {
        driver_.receive(&header_, sizeof header_, end_.wire.rank, end_.wire.tag, end_.wire.comm,
                        ticket_);
    }
    Progress poll() override {
        if (ordered_.granted() || released_) return end_with_kernel();
        if (!ticket_.done) return Progress::idle;
        if (ticket_.error != MPI_SUCCESS)
            return fail_kernel(mpi_failure(ticket_.error, "MPI_Irecv"));
        const int rank = end_.wire.rank;
        if (header_.slot == 0) return poll_host();
        if (!links_.landed(rank, header_)) return Progress::idle;
        if (!links_.spoiled(rank, header_) && ordered_.grant(rank, header_)) return Progress::moved;
        links_.note_taken(rank, header_);
        return fail_kernel(failed_before(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST));
    }

private:
    Progress poll_host() {
        if (!host_started_) {
            if (!ordered_.started() && !ordered_.failed()) return Progress::idle;
            host_started_ = true;
            by_host_->start(ordered_.failed()
                                ? failed_before(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
                                : Status{});
        }
        const Progress progress = by_host_->poll();
        if (progress != Progress::done) return progress;
        if (!by_host_->status().ok()) return fail_kernel(by_host_->status());
        ordered_.release();
        released_ = true;
        return Progress::moved;
    }
    Progress fail_kernel(const Status &status) {
        fail(status);
        ordered_.fail(status.code);
        return Progress::done;
    }

    DeviceLinks &links_;
    const std::unique_ptr<Operation> by_host_;
    bool host_started_ = false;
    bool released_ = false;
};

template <typename Transfer>
Event start(std::unique_ptr<Transfer> transfer, std::span<const cl_event> wait_list,
            ProgressThread &progress_thread) {
    if (!transfer->reserve()) return {};
    Event event = transfer->enqueue(wait_list);
    progress_thread.submit(command_of(std::move(transfer)), {});
    return event;
}

}  // namespace

Event send_by_kernel(KernelEnd end, const std::shared_ptr<DeviceLinks> &links,
                     MessageDriver &driver, ProgressThread &progress_thread) {
    const std::span<const cl_event> wait_list = end.wait_list;
    return start(std::make_unique<KernelSend>(std::move(end), links, driver), wait_list,
                 progress_thread);
}

Event receive_by_kernel(KernelEnd end, const std::shared_ptr<DeviceLinks> &links,
                        MessageDriver &driver, ProgressThread &progress_thread,
                        std::unique_ptr<Operation> by_host) {
    const std::span<const cl_event> wait_list = end.wait_list;
    return start(std::make_unique<KernelReceive>(std::move(end), links, driver, std::move(by_host)),
                 wait_list, progress_thread);
}

}  // namespace cldist::cluster
