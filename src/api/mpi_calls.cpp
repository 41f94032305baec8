/// Wraps the program's MPI calls through the PMPI interface. The library implements calls with
/// MPI_CL_MEM. All other calls go to MPI after one comparison.

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/arguments.hpp"
#include "api/mpi_boundary.hpp"
#include "api/peer.hpp"
#include "base/log.hpp"
#include "mpi_interop/byte_type.hpp"
#include "mpi_interop/message_operations.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/probed_messages.hpp"
#include "mpi_interop/request_operations.hpp"
#include "mpi_interop/wire.hpp"

using namespace cldist;

namespace {

Error wrong_argument(int mpi_error, std::string message) {
    Status status = Status::failure(CL_MPI_ERROR, std::move(message));
    status.mpi_error = mpi_error;
    return Error(std::move(status));
}

// ---- Messages of host memory

/// A range of the program's memory.
struct HostMemory {
    const void *data;
    MPI_Count bytes;
};

DeviceRange range_of(const HostMemory &memory) {
    if (memory.bytes < 0)
        throw wrong_argument(MPI_ERR_COUNT,
                             fmt::format("the count is {}; expected 0 or more", memory.bytes));
    if (memory.bytes > 0 && memory.data == nullptr)
        throw wrong_argument(MPI_ERR_BUFFER,
                             fmt::format("the buffer is NULL, but the count is {}", memory.bytes));
    // Only a receive writes to it.
    auto *data = static_cast<std::byte *>(const_cast<void *>(memory.data));
    static std::byte nothing{};
    return {
        nullptr, {}, 0, static_cast<std::size_t>(memory.bytes), data == nullptr ? &nothing : data,
        {}};
}

/// A message that a call sends or receives.
struct HostMessage {
    Direction direction;
    HostMemory memory;
    PeerArgument peer;
    bool synchronous = false;
};

std::unique_ptr<Operation> make_operation(Runtime &runtime, const HostMessage &message,
                                          MPI_Comm comm, MessageDriver &driver) {
    const std::shared_ptr<const Communicator> known = runtime.communicators().find(comm);
    DeviceRange range = range_of(message.memory);
    check_rank(message.peer, message.direction, *known);
    check_tag(message.peer, message.direction, runtime.max_tag());
    MessagePeer peer{known, message.peer.rank, message.peer.tag};
    return message.direction == Direction::send
               ? make_send(std::move(range), std::move(peer), driver, runtime.channels(),
                           message.synchronous)
               : make_recv(std::move(range), std::move(peer), driver);
}

void tell_status(MPI_Status *status, const Record &record) {
    const Record::State state = record.state();
    MPI_Status own;
    MPI_Status &written = status == MPI_STATUS_IGNORE ? own : *status;
    set_status(written, state.peer, state.tag, static_cast<MPI_Count>(state.bytes));
}

// For calls that add messages to the message order. Earlier failed commands take positions first.
std::shared_ptr<Runtime> runtime_for_messages() {
    std::shared_ptr<Runtime> runtime = Runtime::current_in_mpi_call();
    runtime->progress_thread().note_failures();
    return runtime;
}

// Runs the operations on the calling thread to their end. A receive must be last. Throws an Error.
void run(Operations operations, MPI_Status *status) {
    const std::shared_ptr<Record> record = operations.back()->record();
    Command command(std::move(operations), nullptr, nullptr);
    command.start({});
    drive(command, caller_driver());
    if (record->direction == Direction::recv) tell_status(status, *record);
    if (!command.status().ok()) throw Error(command.status());
}

// Submits the operation to the progress thread. The message order is the order of the calls.
void begin(Runtime &runtime, std::unique_ptr<Operation> operation, MPI_Request *request) {
    auto stand_in = std::make_unique<StandInRequest>();
    StandInRequest &kept = *stand_in;
    auto requested = make_requested(std::move(operation), std::move(stand_in));
    requested->announce();
    auto command = std::make_unique<Command>(only(std::move(requested)), nullptr, nullptr);
    *request = kept.give();
    runtime.progress_thread().submit(std::move(command), {});
}

// A blocking call. A receive must be last.
CLDIST_COLD int host_run(const char *call, MPI_Comm comm, MPI_Status *status,
                         std::initializer_list<HostMessage> messages) {
    return at_mpi_boundary(call, comm, [&] {
        const std::shared_ptr<Runtime> runtime = runtime_for_messages();
        Operations operations;
        for (const HostMessage &message : messages)
            operations.push_back(make_operation(*runtime, message, comm, caller_driver()));
        run(std::move(operations), status);
    });
}

// A non-blocking call.
CLDIST_COLD int host_begin(const char *call, MPI_Comm comm, const HostMessage &message,
                           MPI_Request *request) {
    return at_mpi_boundary(call, comm, [&] {
        const std::shared_ptr<Runtime> runtime = runtime_for_messages();
        begin(*runtime, make_operation(*runtime, message, comm, runtime->progress_driver()),
              request);
    });
}

// Reads a status without the library's mark, for other datatypes and other languages.
template <typename Read>
int without_mark(const MPI_Status *status, Read &&read) {
    if (status == nullptr || status == MPI_STATUS_IGNORE) return read(status);
    const std::optional<MPI_Status> unmarked = probed_messages().without_mark(*status);
    return read(unmarked ? &*unmarked : status);
}

template <typename Count>
CLDIST_COLD int host_get_count(const char *call, const MPI_Status *status, Count *count) {
    return at_mpi_boundary(call, MPI_COMM_WORLD, [&] {
        const MPI_Count bytes = probed_messages().payload_of(*status);
        *count =
            bytes > std::numeric_limits<Count>::max() ? MPI_UNDEFINED : static_cast<Count>(bytes);
    });
}

// ---- Messages that MPI_Mprobe took

// Receives the substitute and drops it, because the message was already received.
void discard(MPI_Message *handle, SubstitutedMessage &substituted) {
    std::vector<std::byte> copy(substituted.content.size());
    check_mpi(
        PMPI_Mrecv(copy.data(), static_cast<int>(copy.size()), MPI_BYTE, handle, MPI_STATUS_IGNORE),
        "MPI_Mrecv");
    PMPI_Wait(&substituted.sent, MPI_STATUS_IGNORE);
}

std::unique_ptr<Operation> make_operation(Runtime &runtime, const HostMemory &memory,
                                          SubstitutedMessage substituted, MessageDriver &driver) {
    MessagePeer peer{runtime.communicators().find(substituted.comm), substituted.source,
                     substituted.tag};
    MatchedMessage message{MPI_MESSAGE_NULL, substituted.source,
                           substituted.tag,  substituted.content.size(),
                           MPI_SUCCESS,      std::move(substituted.content)};
    return make_recv(range_of(memory), std::move(peer), driver, std::move(message));
}

// Receives a payload that follows its header in one MPI message.
void receive_eager(const HostMemory &memory, MPI_Message *handle, MPI_Status &status) {
    const DeviceRange range = range_of(memory);
    const auto most = static_cast<int>(std::min<std::size_t>(header_size + range.size, INT_MAX));
    const auto message =
        std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(most));
    const bool nobody = *handle == MPI_MESSAGE_NO_PROC;
    check_mpi(PMPI_Mrecv(message.get(), most, MPI_BYTE, handle, &status), "MPI_Mrecv");
    if (nobody) return;
    const std::size_t bytes = bytes_of(status);
    const auto header = decode({message.get(), bytes});
    if (!header)
        throw Error(CL_MESSAGE_NOT_RECOGNIZED,
                    fmt::format("the message of {} bytes from rank {} with tag {} was not sent "
                                "with MPI_CL_MEM or by a cldist command",
                                bytes, status.MPI_SOURCE, status.MPI_TAG));
    std::memcpy(range.mapped, message.get() + header_size, header->size);
    set_status(status, status.MPI_SOURCE, status.MPI_TAG, static_cast<MPI_Count>(header->size));
}

// Receives a message without header: MPI receives as many bytes as fit.
template <typename Receive>
int receive_plain(const char *call, const HostMemory &memory, Receive &&receive) {
    int code = MPI_SUCCESS;
    const int failure = at_mpi_boundary(call, MPI_COMM_WORLD, [&] {
        const DeviceRange range = range_of(memory);
        const ByteType size(range.size);
        code = receive(range.mapped, size.count(), size.type());
    });
    return failure == MPI_SUCCESS ? code : failure;
}

CLDIST_COLD int host_mrecv(const char *call, const HostMemory &memory, MPI_Message *handle,
                           MPI_Status *status) {
    if (probed_messages().take_plain(*handle))
        return receive_plain(call, memory, [&](void *data, int count, MPI_Datatype bytes) {
            return PMPI_Mrecv(data, count, bytes, handle, status);
        });
    auto substituted = probed_messages().take_substituted(*handle);
    return at_mpi_boundary(call, substituted ? substituted->comm : MPI_COMM_WORLD, [&] {
        const std::shared_ptr<Runtime> runtime = runtime_for_messages();
        if (!substituted) {
            MPI_Status own;
            receive_eager(memory, handle, status == MPI_STATUS_IGNORE ? own : *status);
            return;
        }
        discard(handle, *substituted);
        run(only(make_operation(*runtime, memory, std::move(*substituted), caller_driver())),
            status);
    });
}

// Returns a request that is already complete.
MPI_Request ended_request(const MPI_Status &status) {
    StandInRequest stand_in;
    const MPI_Request request = stand_in.give();
    stand_in.complete(status, MPI_SUCCESS);
    return request;
}

CLDIST_COLD int host_imrecv(const char *call, const HostMemory &memory, MPI_Message *handle,
                            MPI_Request *request) {
    if (probed_messages().take_plain(*handle))
        return receive_plain(call, memory, [&](void *data, int count, MPI_Datatype bytes) {
            return PMPI_Imrecv(data, count, bytes, handle, request);
        });
    auto substituted = probed_messages().take_substituted(*handle);
    return at_mpi_boundary(call, substituted ? substituted->comm : MPI_COMM_WORLD, [&] {
        const std::shared_ptr<Runtime> runtime = runtime_for_messages();
        if (!substituted) {
            MPI_Status status = empty_status();
            receive_eager(memory, handle, status);
            *request = ended_request(status);
            return;
        }
        discard(handle, *substituted);
        begin(*runtime,
              make_operation(*runtime, memory, std::move(*substituted), runtime->progress_driver()),
              request);
    });
}

// Receives a substitute with a datatype other than MPI_CL_MEM, and corrects source and tag.
template <typename Receive>
int receive_substitute(MPI_Message *handle, MPI_Status *status, Receive &&receive) {
    auto substituted = probed_messages().take_substituted(*handle);
    const int code = receive(status);
    PMPI_Wait(&substituted->sent, MPI_STATUS_IGNORE);
    if (status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = substituted->source;
        status->MPI_TAG = substituted->tag;
    }
    if (code != MPI_SUCCESS) PMPI_Comm_call_errhandler(substituted->comm, code);
    return code;
}

// ---- Requests in MPICH

#ifdef MPICH_VERSION
// In MPICH (4.0 to 4.2), MPI_Waitall ends the program if the array contains an incomplete
// generalised request and a null request. Therefore null requests are removed.
CLDIST_COLD int waitall_without_null(int count, MPI_Request *requests, MPI_Status *statuses) {
    std::vector<MPI_Request> some;
    std::vector<int> indices;
    for (int i = 0; i < count; ++i) {
        if (requests[i] == MPI_REQUEST_NULL) continue;
        some.push_back(requests[i]);
        indices.push_back(i);
    }
    std::vector<MPI_Status> told(some.size());
    const bool ignored = statuses == MPI_STATUSES_IGNORE;
    const int code = PMPI_Waitall(static_cast<int>(some.size()), some.data(),
                                  ignored ? MPI_STATUSES_IGNORE : told.data());
    if (!ignored)
        for (int i = 0; i < count; ++i) statuses[i] = empty_status();
    for (std::size_t i = 0; i < some.size(); ++i) {
        requests[indices[i]] = some[i];
        if (!ignored) statuses[indices[i]] = told[i];
    }
    return code;
}
#endif

// ---- Messages of commands that other receives take

// Returns true if the datatype stores its values from the start of the receive's memory, and if the
// count covers the beginning of a header.
template <typename Count>
bool holds_header(MPI_Datatype datatype, Count count) {
    if (datatype == MPI_BYTE || datatype == MPI_CHAR || datatype == MPI_UNSIGNED_CHAR ||
        datatype == MPI_SIGNED_CHAR || datatype == MPI_PACKED)
        return count >= static_cast<Count>(header_beginning);
    if (datatype == MPI_FLOAT || datatype == MPI_INT || datatype == MPI_UNSIGNED)
        return count >= static_cast<Count>(header_beginning / 4);
    return datatype == MPI_DOUBLE && count >= static_cast<Count>(header_beginning / 8);
}

CLDIST_COLD void report_header(const char *call, const MPI_Status &status) {
    log_error(
        "{}: the message from rank {} with tag {} was sent by a cldist command. Its receiver must "
        "be a cldist command, too, or an MPI call with MPI_CL_MEM. The memory contains {} bytes of "
        "the library's header and then the payload of a small message. The payload of a large "
        "message does not arrive, and its sender waits forever. Give the communicator the info key "
        "cldist_wire=plain to receive such messages with any datatype",
        call, status.MPI_SOURCE, status.MPI_TAG, header_size);
}

// Returns true if the receive has written to its memory. The message may have been truncated.
bool wrote(int code) {
    if (code == MPI_SUCCESS) return true;
    int error_class = code;
    PMPI_Error_class(code, &error_class);
    return error_class == MPI_ERR_TRUNCATE;
}

// The memory may be a device's, which the host can't read.
bool memory_begins_like_header(const void *memory) {
    std::array<std::byte, header_beginning> beginning;
    const iovec to{beginning.data(), beginning.size()};
    const iovec from{const_cast<void *>(memory), beginning.size()};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) ==
               static_cast<ssize_t>(beginning.size()) &&
           begins_like_a_header(beginning.data());
}

// Makes an ordinary receive and checks whether `memory` contains a header. This detects programs
// that use MPI_CL_MEM only in some calls.
template <typename Count, typename Receive>
int received(const char *call, const void *memory, Count count, MPI_Datatype datatype,
             MPI_Status *status, Receive &&receive) {
    MPI_Status own;
    MPI_Status *const written = status == MPI_STATUS_IGNORE ? &own : status;
    const int code = receive(written);
    // MPI need not report the bytes of a truncated message.
    if (holds_header(datatype, count) && wrote(code) &&
        (code != MPI_SUCCESS || bytes_of(*written) >= header_size) &&
        memory_begins_like_header(memory))
        report_header(call, *written);
    return code;
}

// ---- A Sendrecv of two kinds

// Runs the library's part while MPI's part is in flight. `post` starts MPI's part. It is called
// after the check of the library's part, because a message that was sent cannot be cancelled.
template <typename Post>
int host_sendrecv_beside(const char *call, const HostMessage &own, MPI_Comm comm,
                         MPI_Status *status, Post &&post) {
    int code = MPI_ERR_OTHER;  // MPI's part is not in flight
    MPI_Request plain = MPI_REQUEST_NULL;
    const bool sends = own.direction == Direction::send;
    const int failure = at_mpi_boundary(call, comm, [&] {
        const std::shared_ptr<Runtime> runtime = runtime_for_messages();
        Operations operations = only(make_operation(*runtime, own, comm, caller_driver()));
        code = post(&plain);
        if (code == MPI_SUCCESS) run(std::move(operations), sends ? MPI_STATUS_IGNORE : status);
    });
    if (code == MPI_SUCCESS) code = PMPI_Wait(&plain, sends ? status : MPI_STATUS_IGNORE);
    return failure != MPI_SUCCESS ? failure : code;
}

}  // namespace

extern "C" {

#ifdef MPICH_VERSION
// Other MPI libraries end this library when they delete the attributes of MPI_COMM_SELF. MPICH
// (4.0) stops using its locks before it deletes them. If another thread is in an MPI call at that
// time, the call releases a lock that is not held, and the program ends.
int MPI_Finalize() {
    try {
        Runtime::finish();
    } catch (const Error &error) {
        log_error("MPI_Finalize: {}", error.what());
    }
    return PMPI_Finalize();
}

int MPI_Waitall(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]) {
    if (!StandInRequest::any()) return PMPI_Waitall(count, array_of_requests, array_of_statuses);
    return waitall_without_null(count, array_of_requests, array_of_statuses);
}
#endif

int MPI_Get_elements_x(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count) {
    if (datatype != MPI_CL_MEM)
        return without_mark(status, [&](const MPI_Status *read) {
            return PMPI_Get_elements_x(read, datatype, count);
        });
    return host_get_count("MPI_Get_elements_x", status, count);
}

int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status) {
    return without_mark(c_status,
                        [&](const MPI_Status *read) { return PMPI_Status_c2f(read, f_status); });
}
#ifdef CLDIST_MPI_STATUS_C2F08
int MPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status) {
    return without_mark(
        c_status, [&](const MPI_Status *read) { return PMPI_Status_c2f08(read, f08_status); });
}
#endif

#define CLDIST_COUNT int
#define CLDIST_CALL(name) name
#define CLDIST_MPI_CALL(name) P##name
#include "api/mpi_counted_calls.inc"

#ifdef CLDIST_MPI_LARGE_COUNTS
#undef CLDIST_COUNT
#undef CLDIST_CALL
#undef CLDIST_MPI_CALL
#define CLDIST_COUNT MPI_Count
#define CLDIST_CALL(name) name##_c
#define CLDIST_MPI_CALL(name) P##name##_c
#include "api/mpi_counted_calls.inc"
#endif

}  // extern "C"
