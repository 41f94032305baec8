#include "mpi_interop/small_message.hpp"

#include <cstring>
#include <span>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "base/error_code.hpp"
#include "base/per_thread.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"
#include "mpi_interop/wire.hpp"

namespace cldist {
namespace {

// The calling thread's memory for a header and its payload.
std::byte *message_memory() {
    struct Memory {
        std::byte bytes[header_size + largest_small];
    };
    return per_thread<Memory>().bytes;
}

// Waits on the calling thread. Longer waits appear in the stall report.
class Wait {
public:
    Wait(Direction direction, const SmallMessage &message)
        : direction_(direction), message_(message) {}
    Wait(const Wait &) = delete;
    Wait &operator=(const Wait &) = delete;
    ~Wait() {
        pending_records().note_progress(now_ns());
        if (record_ != nullptr) pending_records().remove(*record_);
    }

    void pause() {
        const auto sleep = backoff_.pause(direction_ == Direction::send);
        if (sleep.count() == 0) return;
        if (record_ == nullptr) {
            record_ = make_record(direction_, message_.size, message_.peer);
            record_->started();
            pending_records().add(record_);
        }
        Backoff::sleep(sleep);
    }

private:
    const Direction direction_;
    const SmallMessage &message_;
    Backoff backoff_{caller_patience};
    std::shared_ptr<Record> record_;
};

Status finish(int code, MPI_Request request, const char *call, Wait &wait) {
    int done = 0;
    while (code == MPI_SUCCESS) {
        code = test_without_yield(request, done);
        if (done != 0) break;
        wait.pause();
    }
    return code == MPI_SUCCESS ? Status{} : mpi_failure(code, call);
}

// Both functions wait for earlier commands of the queue, and later commands wait for them.
cl_int read_range(const SmallMessage &message, std::byte *to) {
    if (message.address == nullptr)
        return clEnqueueReadBuffer(message.queue, message.buffer, CL_TRUE, message.offset,
                                   message.size, to, 0, nullptr, nullptr);
    const cl_int code = clFinish(message.queue);
    if (code == CL_SUCCESS) std::memcpy(to, message.address, message.size);
    return code;
}
cl_int write_range(const SmallMessage &message, const std::byte *from, std::size_t size) {
    if (message.address == nullptr)
        return clEnqueueWriteBuffer(message.queue, message.buffer, CL_TRUE, message.offset, size,
                                    from, 0, nullptr, nullptr);
    const cl_int code = clFinish(message.queue);
    if (code == CL_SUCCESS) std::memcpy(message.address, from, size);
    return code;
}

}  // namespace

Status send_small(const SmallMessage &message) {
    std::byte *const memory = message_memory();
    const cl_int code = read_range(message, memory + header_size);
    const bool read = code == CL_SUCCESS;
    encode({read ? message.size : 0, 0, 0, code}, memory);
    const MessagePeer &peer = message.peer;
    Wait wait(Direction::send, message);
    MPI_Request request = MPI_REQUEST_NULL;
    const int sent = PMPI_Isend(memory, static_cast<int>(header_size + (read ? message.size : 0)),
                                MPI_BYTE, peer.rank, peer.tag, peer.comm->handle(), &request);
    const Status status = finish(sent, request, "MPI_Isend", wait);
    return read ? status
                : Status::failure(code,
                                  fmt::format("reading the buffer returned {}", code_text(code)));
}

Status recv_small(const SmallMessage &message, std::optional<MatchedMessage> &left) {
    const MessagePeer &peer = message.peer;
    const MessagePattern pattern{peer.comm, peer.rank, peer.tag};
    Wait wait(Direction::recv, message);
    std::optional<MatchedMessage> taken;
    while (!(taken = message_order().take(pattern))) wait.pause();
    MatchedMessage &found = *taken;
    if (found.error != MPI_SUCCESS) return mpi_failure(found.error, "MPI_Improbe");
    const std::size_t bytes = found.bytes;
    if (!found.content.empty() || bytes <= header_size || bytes > header_size + message.size) {
        left = std::move(taken);
        return {};
    }
    std::byte *const eager = message_memory();
    MPI_Request request = MPI_REQUEST_NULL;
    const int received =
        PMPI_Imrecv(eager, static_cast<int>(bytes), MPI_BYTE, &found.message, &request);
    Status status = finish(received, request, "MPI_Imrecv", wait);
    if (!status.ok()) return status;
    const auto header = decode(std::span(eager, bytes));
    if (!header) return not_recognized(found);
    const cl_int code = write_range(message, eager + header_size, header->size);
    return code == CL_SUCCESS ? Status{}
                              : Status::failure(code, fmt::format("writing the buffer returned {}",
                                                                  code_text(code)));
}

}  // namespace cldist
