#include "doctor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "cluster_devices.hpp"
#include "doctor_mpi.hpp"
#include "doctor_opencl.hpp"
#include "doctor_program.hpp"
#include "doctor_system.hpp"
#include "finding.hpp"
#include "pipeline/profile_file.hpp"
#include "settings.hpp"
#include "terminal.hpp"

namespace cldist::tool {
namespace {

Colour colour_of(Finding::Level level) {
    if (level == Finding::Level::problem) return Colour::red;
    return level == Finding::Level::ok ? Colour::green : Colour::yellow;
}

// The findings contain everything about the settings, so the library must not print it again.
void quieten_library() {
    setenv("CLDIST_LOG", "error", 1);
    unsetenv("CLDIST_TRACE");
}

Findings examine_host(const HostFacts &host, const std::string &program, bool openmpi_job) {
    Findings all = without_repetition(opencl_findings(host, openmpi_job));
    all.push_back(cluster_finding());
    if (!program.empty()) append(all, program_findings(program));
    return all;
}

Findings examine_alone(const std::string &program) {
    Findings all = judge_settings(environment_entries());
    quieten_library();
    const HostFacts host = host_facts(1);
    append(all, mpi_findings_alone());
    append(all, judge_host(host));
    append(all, examine_host(host, program, false));
    return all;
}

// The findings; complete only in rank 0.
Findings examine_job(const Launch &launch, const std::string &program) {
    Findings local = judge_settings(environment_entries());
    quieten_library();
    const Job job;
    const HostFacts host = job.host_facts();
    if (job.looks_at_host()) {
        append(local, judge_host(host));
        local.push_back(job.judge_idle(host));
        append(local, examine_host(host, program, launch.by_openmpi));
    }
    job.wait_for_all();
    const std::string text = job.looks_at_host() ? nlohmann::json{host_name(), local}.dump() : "";
    std::vector<std::pair<std::string, Findings>> hosts;
    for (const std::string &one : job.gather(text))
        if (!one.empty())
            hosts.push_back(nlohmann::json::parse(one).get<std::pair<std::string, Findings>>());
    Findings all = job.job_findings(launch);
    append(all, joined(hosts));
    append(all, job.rank_findings());
    append(all, job.pair_findings());
    return job.rank() == 0 ? all : Findings{};
}

}  // namespace

int run_doctor(bool json, const std::string &program) {
    const Launch launch = find_launch();
    const Findings findings =
        with_sections(launch.by_launcher ? examine_job(launch, program) : examine_alone(program));
    if (findings.empty()) return 0;  // another rank prints the findings
    const auto count = [&](Finding::Level level) {
        return static_cast<std::size_t>(std::ranges::count(findings, level, &Finding::level));
    };
    const auto problems = count(Finding::Level::problem);
    const auto warnings = count(Finding::Level::warning);
    const auto notes = count(Finding::Level::note);
    if (json) {
        fmt::print("{}\n", nlohmann::json{{"findings", findings},
                                          {"problems", problems},
                                          {"warnings", warnings},
                                          {"notes", notes}}
                               .dump(2));
    } else {
        for (const Finding &finding : findings) {
            const std::string line = line_of(finding);
            const std::size_t level = name_of(finding.level).size();
            fmt::print("{}{}\n", coloured(line.substr(0, level), colour_of(finding.level)),
                       line.substr(level));
        }
        fmt::print("{}, {}, {}\n", counted(problems, "problem"), counted(warnings, "warning"),
                   counted(notes, "note"));
    }
    return problems > 0 ? 1 : 0;
}

}  // namespace cldist::tool
