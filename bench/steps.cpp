/// Measures each step of a small message: the driver's calls, the wake-up of threads, and the
/// library's part. Prints medians and percentiles in microseconds.
///
/// One process sends messages to itself, because two processes on a GPU would wait for each other.
#include "bench.hpp"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>

#include <CL/cl_ext_dist.h>

namespace {

using namespace bench;

constexpr size_t bytes = 8;
constexpr int tag = 7;

struct Options : CommonOptions {
    int rounds = 200;
    double idle_ms = 0;  ///< pause before each round
};

[[noreturn]] void usage(int code) {
    fmt::print(code ? stderr : stdout,
               "usage: mpirun -n 1 steps [--rounds N] [--idle MS]\n"
               "  --rounds N         rounds per measurement (200)\n"
               "  --idle MS          sleep before each round (0)\n{}",
               common_usage);
    std::exit(code);
}

void wait_and_release(cl_event event) {
    check(clWaitForEvents(1, &event), "clWaitForEvents");
    clReleaseEvent(event);
}

bool has_ended(cl_event event) {
    cl_int status = CL_QUEUED;
    check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
          "clGetEventInfo");
    return status <= CL_COMPLETE;
}

void poll_and_release(cl_event event) {
    while (!has_ended(event)) sched_yield();
    clReleaseEvent(event);
}

/// A second thread that runs functions on request. Between them, it sleeps or polls.
class Helper {
public:
    explicit Helper(bool sleeps) : sleeps_(sleeps), thread_([this] { run(); }) {}
    Helper(const Helper &) = delete;
    Helper &operator=(const Helper &) = delete;
    ~Helper() {
        tell([this] { stop_ = true; });
        thread_.join();
    }
    void tell(std::function<void()> what) {
        {
            const std::lock_guard lock(mutex_);
            what_ = std::move(what);
            told_ = true;
        }
        if (sleeps_) changed_.notify_one();
    }

private:
    void run() {
        while (!stop_) {
            std::function<void()> what;
            if (sleeps_) {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] { return told_.load(); });
            } else {
                while (!told_) sched_yield();
            }
            {
                const std::lock_guard lock(mutex_);
                what = std::move(what_);
                told_ = false;
            }
            what();
        }
    }

    const bool sleeps_;
    bool stop_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<bool> told_ = false;
    std::function<void()> what_;
    std::thread thread_;
};

/// Prints the median and the 10th and 90th percentile of the result of `body`, in us.
void measure(const Options &options, const char *name, const std::function<double()> &body) {
    std::vector<double> times;
    for (int i = -20; i < options.rounds; ++i) {
        if (options.idle_ms > 0)
            std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.idle_ms));
        const double seconds = body();
        if (i >= 0) times.push_back(seconds * 1e6);
    }
    std::sort(times.begin(), times.end());
    fmt::print("{:8.2f} {:8.2f} {:8.2f}  {}\n", median(times), times[times.size() / 10],
               times[times.size() * 9 / 10], name);
    std::fflush(stdout);
}

double timed(const std::function<void()> &what) {
    const double start = now();
    what();
    return now() - start;
}

struct Bench {
    const Options &options;
    const Device &device;
    cl_command_queue queue;
    cl_command_queue other;
    cl_mem buffer;
    cl_mem from;
    char *pinned;
    char *ordinary;

    cl_event marker() const {
        cl_event event = nullptr;
        check(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event),
              "clEnqueueMarkerWithWaitList");
        check(clFlush(queue), "clFlush");
        return event;
    }
    cl_event read(void *to) const {
        cl_event event = nullptr;
        check(clEnqueueReadBuffer(queue, from, CL_FALSE, 0, bytes, to, 0, nullptr, &event),
              "clEnqueueReadBuffer");
        check(clFlush(queue), "clFlush");
        return event;
    }
    cl_event write(const void *data, cl_event behind = nullptr) const {
        cl_event event = nullptr;
        check(
            clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, bytes, data, behind != nullptr ? 1 : 0,
                                 behind != nullptr ? &behind : nullptr, &event),
            "clEnqueueWriteBuffer");
        check(clFlush(queue), "clFlush");
        return event;
    }
    cl_event user_event() const {
        cl_int code = CL_SUCCESS;
        const cl_event event = clCreateUserEvent(device.context, &code);
        check(code, "clCreateUserEvent");
        return event;
    }
    cl_event barrier(cl_event behind) const {
        cl_event event = nullptr;
        check(clEnqueueBarrierWithWaitList(queue, 1, &behind, &event),
              "clEnqueueBarrierWithWaitList");
        check(clFlush(queue), "clFlush");
        return event;
    }
    static void set(cl_event event) {
        check(clSetUserEventStatus(event, CL_COMPLETE), "clSetUserEventStatus");
    }
    void settle() const { check(clFinish(queue), "clFinish"); }

    /// Measures the call alone, and the time until its event is complete, polled and waited for.
    void enqueued(const char *name, const std::function<cl_event()> &enqueue) const {
        measure(options, fmt::format("{}: the call and the flush", name).c_str(), [&] {
            cl_event event = nullptr;
            const double seconds = timed([&] { event = enqueue(); });
            wait_and_release(event);
            return seconds;
        });
        measure(options, fmt::format("{}: until polling sees its status", name).c_str(),
                [&] { return timed([&] { poll_and_release(enqueue()); }); });
        measure(options, fmt::format("{}: until clWaitForEvents returns", name).c_str(),
                [&] { return timed([&] { wait_and_release(enqueue()); }); });
    }

    void driver() const {
        fmt::print("\nThe driver (median, p10, p90):\n");
        enqueued("marker", [&] { return marker(); });
        enqueued("read of 8 B to page-locked memory", [&] { return read(pinned); });
        enqueued("read of 8 B to pageable memory", [&] { return read(ordinary); });
        enqueued("write of 8 B from page-locked memory", [&] { return write(pinned); });
        enqueued("write of 8 B from pageable memory", [&] { return write(ordinary); });
        measure(options, "blocking read of 8 B, page-locked", [&] {
            return timed([&] {
                check(clEnqueueReadBuffer(queue, from, CL_TRUE, 0, bytes, pinned, 0, nullptr,
                                          nullptr),
                      "read");
            });
        });
        measure(options, "blocking read of 8 B, ordinary", [&] {
            return timed([&] {
                check(clEnqueueReadBuffer(queue, from, CL_TRUE, 0, bytes, ordinary, 0, nullptr,
                                          nullptr),
                      "read");
            });
        });
        measure(options, "blocking write of 8 B, page-locked", [&] {
            return timed([&] {
                check(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, pinned, 0, nullptr,
                                           nullptr),
                      "write");
            });
        });
        measure(options, "clFinish of an empty queue", [&] { return timed([&] { settle(); }); });
        measure(options, "clFlush of an empty queue",
                [&] { return timed([&] { clFlush(queue); }); });
        measure(options, "clCreateUserEvent, set and released", [&] {
            return timed([&] {
                const cl_event event = user_event();
                set(event);
                clReleaseEvent(event);
            });
        });
        const auto behind_user_event = [&](const char *name, bool writes, bool call) {
            measure(options, name, [&, writes, call] {
                const cl_event user = user_event();
                cl_event last = nullptr;
                const double enqueueing =
                    timed([&] { last = writes ? write(pinned, user) : barrier(user); });
                const double rest = timed([&] {
                    set(user);
                    poll_and_release(last);
                });
                clReleaseEvent(user);
                return call ? enqueueing : rest;
            });
        };
        behind_user_event("barrier behind a user event: the call and the flush", false, true);
        behind_user_event("from setting the event until polling sees the barrier's status", false,
                          false);
        behind_user_event("write of 8 B behind a user event: the call and the flush", true, true);
        behind_user_event("from setting the event until polling sees the write's status", true,
                          false);
        for (const bool sleeps : {true, false}) {
            Helper helper(sleeps);
            measure(options,
                    sleeps ? "from setting the event in a thread that slept until clWaitForEvents "
                             "of the write returns"
                           : "from setting the event in a thread that polled until clWaitForEvents "
                             "of the write returns",
                    [&] {
                        const cl_event user = user_event();
                        const cl_event last = write(pinned, user);
                        const double seconds = timed([&] {
                            helper.tell([user] { set(user); });
                            wait_and_release(last);
                        });
                        clReleaseEvent(user);
                        return seconds;
                    });
        }
        const cl_event ended = marker();
        settle();
        measure(options, "query of a status", [&] { return timed([&] { has_ended(ended); }); });
        clReleaseEvent(ended);
    }

    void threads() const {
        fmt::print("\nThreads:\n");
        for (const bool sleeps : {true, false}) {
            Helper helper(sleeps);
            measure(options,
                    sleeps ? "a thread that sleeps on a condition variable wakes and answers"
                           : "a thread that polls and yields answers",
                    [&] {
                        std::atomic<bool> answered = false;
                        return timed([&] {
                            helper.tell([&] { answered = true; });
                            while (!answered) sched_yield();
                        });
                    });
        }
        measure(options, "MPI: 8 B to itself", [&] {
            return timed([&] {
                char data[bytes] = {};
                MPI_Sendrecv_replace(data, bytes, MPI_BYTE, 0, tag, 0, tag, MPI_COMM_SELF,
                                     MPI_STATUS_IGNORE);
            });
        });
    }

    cl_event send(cl_bool blocking, bool event) const {
        cl_event made = nullptr;
        check(clEnqueueSendBuffer(queue, from, blocking, 0, bytes, 0, tag, MPI_COMM_SELF, 0,
                                  nullptr, event ? &made : nullptr),
              "clEnqueueSendBuffer");
        return made;
    }
    cl_event receive(cl_command_queue on, cl_bool blocking, bool event) const {
        cl_event made = nullptr;
        check(clEnqueueRecvBuffer(on, buffer, blocking, 0, bytes, 0, tag, MPI_COMM_SELF, 0, nullptr,
                                  event ? &made : nullptr),
              "clEnqueueRecvBuffer");
        return made;
    }

    /// Returns the start and end of each stage of a transfer, in us since `start` (in seconds).
    static std::string stages(cl_event event, double start) {
        const std::array names{"wait", "match", "device", "message", "file"};
        cl_transfer_stage all[8];
        size_t size = 0;
        if (clGetTransferInfo(event, CL_TRANSFER_STAGES, sizeof all, all, &size) != CL_SUCCESS)
            return "no stages";
        std::string text;
        for (size_t i = 0; i < size / sizeof *all; ++i)
            text += fmt::format(" {} {:.1f}-{:.1f}", names.at(all[i].stage),
                                static_cast<double>(all[i].start) * 1e-3 - start * 1e6,
                                static_cast<double>(all[i].end) * 1e-3 - start * 1e6);
        return text;
    }

    void library() const {
        fmt::print("\nThe library:\n");
        measure(options, "blocking send to itself, then blocking receive", [&] {
            return timed([&] {
                send(CL_TRUE, false);
                receive(queue, CL_TRUE, false);
            });
        });
        measure(options, "non-blocking clEnqueueSendBuffer of 8 B: the call", [&] {
            cl_event sent = nullptr;
            const double seconds = timed([&] { sent = send(CL_FALSE, true); });
            receive(other, CL_TRUE, false);
            wait_and_release(sent);
            return seconds;
        });
        measure(options, "non-blocking clEnqueueRecvBuffer of 8 B: the call", [&] {
            cl_event received = nullptr;
            const double seconds = timed([&] { received = receive(other, CL_FALSE, true); });
            send(CL_TRUE, false);
            wait_and_release(received);
            return seconds;
        });
        measure(options, "a non-blocking send until clWaitForEvents returns", [&] {
            const double seconds = timed([&] { wait_and_release(send(CL_FALSE, true)); });
            receive(other, CL_TRUE, false);
            return seconds;
        });
        measure(
            options,
            "a non-blocking receive of a message that has arrived until clWaitForEvents returns",
            [&] {
                send(CL_TRUE, false);
                return timed([&] { wait_and_release(receive(other, CL_FALSE, true)); });
            });
        measure(options, "both enqueued, the receive first, until its clWaitForEvents returns",
                [&] {
                    cl_event sent = nullptr;
                    const double seconds = timed([&] {
                        const cl_event received = receive(other, CL_FALSE, true);
                        sent = send(CL_FALSE, true);
                        wait_and_release(received);
                    });
                    wait_and_release(sent);
                    return seconds;
                });
        fmt::print("  The same, five times; us after the first call:\n");
        for (int i = 0; i < 5; ++i) {
            const double start = now();
            const cl_event received = receive(other, CL_FALSE, true);
            const double first = now();
            const cl_event sent = send(CL_FALSE, true);
            const double second = now();
            check(clWaitForEvents(1, &received), "clWaitForEvents");
            const double end = now();
            check(clWaitForEvents(1, &sent), "clWaitForEvents");
            fmt::print(
                "  receive enqueued {:.1f}, send enqueued {:.1f}, received {:.1f}; send:{}; "
                "receive:{}\n",
                (first - start) * 1e6, (second - start) * 1e6, (end - start) * 1e6,
                stages(sent, start), stages(received, start));
            clReleaseEvent(received);
            clReleaseEvent(sent);
        }
    }
};

}  // namespace

int main(int argc, char **argv) {
    Options options;
    parse_options(argc, argv, options, {{"rounds", 1, nullptr, 'r'}, {"idle", 1, nullptr, 'i'}},
                  usage, [&](int letter) {
                      if (letter == 'r') options.rounds = std::max(1, std::atoi(optarg));
                      if (letter == 'i') options.idle_ms = std::atof(optarg);
                  });
    MPI_Init(&argc, &argv);
    {
        const Device device(device_type(options.device));
        Report report{"steps", options.label};
        report.collect_facts(device);
        report.print_facts();
        const cl_command_queue queue = device.queue();
        const cl_command_queue other = device.queue();
        const cl_mem buffer = device.buffer(4096);
        const cl_mem from = device.buffer(4096);
        const Pinned pinned(device, queue, 4096);
        const auto ordinary = std::make_unique<char[]>(4096);
        std::memset(pinned.data(), 1, 4096);
        const Bench bench{options, device, queue,         other,
                          buffer,  from,   pinned.data(), ordinary.get()};
        check(
            clEnqueueWriteBuffer(queue, from, CL_TRUE, 0, 4096, pinned.data(), 0, nullptr, nullptr),
            "write");
        bench.driver();
        bench.threads();
        bench.library();
        clReleaseMemObject(from);
        clReleaseMemObject(buffer);
        clReleaseCommandQueue(other);
        clReleaseCommandQueue(queue);
    }
    MPI_Finalize();
}
