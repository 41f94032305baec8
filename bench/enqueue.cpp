/// Compares the host time of enqueueing a non-blocking command with that of clEnqueueReadBuffer on
/// a queue of the same kind. Also measures the CPU time of an idle process.
///
/// Rank 0 measures, and rank 1 is its peer. Measures how long enqueueing a batch takes, without its
/// completion. Batches of the three commands alternate.
#include "bench.hpp"

#include <array>
#include <optional>

#include <sys/resource.h>

#include <CL/cl_ext_dist.h>

namespace {

using namespace bench;
using namespace std::chrono_literals;

constexpr int tag = 7;
constexpr double goal = 4;  ///< target: the largest ratio of a send's time to a read's

struct Options : CommonOptions {
    size_t size = 4096;
    size_t batch = 100;
    int batches = 30;
};

/// A barrier that sleeps instead of spinning.
void quiet_barrier() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int done = 0; !done;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) std::this_thread::sleep_for(200us);
    }
}

double thread_cpu() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Returns the CPU time of this process, with all threads.
double process_cpu() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval &time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Sleeps for two seconds and returns this process's CPU use meanwhile, in percent of one core.
double sleeping_cpu_percent() {
    const double start = now();
    const double before = process_cpu();
    std::this_thread::sleep_for(2s);
    return 100 * (process_cpu() - before) / (now() - start);
}

enum class Op { read, send, recv };

struct Case {
    std::string_view queue_name;
    cl_command_queue_properties properties;
    bool with_event;
};

/// Seconds per call, one value per batch: elapsed time, and CPU time of the thread.
struct Samples {
    std::vector<double> wall, cpu;
};

class Bench {
public:
    Bench(const Options &options, const Device &device, cl_command_queue_properties properties,
          int rank)
        : options_(options),
          rank_(rank),
          queue_(device.queue(properties)),
          buffer_(device.buffer(options.size)),
          events_(options.batch) {
        host_.emplace(device, queue_, options.size);
        const std::vector<char> zeros(options.size);
        check(clEnqueueWriteBuffer(queue_, buffer_, CL_TRUE, 0, options.size, zeros.data(), 0,
                                   nullptr, nullptr),
              "clEnqueueWriteBuffer");
    }
    Bench(const Bench &) = delete;
    Bench &operator=(const Bench &) = delete;
    ~Bench() {
        host_.reset();
        clReleaseMemObject(buffer_);
        clReleaseCommandQueue(queue_);
    }

    /// Runs one batch of one command. The receives are always enqueued before the sends.
    void batch(Op op, bool with_event, Samples *samples) {
        if (rank_ == 1 && op == Op::send) enqueue(Op::recv, false);
        quiet_barrier();
        if (rank_ == 0) {
            const double cpu = thread_cpu();
            const double wall = now();
            enqueue(op, with_event);
            const auto calls = static_cast<double>(options_.batch);
            if (samples) {
                samples->wall.push_back((now() - wall) / calls);
                samples->cpu.push_back((thread_cpu() - cpu) / calls);
            }
        }
        check(clFlush(queue_), "clFlush");
        if (op == Op::recv) quiet_barrier();
        if (rank_ == 1 && op == Op::recv) enqueue(Op::send, false);
        check(clFinish(queue_), "clFinish");
        if (rank_ == 0 && with_event) {
            for (cl_event event : events_) {
                cl_int status = CL_QUEUED;
                check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                     &status, nullptr),
                      "clGetEventInfo");
                check(status, "a command of the batch");
                clReleaseEvent(event);
            }
        }
        quiet_barrier();
    }

    /// Returns the CPU percentage while a receive waits. Its message is sent only afterwards.
    double pending_receive() {
        if (rank_ == 0) {
            one(Op::recv, nullptr);
            check(clFlush(queue_), "clFlush");
        }
        const double percent = sleeping_cpu_percent();
        quiet_barrier();
        if (rank_ == 1) one(Op::send, nullptr);
        check(clFinish(queue_), "clFinish");
        return percent;
    }

private:
    void one(Op op, cl_event *event) {
        const size_t size = options_.size;
        switch (op) {
            case Op::read:
                check(clEnqueueReadBuffer(queue_, buffer_, CL_FALSE, 0, size, host_->data(), 0,
                                          nullptr, event),
                      "clEnqueueReadBuffer");
                break;
            case Op::send:
                check(clEnqueueSendBuffer(queue_, buffer_, CL_FALSE, 0, size, 1 - rank_, tag,
                                          MPI_COMM_WORLD, 0, nullptr, event),
                      "clEnqueueSendBuffer");
                break;
            case Op::recv:
                check(clEnqueueRecvBuffer(queue_, buffer_, CL_FALSE, 0, size, 1 - rank_, tag,
                                          MPI_COMM_WORLD, 0, nullptr, event),
                      "clEnqueueRecvBuffer");
                break;
        }
    }

    void enqueue(Op op, bool with_event) {
        for (cl_event &event : events_) one(op, with_event ? &event : nullptr);
    }

    const Options &options_;
    int rank_;
    cl_command_queue queue_;
    cl_mem buffer_;
    std::optional<Pinned> host_;
    std::vector<cl_event> events_;
};

constexpr std::array ops = {Op::read, Op::send, Op::recv};
constexpr std::array<std::string_view, 3> op_names = {"read", "send", "recv"};

void measure(const Options &options, const Device &device, int rank, const Case &what,
             Report &report) {
    Bench bench(options, device, what.properties, rank);
    std::array<Samples, 3> samples;
    for (const Op op : ops) bench.batch(op, what.with_event, nullptr);  // warm up
    for (int round = 0; round < options.batches; ++round) {
        for (size_t turn = 0; turn < ops.size(); ++turn) {
            const size_t i = (turn + static_cast<size_t>(round)) % ops.size();
            bench.batch(ops[i], what.with_event, &samples[i]);
        }
    }
    if (rank != 0) return;

    const std::string_view event = what.with_event ? "event" : "no event";
    const auto us = [](const std::vector<double> &seconds) { return median(seconds) * 1e6; };
    fmt::print(
        "| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n",
        what.queue_name, what.with_event ? "yes" : "no", us(samples[0].wall), us(samples[1].wall),
        us(samples[2].wall), median_ratio(samples[1].wall, samples[0].wall),
        median_ratio(samples[2].wall, samples[0].wall),
        median_ratio(samples[1].cpu, samples[0].cpu), median_ratio(samples[2].cpu, samples[0].cpu));
    std::fflush(stdout);
    for (const size_t i : {size_t{1}, size_t{2}}) {
        report.ratio(fmt::format("enqueue {}, {}, {}, {} : read", options.label, what.queue_name,
                                 event, op_names[i]),
                     median_ratio(samples[i].wall, samples[0].wall), false);
    }
    for (size_t i = 0; i < ops.size(); ++i) {
        std::vector<std::string> wall, cpu;
        for (const double seconds : samples[i].wall)
            wall.push_back(fmt::format("{:.3f}", seconds * 1e6));
        for (const double seconds : samples[i].cpu)
            cpu.push_back(fmt::format("{:.3f}", seconds * 1e6));
        report.rows.push_back(
            fmt::format(R"({{"queue": {}, "event": {}, "op": {}, "us": [{}], "cpu_us": [{}]}})",
                        json_text(what.queue_name), what.with_event, json_text(op_names[i]),
                        fmt::join(wall, ", "), fmt::join(cpu, ", ")));
    }
}

void measure_idle(const Options &options, const Device &device, int rank, double before,
                  Report &report) {
    Bench bench(options, device, 0, rank);
    for (const Op op : ops) bench.batch(op, false, nullptr);
    const double after = sleeping_cpu_percent();
    quiet_barrier();
    const double pending = bench.pending_receive();
    if (rank != 0) return;
    fmt::print(
        "\nCPU of a process whose main thread sleeps for 2 s, percent of one core: {:.2f} before "
        "any command, "
        "{:.2f} after commands, {:.2f} while a receive waits for a message that does not come.\n",
        before, after, pending);
    report.rows.push_back(
        fmt::format(R"({{"idle_before": {:.3f}, "idle_after": {:.3f}, "idle_pending": {:.3f}}})",
                    before, after, pending));
}

[[noreturn]] void usage(int code) {
    fmt::print(
        "usage: mpirun -n 2 enqueue [options]\n"
        "  --size SIZE        bytes per command (4K)\n"
        "  --batch N          calls per batch (100)\n"
        "  --batches N        batches per command (30)\n"
        "{}",
        common_usage);
    std::exit(code);
}

Options parse(int argc, char **argv) {
    const std::vector<option> own{
        {"size", 1, nullptr, 's'}, {"batch", 1, nullptr, 'b'}, {"batches", 1, nullptr, 'n'}};
    Options options;
    parse_options(argc, argv, options, own, usage, [&](int letter) {
        switch (letter) {
            case 's': options.size = parse_size(optarg); break;
            case 'b': options.batch = parse_size(optarg); break;
            case 'n': options.batches = std::max(1, std::atoi(optarg)); break;
        }
    });
    return options;
}

}  // namespace

int main(int argc, char **argv) {
    const Options options = parse(argc, argv);
    const int rank = rank_of_two(argc, argv);
    {
        const Device device(device_type(options.device));
        Report report{"enqueue", options.label};
        if (rank == 0) {
            report.collect_facts(device);
            fmt::print("## enqueue: host time of a non-blocking command of {}, {}\n\n",
                       size_name(options.size), options.label);
            report.print_facts();
        }
        const double idle_before = sleeping_cpu_percent();
        quiet_barrier();
        if (rank == 0) {
            fmt::print(
                "Medians of {} batches of {} calls; µs per call, ratios to clEnqueueReadBuffer "
                "(goal: a send at most {}).\n\n"
                "| queue | event | read | send | recv | send : read | recv : read | CPU time of "
                "the thread, "
                "send : read | recv : read |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n",
                options.batches, options.batch, goal);
        }
        for (const Case &what :
             {Case{"in-order", 0, false}, Case{"in-order", 0, true},
              Case{"out-of-order", CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, false},
              Case{"out-of-order", CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, true}}) {
            measure(options, device, rank, what, report);
        }
        measure_idle(options, device, rank, idle_before, report);
        if (rank == 0 && !options.json.empty()) report.write_json(options.json);
    }
    MPI_Finalize();
    return 0;
}
