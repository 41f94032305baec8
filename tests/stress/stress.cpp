/// Random messages of all kinds between all processes, with a check of every byte. plan.hpp
/// describes the messages.
///
///   test_stress [--seed N] [--messages N] [--threads N] [--largest BYTES] [--sub-buffers PERCENT]
///               [--patience SECONDS]
///
/// A failure prints the command that repeats it: the same seed, options and number of processes
/// give the same messages. CLDIST_TEST_DEVICE is "cpu" or "gpu", as for the other tests.

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <CL/cl_ext_dist.h>
#include <unistd.h>

#include "plan.hpp"

using namespace cldist_stress;

namespace {

using clock_type = std::chrono::steady_clock;
using bytes = std::vector<unsigned char>;

settings the_settings;
int my_rank = 0;
std::atomic<std::uint64_t> round_number = 0;

// ---- failing ----------------------------------------------------------------------------------

std::string how_to_repeat() {
    return "mpirun -n " + std::to_string(the_settings.ranks) + " test_stress --seed " +
           std::to_string(the_settings.seed) + " --messages " +
           std::to_string(the_settings.messages) + " --threads " +
           std::to_string(the_settings.threads) + " --largest " +
           std::to_string(the_settings.largest) + " --sub-buffers " +
           std::to_string(the_settings.sub_buffers);
}

[[noreturn]] void end_job(const std::string &what) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::fprintf(stderr, "FAILED: rank %d, round %llu: %s\n  repeat: %s\n", my_rank,
                 static_cast<unsigned long long>(round_number.load()), what.c_str(),
                 how_to_repeat().c_str());
    std::fflush(nullptr);
    ::alarm(10);  // in case MPI_Abort hangs
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
}

void check(cl_int code, const char *what) {
    if (code != CL_SUCCESS) {
        end_job(std::string(what) + " returned " + std::to_string(code));
    }
}

// ---- OpenCL -----------------------------------------------------------------------------------

template <typename Handle, cl_int(CL_API_CALL *release)(Handle)>
struct releaser {
    using pointer = Handle;
    void operator()(Handle handle) const { release(handle); }
};
using event_handle = std::unique_ptr<cl_event, releaser<cl_event, clReleaseEvent>>;
using queue_handle =
    std::unique_ptr<cl_command_queue, releaser<cl_command_queue, clReleaseCommandQueue>>;
using buffer_handle = std::unique_ptr<cl_mem, releaser<cl_mem, clReleaseMemObject>>;

struct device {
    cl_device_id id = nullptr;
    cl_context context = nullptr;
    std::size_t alignment = 1;  ///< of sub-buffers, in bytes

    device() {
        int on_host = 0;
        MPI_Comm host = MPI_COMM_NULL;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
        MPI_Comm_rank(host, &on_host);
        MPI_Comm_free(&host);
        const char *text = std::getenv("CLDIST_TEST_DEVICE");
        const std::string wanted = text == nullptr ? "" : text;
        std::vector<cl_device_id> found;
        if (wanted != "cpu") {
            found = all_of(CL_DEVICE_TYPE_GPU);
        }
        if (found.empty() && wanted != "gpu") {
            found = all_of(CL_DEVICE_TYPE_CPU);
        }
        if (found.empty()) {
            end_job("there is no OpenCL device of the required type");
        }
        id = found[static_cast<std::size_t>(on_host) % found.size()];
        cl_int error = CL_SUCCESS;
        context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &error);
        check(error, "clCreateContext");
        cl_uint bits = 0;
        check(clGetDeviceInfo(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(bits), &bits, nullptr),
              "clGetDeviceInfo");
        alignment = std::max<std::size_t>(bits / 8, 1);
    }

    static std::vector<cl_device_id> all_of(cl_device_type type) {
        std::array<cl_platform_id, 16> platforms{};
        cl_uint count = 0;
        clGetPlatformIDs(16, platforms.data(), &count);
        std::vector<cl_device_id> found;
        for (cl_uint i = 0; i < std::min<cl_uint>(count, 16); ++i) {
            std::array<cl_device_id, 16> ids{};
            cl_uint number = 0;
            if (clGetDeviceIDs(platforms[i], type, 16, ids.data(), &number) == CL_SUCCESS) {
                found.insert(found.end(), ids.begin(), ids.begin() + std::min<cl_uint>(number, 16));
            }
        }
        return found;
    }

    [[nodiscard]] queue_handle queue(cl_command_queue_properties properties) const {
        cl_int error = CL_SUCCESS;
        cl_command_queue made = clCreateCommandQueue(context, id, properties, &error);
        check(error, "clCreateCommandQueue");
        return queue_handle(made);
    }

    [[nodiscard]] buffer_handle buffer(std::size_t size) const {
        cl_int error = CL_SUCCESS;
        cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, std::max<std::size_t>(size, 1),
                                     nullptr, &error);
        check(error, "clCreateBuffer");
        return buffer_handle(made);
    }

    [[nodiscard]] event_handle user_event() const {
        cl_int error = CL_SUCCESS;
        cl_event made = clCreateUserEvent(context, &error);
        check(error, "clCreateUserEvent");
        return event_handle(made);
    }

    /// Whether an out-of-order queue continues past a command that waits for a user event.
    [[nodiscard]] bool passes_pending_commands() const {
        cl_command_queue_properties supported = 0;
        clGetDeviceInfo(id, CL_DEVICE_QUEUE_PROPERTIES, sizeof(supported), &supported, nullptr);
        if ((supported & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0) {
            return false;
        }
        const queue_handle tried = queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        const buffer_handle held = buffer(64);
        const buffer_handle free = buffer(64);
        const event_handle gate = user_event();
        cl_event wait = gate.get();
        cl_event done = nullptr;
        const cl_uchar zero = 0;
        check(clEnqueueFillBuffer(tried.get(), held.get(), &zero, 1, 0, 64, 1, &wait, nullptr),
              "clEnqueueFillBuffer");
        check(clEnqueueFillBuffer(tried.get(), free.get(), &zero, 1, 0, 64, 0, nullptr, &done),
              "clEnqueueFillBuffer");
        check(clFlush(tried.get()), "clFlush");
        cl_int status = CL_QUEUED;
        const auto deadline = clock_type::now() + std::chrono::milliseconds(500);
        while (status > CL_COMPLETE && clock_type::now() < deadline) {
            std::this_thread::yield();
            clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
                           nullptr);
        }
        clSetUserEventStatus(gate.get(), CL_COMPLETE);
        clFinish(tried.get());
        clReleaseEvent(done);
        return status == CL_COMPLETE;
    }
};

// ---- counters ---------------------------------------------------------------------------------

enum counted : std::size_t {
    sent,
    exchanged,
    wild_received,
    blocked,
    had_no_event,
    was_too_short,
    path_mapped,
    path_pinned,
    path_pipelined,
    path_kernel,
    moved_bytes,
    counted_things
};
constexpr std::array<const char *, counted_things> counted_names{"messages sent",
                                                                 "of Sendrecvs",
                                                                 "met by wildcards",
                                                                 "blocking calls",
                                                                 "calls without event",
                                                                 "too long for their receive",
                                                                 "transfers mapped",
                                                                 "staged",
                                                                 "chunked",
                                                                 "by kernels",
                                                                 "bytes"};
using counts = std::array<unsigned long long, counted_things>;

// ---- a thread ---------------------------------------------------------------------------------

/// A range of a buffer, in bytes.
struct place {
    std::size_t offset = 0;
    std::size_t size = 0;
};

/// A buffer with the ranges of many commands. `image`: its initial, later its expected contents.
struct area {
    buffer_handle buffer;
    std::size_t capacity = 0;
    bytes image;

    void begin() { image.clear(); }
    /// Adds a range after a gap of varying size. So most ranges are unaligned, and writes outside a
    /// range are found.
    place add(std::size_t size) {
        const place made{image.size() + 13 + size % 31, size};
        image.resize(made.offset + size + 1);
        return made;
    }
    void write(const device &d, cl_command_queue queue) {
        if (image.size() > capacity) {
            capacity = image.size() * 2;
            buffer = d.buffer(capacity);
        }
        if (!image.empty()) {
            check(clEnqueueWriteBuffer(queue, buffer.get(), CL_TRUE, 0, image.size(), image.data(),
                                       0, nullptr, nullptr),
                  "clEnqueueWriteBuffer");
        }
    }
};

/// A command of this thread, and its data until it is checked.
struct issued {
    const command *what = nullptr;
    place out;
    place in;
    event_handle event;
    bytes data;       ///< for a send that waits for a write: the bytes of the write
    bytes read_back;  ///< the result of a read that waits for the receive
};

class worker {
public:
    worker(int thread_in, const device &device_in, const std::vector<MPI_Comm> &comms_in,
           cl_command_queue shared_queue)
        : thread(thread_in),
          d(device_in),
          comms(comms_in),
          shapes(communicators(the_settings.ranks)) {
        const auto any_order = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        cl_command_queue_properties supported = 0;
        clGetDeviceInfo(d.id, CL_DEVICE_QUEUE_PROPERTIES, sizeof(supported), &supported, nullptr);
        for (int i = 0; i < queue_count; ++i) {
            const bool unordered = i == out_of_order || i == shared_by_threads ||
                                   i == wild_out_of_order || i == competing;
            own_queues.push_back(d.queue(unordered ? supported & any_order : 0));
            queues.push_back(own_queues.back().get());
        }
        if (shared_queue != nullptr) {
            queues[shared_by_threads] = shared_queue;
        }
    }

    void run(const round_plan &r) {
        prepare(r);
        for (issued &i : mine) {
            at_command = i.what;
            issue(r, i);
        }
        open_gates();
        finish(r);
        at_command = nullptr;
    }

    /// The thread's current command, for the message about a stall.
    std::atomic<const command *> at_command{nullptr};
    std::atomic<std::uint64_t> steps{0};
    counts count{};

private:
    void prepare(const round_plan &r) {
        mine.clear();
        outgoing.begin();
        incoming.begin();
        for (const command &c : r.commands) {
            if (c.rank != my_rank || c.thread != thread) {
                continue;
            }
            issued &i = mine.emplace_back();
            i.what = &c;
            if (c.sends != none) {
                const message &m = message_of(r, c.sends);
                i.out = outgoing.add(m.size);
                if (c.wait == waits_for::writing) {
                    i.data = payload(the_settings.seed, m);
                } else {
                    put(outgoing, i.out, payload(the_settings.seed, m));
                }
            }
            if (c.receives != none || c.with_wildcards) {
                i.in = incoming.add(c.capacity);
            }
        }
        incoming.image = merge_background(incoming.image.size());
        outgoing.write(d, copies.get());
        incoming.write(d, copies.get());
    }

    bytes merge_background(std::size_t size) const {
        return background(the_settings.seed + round_number * 64 + static_cast<unsigned>(thread),
                          size);
    }

    static const message &message_of(const round_plan &r, int index) {
        return r.messages[static_cast<std::size_t>(index)];
    }
    static void put(area &a, const place &p, const bytes &data) {
        std::copy(data.begin(), data.end(),
                  a.image.begin() + static_cast<std::ptrdiff_t>(p.offset));
    }

    /// The buffer, or a sub-buffer that contains the range; `p` is then relative to the sub-buffer.
    buffer_handle whole_or_sub(const area &a, place &p, bool sub) const {
        if (a.buffer == nullptr) {
            return nullptr;
        }
        if (!sub || p.size == 0) {
            clRetainMemObject(a.buffer.get());
            return buffer_handle(a.buffer.get());
        }
        const std::size_t origin = p.offset / d.alignment * d.alignment;
        const cl_buffer_region region{origin, p.offset - origin + p.size};
        cl_int error = CL_SUCCESS;
        cl_mem made =
            clCreateSubBuffer(a.buffer.get(), 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
        check(error, "clCreateSubBuffer");
        p.offset -= origin;
        return buffer_handle(made);
    }

    void issue(const round_plan &r, issued &i) {
        const command &c = *i.what;
        std::vector<cl_event> wait;
        event_handle written;
        event_handle gate;
        if (c.wait == waits_for::writing && c.sends != none && i.out.size != 0) {
            cl_event event = nullptr;
            check(clEnqueueWriteBuffer(copies.get(), outgoing.buffer.get(), CL_FALSE, i.out.offset,
                                       i.out.size, i.data.data(), 0, nullptr, &event),
                  "clEnqueueWriteBuffer");
            written.reset(event);
            wait.push_back(event);
        } else if (c.wait == waits_for::user_event) {
            gate = d.user_event();
            wait.push_back(gate.get());
        } else if (c.wait == waits_for::previous && previous != nullptr) {
            wait.push_back(previous);
        }
        if (c.blocking) {
            open_gates();
        }

        cl_event event = nullptr;
        const cl_int code = call(r, i, wait, needs_event(c) ? &event : nullptr);
        i.event.reset(event);
        if (code != (c.too_short ? CL_MESSAGE_TRUNCATED : CL_SUCCESS)) {
            end_job("returned " + std::to_string(code) + ": " + describe(r, c));
        }
        ++steps;
        open_gates();
        if (gate) {
            gates.push_back(std::move(gate));
        }
        if (event != nullptr && !c.with_wildcards) {
            previous = event;
        }
        count[blocked] += c.blocking ? 1 : 0;
        count[had_no_event] += event == nullptr ? 1 : 0;
        follow_up(i);
    }

    static bool needs_event(const command &c) {
        const bool something_waits = (c.read_behind || c.overwritten) && !c.blocking;
        return !c.too_short && (c.wants_event || c.with_wildcards || something_waits);
    }

    cl_int call(const round_plan &r, const issued &i, const std::vector<cl_event> &wait,
                cl_event *event) {
        const command &c = *i.what;
        const cl_bool blocking = c.blocking ? CL_TRUE : CL_FALSE;
        const cl_command_queue queue = queues[static_cast<std::size_t>(c.queue)];
        const auto waits = static_cast<cl_uint>(wait.size());
        const cl_event *list = wait.empty() ? nullptr : wait.data();
        place out = i.out;
        place in = i.in;
        // Released before the command ends: the library must retain them.
        const buffer_handle from = whole_or_sub(outgoing, out, c.sub_buffer);
        const buffer_handle to = whole_or_sub(incoming, in, c.sub_buffer);

        if (c.with_wildcards) {
            const communicator &shape = shapes.back();
            return clEnqueueRecvBuffer(
                queue, to.get(), blocking, in.offset, in.size,
                c.source == none ? MPI_ANY_SOURCE : shape.number_of(c.source),
                c.tag == none ? MPI_ANY_TAG : c.tag, comms.back(), waits, list, event);
        }
        const message *sending = c.sends == none ? nullptr : &message_of(r, c.sends);
        const message *receiving = c.receives == none ? nullptr : &message_of(r, c.receives);
        const int index = sending != nullptr ? sending->communicator : receiving->communicator;
        const MPI_Comm comm = comms[static_cast<std::size_t>(index)];
        const communicator &shape = shapes[static_cast<std::size_t>(index)];
        if (receiving == nullptr) {
            return clEnqueueSendBuffer(queue, from.get(), blocking, out.offset, out.size,
                                       shape.number_of(sending->receiver), sending->tag, comm,
                                       waits, list, event);
        }
        if (sending == nullptr) {
            const int source = c.any_source ? MPI_ANY_SOURCE : shape.number_of(receiving->sender);
            const int tag = c.any_tag ? MPI_ANY_TAG : receiving->tag;
            if (c.probes) {
                probe(r, c, source, tag, comm);
            }
            return clEnqueueRecvBuffer(queue, to.get(), blocking, in.offset, in.size, source, tag,
                                       comm, waits, list, event);
        }
        return clEnqueueSendrecvBuffer(queue, from.get(), blocking, out.offset, out.size,
                                       shape.number_of(sending->receiver), sending->tag, to.get(),
                                       in.offset, in.size, shape.number_of(receiving->sender),
                                       receiving->tag, comm, waits, list, event);
    }

    /// Probes for the receive's message after all earlier competing receives have started.
    void probe(const round_plan &r, const command &c, int source, int tag, MPI_Comm comm) {
        for (const issued &before : mine) {
            cl_int status = CL_COMPLETE;
            while (before.what->competes && before.event &&
                   clGetTransferInfo(before.event.get(), CL_TRANSFER_STATUS, sizeof(status),
                                     &status, nullptr) == CL_SUCCESS &&
                   status > CL_RUNNING) {
                std::this_thread::yield();
            }
        }
        MPI_Status found;
        if (MPI_Probe(source, tag, comm, &found) != MPI_SUCCESS ||
            found.MPI_TAG != message_of(r, c.receives).tag) {
            end_job("a probe found tag " + std::to_string(found.MPI_TAG) + ": " + describe(r, c));
        }
    }

    /// Enqueues the read of the received bytes and the fill of the sent bytes, which the program
    /// may start after the event or, if the call blocked, at once.
    void follow_up(issued &i) {
        const command &c = *i.what;
        const cl_event event = i.event.get();
        const bool waits = !c.blocking;
        if (i.in.size != 0 && c.read_behind) {
            i.read_back.resize(i.in.size);
            const queue_handle &queue = c.with_wildcards ? wild_copies : copies;
            check(clEnqueueReadBuffer(queue.get(), incoming.buffer.get(), CL_FALSE, i.in.offset,
                                      i.in.size, i.read_back.data(), waits ? 1 : 0,
                                      waits ? &event : nullptr, nullptr),
                  "clEnqueueReadBuffer");
            check(clFlush(queue.get()), "clFlush");
        }
        if (i.out.size != 0 && c.overwritten) {
            const cl_uchar other = 0xEE;
            check(clEnqueueFillBuffer(copies.get(), outgoing.buffer.get(), &other, 1, i.out.offset,
                                      i.out.size, waits ? 1 : 0, waits ? &event : nullptr, nullptr),
                  "clEnqueueFillBuffer");
            check(clFlush(copies.get()), "clFlush");
        }
    }

    void open_gates() {
        for (const event_handle &gate : gates) {
            check(clSetUserEventStatus(gate.get(), CL_COMPLETE), "clSetUserEventStatus");
        }
        gates.clear();
    }

    void finish(const round_plan &r) {
        for (const issued &i : mine) {
            at_command = i.what;
            if (i.event) {
                cl_event event = i.event.get();
                clWaitForEvents(1, &event);  // the result is checked below
                ++steps;
            }
        }
        for (cl_command_queue queue : queues) {
            check(clFinish(queue), "clFinish");
        }
        check(clFinish(copies.get()), "clFinish");
        check(clFinish(wild_copies.get()), "clFinish");
        previous = nullptr;

        std::map<int, std::size_t> seen_from;  // wildcard messages from each source
        for (issued &i : mine) {
            at_command = i.what;
            check_one(r, i, seen_from);
        }
        check_bytes(r);
    }

    void check_one(const round_plan &r, const issued &i, std::map<int, std::size_t> &seen_from) {
        const command &c = *i.what;
        if (i.event) {
            check_ended(r, i);
        }
        const message *received = c.receives == none ? nullptr : &message_of(r, c.receives);
        if (c.with_wildcards) {
            received = &matched_by_wildcards(r, i, seen_from);
            ++count[wild_received];
        }
        if (c.sends != none) {
            ++count[received != nullptr ? exchanged : sent];
            count[moved_bytes] += i.out.size;
        }
        if (c.too_short) {
            ++count[was_too_short];
            return;
        }
        if (received == nullptr) {
            return;
        }
        if (i.event) {
            const communicator &shape = shapes[static_cast<std::size_t>(received->communicator)];
            expect(r, c, "the number of bytes", info<std::size_t>(i, CL_TRANSFER_BYTES),
                   received->size);
            expect(r, c, "the source", info<int>(i, CL_TRANSFER_SOURCE),
                   shape.number_of(received->sender));
            expect(r, c, "the tag", info<int>(i, CL_TRANSFER_TAG), received->tag);
        }
        put(incoming, i.in, payload(the_settings.seed, *received));
        if (!i.read_back.empty() &&
            std::memcmp(i.read_back.data(), incoming.image.data() + i.in.offset, i.in.size) != 0) {
            end_job("a read that waited for the receive's event found other bytes: " +
                    describe(r, c));
        }
    }

    void check_ended(const round_plan &r, const issued &i) {
        const cl_int status = info<cl_int>(i, CL_TRANSFER_STATUS);
        cl_int told = CL_QUEUED;
        clGetEventInfo(i.event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(told), &told,
                       nullptr);
        if (status != CL_COMPLETE || told != CL_COMPLETE) {
            end_job("ended with " + std::to_string(status) + ", its event with " +
                    std::to_string(told) + " (" + text(i, CL_TRANSFER_ERROR_MESSAGE) +
                    "): " + describe(r, *i.what));
        }
        const std::string path = text(i, CL_TRANSFER_PATH);
        count[path_mapped] += path == "mapped" ? 1 : 0;
        count[path_pinned] += path == "staged" ? 1 : 0;
        count[path_pipelined] += path == "chunked" ? 1 : 0;
        count[path_kernel] += path == "kernel" || path == "device" ? 1 : 0;
    }

    /// The message that a receive with wildcards got. Its source determines it, because a sender's
    /// messages arrive in order. `seen_from` counts the messages from each source.
    const message &matched_by_wildcards(const round_plan &r, const issued &i,
                                        std::map<int, std::size_t> &seen_from) {
        const int source = info<int>(i, CL_TRANSFER_SOURCE);
        std::size_t before = seen_from[source]++;
        for (const message &m : r.messages) {
            const bool meant = m.communicator == static_cast<int>(shapes.size()) - 1 &&
                               m.receiver == my_rank && shapes.back().number_of(m.sender) == source;
            if (meant && before-- == 0) {
                return m;
            }
        }
        end_job("more messages from " + std::to_string(source) +
                " than it sent: " + describe(r, *i.what));
    }

    void check_bytes(const round_plan &r) {
        if (incoming.image.empty()) {
            return;
        }
        bytes found(incoming.image.size());
        check(clEnqueueReadBuffer(copies.get(), incoming.buffer.get(), CL_TRUE, 0, found.size(),
                                  found.data(), 0, nullptr, nullptr),
              "clEnqueueReadBuffer");
        if (std::memcmp(found.data(), incoming.image.data(), found.size()) == 0) {
            return;
        }
        std::size_t at = 0;
        while (found[at] == incoming.image[at]) {
            ++at;
        }
        std::string where = "outside of all receives";
        for (const issued &i : mine) {
            const bool receives = i.what->receives != none || i.what->with_wildcards;
            if (receives && at >= i.in.offset && at < i.in.offset + i.in.size) {
                where = "byte " + std::to_string(at - i.in.offset) + " of " + describe(r, *i.what);
            }
        }
        end_job("byte " + std::to_string(at) + " of the buffer for receives of thread " +
                std::to_string(thread) + " is " + std::to_string(found[at]) + ", not " +
                std::to_string(incoming.image[at]) + ": " + where);
    }

    template <typename T>
    static T info(const issued &i, cl_transfer_info name) {
        T value{};
        check(clGetTransferInfo(i.event.get(), name, sizeof(value), &value, nullptr),
              "clGetTransferInfo");
        return value;
    }

    static std::string text(const issued &i, cl_transfer_info name) {
        std::array<char, 1000> value{};
        check(clGetTransferInfo(i.event.get(), name, value.size(), value.data(), nullptr),
              "clGetTransferInfo");
        return value.data();
    }

    template <typename T>
    static void expect(const round_plan &r, const command &c, const char *what, T found, T wanted) {
        if (found != wanted) {
            end_job(std::string(what) + " is " + std::to_string(found) + ", not " +
                    std::to_string(wanted) + ": " + describe(r, c));
        }
    }

    const int thread;
    const device &d;
    const std::vector<MPI_Comm> &comms;
    const std::vector<communicator> shapes;
    std::vector<queue_handle> own_queues;
    std::vector<cl_command_queue> queues;
    queue_handle copies = d.queue(0);
    /// separate, because wildcard receives match at unknown times and would delay the other reads
    queue_handle wild_copies = d.queue(0);
    area outgoing;
    area incoming;
    std::vector<issued> mine;
    std::vector<event_handle> gates;  ///< user events that are not set yet
    cl_event previous = nullptr;
};

// ---- main program -----------------------------------------------------------------------------

/// Creates the communicators that communicators() describes, in its order.
std::vector<MPI_Comm> make_communicators() {
    std::vector<MPI_Comm> made;
    for (const communicator &shape : communicators(the_settings.ranks)) {
        MPI_Comm group = MPI_COMM_NULL;
        const int own = shape.group[static_cast<std::size_t>(my_rank)];
        MPI_Comm_split(MPI_COMM_WORLD, own, shape.number_of(my_rank), &group);
        if (shape.inter) {
            int leader = 0;  // of the other group
            while (shape.group[static_cast<std::size_t>(leader)] == own ||
                   shape.number_of(leader) != 0) {
                ++leader;
            }
            MPI_Comm inter = MPI_COMM_NULL;
            MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, leader, 1, &inter);
            MPI_Comm_free(&group);
            group = inter;
        }
        if (shape.plain) {
            MPI_Info info = MPI_INFO_NULL;
            MPI_Info_create(&info);
            MPI_Info_set(info, "cldist_wire", "plain");
            MPI_Comm_set_info(group, info);
            MPI_Info_free(&info);
        }
        made.push_back(made.empty() ? MPI_COMM_WORLD : group);
    }
    return made;
}

/// Ends the job if no thread makes a step for `patience`.
void watch(const std::stop_token &stop, const std::vector<std::unique_ptr<worker>> &workers,
           const round_plan &r, std::chrono::seconds patience) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::uint64_t last = 0;
    auto since = clock_type::now();
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
        never.wait_for(lock, stop, std::chrono::milliseconds(500), [] { return false; });
        std::uint64_t now = round_number;
        for (const auto &w : workers) {
            now += w->steps;
        }
        if (now != last) {
            last = now;
            since = clock_type::now();
        } else if (clock_type::now() - since > patience) {
            std::string text =
                "nothing moved for " + std::to_string(patience.count()) + " s; the threads are at";
            for (const auto &w : workers) {
                const command *c = w->at_command;
                text += "\n    " +
                        (c == nullptr ? std::string("the end of the round") : describe(r, *c));
            }
            end_job(text);
        }
    }
}

void run_all(const device &d, std::chrono::seconds patience) {
    std::vector<MPI_Comm> comms = make_communicators();
    const queue_handle shared =
        d.passes_pending_commands() ? d.queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) : nullptr;
    std::vector<std::unique_ptr<worker>> workers;
    for (int t = 0; t < the_settings.threads; ++t) {
        workers.push_back(std::make_unique<worker>(t, d, comms, shared.get()));
    }

    std::uint64_t done = 0;
    round_plan current = make_round(the_settings, round_number);
    bool more = true;
    const auto next_round = [&]() noexcept {
        MPI_Barrier(MPI_COMM_WORLD);
        done += current.messages.size();
        more = done < the_settings.messages;
        if (more) {
            current = make_round(the_settings, ++round_number);
        }
    };
    const auto begin = clock_type::now();
    {
        const std::jthread watchdog(
            [&](const std::stop_token &stop) { watch(stop, workers, current, patience); });
        std::barrier meeting(the_settings.threads, next_round);
        std::vector<std::jthread> threads;
        for (const auto &w : workers) {
            threads.emplace_back([&] {
                while (more) {
                    w->run(current);
                    meeting.arrive_and_wait();
                }
            });
        }
    }
    const std::chrono::duration<double> seconds = clock_type::now() - begin;

    counts all{};
    for (const auto &w : workers) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            all.at(i) += w->count.at(i);
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, all.data(), static_cast<int>(all.size()), MPI_UNSIGNED_LONG_LONG,
                  MPI_SUM, MPI_COMM_WORLD);
    if (my_rank == 0) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            std::printf("  %-28s %llu\n", counted_names.at(i), all.at(i));
        }
        std::printf(
            "%llu messages in %llu rounds, every byte checked: %.1f s, %.0f messages/s, %.0f "
            "MB/s\n",
            static_cast<unsigned long long>(done),
            static_cast<unsigned long long>(round_number + 1), seconds.count(),
            static_cast<double>(done) / seconds.count(),
            static_cast<double>(all[moved_bytes]) / seconds.count() * 1e-6);
    }
    // All planned messages must have been sent.
    if (all[sent] + all[exchanged] != done) {
        end_job(std::to_string(all[sent] + all[exchanged]) + " messages were checked, not " +
                std::to_string(done));
    }
    for (std::size_t i = 1; i < comms.size(); ++i) {
        MPI_Comm_free(&comms[i]);
    }
}

/// Reads the options. Returns an error message, or nothing. By default the seed is random.
std::optional<std::string> read_options(int argc, char **argv, std::uint64_t &patience) {
    std::uint64_t threads = static_cast<std::uint64_t>(the_settings.threads);
    std::uint64_t largest = the_settings.largest;
    std::random_device random;
    the_settings.seed = random() % 1000000;
    const std::map<std::string, std::uint64_t *> options{
        {"--seed", &the_settings.seed},
        {"--messages", &the_settings.messages},
        {"--threads", &threads},
        {"--largest", &largest},
        {"--sub-buffers", &the_settings.sub_buffers},
        {"--patience", &patience}};
    for (int i = 1; i < argc; i += 2) {
        const auto option = options.find(argv[i]);
        if (option == options.end()) {
            return std::string("no such option: ") + argv[i];
        }
        char *end = nullptr;
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        *option->second = std::strtoull(value, &end, 10);
        if (end == value || *end != '\0') {
            return std::string(argv[i]) + " needs a number, got \"" + value + "\"";
        }
    }
    if (threads < 1 || threads > 32 || the_settings.messages == 0) {
        return "--threads must be from 1 to 32, --messages not 0";
    }
    the_settings.threads = static_cast<int>(threads);
    the_settings.largest = largest;
    return std::nullopt;
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &the_settings.ranks);
    std::uint64_t patience = 60;
    if (const auto wrong = read_options(argc, argv, patience)) {
        if (my_rank == 0) {
            std::fprintf(stderr, "test_stress: %s\n", wrong->c_str());
        }
        MPI_Finalize();
        return 2;
    }
    MPI_Bcast(&the_settings.seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (my_rank == 0) {
        std::printf("repeat with: %s\n", how_to_repeat().c_str());
        std::fflush(stdout);
    }
    {
        const device d;
        run_all(d, std::chrono::seconds(patience));
        clReleaseContext(d.context);
    }
    MPI_Finalize();
    return 0;
}
