/// Argument errors of the commands: their codes and their order. A refused command sends nothing.

#include <functional>
#include <limits>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

/// The command, and for a send-receive the half, that gets the arguments under test.
enum class part {
    send,
    receive,
    sendrecv_send,
    sendrecv_receive,
    send_rect,
    receive_rect,
    sendrecv_rect_send,
    sendrecv_rect_receive
};

constexpr std::size_t buffer_size = 4096;

/// The arguments of a call. Initially all are valid.
struct call {
    cl_command_queue queue;
    cl_mem buffer;
    std::size_t offset = 0;
    std::size_t size = 64;
    int peer = 0;
    int tag = 7;
    MPI_Comm comm;
    cl_bool blocking = CL_FALSE;
    cl_uint number = 0;
    const cl_event *events = nullptr;
};

/// Returns true if MPI_Iprobe finds no message.
bool nothing_was_sent(MPI_Comm comm) {
    for (int i = 0; i < 20; ++i) {
        int found = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE);
        if (found != 0) {
            return false;
        }
    }
    return true;
}

struct error_bench {
    explicit error_bench(const mpi_view &mpi_in)
        : mpi(mpi_in),
          queue(cl.in_order_queue()),
          buffer(cl.buffer(buffer_size)),
          partner(cl.buffer(buffer_size)) {
        limits();
    }

    call good() const {
        call c{};
        c.queue = queue;
        c.buffer = buffer;
        c.comm = mpi.comm;
        return c;
    }

    cl_int issue(part which, const call &c, cl_event *event) const {
        const std::size_t origin[] = {c.offset, 0, 0};
        const std::size_t region[] = {c.size, 1, 1};
        const std::size_t first[] = {0, 0, 0};
        const std::size_t row[] = {64, 1, 1};
        switch (which) {
            case part::send:
                return clEnqueueSendBuffer(c.queue, c.buffer, c.blocking, c.offset, c.size, c.peer,
                                           c.tag, c.comm, c.number, c.events, event);
            case part::receive:
                return clEnqueueRecvBuffer(c.queue, c.buffer, c.blocking, c.offset, c.size, c.peer,
                                           c.tag, c.comm, c.number, c.events, event);
            case part::sendrecv_send:
                return clEnqueueSendrecvBuffer(c.queue, c.buffer, c.blocking, c.offset, c.size,
                                               c.peer, c.tag, partner, 0, 64, 0, 7, c.comm,
                                               c.number, c.events, event);
            case part::sendrecv_receive:
                return clEnqueueSendrecvBuffer(c.queue, partner, c.blocking, 0, 64, 0, 7, c.buffer,
                                               c.offset, c.size, c.peer, c.tag, c.comm, c.number,
                                               c.events, event);
            case part::send_rect:
                return clEnqueueSendBufferRect(c.queue, c.buffer, c.blocking, origin, region, 0, 0,
                                               c.peer, c.tag, c.comm, c.number, c.events, event);
            case part::receive_rect:
                return clEnqueueRecvBufferRect(c.queue, c.buffer, c.blocking, origin, region, 0, 0,
                                               c.peer, c.tag, c.comm, c.number, c.events, event);
            case part::sendrecv_rect_send:
                return clEnqueueSendrecvBufferRect(c.queue, c.buffer, c.blocking, origin, region, 0,
                                                   0, c.peer, c.tag, partner, first, row, 0, 0, 0,
                                                   7, c.comm, c.number, c.events, event);
            case part::sendrecv_rect_receive:
                return clEnqueueSendrecvBufferRect(c.queue, partner, c.blocking, first, row, 0, 0,
                                                   0, 7, c.buffer, origin, region, 0, 0, c.peer,
                                                   c.tag, c.comm, c.number, c.events, event);
        }
        return CL_SUCCESS;
    }

    /// Checks that the call fails with `code`, sends nothing and does not change *event.
    void expect(part which, const call &c, cl_int code) const {
        static int mark = 0;
        const auto untouched = reinterpret_cast<cl_event>(&mark);
        cl_event event = untouched;
        CHECK(issue(which, c, &event) == code);
        CHECK(event == untouched);
        CHECK(issue(which, c, nullptr) == code);
        CHECK(nothing_was_sent(mpi.comm));
    }

    void limits() {
        int *value = nullptr;
        int found = 0;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found);
        REQUIRE(found != 0);
        highest_tag = *value;
    }

    const mpi_view &mpi;
    opencl cl;
    queue_handle queue;
    buffer_handle buffer;
    buffer_handle partner;
    int highest_tag = 0;
};

bool sends(part which) {
    return which == part::send || which == part::sendrecv_send || which == part::send_rect ||
           which == part::sendrecv_rect_send;
}

// One function per check. They are called with each command as `which`.

void no_queue(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    call c = bench.good();
    c.queue = nullptr;
    bench.expect(which, c, CL_INVALID_COMMAND_QUEUE);
}

void no_buffer(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    call c = bench.good();
    c.buffer = nullptr;
    bench.expect(which, c, CL_INVALID_MEM_OBJECT);
}

void image_as_buffer(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc description{};
    description.image_type = CL_MEM_OBJECT_IMAGE2D;
    description.image_width = 64;
    description.image_height = 64;
    cl_int error = CL_SUCCESS;
    const buffer_handle image(
        clCreateImage(bench.cl.context, CL_MEM_READ_WRITE, &format, &description, nullptr, &error));
    if (error != CL_SUCCESS) {
        skip_case("the device has no images");
    }
    call c = bench.good();
    c.buffer = image;
    bench.expect(which, c, CL_INVALID_MEM_OBJECT);
}

void buffer_of_another_context(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    const opencl other(opencl::of::its_own);
    const buffer_handle foreign = other.buffer(buffer_size);
    const buffer_handle part_of_it = other.sub_buffer(foreign, 0, 64);
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        for (cl_mem buffer : {foreign.get(), part_of_it.get()}) {
            call c = bench.good();
            c.blocking = blocking;
            c.buffer = buffer;
            bench.expect(which, c, CL_INVALID_CONTEXT);
        }
    }
}

void queue_of_another_context(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    const opencl other(opencl::of::its_own);
    const queue_handle foreign = other.in_order_queue();
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        call c = bench.good();
        c.blocking = blocking;
        c.queue = foreign;
        bench.expect(which, c, CL_INVALID_CONTEXT);
    }
}

void event_of_another_context(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    const opencl other(opencl::of::its_own);
    const event_handle own = bench.cl.user_event();
    const event_handle foreign = other.user_event();
    const cl_event list[] = {own, foreign};
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        call c = bench.good();
        c.blocking = blocking;
        c.number = 2;
        c.events = list;
        bench.expect(which, c, CL_INVALID_CONTEXT);
    }
    CL_OK(clSetUserEventStatus(own, CL_COMPLETE));
    CL_OK(clSetUserEventStatus(foreign, CL_COMPLETE));
}

void past_the_end(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    constexpr std::size_t highest = std::numeric_limits<std::size_t>::max();
    const std::pair<std::size_t, std::size_t> ranges[] = {
        {0, buffer_size + 1}, {buffer_size, 1},   {buffer_size - 1, 2},
        {buffer_size + 1, 0}, {1, highest},       {highest, 1},
        {highest, highest},   {highest - 63, 64}, {highest / 2 + 1, highest / 2 + 1},
    };
    for (const auto &range : ranges) {
        CAPTURE(range.first);
        CAPTURE(range.second);
        call c = bench.good();
        c.offset = range.first;
        c.size = range.second;
        bench.expect(which, c, CL_INVALID_VALUE);
    }
}

void bad_wait_list(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    const event_handle done = bench.cl.user_event();
    CL_OK(clSetUserEventStatus(done, CL_COMPLETE));
    const cl_event list[] = {done};
    const cl_event null_list[] = {done, nullptr};

    call no_list = bench.good();
    no_list.number = 1;
    bench.expect(which, no_list, CL_INVALID_EVENT_WAIT_LIST);

    call no_number = bench.good();
    no_number.events = list;
    bench.expect(which, no_number, CL_INVALID_EVENT_WAIT_LIST);

    call null_event = bench.good();
    null_event.number = 2;
    null_event.events = null_list;
    bench.expect(which, null_event, CL_INVALID_EVENT_WAIT_LIST);
}

void host_access_refused(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    const buffer_handle closed =
        bench.cl.buffer(buffer_size, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS);
    const buffer_handle one_way = bench.cl.buffer(
        buffer_size,
        CL_MEM_READ_WRITE | (sends(which) ? CL_MEM_HOST_WRITE_ONLY : CL_MEM_HOST_READ_ONLY));
    call c = bench.good();
    c.buffer = closed;
    bench.expect(which, c, CL_INVALID_OPERATION);
    c.buffer = one_way;
    bench.expect(which, c, CL_INVALID_OPERATION);
    const buffer_handle part_of_it = bench.cl.sub_buffer(one_way, 0, buffer_size / 2);
    c.buffer = part_of_it;
    bench.expect(which, c, CL_INVALID_OPERATION);
}

void bad_communicator(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    call c = bench.good();
    c.comm = MPI_COMM_NULL;
    bench.expect(which, c, CL_INVALID_COMMUNICATOR);

    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(mpi.comm, &comm);
    c.comm = comm;
    MPI_Comm_free(&comm);
    bench.expect(which, c, CL_INVALID_COMMUNICATOR);
}

void bad_rank(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    call c = bench.good();
    for (const int rank : {mpi.size, mpi.size + 1000, std::numeric_limits<int>::max(), -77777,
                           std::numeric_limits<int>::min()}) {
        CAPTURE(rank);
        c.peer = rank;
        bench.expect(which, c, CL_INVALID_RANK);
    }
    if (sends(which)) {
        c.peer = MPI_ANY_SOURCE;
        bench.expect(which, c, CL_INVALID_RANK);
    }
}

void bad_tag(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    call c = bench.good();
    for (const int tag : {-77777, std::numeric_limits<int>::min()}) {
        CAPTURE(tag);
        c.tag = tag;
        bench.expect(which, c, CL_INVALID_TAG);
    }
    if (bench.highest_tag < std::numeric_limits<int>::max()) {
        c.tag = bench.highest_tag + 1;
        bench.expect(which, c, CL_INVALID_TAG);
    }
    if (sends(which)) {
        c.tag = MPI_ANY_TAG;
        bench.expect(which, c, CL_INVALID_TAG);
    }
}

/// A sub-buffer whose origin is not aligned for the device. Some platforms refuse to create it.
buffer_handle misaligned(const opencl &cl, cl_mem parent) {
    const cl_buffer_region region{1, 256};
    cl_int error = CL_SUCCESS;
    buffer_handle made(clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error));
    return error == CL_SUCCESS && sub_buffer_alignment(cl.device) > 1 ? std::move(made)
                                                                      : buffer_handle();
}

void misaligned_sub_buffer(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    const buffer_handle odd = misaligned(bench.cl, bench.buffer);
    if (odd.get() == nullptr) {
        skip_case("the platform creates no unaligned sub-buffer");
    }
    call c = bench.good();
    c.buffer = odd;
    bench.expect(which, c, CL_MISALIGNED_SUB_BUFFER_OFFSET);
}

/// Checks all pairs of wrong arguments: the code must be that of the check that comes first.
void order_of_checks(const mpi_view &mpi, part which) {
    const error_bench bench(mpi);
    const opencl other(opencl::of::its_own);
    const buffer_handle foreign = other.buffer(buffer_size);
    const event_handle foreign_event = other.user_event();
    CL_OK(clSetUserEventStatus(foreign_event, CL_COMPLETE));
    const buffer_handle closed =
        bench.cl.buffer(buffer_size, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS);
    const buffer_handle odd = misaligned(bench.cl, bench.buffer);
    const cl_event foreign_list[] = {foreign_event};

    enum class argument { queue, buffer, range, events, comm, peer, tag };
    struct defect {
        cl_int code;
        argument where;  ///< an argument has at most one defect at a time
        std::function<void(call &)> apply;
    };
    std::vector<defect> defects{
        {CL_INVALID_COMMAND_QUEUE, argument::queue, [](call &c) { c.queue = nullptr; }},
        {CL_INVALID_MEM_OBJECT, argument::buffer, [](call &c) { c.buffer = nullptr; }},
        {CL_INVALID_CONTEXT, argument::buffer, [&](call &c) { c.buffer = foreign; }},
        {CL_INVALID_CONTEXT, argument::events,
         [&](call &c) {
             c.number = 1;
             c.events = foreign_list;
         }},
        {CL_INVALID_VALUE, argument::range, [](call &c) { c.size = buffer_size + 1; }},
        {CL_INVALID_EVENT_WAIT_LIST, argument::events, [](call &c) { c.number = 1; }},
        {CL_INVALID_OPERATION, argument::buffer, [&](call &c) { c.buffer = closed; }},
        {CL_INVALID_COMMUNICATOR, argument::comm, [](call &c) { c.comm = MPI_COMM_NULL; }},
        {CL_INVALID_RANK, argument::peer, [](call &c) { c.peer = 12345; }},
        {CL_INVALID_TAG, argument::tag, [](call &c) { c.tag = -77777; }},
    };
    if (odd.get() != nullptr) {
        const defect d{CL_MISALIGNED_SUB_BUFFER_OFFSET, argument::buffer,
                       [&](call &c) { c.buffer = odd; }};
        defects.insert(defects.begin() + 6, d);
    }
    for (std::size_t first = 0; first < defects.size(); ++first) {
        for (std::size_t second = first + 1; second < defects.size(); ++second) {
            if (defects[first].where == defects[second].where) {
                continue;
            }
            CAPTURE(defects[first].code);
            CAPTURE(defects[second].code);
            call c = bench.good();
            defects[second].apply(c);
            defects[first].apply(c);
            bench.expect(which, c, defects[first].code);
        }
    }
}

}  // namespace

/// One case for each command.
#define COMMAND_CASES(sentence, check)                                                 \
    MPI_CASE("a send " sentence, 1) { check(mpi, part::send); }                        \
    MPI_CASE("a receive " sentence, 1) { check(mpi, part::receive); }                  \
    MPI_CASE("a send-receive " sentence, 1) {                                          \
        check(mpi, part::sendrecv_send);                                               \
        check(mpi, part::sendrecv_receive);                                            \
    }                                                                                  \
    MPI_CASE("a rectangular send " sentence, 1) { check(mpi, part::send_rect); }       \
    MPI_CASE("a rectangular receive " sentence, 1) { check(mpi, part::receive_rect); } \
    MPI_CASE("a rectangular send-receive " sentence, 1) {                              \
        check(mpi, part::sendrecv_rect_send);                                          \
        check(mpi, part::sendrecv_rect_receive);                                       \
    }

COMMAND_CASES("without a queue is CL_INVALID_COMMAND_QUEUE", no_queue)
COMMAND_CASES("without a buffer is CL_INVALID_MEM_OBJECT", no_buffer)
COMMAND_CASES("of an image is CL_INVALID_MEM_OBJECT", image_as_buffer)
COMMAND_CASES("of a buffer of another context is CL_INVALID_CONTEXT", buffer_of_another_context)
COMMAND_CASES("on a queue of another context is CL_INVALID_CONTEXT", queue_of_another_context)
COMMAND_CASES("that waits for an event of another context is CL_INVALID_CONTEXT",
              event_of_another_context)
COMMAND_CASES("past the end of its buffer is CL_INVALID_VALUE, also where offset + size overflows",
              past_the_end)
COMMAND_CASES("with a wrong wait list is CL_INVALID_EVENT_WAIT_LIST", bad_wait_list)
COMMAND_CASES("of a sub-buffer that is not aligned is CL_MISALIGNED_SUB_BUFFER_OFFSET",
              misaligned_sub_buffer)
COMMAND_CASES("against the buffer's host access flags is CL_INVALID_OPERATION", host_access_refused)
COMMAND_CASES("without communicator, or on a freed one, is CL_INVALID_COMMUNICATOR",
              bad_communicator)
COMMAND_CASES("with a rank outside of the communicator is CL_INVALID_RANK", bad_rank)
COMMAND_CASES("with a tag out of range is CL_INVALID_TAG", bad_tag)
COMMAND_CASES("with two wrong arguments gets the code of the first check", order_of_checks)

MPI_CASE("a send-receive checks both ranks before both tags", 1) {
    const error_bench bench(mpi);
    const auto issue = [&](int dest, int send_tag, int source, int recv_tag) {
        return clEnqueueSendrecvBuffer(bench.queue, bench.buffer, CL_FALSE, 0, 64, dest, send_tag,
                                       bench.partner, 0, 64, source, recv_tag, mpi.comm, 0, nullptr,
                                       nullptr);
    };
    CHECK(issue(0, -77777, 12345, 7) == CL_INVALID_RANK);
    CHECK(issue(12345, 7, 0, -77777) == CL_INVALID_RANK);
    CHECK(issue(0, -77777, 0, 7) == CL_INVALID_TAG);
    CHECK(nothing_was_sent(mpi.comm));
}

MPI_CASE("an empty range overlaps no range of a send-receive", 1) {
    const error_bench bench(mpi);
    for (const auto &[send_offset, send_size, recv_offset, recv_size] :
         {std::array<std::size_t, 4>{0, 10, 5, 0}, {5, 0, 0, 10}, {5, 0, 5, 0}})
        CHECK(clEnqueueSendrecvBuffer(bench.queue, bench.buffer, CL_TRUE, send_offset, send_size,
                                      MPI_PROC_NULL, 1, bench.buffer, recv_offset, recv_size,
                                      MPI_PROC_NULL, 1, mpi.comm, 0, nullptr,
                                      nullptr) == CL_SUCCESS);
}

MPI_CASE("a send-receive whose ranges overlap is CL_INVALID_VALUE", 1) {
    const error_bench bench(mpi);
    const std::size_t alignment = std::max<std::size_t>(sub_buffer_alignment(bench.cl.device), 64);
    const buffer_handle low = bench.cl.sub_buffer(bench.buffer, 0, 2 * alignment);
    const buffer_handle high = bench.cl.sub_buffer(bench.buffer, alignment, 2 * alignment);
    struct ranges {
        cl_mem send_buffer;
        std::size_t send_offset, send_size;
        cl_mem receive_buffer;
        std::size_t receive_offset, receive_size;
    };
    const ranges table[] = {
        {bench.buffer, 0, 64, bench.buffer, 0, 64},
        {bench.buffer, 0, 64, bench.buffer, 63, 64},
        {bench.buffer, 63, 64, bench.buffer, 0, 64},
        {bench.buffer, 0, 4096, bench.buffer, 100, 1},
        {bench.buffer, 100, 1, bench.buffer, 0, 4096},
        {low, 0, alignment + 1, high, 0, 1},
        {low, 0, 1, bench.buffer, 0, 1},
        {bench.buffer, alignment, 1, high, 0, 1},
        {high, alignment, alignment, bench.buffer, 2 * alignment, 1},
    };
    for (const ranges &r : table) {
        CAPTURE(r.send_offset);
        CAPTURE(r.receive_offset);
        cl_event event = nullptr;
        CHECK(clEnqueueSendrecvBuffer(bench.queue, r.send_buffer, CL_FALSE, r.send_offset,
                                      r.send_size, 0, 1, r.receive_buffer, r.receive_offset,
                                      r.receive_size, 0, 1, mpi.comm, 0, nullptr,
                                      &event) == CL_INVALID_VALUE);
        CHECK(event == nullptr);
        CHECK(nothing_was_sent(mpi.comm));
    }
}

MPI_CASE("a send-receive may use two adjacent ranges of one buffer", 1) {
    const error_bench bench(mpi);
    bench.cl.fill(bench.buffer, 0, 64, 5);
    event_handle event;
    CL_OK(clEnqueueSendrecvBuffer(bench.queue, bench.buffer, CL_FALSE, 0, 64, 0, 1, bench.buffer,
                                  64, 64, 0, 1, mpi.comm, 0, nullptr, event.out()));
    expect_received(event, 64, 0, 1);
    bench.cl.expect(bench.buffer, 64, 64, 5);
}
