// The trace of a rank, which `cldist trace` reads.
#include "fuzz.hpp"

#include "../tools/cldist/intervals.cpp"
#include "../tools/cldist/rank_trace.cpp"
#include "../tools/cldist/trace_merge.cpp"
#include "../tools/cldist/trace_table.cpp"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace cldist::tool;
    try {
        RankTrace trace = parse_trace(std::string(reinterpret_cast<const char *>(data), size));
        // The same steps in the same order as in the tool.
        static_cast<void>(commands_of(trace));
        correct(trace, choose_clock(trace, nullptr).correction);
        static_cast<void>(format_table(summarise({commands_of(trace)})));
        static_cast<void>(merged({trace}).dump());
    } catch (const TraceError &) {
    }
    return 0;
}
