#include "cluster/world/new_start.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "base/config.hpp"
#include "base/new_start.hpp"
#include "cluster/calls/opencl_call.hpp"

namespace cldist::cluster::new_start {

bool is_wanted() {
    return config().host_mode == cldist::HostMode::automatic && !config().report.empty();
}

bool (*overlap_question())() {
    static auto *const calls_overlap = host_function<int()>("cldist_host_calls_overlap");
    if (calls_overlap == nullptr) return nullptr;
    return [] { return calls_overlap() != 0; };
}

std::uint32_t (*thread_question())() {
    return host_function<std::uint32_t()>("cldist_host_thread");
}

std::string hold(Start start) {
    static auto *const hold_effects = host_function<const char *()>("cldist_host_hold_effects");
    if (hold_effects == nullptr) return "runs without libcldist-host (CLDIST_HOST_WRAP)";
    if (start == Start::own_mpi) return "uses MPI itself";
    const char *const reason = hold_effects();
    return reason != nullptr ? reason : "";
}

void go_on() {
    static auto *const release_effects = host_function<void()>("cldist_host_release_effects");
    if (release_effects != nullptr) release_effects();
}

void stop(std::string_view why) {
    std::ofstream(config().report, std::ios::app) << new_start_announcement << why << std::endl;
    for (;;) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

}  // namespace cldist::cluster::new_start
