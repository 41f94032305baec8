#include "cluster_devices.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include <CL/cl.h>
#include <fmt/format.h>

#include "base/config.hpp"
#include "base/status.hpp"
#include "cluster/world/device_choice.hpp"
#include "cluster/world/native_icds.hpp"
#include "cluster_library.hpp"
#include "doctor_mpi.hpp"
#include "ocl/query.hpp"
#include "program.hpp"

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;

std::string describe(cl_device_id device) {
    return fmt::format("{} ({})", query_string(device, CL_DEVICE_NAME),
                       type_text(cluster::type_of(device)));
}

// The linker's message about a library, without the library's name.
std::string why_not_opened(const std::string &library) {
    const char *const text = dlerror();
    std::string why = text != nullptr ? text : "it cannot be opened";
    if (const std::string prefix = library + ": "; why.starts_with(prefix))
        why.erase(0, prefix.size());
    return why;
}

constexpr const char *icd = "cldist-cluster.icd";

std::string library_in(const fs::path &folder) {
    std::string library;
    std::getline(std::ifstream(folder / icd), library);
    return library;
}

std::string platform_failure() {
    const std::string folder = vendors();
    const std::string library = library_in(folder);
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
        return fmt::format("{}: {}", library, why_not_opened(library));
    for (const cl_platform_id platform : all_platforms())
        if (query_string(platform, CL_PLATFORM_NAME) == "cldist") return {};
    return fmt::format("the OpenCL loader does not take it from {}", folder);
}

std::vector<std::string> unopened(std::string_view places) {
    std::vector<std::string> failures;
    for (const std::string &library : cluster::native_libraries(places))
        if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
            failures.push_back(fmt::format("{}: {}", library, why_not_opened(library)));
    return failures;
}

// A list such as "2 x a (GPU), b (CPU)".
std::string list_of(const std::vector<std::string> &devices) {
    std::string list;
    for (std::size_t i = 0, count = 0; i < devices.size(); i += count) {
        const auto other =
            std::find_if(devices.begin() + static_cast<std::ptrdiff_t>(i), devices.end(),
                         [&](const std::string &device) { return device != devices[i]; });
        count = static_cast<std::size_t>(other - devices.begin()) - i;
        list += list.empty() ? "" : ", ";
        list += count == 1 ? devices[i] : fmt::format("{} x {}", count, devices[i]);
    }
    return list;
}

// The reason why a process has no devices.
std::string lack_of(const ClusterAnswer &found) {
    if (!found.there.empty())
        return fmt::format("CLDIST_DEVICES={} selects no device; this host has: {}", found.choice,
                           list_of(found.there));
    if (found.places.empty())
        return "CLDIST_NATIVE_ICDS is set, but lists no drivers; list some, or unset it";
    if (!found.left_out.empty())
        return fmt::format("no OpenCL driver in {} can be opened: {}", found.places,
                           fmt::join(found.left_out, "; "));
    return fmt::format(
        "no OpenCL driver in {} has a device; install a driver: pocl-opencl-icd for the CPU, or "
        "the GPU vendor's",
        found.places);
}

// Folders in which this user can keep a file, the preferred one first.
std::vector<fs::path> user_folders() {
    std::vector<fs::path> folders;
    for (const auto &[variable, below] :
         {std::pair{"XDG_CACHE_HOME", ""}, std::pair{"HOME", ".cache"}})
        if (const char *const value = std::getenv(variable); value != nullptr && *value != '\0')
            folders.push_back(fs::path(value) / below / "cldist");
    folders.push_back(fmt::format("/tmp/cldist-{}", geteuid()));
    return folders;
}

// Creates the folder unless it exists. Returns whether it belongs to this user alone.
bool make_private(const fs::path &folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    struct stat found {};
    return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
           found.st_uid == geteuid() && chmod(folder.c_str(), S_IRWXU) == 0;
}

// OpenCL loaders need an absolute path in the driver file. The installed file contains the path of
// `meson install`. For a moved installation, this writes a file with the library's current path.
fs::path vendors_of_moved(const fs::path &library) {
    for (const fs::path &parent : user_folders()) {
        const fs::path folder =
            parent / fmt::format("vendors-{:x}", std::hash<std::string>{}(library));
        if (!make_private(parent) || !make_private(folder)) continue;
        if (library_in(folder) == library) return folder;
        // Other processes may write the same file, so it is replaced atomically.
        const fs::path draft = folder / fmt::format("{}.{}", icd, getpid());
        std::error_code error;
        std::ofstream(draft) << library.string() << '\n';
        fs::rename(draft, folder / icd, error);
        if (library_in(folder) == library) return folder;
    }
    throw std::runtime_error(fmt::format(
        "the installation was moved, and no folder is writable for a driver file of {}; set "
        "XDG_CACHE_HOME to a folder that belongs to you",
        library.string()));
}

}  // namespace

std::string vendors() {
    const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
    // The paths end with a slash, which NVIDIA's loader needs. The first is in a build folder.
    if (fs::exists(program / "vendors" / icd)) return program / "vendors" / "";
    const fs::path installed = program / CLDIST_VENDORS;
    const fs::path library = program / CLDIST_CLUSTER_LIBRARY;
    if (!fs::exists(installed / icd))
        throw std::runtime_error(fmt::format("{} is not where it was installed, {}", icd,
                                             installed.lexically_normal().string()));
    std::error_code error;
    if (!fs::exists(library) || fs::equivalent(library, library_in(installed), error))
        return fs::canonical(installed) / "";
    return vendors_of_moved(fs::canonical(library.parent_path()) / library.filename()) / "";
}

ClusterAnswer look_as_process(std::size_t number, std::size_t processes) {
    // The loader reads these variables at its first call. `cldist run` removes them from its
    // programs' environment.
    for (const char *name : {"OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"}) unsetenv(name);
    ClusterAnswer found;
    found.platform_failure = platform_failure();
    found.places = config().native_icds;
    found.choice = config().devices;
    found.left_out = unopened(found.places);
    const std::vector<cl_platform_id> platforms = cluster::open_native_icds(found.places);
    for (const cl_platform_id platform : platforms)
        for (const cl_device_id device : cluster::devices_of(platform))
            found.there.push_back(describe(device));
    try {
        for (const auto &devices :
             cluster::choose_devices(platforms, found.choice, number, processes))
            for (const cl_device_id device : devices) found.mine.push_back(describe(device));
    } catch (const Error &error) {
        found.choice_failure = error.status().message;
    }
    return found;
}

Answer ask_cluster(std::size_t number, std::size_t processes, const std::string &devices) {
    Environment environment = rank_environment(this_environment(), vendors(), devices, nullptr);
    environment["CLDIST_CLUSTER"] = "on";  // even if MPI's launcher did not start this process
    return ask("cluster", {number, processes}, entries_of(environment));
}

Refusal refusal_of(const Answer &answer) {
    if (answer.value.is_null())
        return {fmt::format("the test of the OpenCL drivers failed: the child process {}",
                            answer.failure),
                0};
    const auto found = answer.value.get<ClusterAnswer>();
    if (!found.platform_failure.empty())
        return {fmt::format("the cluster platform does not load: {}", found.platform_failure), 1};
    if (!found.choice_failure.empty())
        return {found.choice_failure +
                    (found.there.empty() ? "" : "; there are: " + list_of(found.there)),
                wrong_usage};
    if (found.mine.empty()) return {lack_of(found), wrong_usage};
    return {};
}

Finding judge_cluster(const Answer &answer) {
    const std::string topic = "cluster platform";
    const Refusal refusal = refusal_of(answer);
    if (answer.value.is_null() || refusal.status == 1)
        return problem(topic, refusal.text,
                       "`cldist run` does not work; install cldist completely, in the folder that "
                       "the build was configured for (an installation cannot be moved)");
    // Only a note, because the rest of cldist works without the platform.
    if (refusal.status != 0)
        return note(topic, refusal.text, "programs under `cldist run` find no device of this host");
    const auto found = answer.value.get<ClusterAnswer>();
    std::string fact = fmt::format("loads, and finds {}", list_of(found.there));
    if (found.left_out.empty()) return ok(topic, std::move(fact));
    return note(
        topic,
        fmt::format("{}; drivers that cannot be opened: {}", fact, fmt::join(found.left_out, "; ")),
        "check that OCL_ICD_FILENAMES, CLDIST_NATIVE_ICDS or the .icd files refer to existing "
        "libraries");
}

Finding cluster_finding() {
    try {
        return judge_cluster(ask_cluster(0, 1));
    } catch (const std::runtime_error &error) {  // the platform is not installed
        return judge_cluster({{}, error.what()});
    }
}

int list_devices() {
    const Job job;
    const Answer answer = ask_cluster(static_cast<std::size_t>(job.host_rank()),
                                      static_cast<std::size_t>(job.host_size()));
    std::string mine = refusal_of(answer).text;
    if (!answer.value.is_null() && refusal_of(answer).status == 0) {
        const auto found = answer.value.get<ClusterAnswer>();
        mine = list_of(found.mine);
        if (!found.left_out.empty())
            mine +=
                fmt::format("; drivers that cannot be opened: {}", fmt::join(found.left_out, "; "));
    }
    const std::vector<std::string> of_all = job.gather(mine);
    for (std::size_t rank = 0; rank < of_all.size(); ++rank)
        fmt::print("rank {} (host {}): {}\n", rank, job.host_names()[rank], of_all[rank]);
    return 0;
}

}  // namespace cldist::tool
