/// Programs that record calls on the cluster platform, which differ between processes or not. The
/// argument selects the program. A script checks standard error.

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <sys/resource.h>

#include <mpi.h>

#include "cluster/world/divergence_watch.hpp"

using namespace cldist::cluster;

namespace {

using Seconds = std::chrono::duration<double>;

constexpr Call write_call{
    "clEnqueueWriteBuffer",
    Comparison::always,
    {calls::scalar("queue"), calls::scalar("buffer"), calls::scalar("blocking"),
     calls::scalar("offset"), calls::scalar("size")}};
constexpr Call read_call{
    "clEnqueueReadBuffer",
    Comparison::always,
    {calls::scalar("queue"), calls::scalar("buffer"), calls::scalar("blocking"),
     calls::scalar("offset"), calls::scalar("size")}};
constexpr Call finish_call{"clFinish", Comparison::always, {calls::scalar("queue")}};
constexpr Call flush_call{"clFlush", Comparison::always, {calls::scalar("queue")}};

struct Process {
    int rank;
    int last_rank;
    std::unique_ptr<CallLog> log = std::make_unique<CallLog>();

    [[nodiscard]] bool is_last() const { return rank == last_rank; }
    void write(std::uint64_t size) const { log->record<write_call>(2, 5, 0, 0, size); }
    void writes(std::uint64_t count) const {
        for (std::uint64_t i = 0; i < count; ++i) write(i);
    }
};

void say_when(const char *what) {
    const Seconds now = std::chrono::system_clock::now().time_since_epoch();
    std::fprintf(stderr, "%s at %.3f\n", what, now.count());
}

void sleep(double seconds) { std::this_thread::sleep_for(Seconds(seconds)); }

/// Blocks in an MPI call, like a program that waits for another process.
void block_for_ever() {
    int nothing = 0;
    MPI_Recv(&nothing, 1, MPI_INT, 0, 99, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

void spin(std::chrono::nanoseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {
    }
}

const std::map<std::string, std::function<void(const Process &)>> programs = {
    {"function",
     [](const Process &p) {
         p.writes(56);
         say_when("diverges");
         if (p.is_last()) {
             p.log->record<read_call>(2, 5, 0, 0, 4096);
         } else {
             p.write(4096);
         }
         p.writes(100);
         sleep(60);
     }},
    {"argument",
     [](const Process &p) {
         p.writes(56);
         sleep(0.3);
         say_when("diverges");
         p.write(p.is_last() ? 8192 : 4096);
         p.log->record<finish_call>(2);
         sleep(60);
     }},
    // When the last process diverges, the other processes are still in the call before.
    {"behind",
     [](const Process &p) {
         p.writes(56);
         p.log->record<finish_call>(2);
         if (!p.is_last()) sleep(1);
         say_when("diverges");
         p.write(p.is_last() ? 8192 : 4096);
         block_for_ever();
     }},
    {"blocked",
     [](const Process &p) {
         p.writes(56);
         say_when("diverges");
         p.log->record<finish_call>(p.is_last() ? 3 : 2);
         if (p.is_last()) block_for_ever();
         p.writes(100);
         sleep(60);
     }},
    {"last-ends-early",
     [](const Process &p) {
         p.writes(56);
         say_when("diverges");
         if (p.is_last()) return;
         p.log->record<finish_call>(2);
         sleep(60);
     }},
    {"first-ends-early",
     [](const Process &p) {
         p.writes(56);
         say_when("diverges");
         if (p.rank == 0) return;
         p.log->record<finish_call>(2);
         block_for_ever();
     }},
    {"more-at-the-end",
     [](const Process &p) {
         p.writes(56);
         sleep(0.3);
         if (p.is_last()) p.log->record<flush_call>(1);
         say_when("diverges");
     }},
    {"many-more",
     [](const Process &p) {
         p.writes(56);
         say_when("diverges");
         if (p.is_last()) p.writes(100'000);
     }},
    {"same-at-full-speed",
     [](const Process &p) {
         for (std::uint64_t n = 1; n <= 5'000'000; ++n) {
             if (p.is_last() && n % 100'000 == 0) sleep(0.01);
             if (p.is_last() && n % 10 == 0) spin(std::chrono::nanoseconds(100));
             p.write(n);
         }
     }},
    // The last process is slower and falls millions of calls behind.
    {"differ-far-behind",
     [](const Process &p) {
         for (std::uint64_t n = 1; n <= 50'000'000; ++n) {
             spin(std::chrono::nanoseconds(100));
             if (p.is_last() && n % 100'000 == 0) sleep(0.02);
             if (p.is_last() && n == 2'500'000) say_when("diverges");
             p.write(p.is_last() && n == 2'500'000 ? 0 : n);
         }
     }},
    // Each call takes a microsecond, and the processes synchronise after every 1000 calls.
    {"differ-at-speed",
     [](const Process &p) {
         for (std::uint64_t n = 1; n <= 3'000'000; ++n) {
             if (n % 1000 == 0) MPI_Barrier(MPI_COMM_WORLD);
             spin(std::chrono::microseconds(1));
             if (p.is_last() && n == 100'000) say_when("diverges");
             p.write(p.is_last() && n == 100'000 ? 0 : n);
         }
     }},
    {"slow",
     [](const Process &p) {
         p.writes(56);
         if (p.is_last()) sleep(3);
         p.log->record<finish_call>(2);
     }},
    // All processes make the same calls, but reach them up to a second apart.
    {"far-behind",
     [](const Process &p) {
         p.writes(56);
         if (p.is_last()) sleep(1);
         p.writes(100'000);
         if (p.rank == 0) sleep(1);
     }},
    {"nothing", [](const Process &) {}},
};

}  // namespace

int main(int argc, char **argv) {
    const auto program = programs.find(argc == 2 ? argv[1] : "");
    if (program == programs.end()) {
        std::fprintf(stderr, "usage: %s PROGRAM, one of\n", argv[0]);
        for (const auto &[name, run] : programs) std::fprintf(stderr, "  %s\n", name.c_str());
        return 2;
    }
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    Process process{0, 0};
    MPI_Comm_rank(MPI_COMM_WORLD, &process.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &process.last_rank);
    --process.last_rank;
    {
        DivergenceWatch watch(MPI_COMM_WORLD, *process.log);
        rusage before{};
        getrusage(RUSAGE_SELF, &before);
        program->second(process);
        rusage after{};
        getrusage(RUSAGE_SELF, &after);
        const auto seconds = [](const timeval &t) {
            return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
        };
        const double used = seconds(after.ru_utime) + seconds(after.ru_stime) -
                            seconds(before.ru_utime) - seconds(before.ru_stime);
        process.log->record<program_end>();
        const auto end = std::chrono::steady_clock::now();
        watch.finish();
        const Seconds waited = std::chrono::steady_clock::now() - end;
        std::fprintf(stderr,
                     "rank %d has ended with the others, %.3f s after itself; its program took "
                     "%.3f s of CPU time\n",
                     process.rank, waited.count(), used);
    }
    MPI_Finalize();
    return 0;
}
