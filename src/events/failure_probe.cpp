#include "events/failure_probe.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "base/log.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

// Installed next to the library, in cldist/; in a build folder in probe/.
std::string probe_program() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void *>(&survives_failed_events), &info) == 0 || info.dli_fname == nullptr)
        return {};
    const std::string library = info.dli_fname;
    const std::string folder = library.substr(0, library.rfind('/') + 1);
    for (const char *relative : {"cldist/event-probe", "probe/event-probe"})
        if (access((folder + relative).c_str(), X_OK) == 0) return folder + relative;
    return {};
}

bool probe(std::string driver) {
    std::string program = probe_program();
    if (program.empty()) {
        log_warning(
            "event-probe was not found next to the library; taking {} for a platform that does not survive "
            "failed events",
            driver);
        return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const std::array<char *, 3> arguments{program.data(), driver.data(), nullptr};
    pid_t child = 0;
    const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    int status = -1;
    const bool survived =
        error == 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    log_info("{} {} failed events", driver, survived ? "survives" : "does not survive");
    return survived;
}

}  // namespace

bool survives_failed_events(cl_device_id device) {
    static std::mutex mutex;
    static std::map<std::string, bool> known;
    const std::string driver = device_string(device, CL_DEVICE_NAME) + " " + device_string(device, CL_DRIVER_VERSION);
    const std::lock_guard lock(mutex);
    const auto at = known.find(driver);
    return at != known.end() ? at->second : known.emplace(driver, probe(driver)).first->second;
}

}  // namespace cldist
