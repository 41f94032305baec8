#include "doctor_opencl.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/error_code.hpp"
#include "cluster/world/device_choice.hpp"
#include "ocl/query.hpp"
#include "pipeline/plan.hpp"

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;

LoaderFacts loader_facts(std::size_t platforms, bool openmpi_job) {
    LoaderFacts facts;
    facts.platforms = platforms;
    facts.openmpi_job = openmpi_job;
    std::error_code error;
    for (fs::directory_iterator at("/etc/OpenCL/vendors", error), end; !error && at != end;
         at.increment(error))
        if (at->path().extension() == ".icd")
            facts.installed.push_back(at->path().filename().string());
    std::ranges::sort(facts.installed);
    for (const char *name :
         {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "OPENCL_LAYERS",
          "POCL_DEVICES", "CUDA_VISIBLE_DEVICES", "HWLOC_COMPONENTS"})
        if (const char *value = std::getenv(name); value != nullptr)
            facts.environment.emplace_back(name, value);
    return facts;
}

Finding describe_device(const std::string &name, cl_device_id device) {
    const bool host_memory =
        query<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY).value_or(CL_FALSE) != CL_FALSE;
    const std::string fact = fmt::format(
        "{}, {}, {} compute units, {} of {} memory, driver {}",
        query_string(device, CL_DEVICE_NAME), type_text(cluster::type_of(device)),
        query<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS).value_or(0),
        bytes_text(query<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE).value_or(0)),
        host_memory ? "the host's" : "its own", query_string(device, CL_DRIVER_VERSION));
    if (query<cl_bool>(device, CL_DEVICE_AVAILABLE).value_or(CL_TRUE) == CL_FALSE)
        return problem(name, fact + ", not available",
                       "check whether another process uses it exclusively");
    return ok(name, fact);
}

// The finding for a probe without answer.
Finding unanswered(const std::string &topic, const std::string &device, const Answer &answer) {
    return problem(topic,
                   fmt::format("{}: a test of the driver in a child process failed; the process {}",
                               device, answer.failure),
                   "do not rely on this driver; install a newer one");
}

Findings driver_findings(const std::string &name, DevicePlace place) {
    Findings all;
    append(all, judge_user_event(name, ask("user-event", place)));
    append(all, judge_pageable_copy(name, ask("pageable-copy", place)));
    append(all, judge_error_code(name, ask("error-code", place)));
    append(all, judge_failed_event(name, ask("failed-event", place)));
    append(all, judge_profiling(name, ask("profiling", place)));
    return all;
}

}  // namespace

Finding judge_loader(const LoaderFacts &facts) {
    const std::string topic = "OpenCL loader";
    std::string fact = counted(facts.platforms, "platform");
    if (!facts.installed.empty())
        fact += fmt::format(", in /etc/OpenCL/vendors: {}", fmt::join(facts.installed, " "));
    bool filtered = false;
    bool hwloc_asks = true;
    for (const auto &[name, value] : facts.environment) {
        fact += fmt::format(", {}={}", name, value);
        filtered = filtered || name.starts_with("OCL_ICD_");
        if (name == "HWLOC_COMPONENTS") hwloc_asks = value.find("-opencl") == std::string::npos;
    }
    if (facts.platforms == 0)
        return problem(topic, fact,
                       filtered
                           ? "correct the variables: they must refer to existing drivers"
                           : "install a driver: pocl-opencl-icd for the CPU, or the GPU vendor's");
    if (filtered && facts.platforms < facts.installed.size())
        return problem(
            topic, fact + "; the variables hide platforms",
            facts.openmpi_job && hwloc_asks
                ? "MPI loads platforms through hwloc, and the loader then cuts "
                  "OCL_ICD_FILENAMES: set HWLOC_COMPONENTS=-opencl in the environment of mpirun"
                : "unset the variables, unless this is intended");
    return ok(topic, fact);
}

Finding judge_pocl(const PoclFacts &facts, const HostFacts &host) {
    const std::string topic = "PoCL threads";
    const std::string fact =
        fmt::format("{} in each of {} for {}", counted(facts.threads, "thread"),
                    counted(host.ranks, "rank"), counted(host.cores, "core"));
    const std::string advice =
        fmt::format("export POCL_MAX_PTHREAD_COUNT={}", cores_per_rank(host));
    if (host.ranks > 1 && facts.threads * host.ranks > host.cores && facts.threads > 1)
        return problem(topic, fact + ": the ranks compete for the cores", advice);
    if (host.ranks == 1 && !facts.limited && facts.threads > 1)
        return note(
            topic, fact,
            "if you start several ranks on the host, set POCL_MAX_PTHREAD_COUNT=<cores / ranks>");
    return ok(topic, fact);
}

Findings judge_user_event(const std::string &device, const Answer &answer) {
    const std::string other = "user event, other queues";
    const std::string same = "user event, out-of-order queue";
    if (answer.value.is_null()) return {unanswered(other, device, answer)};
    Findings findings;
    findings.push_back(
        answer.value.at("other_queue").get<bool>()
            ? ok(other, device + ": a pending user event does not block other queues")
            : problem(other, device + ": a pending user event blocks other queues of its context",
                      "pending messages block kernels in other queues: use blocking messages, or "
                      "another driver"));
    if (!answer.value.contains("same_queue"))
        findings.push_back(ok(same, device + ": the driver has no out-of-order queues"));
    else if (answer.value["same_queue"].get<bool>())
        findings.push_back(
            ok(same, device + ": commands can overtake one that waits for a user event"));
    else
        findings.push_back(note(
            same, device + ": a pending user event blocks the whole queue",
            "pending messages block later commands in the queue: use several in-order queues"));
    return findings;
}

Findings judge_pageable_copy(const std::string &device, const Answer &answer) {
    const std::string topic = "pageable copies";
    if (answer.value.is_null()) return {unanswered(topic, device, answer)};
    std::string fact = fmt::format("{}: {}, time in the call and of the whole copy:", device,
                                   bytes_text(answer.value.at("bytes").get<std::uint64_t>()));
    bool blocks = false;
    for (const char *which : {"write", "read"}) {
        const auto &times = answer.value.at(which);
        const auto call = times.at("call_ms").get<double>();
        const auto total = times.at("total_ms").get<double>();
        blocks = blocks || call > total / 2;
        fact += fmt::format(" {} {:.2f} of {:.2f} ms", which, call, total);
    }
    if (!blocks) return {ok(topic, fact)};
    return {note(
        topic, fact + "; non-blocking copies of pageable memory block",
        "cldist's transfers use page-locked memory; for your own copies, map a buffer that was "
        "created with CL_MEM_ALLOC_HOST_PTR")};
}

Findings judge_error_code(const std::string &device, const Answer &answer) {
    const std::string topic = "error codes";
    const std::string callbacks = "callbacks of failed events";
    if (answer.value.is_null()) return {unanswered(topic, device, answer)};
    Findings findings;
    const auto sent = answer.value.at("sent").get<cl_int>();
    const auto seen = answer.value.at("command").get<cl_int>();
    const std::string fact = fmt::format("{}: a command that waits for a user event with status {}",
                                         device, status_text(sent));
    if (!answer.value.at("ended").get<bool>())
        findings.push_back(problem(
            topic, fact + " never ends",
            "set CLDIST_ON_ERROR=abort, so that a failed command does not hang the program"));
    else if (seen >= 0)
        findings.push_back(problem(
            topic,
            fmt::format("{} reports success despite the failure ({})", fact, status_text(seen)),
            "query CL_TRANSFER_STATUS of the messages, or set CLDIST_ON_ERROR=abort"));
    else if (seen != sent)
        findings.push_back(note(topic, fmt::format("{} fails with {}", fact, status_text(seen)),
                                "the driver replaces the code; CL_TRANSFER_STATUS of a message "
                                "returns the original one"));
    else
        findings.push_back(ok(topic, fact + " fails with this status"));
    const auto &told = answer.value.at("callback");
    if (told.is_null())
        findings.push_back(
            note(callbacks, device + ": the driver does not call them",
                 "the library polls such events; do not rely on such callbacks in your program"));
    else if (told.get<cl_int>() >= 0)
        findings.push_back(note(callbacks,
                                fmt::format("{}: the driver calls them with status {}", device,
                                            status_text(told.get<cl_int>())),
                                "query the status of the event in the callback"));
    else
        findings.push_back(ok(callbacks, fmt::format("{}: the driver calls them with status {}",
                                                     device, status_text(told.get<cl_int>()))));
    return findings;
}

Findings judge_failed_event(const std::string &device, const Answer &answer) {
    const std::string topic = "failed events";
    if (!answer.value.is_null())
        return {ok(
            topic,
            device + ": the driver survives the failure of a command whose event is not retained")};
    return {note(
        topic,
        fmt::format("{}: the driver does not survive the failure of a command whose event is not "
                    "retained: a child process {}",
                    device, answer.failure),
        "a failed message prints its cause and ends the job; with CLDIST_ON_ERROR=event, its event "
        "gets a negative status instead, and the program must retain the events of all commands "
        "that wait for it")};
}

Findings judge_profiling(const std::string &device, const Answer &answer) {
    const std::string topic = "profiling";
    if (answer.value.is_null())
        return {note(topic,
                     fmt::format("{}: the driver does not return the times of commands: {}", device,
                                 answer.failure),
                     "the trace contains no kernels of this device")};
    const auto start = answer.value.at("start").get<std::uint64_t>();
    const auto end = answer.value.at("end").get<std::uint64_t>();
    if (start == 0 || end < start)
        return {
            note(topic,
                 fmt::format("{}: the times of commands are wrong ({} to {})", device, start, end),
                 "kernels of this device appear at wrong times in the trace")};
    return {ok(topic, device + ": the driver returns the times of commands")};
}

Finding judge_profile(const std::string &device, const FoundProfile &found) {
    const std::string topic = "profile";
    if (!found.refused.empty())
        return note(topic, fmt::format("{}: {} is not used: {}", device, found.path, found.refused),
                    "run `cldist tune` to make a new one");
    if (found.profile == nullptr)
        return note(topic, device + ": none; paths and block sizes are the built-in choice",
                    "run `mpirun -n 2 cldist tune` to measure this system in two minutes");
    std::string when;
    for (const auto &route : found.profile->routes)
        if (route) when = std::max(when, route->when);
    return ok(topic, fmt::format("{}: {}, measured {}", device, found.path,
                                 when.empty() ? "never" : when));
}

Finding judge_kernels(const std::string &device, const Answer &answer, Path requested) {
    const std::string topic = "messages by kernels";
    const std::string fact =
        fmt::format("{}: {}", device, kernels_in_words(answer.failure, requested));
    if (!answer.failure.empty())
        return note(topic, fact,
                    "messages take other paths; kernels need NVIDIA's driver, and a GPU whose "
                    "kernels have no run-time limit (no display)");
    if (requests_kernels(requested)) return ok(topic, fact);
    return note(topic, fact,
                "for chains of non-blocking commands between GPUs of one host, CLDIST_PATH=device "
                "is faster, but asks rules of the program (docs/concepts.md)");
}

Findings opencl_findings(const HostFacts &host, bool openmpi_job) {
    const std::vector<cl_platform_id> platforms = all_platforms();
    Findings all{judge_loader(loader_facts(platforms.size(), openmpi_job))};
    for (std::size_t p = 0; p < platforms.size(); ++p) {
        const std::string version = query_string(platforms[p], CL_PLATFORM_VERSION);
        const std::vector<cl_device_id> devices = cluster::devices_of(platforms[p]);
        const std::string topic = fmt::format("platform {}", p);
        const std::string fact =
            fmt::format("{}, {}", query_string(platforms[p], CL_PLATFORM_NAME), version);
        all.push_back(devices.empty() ? note(topic, fact + ", without devices",
                                             "check that the kernel driver of the device is "
                                             "loaded, and that you may open the device file")
                                      : ok(topic, fact));
        for (std::size_t d = 0; d < devices.size(); ++d) {
            const std::string name = fmt::format("device {}.{}", p, d);
            all.push_back(describe_device(name, devices[d]));
            const cl_device_type type = cluster::type_of(devices[d]);
            if (version.find("PoCL") != std::string::npos && (type & CL_DEVICE_TYPE_CPU) != 0)
                all.push_back(
                    judge_pocl({query<cl_uint>(devices[d], CL_DEVICE_MAX_COMPUTE_UNITS).value_or(1),
                                std::getenv("POCL_MAX_PTHREAD_COUNT") != nullptr},
                               host));
            if ((type & CL_DEVICE_TYPE_GPU) != 0)
                all.push_back(judge_kernels(name, ask("kernels", {p, d}), config().path));
            all.push_back(judge_profile(name, find_profile(devices[d])));
            append(all, driver_findings(name, {p, d}));
        }
    }
    return all;
}

}  // namespace cldist::tool
