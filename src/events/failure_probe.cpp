#include "events/failure_probe.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/child_process.hpp"
#include "base/log.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

// The program is installed in cldist/ next to the library. In a build folder it is in probe/.
std::string probe_program() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void *>(&survives_failed_events), &info) == 0 ||
        info.dli_fname == nullptr)
        return {};
    const std::string library = info.dli_fname;
    const std::string folder = library.substr(0, library.rfind('/') + 1);
    for (const char *relative : {"cldist/event-probe", "probe/event-probe"})
        if (access((folder + relative).c_str(), X_OK) == 0) return folder + relative;
    return {};
}

// For a platform that hangs in an unexpected call. The probe itself limits the call that may hang.
constexpr std::chrono::seconds time_limit{20};

// See probe_drivers().
std::vector<std::string> &variables_of_probe() {
    static std::vector<std::string> variables;
    return variables;
}

bool probe(const std::string &driver) {
    std::string program = probe_program();
    if (program.empty()) {
        log_warning(
            "event-probe was not found next to the library; assuming that {} does not survive "
            "failed events. Install the library completely",
            driver);
        return false;
    }
    const bool survived =
        run_child({std::move(program), driver}, time_limit, variables_of_probe()).well();
    log_info("{} {} failed events", driver, survived ? "survives" : "does not survive");
    return survived;
}

}  // namespace

void probe_drivers(const std::string &place, const std::vector<std::string> &libraries) {
    // Some loaders read only OCL_ICD_VENDORS. Others need a colon-separated list in
    // OCL_ICD_FILENAMES.
    variables_of_probe() = {"OCL_ICD_VENDORS=" + place,
                            fmt::format("OCL_ICD_FILENAMES={}", fmt::join(libraries, ":"))};
}

bool survives_failed_events(cl_device_id device) {
    static std::mutex mutex;
    static std::map<std::string, bool> known;
    const std::string driver =
        query_string(device, CL_DEVICE_NAME) + " " + query_string(device, CL_DRIVER_VERSION);
    const std::lock_guard lock(mutex);
    const auto at = known.find(driver);
    return at != known.end() ? at->second : known.emplace(driver, probe(driver)).first->second;
}

}  // namespace cldist
