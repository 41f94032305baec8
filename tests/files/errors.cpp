/// Argument errors of file commands: codes and order. A refused command does not access the file.

#include <functional>
#include <limits>

#include "file_commands.hpp"

using namespace cldist_test;

namespace {

constexpr std::size_t buffer_size = 4096;

struct error_bench {
    error_bench()
        : queue(cl.in_order_queue()),
          buffer(cl.filled(buffer_size, 1)),
          file(pattern(2, 1000)),
          opened(file.path(), "r+b"),
          fd(file.path(), O_RDWR) {}

    [[nodiscard]] file_call good() const {
        file_call c{};
        c.queue = queue;
        c.buffer = buffer;
        c.size = 64;
        c.stream = opened;
        c.fd = fd;
        return c;
    }

    /// Checks that the call fails with `code`, accesses neither file nor buffer, and keeps *event.
    void expect(command which, const file_call &c, cl_int code) const {
        static int mark = 0;
        const auto untouched = reinterpret_cast<cl_event>(&mark);
        cl_event event = untouched;
        CHECK(issue(which, c, &event) == code);
        CHECK(event == untouched);
        CHECK(issue(which, c, nullptr) == code);
        CHECK(std::ftell(opened) == 0);
        CHECK(std::fflush(opened) == 0);
        expect_same(file.content(), pattern(2, 1000));
        cl.expect(buffer, 0, buffer_size, 1);
    }

    opencl cl;
    queue_handle queue;
    buffer_handle buffer;
    temporary_file file;
    stream opened;
    descriptor fd;
};

/// A sub-buffer whose origin is not aligned for the device. Some platforms refuse to create it.
buffer_handle misaligned(const opencl &cl, cl_mem parent) {
    const cl_buffer_region region{1, 256};
    cl_int error = CL_SUCCESS;
    buffer_handle made(clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error));
    return error == CL_SUCCESS && sub_buffer_alignment(cl.device) > 1 ? std::move(made)
                                                                      : buffer_handle();
}

void no_queue(command which) {
    const error_bench bench;
    file_call c = bench.good();
    c.queue = nullptr;
    bench.expect(which, c, CL_INVALID_COMMAND_QUEUE);
}

void no_buffer(command which) {
    const error_bench bench;
    file_call c = bench.good();
    c.buffer = nullptr;
    bench.expect(which, c, CL_INVALID_MEM_OBJECT);
}

void another_context(command which) {
    const error_bench bench;
    const opencl other(opencl::of::its_own);
    const buffer_handle foreign = other.buffer(buffer_size);
    const buffer_handle part = other.sub_buffer(foreign, 0, 64);
    const queue_handle queue = other.in_order_queue();
    const event_handle own_event = bench.cl.user_event();
    const event_handle foreign_event = other.user_event();
    const cl_event list[] = {own_event, foreign_event};
    for (const cl_bool blocking : {CL_FALSE, CL_TRUE}) {
        for (cl_mem buffer : {foreign.get(), part.get()}) {
            file_call c = bench.good();
            c.blocking = blocking;
            c.buffer = buffer;
            bench.expect(which, c, CL_INVALID_CONTEXT);
        }
        file_call c = bench.good();
        c.blocking = blocking;
        c.number = 2;
        c.events = list;
        bench.expect(which, c, CL_INVALID_CONTEXT);
        c = bench.good();
        c.blocking = blocking;
        c.queue = queue;
        bench.expect(which, c, CL_INVALID_CONTEXT);
    }
    CL_OK(clSetUserEventStatus(own_event, CL_COMPLETE));
    CL_OK(clSetUserEventStatus(foreign_event, CL_COMPLETE));
}

void past_the_end(command which) {
    const error_bench bench;
    constexpr std::size_t highest = std::numeric_limits<std::size_t>::max();
    for (const auto &range : {std::pair<std::size_t, std::size_t>{0, buffer_size + 1},
                              {buffer_size, 1},
                              {buffer_size + 1, 0},
                              {1, highest},
                              {highest, 1},
                              {highest - 63, 64}}) {
        CAPTURE(range.first);
        CAPTURE(range.second);
        file_call c = bench.good();
        c.offset = range.first;
        c.size = range.second;
        bench.expect(which, c, CL_INVALID_VALUE);
    }
}

void bad_wait_list(command which) {
    const error_bench bench;
    const event_handle done = bench.cl.user_event();
    CL_OK(clSetUserEventStatus(done, CL_COMPLETE));
    const cl_event null_list[] = {done, nullptr};
    file_call c = bench.good();
    c.number = 1;
    bench.expect(which, c, CL_INVALID_EVENT_WAIT_LIST);
    c.number = 0;
    c.events = null_list;
    bench.expect(which, c, CL_INVALID_EVENT_WAIT_LIST);
    c.number = 2;
    bench.expect(which, c, CL_INVALID_EVENT_WAIT_LIST);
}

void failed_event(command which) {
    const error_bench bench;
    const event_handle failed = bench.cl.user_event();
    CL_OK(clSetUserEventStatus(failed, -77));
    const cl_event list[] = {failed};
    file_call c = bench.good();
    c.blocking = CL_TRUE;
    c.number = 1;
    c.events = list;
    bench.expect(which, c, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
}

void misaligned_sub_buffer(command which) {
    const error_bench bench;
    const buffer_handle odd = misaligned(bench.cl, bench.buffer);
    if (odd.get() == nullptr) {
        skip_case("the platform creates no unaligned sub-buffer");
    }
    file_call c = bench.good();
    c.buffer = odd;
    bench.expect(which, c, CL_MISALIGNED_SUB_BUFFER_OFFSET);
}

void host_access_refused(command which) {
    const error_bench bench;
    const cl_mem_flags one_way =
        writes_file(which) ? CL_MEM_HOST_WRITE_ONLY : CL_MEM_HOST_READ_ONLY;
    for (const cl_mem_flags flags : {cl_mem_flags{CL_MEM_HOST_NO_ACCESS}, one_way}) {
        const buffer_handle closed = bench.cl.buffer(buffer_size, CL_MEM_READ_WRITE | flags);
        file_call c = bench.good();
        c.buffer = closed;
        bench.expect(which, c, CL_INVALID_OPERATION);
    }
}

void no_file(command which) {
    const error_bench bench;
    file_call c = bench.good();
    c.stream = nullptr;
    c.fd = -1;
    bench.expect(which, c, CL_INVALID_VALUE);
    c.size = 0;
    bench.expect(which, c, CL_INVALID_VALUE);
    if (uses_stream(which)) {
        return;
    }
    c.fd = std::numeric_limits<int>::min();
    bench.expect(which, c, CL_INVALID_VALUE);
    for (const off_t at : {off_t{-1}, std::numeric_limits<off_t>::min()}) {
        c = bench.good();
        c.at = at;
        bench.expect(which, c, CL_INVALID_VALUE);
    }
}

/// Checks all pairs of wrong arguments: the code must be that of the check that comes first.
void order_of_checks(command which) {
    const error_bench bench;
    const opencl other(opencl::of::its_own);
    const buffer_handle foreign = other.buffer(buffer_size);
    const event_handle foreign_event = other.user_event();
    CL_OK(clSetUserEventStatus(foreign_event, CL_COMPLETE));
    const event_handle failed = bench.cl.user_event();
    CL_OK(clSetUserEventStatus(failed, -77));
    const buffer_handle closed =
        bench.cl.buffer(buffer_size, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS);
    const buffer_handle odd = misaligned(bench.cl, bench.buffer);
    const cl_event foreign_list[] = {foreign_event};
    const cl_event failed_list[] = {failed};

    enum class argument { queue, buffer, range, events, file };
    struct defect {
        cl_int code;
        argument where;  ///< an argument has at most one defect at a time
        std::function<void(file_call &)> apply;
    };
    std::vector<defect> defects{
        {CL_INVALID_COMMAND_QUEUE, argument::queue, [](file_call &c) { c.queue = nullptr; }},
        {CL_INVALID_MEM_OBJECT, argument::buffer, [](file_call &c) { c.buffer = nullptr; }},
        {CL_INVALID_CONTEXT, argument::buffer, [&](file_call &c) { c.buffer = foreign; }},
        {CL_INVALID_CONTEXT, argument::events,
         [&](file_call &c) {
             c.number = 1;
             c.events = foreign_list;
         }},
        {CL_INVALID_VALUE, argument::range, [](file_call &c) { c.size = buffer_size + 1; }},
        {CL_INVALID_EVENT_WAIT_LIST, argument::events, [](file_call &c) { c.number = 1; }},
        {CL_INVALID_OPERATION, argument::buffer, [&](file_call &c) { c.buffer = closed; }},
        {CL_INVALID_VALUE, argument::file,
         [](file_call &c) {
             c.stream = nullptr;
             c.fd = -1;
         }},
        {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, argument::events,
         [&](file_call &c) {
             c.blocking = CL_TRUE;
             c.number = 1;
             c.events = failed_list;
         }},
    };
    if (odd.get() != nullptr) {
        const defect d{CL_MISALIGNED_SUB_BUFFER_OFFSET, argument::buffer,
                       [&](file_call &c) { c.buffer = odd; }};
        defects.insert(defects.begin() + 6, d);
    }
    for (std::size_t first = 0; first < defects.size(); ++first) {
        for (std::size_t second = first + 1; second < defects.size(); ++second) {
            if (defects[first].where == defects[second].where) {
                continue;
            }
            CAPTURE(defects[first].code);
            CAPTURE(defects[second].code);
            file_call c = bench.good();
            defects[second].apply(c);
            defects[first].apply(c);
            bench.expect(which, c, defects[first].code);
        }
    }
}

}  // namespace

/// One case for each command.
#define FILE_COMMAND_CASES(sentence, check)                                          \
    MPI_CASE("a stream write " sentence, 1) { check(command::stream_write); }        \
    MPI_CASE("a stream read " sentence, 1) { check(command::stream_read); }          \
    MPI_CASE("a write to a descriptor " sentence, 1) { check(command::file_write); } \
    MPI_CASE("a read from a descriptor " sentence, 1) { check(command::file_read); }

FILE_COMMAND_CASES("without a queue is CL_INVALID_COMMAND_QUEUE", no_queue)
FILE_COMMAND_CASES("without a buffer is CL_INVALID_MEM_OBJECT", no_buffer)
FILE_COMMAND_CASES("with a buffer, event or queue of another context is CL_INVALID_CONTEXT",
                   another_context)
FILE_COMMAND_CASES(
    "past the end of its buffer is CL_INVALID_VALUE, also where offset + size overflows",
    past_the_end)
FILE_COMMAND_CASES("with a wrong wait list is CL_INVALID_EVENT_WAIT_LIST", bad_wait_list)
FILE_COMMAND_CASES("of a sub-buffer that is not aligned is CL_MISALIGNED_SUB_BUFFER_OFFSET",
                   misaligned_sub_buffer)
FILE_COMMAND_CASES("that blocks on a failed event is CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
                   failed_event)
FILE_COMMAND_CASES("against the buffer's host access flags is CL_INVALID_OPERATION",
                   host_access_refused)
FILE_COMMAND_CASES("without a stream, or with a negative descriptor or offset, is CL_INVALID_VALUE",
                   no_file)
FILE_COMMAND_CASES("with two wrong arguments gets the code of the first check", order_of_checks)
