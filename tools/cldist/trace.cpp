#include "trace.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "finding.hpp"
#include "trace_html.hpp"
#include "trace_merge.hpp"
#include "trace_table.hpp"

namespace cldist::tool {
namespace {

void write_file(const std::filesystem::path &path, const std::string &text) {
    std::ofstream out(path, std::ios::binary);
    if (out) out << text << std::flush;
    if (!out)
        throw TraceError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

// Returns false if the traces are empty.
bool print_tables(const std::vector<RankTrace> &traces,
                  const std::vector<std::vector<Command>> &ranks, bool per_rank) {
    const std::vector<Row> rows = summarise(ranks);
    if (rows.empty()) return false;
    if (per_rank) {
        for (std::size_t i = 0; i < traces.size(); ++i)
            fmt::print("\nrank {} ({})\n{}", traces[i].rank, traces[i].host,
                       format_table(summarise({ranks[i]})));
        if (ranks.size() > 1) fmt::print("\nall ranks\n{}", format_table(rows));
    } else {
        fmt::print("\n{}", format_table(rows));
    }
    if (!rows.back().kernel)
        fmt::print(
            "\nNo kernels are in these traces: create their queues with "
            "CL_QUEUE_PROFILING_ENABLE, or pass their events to clTraceEvent.\n");
    return true;
}

void print_traces(const TraceOptions &options) {
    std::vector<std::string> left_out;
    std::vector<RankTrace> traces = read_traces(options.folder, options.partial, left_out);
    for (const std::string &complaint : left_out)
        std::fprintf(stderr, "cldist trace: ignored: %s\n", complaint.c_str());
    fmt::print("{}{}\n", counted(traces.size(), "rank"),
               left_out.empty() ? "" : fmt::format(" of {}", traces.front().ranks));
    const RankTrace *const first = traces.front().rank == 0 ? &traces.front() : nullptr;
    std::vector<ClockChoice> clocks;
    for (const RankTrace &trace : traces) clocks.push_back(choose_clock(trace, first));
    std::vector<std::vector<Command>> ranks;
    for (std::size_t i = 0; i < traces.size(); ++i) {
        if (!clocks[i].explanation.empty()) fmt::print("{}\n", clocks[i].explanation);
        correct(traces[i], clocks[i].correction);
        ranks.push_back(commands_of(traces[i]));
    }
    const bool anything = print_tables(traces, ranks, options.per_rank);
    if (!anything) fmt::print("Nothing was recorded.\n");
    const std::filesystem::path output = options.output.empty()
                                             ? std::filesystem::path(options.folder) / "merged.json"
                                             : std::filesystem::path(options.output);
    const nlohmann::json all = merged(traces);
    write_file(output, all.dump() + '\n');
    fmt::print("\nThe merged trace is in {}\n", output.string());
    if (options.html.empty()) return;
    write_file(options.html, html_page(all, format_table(summarise(ranks))));
    fmt::print("The page is in {}\n", options.html);
}

}  // namespace

int run_trace(const TraceOptions &options) {
    try {
        print_traces(options);
        return 0;
    } catch (const TraceError &error) {
        std::fprintf(stderr, "cldist trace: %s\n", error.what());
        return 1;
    }
}

}  // namespace cldist::tool
