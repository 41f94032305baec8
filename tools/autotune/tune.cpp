#include "tune.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <mpi.h>
#include <nlohmann/json.hpp>

#include "base/config.hpp"
#include "base/status.hpp"
#include "check.hpp"
#include "choices.hpp"
#include "device_end.hpp"
#include "doctor_mpi.hpp"
#include "file_transfers.hpp"
#include "load.hpp"
#include "measure.hpp"
#include "message_transfers.hpp"
#include "ocl/query.hpp"
#include "pipeline/file_endpoint.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/profile_file.hpp"
#include "pipeline/slot_kernels.hpp"
#include "plot.hpp"
#include "program.hpp"
#include "progress.hpp"
#include "schedule.hpp"
#include "sizes.hpp"

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_measured = 64 * mib;

// The duration of a timed loop with the usual budget.
constexpr double usual_loop_seconds = 0.004;
constexpr double usual_seconds = 100;

// Makes the library use exactly the requested ways. Must precede the library's first use.
void take_settings(bool check) {
    if (!check) setenv("CLDIST_PROFILE", "none", 1);
    setenv("CLDIST_REFINE", "off", 1);
    setenv("CLDIST_DIRECT_IO", "off", 1);
    for (const char *name :
         {"CLDIST_PATH", "CLDIST_BLOCK_SIZE", "CLDIST_DEPTH", "CLDIST_STAGED_MAX", "CLDIST_TRACE"})
        unsetenv(name);
}

Here here_of(cl_device_id device) {
    return {query<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY).value_or(CL_FALSE) == CL_TRUE,
            io_thread_count()};
}

std::string now_text() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text.data();
}

std::string directory_of(const TuneOptions &options) {
    if (!options.directory.empty()) return options.directory;
    const char *const folder = std::getenv("TMPDIR");
    return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

// Throws a TuneError if a file of a large profile's size can't be written next to `path`.
void try_to_write(const std::string &path) {
    const std::string trial = fmt::format("{}.{}", path, getpid());
    const std::string bytes(64U << 10U, '\n');
    const int descriptor = open(trial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    std::size_t done = 0;
    ssize_t written = descriptor;
    while (written >= 0 && done < bytes.size()) {
        written = write(descriptor, bytes.data() + done, bytes.size() - done);
        if (written >= 0) done += static_cast<std::size_t>(written);
    }
    const int error = errno;
    if (descriptor >= 0) {
        close(descriptor);
        unlink(trial.c_str());
    }
    if (written < 0)
        throw TuneError(fmt::format("cannot write {}: {}", path, std::strerror(error)));
}

// The path of the profile. Checks it, so that errors are reported before the measurement.
std::string output_of(const TuneOptions &options, const Profile::System &system) {
    const std::string path = options.output.empty() ? profile_path(system) : options.output;
    if (path.empty())
        throw TuneError(
            "neither XDG_CONFIG_HOME nor HOME is set, so there is no folder for profiles; set a "
            "file with --output");
    std::error_code failure;
    if (fs::is_directory(path, failure))
        throw TuneError(
            fmt::format("cannot write {}: it is a folder; expected the name of a file", path));
    const fs::path folder =
        fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
    if (options.output.empty()) {
        fs::create_directories(folder, failure);
        if (failure)
            throw TuneError(
                fmt::format("cannot create the folder {}: {}", folder.string(), failure.message()));
    }
    if (!fs::is_directory(folder, failure))
        throw TuneError(
            fmt::format("cannot write {}: {} is not a folder; create it, or choose "
                        "another file with --output",
                        path, folder.string()));
    try_to_write(path);
    return path;
}

Profile write_merged(const std::string &path, const Profile &measured) {
    std::optional<Profile> before;
    try {
        before = read_profile(path);
    } catch (const Error &) {
        // There is no profile, or it can't be read.
    }
    Profile profile = before ? merged(measured, *before) : measured;
    write_profile(path, profile);
    return profile;
}

std::shared_ptr<const Profile> profile_in_use(cl_device_id device) {
    FoundProfile found = find_profile(device);
    if (found.profile == nullptr)
        throw TuneError(
            "no profile is in use, so there is nothing to check; run `cldist tune` to make one");
    fmt::print("{}\n\n", found.path);
    return std::move(found.profile);
}

void warn(const std::string &what) {
    std::fprintf(stderr, "cldist tune: warning: %s\n", what.c_str());
}

// The routes of one run, and its result: a profile, or tables that check a profile.
class Run {
public:
    /// The routes are measured in this order.
    Run(const TuneOptions &options, const DeviceEnd &end, const std::vector<Route> &routes)
        : options_(options),
          end_(end),
          files_(end, directory_of(options)),
          checked_(options.check ? profile_in_use(end.device()) : nullptr),
          budget_(options.seconds, now_seconds(), routes),
          loop_seconds_(
              std::clamp(usual_loop_seconds * options.seconds / usual_seconds, 0.0005, 0.01)) {
        profile_.system = system_of(end.device());
    }

    void copies() {
        if (checked_ != nullptr) return;
        profile_.ceilings.push_back(fit(to_host_ceiling, end_.copies(true)));
        profile_.ceilings.push_back(fit(to_device_ceiling, end_.copies(false)));
    }

    void messages(Route route, MessageTransfers &transfers, bool host_memory, std::size_t largest,
                  const std::string &between) {
        const double end = begin(route);
        if (checked_ == nullptr)
            profile_.ceilings.push_back(
                fit(transport_ceiling(route), transfers.plain(std::min(largest, 16 * mib))));
        measure_route(transfers, route, host_memory, largest, end, between);
    }

    void files() {
        for (const Route route : {Route::from_file, Route::to_file}) {
            const double end = begin(route);
            files_.take_route(route);
            if (checked_ == nullptr)
                profile_.ceilings.push_back(fit(transport_ceiling(route), files_.plain(route)));
            measure_route(files_, route, end_.host_memory(), end_.largest(), end,
                          fs::absolute(directory_of(options_)).string());
        }
    }

    [[nodiscard]] const Profile &profile() const { return profile_; }

    // Writes the profile and prints its contents. Throws a TuneError if no route can be saved.
    void conclude(const std::string &path) {
        progress_.clear();
        if (checked_ != nullptr) return;
        if (std::none_of(profile_.routes.begin(), profile_.routes.end(),
                         [](const auto &r) { return r.has_value(); }))
            throw TuneError(
                "nothing is saved, because all measured times vary too widely; measure while "
                "nothing else runs, or "
                "save them nevertheless with --force");
        const Here here = here_of(end_.device());
        for (std::size_t i = 0; i < route_count; ++i)
            if (profile_.routes.at(i))
                fmt::print("{}\n", result_text(profile_, static_cast<Route>(i), here));
        write_merged(path, profile_);
        fmt::print("The profile is in {}\n", path);
        std::fflush(stdout);
    }

private:
    // Returns the time at which the route must end.
    double begin(Route route) {
        const double now = now_seconds();
        const double share = budget_.share_of(route, now);
        progress_.begin(name_of(route), share, budget_.rest());
        progress_.step("ceilings", 0);
        return now + share;
    }

    void measure_route(Transfers &transfers, Route route, bool host_memory, std::size_t largest,
                       double end, const std::string &between) {
        const double budget = std::max(end - now_seconds(), 0.1);
        Task task{route,
                  host_memory,
                  largest,
                  budget,
                  loop_seconds_,
                  now_seconds,
                  [&](std::size_t size, double done) { progress_.step(size_text(size), done); }};
        if (checked_ != nullptr) {
            const auto sizes = check_route(transfers, task, *checked_, here_of(end_.device()));
            progress_.clear();
            fmt::print("{}\n", check_text(route, sizes));
            std::fflush(stdout);
            return;
        }
        std::vector<double> spreads;
        task.spreads = &spreads;
        std::vector<Curve> curves = measure(transfers, task);
        if (curves.empty())
            throw TuneError(fmt::format(
                "{}: not measured, because the time was over; set a longer time with --seconds",
                name_of(route)));
        if (const double typical = median(spreads); typical > widest_spread) {
            progress_.clear();
            warn(
                fmt::format("{}: equal transfers differ by {:.0f} % (on an idle system by less "
                            "than {:.0f} %){}",
                            name_of(route), 100 * typical, 100 * widest_spread,
                            options_.force ? "" : "; this route is not saved"));
            if (!options_.force) return;
        }
        profile_.routes.at(static_cast<std::size_t>(route)) = {now_text(), between,
                                                               std::move(curves)};
    }

    const TuneOptions &options_;
    const DeviceEnd &end_;
    /// Created before all measurements, so that a full disk is reported at once.
    FileTransfers files_;
    const std::shared_ptr<const Profile> checked_;  ///< null: the run creates a profile
    Budget budget_;
    Progress progress_;
    const double loop_seconds_;
    Profile profile_;
};

void tune_alone(const TuneOptions &options) {
    const DeviceEnd end(choose_device(options.device, 0), largest_measured);
    const std::string path = options.check ? "" : output_of(options, system_of(end.device()));
    fmt::print(
        "Measures copies and files. To measure messages, start it in an MPI job: `mpirun -n 2 "
        "cldist tune` measures "
        "them within a host, `mpirun -n 3 --host a:2,b cldist tune` also between two hosts.\n");
    std::fflush(stdout);
    Run run(options, end, {Route::from_file, Route::to_file});
    if (const std::string load = look_at_load(); !load.empty()) warn(load);
    run.copies();
    run.files();
    run.conclude(path);
}

/// A communicator of the tool.
class OwnCommunicator {
public:
    OwnCommunicator() { MPI_Comm_dup(MPI_COMM_WORLD, &comm_); }
    OwnCommunicator(const OwnCommunicator &) = delete;
    OwnCommunicator &operator=(const OwnCommunicator &) = delete;
    ~OwnCommunicator() { MPI_Comm_free(&comm_); }
    [[nodiscard]] MPI_Comm get() const { return comm_; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

// The ranks that rank 0 measures with, if there are any.
struct Partners {
    std::optional<int> same_host;
    std::optional<int> other_host;
};
Partners partners_of(const std::vector<int> &hosts) {
    Partners partners;
    for (std::size_t rank = 1; rank < hosts.size(); ++rank) {
        auto &partner = hosts[rank] == hosts[0] ? partners.same_host : partners.other_host;
        if (!partner) partner = static_cast<int>(rank);
    }
    return partners;
}

// The routes of a job. The network comes last, because it may be slow: it gets the remaining time.
std::vector<Route> routes_of(const Partners &partners) {
    std::vector<Route> routes;
    if (partners.same_host) routes.push_back(Route::same_host);
    routes.insert(routes.end(), {Route::from_file, Route::to_file});
    if (partners.other_host) routes.push_back(Route::other_host);
    return routes;
}

// Rank 0's side of the message measurements.
class Leader {
public:
    Leader(Run &run, const Job &job, const std::vector<std::string> &facts, const DeviceEnd &end,
           MPI_Comm orders)
        : run_(run), job_(job), facts_(facts), end_(end), orders_(orders) {}

    void messages(Route route, int partner) {
        const auto rank = static_cast<std::size_t>(partner);
        const auto fact = nlohmann::json::parse(facts_[rank]);
        const std::vector<std::string> &hosts = job_.host_names();
        const std::string between = route == Route::same_host
                                        ? hosts.front()
                                        : fmt::format("{} and {}", hosts.front(), hosts[rank]);
        MessageTransfers transfers(end_, route, partner, orders_);
        run_.messages(route, transfers, end_.host_memory() && fact.at("host_memory").get<bool>(),
                      std::min(end_.largest(), fact.at("largest").get<std::size_t>()), between);
        transfers.let_go();
    }

private:
    Run &run_;
    const Job &job_;
    const std::vector<std::string> &facts_;
    const DeviceEnd &end_;
    const MPI_Comm orders_;
};

// The parts of a profile that another host can use: messages between hosts, or everything if device
// and driver are the same.
Profile for_this_host(Profile measured, const Profile::System &here) {
    const bool alike =
        measured.system.device == here.device && measured.system.driver == here.driver;
    measured.system = here;
    if (!alike) {
        for (const Route route : {Route::same_host, Route::from_file, Route::to_file})
            measured.routes.at(static_cast<std::size_t>(route)).reset();
        std::erase_if(measured.ceilings, [](const Ceiling &ceiling) {
            return ceiling.what != transport_ceiling(Route::other_host);
        });
    }
    return measured;
}

void share_profile(std::string text, const Job &job, const Partners &partners, const DeviceEnd *end,
                   const TuneOptions &options) {
    auto length = static_cast<int>(text.size());
    MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
    text.resize(static_cast<std::size_t>(length));
    MPI_Bcast(text.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
    std::string written;
    // A file given with --output is written only by rank 0.
    if (partners.other_host == job.rank() && end != nullptr && options.output.empty()) {
        const Profile::System here = system_of(end->device());
        const std::string path = output_of(options, here);
        write_merged(path, for_this_host(parse_profile(text), here));
        written = fmt::format("The profile of {} is in {}", here.host, path);
    }
    for (const std::string &line : job.gather(written))
        if (!line.empty()) fmt::print("{}\n", line);
    std::fflush(stdout);
}

void measure_in_job(const TuneOptions &options, const Job &job) {
    const OwnCommunicator orders;
    const Partners partners = partners_of(job.hosts());
    const bool leads = job.rank() == 0;
    std::optional<DeviceEnd> end;
    if (leads || partners.same_host == job.rank() || partners.other_host == job.rank())
        end.emplace(choose_device(options.device, job.host_rank()), largest_measured);
    const std::string path =
        leads && !options.check ? output_of(options, system_of(end->device())) : "";
    const std::vector<std::string> facts = job.gather(
        end ? nlohmann::json{{"host_memory", end->host_memory()}, {"largest", end->largest()}}
                  .dump()
            : std::string());
    // All processes sample the load at the same time, so that they do not disturb each other.
    job.wait_for_all();
    const std::string load = look_at_load();
    for (const std::string &line : job.gather(job.looks_at_host() ? load : std::string()))
        if (!line.empty()) warn(line);
    std::string text;
    if (leads) {
        if (!partners.same_host && !partners.other_host)
            fmt::print("To measure messages, start two processes: `mpirun -n 2 cldist tune`\n");
        Run run(options, *end, routes_of(partners));
        Leader leader(run, job, facts, *end, orders.get());
        run.copies();
        if (partners.same_host) leader.messages(Route::same_host, *partners.same_host);
        run.files();
        if (partners.other_host) leader.messages(Route::other_host, *partners.other_host);
        run.conclude(path);
        text = profile_text(run.profile());
    } else if (end) {
        serve(*end, orders.get());
    }
    job.wait_for_all();
    if (!options.check) share_profile(text, job, partners, end ? &*end : nullptr, options);
}

int failed(const std::string &what) {
    std::fprintf(stderr, "cldist tune: %s\n", what.c_str());
    return 1;
}

// Calls `measure`, prints its errors, and returns the exit status.
template <typename Measure>
int status_of(Measure measure) {
    try {
        measure();
    } catch (const TuneError &error) {
        return failed(error.what());
    } catch (const Error &error) {
        return failed(error.status().message);
    }
    return 0;
}

int tune_job(const TuneOptions &options) {
    const Job job;
    const int status = status_of([&] { measure_in_job(options, job); });
    // The other ranks may be blocked in MPI calls that wait for this rank.
    if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
    return status;
}

// ---- The contents of a profile ----------------------------------------------------------------

struct Explained {
    std::shared_ptr<const Profile> profile;
    std::string origin;  ///< in words
    Here here;
    std::string kernels;  ///< see kernels_in_words(); empty if the device is not known
};

Explained find_explained(const TuneOptions &options) {
    // The use of the profile is reported below, so the library must not report it.
    setenv("CLDIST_LOG", "error", 1);
    Explained found;
    if (!options.profile.empty()) {
        try {
            found.profile = std::make_shared<Profile>(read_profile(options.profile));
        } catch (const Error &error) {
            throw TuneError(fmt::format("{}: {}", options.profile, error.status().message));
        }
        found.origin = fmt::format("{}, of {} on {}", options.profile, found.profile->system.device,
                                   found.profile->system.host);
        found.here.file_threads = io_thread_count();
        for (const auto &route : found.profile->routes)
            for (const Curve &curve : route ? route->curves : std::vector<Curve>{})
                found.here.host_memory =
                    found.here.host_memory || (curve.way.maps && curve.way.path == Path::chunked);
        return found;
    }
    const cl_device_id device = choose_device(options.device, 0);
    found.here = here_of(device);
    found.kernels = kernels_in_words(obstacle_to_kernels(device), config().path);
    const FoundProfile in_use = find_profile(device);
    found.profile = in_use.profile;
    if (in_use.profile != nullptr)
        found.origin = in_use.path;
    else if (!in_use.refused.empty())
        found.origin = fmt::format(
            "no profile is in use, because {} is not valid here: {}; run `cldist tune` to make a "
            "new one",
            in_use.path, in_use.refused);
    else
        found.origin = "no profile is in use; run `cldist tune` to make one";
    return found;
}

void explain(const TuneOptions &options) {
    std::vector<std::size_t> sizes;
    for (const std::string &text : options.sizes) sizes.push_back(parse_size(text).value_or(1));
    if (sizes.empty()) sizes = usual_sizes();
    const Explained found = find_explained(options);
    fmt::print("{}\n\n{}\n", found.origin, explain_text(found.profile.get(), sizes, found.here));
    if (!found.kernels.empty()) fmt::print("messages by kernels: {}\n", found.kernels);
    fmt::print("{}", explain_collectives(sizes));
}

void plot(const TuneOptions &options) {
    const Explained found = find_explained(options);
    if (found.profile == nullptr) throw TuneError(found.origin);
    draw(plot_data(*found.profile, found.here), options.plot);
    fmt::print("The picture of {} is in {}\n", found.origin, options.plot);
}

}  // namespace

int run_tune(const TuneOptions &options) {
    // Commands without measurement run only in rank 0.
    const bool measures = !options.explain && options.plot.empty();
    if (!measures && place_of(this_environment()).rank != 0) return 0;
    if (options.explain) return status_of([&] { explain(options); });
    if (!options.plot.empty()) return status_of([&] { plot(options); });
    take_settings(options.check);
    if (find_launch().by_launcher) return tune_job(options);
    return status_of([&] { tune_alone(options); });
}

}  // namespace cldist::tool
