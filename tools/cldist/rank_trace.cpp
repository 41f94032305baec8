#include "rank_trace.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text_file.hpp"

namespace cldist::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view prefix = "cldist-trace-";
constexpr std::string_view suffix = ".json";

const std::set<std::string, std::less<>> stage_names{"wait", "match", "device", "message", "file"};

std::optional<int> rank_of_file(std::string_view name) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix) ||
        name.size() <= prefix.size() + suffix.size())
        return {};
    name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    int rank = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
    if (error != std::errc{} || end != name.data() + name.size() || rank < 0) return {};
    return rank;
}

std::map<int, fs::path> files_in(const fs::path &folder) {
    std::error_code error;
    std::map<int, fs::path> files;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        if (const auto rank = rank_of_file(at->path().filename().string()))
            files[*rank] = at->path();
    if (error) throw TraceError(fmt::format("{}: {}", folder.string(), error.message()));
    if (files.empty())
        throw TraceError(fmt::format(
            "{} contains no cldist-trace-<rank>.json; run the program with CLDIST_TRACE={}",
            folder.string(), folder.string()));
    return files;
}

RankTrace read_file(const fs::path &path, int rank) {
    std::string text;
    if (const std::string error = read_text(path, text); !error.empty()) throw TraceError(error);
    RankTrace trace = parse_trace(text);
    // Finds errors in the commands here, where the file's name is known.
    [[maybe_unused]] const std::vector<Command> commands = commands_of(trace);
    if (trace.rank != rank)
        throw TraceError(fmt::format("contains the trace of rank {}", trace.rank));
    return trace;
}

/// Checks the optional fields that the tool uses. Throws Json::exception if one has a wrong type.
void check_event(const Json &event) {
    if (event.contains("dur")) static_cast<void>(event["dur"].get<double>());
    if (event.contains("tid")) static_cast<void>(event["tid"].get<std::uint64_t>());
    if (event.contains("name")) static_cast<void>(event["name"].get_ref<const std::string &>());
    if (event.contains("args")) static_cast<void>(event["args"].get_ref<const Json::object_t &>());
}

/// The traces of a folder, and their errors.
struct Found {
    std::vector<RankTrace> traces;
    std::vector<std::string> complaints;
};

Found read_all(const fs::path &folder) {
    Found found;
    const std::map<int, fs::path> files = files_in(folder);
    for (const auto &[rank, path] : files) {
        try {
            found.traces.push_back(read_file(path, rank));
        } catch (const TraceError &error) {
            found.complaints.push_back(fmt::format("{}: {}", path.string(), error.what()));
        }
    }
    if (found.traces.empty()) return found;
    // The first file determines the run.
    const int ranks = found.traces.front().ranks;
    for (int rank = 0; rank < ranks; ++rank)
        if (!files.contains(rank))
            found.complaints.push_back(fmt::format(
                "{} is missing; the run had {} ranks",
                (folder / fmt::format("{}{}{}", prefix, rank, suffix)).string(), ranks));
    std::erase_if(found.traces, [&](const RankTrace &trace) {
        if (trace.ranks == ranks && trace.rank < ranks) return false;
        found.complaints.push_back(fmt::format(
            "{} is from a run of {} ranks, but the trace of rank {} is from a run of {} ranks; the "
            "folder contains several runs",
            files.at(trace.rank).string(), trace.ranks, found.traces.front().rank, ranks));
        return true;
    });
    return found;
}

double end_of_wait(const Command &command, double begin) {
    for (const Command::Stage &stage : command.stages)
        if (stage.name == "wait") begin = std::max(begin, stage.time.end);
    return begin;
}

/// Combines the begin and end events of a trace. Stages come between the begin and the end of their
/// command. A killed process leaves commands without an end.
class CommandReader {
public:
    void take(const Json &event) {
        const std::string phase = event.at("ph").get<std::string>();
        if (event.contains("ts")) last_ = std::max(last_, event["ts"].get<double>());
        if (phase == "X")
            take_kernel(event);
        else if (phase == "b")
            open_[key_of(event)].push_back(event);
        else if (phase == "e")
            take_end(event);
    }

    std::vector<Command> finish() {
        for (const auto &[key, begins] : open_) {
            for (const Json &begin : begins) {
                if (stage_names.contains(key.second))
                    throw TraceError(
                        fmt::format("\"{}\" with id {} has no end", key.second, key.first));
                add(key.first, key.second + ", not ended", {begin.at("ts").get<double>(), last_},
                    0);
            }
        }
        if (!stages_.empty())
            throw TraceError(
                fmt::format("stages with id {} have no command", stages_.begin()->first));
        return std::move(commands_);
    }

private:
    using Key = std::pair<std::uint64_t, std::string>;

    static Key key_of(const Json &event) {
        return {event.at("id").get<std::uint64_t>(), event.at("name").get<std::string>()};
    }

    void take_kernel(const Json &event) {
        const double start = event.at("ts").get<double>();
        commands_.push_back({"kernel " + event.at("name").get<std::string>(),
                             {start, start + event.at("dur").get<double>()},
                             0,
                             {}});
    }

    void take_end(const Json &event) {
        const Key key = key_of(event);
        std::vector<Json> &begins = open_[key];
        if (begins.empty())
            throw TraceError(
                fmt::format("\"{}\" with id {} has no beginning", key.second, key.first));
        const Json begin = std::move(begins.back());
        begins.pop_back();
        const Interval time{begin.at("ts").get<double>(), event.at("ts").get<double>()};
        if (stage_names.contains(key.second)) {
            stages_[key.first].push_back({key.second, time});
            return;
        }
        add(key.first, key.second, time,
            event.contains("args") ? event["args"].value("bytes", 0.0) : 0.0);
    }

    void add(std::uint64_t id, const std::string &kind, Interval time, double bytes) {
        Command command{kind, time, bytes, std::move(stages_[id])};
        stages_.erase(id);
        command.time.start = std::min(end_of_wait(command, time.start), time.end);
        commands_.push_back(std::move(command));
    }

    std::vector<Command> commands_;
    std::map<Key, std::vector<Json>> open_;
    /// stages of the commands whose end event has not been read
    std::map<std::uint64_t, std::vector<Command::Stage>> stages_;
    double last_ = 0;  ///< the time of the last event
};

}  // namespace

RankTrace parse_trace(const std::string &text) {
    try {
        Json whole = Json::parse(text);
        RankTrace trace;
        if (!whole.at("traceEvents").is_array())
            throw TraceError("\"traceEvents\" is not an array");
        trace.events = std::move(whole["traceEvents"]);
        const Json &other = whole.at("otherData");
        other.at("rank").get_to(trace.rank);
        other.at("ranks").get_to(trace.ranks);
        other.at("host").get_to(trace.host);
        other.at("boot").get_to(trace.boot);
        for (const Json &sample : other.at("clock"))
            trace.clock.push_back({sample.at("at_ns").get<std::uint64_t>(),
                                   sample.at("offset_ns").get<std::int64_t>(),
                                   sample.at("uncertainty_ns").get<std::uint64_t>()});
        return trace;
    } catch (const Json::parse_error &error) {
        throw TraceError(fmt::format("is damaged at byte {}: expected JSON", error.byte));
    } catch (const Json::exception &) {
        throw TraceError("is damaged, or not a trace of this version");
    }
}

std::vector<RankTrace> read_traces(const fs::path &folder, bool partial,
                                   std::vector<std::string> &left_out) {
    Found found = read_all(folder);
    if (!found.complaints.empty() && (!partial || found.traces.empty()))
        throw TraceError(fmt::format(
            "{}\nRun the program again with CLDIST_TRACE={}{}", fmt::join(found.complaints, "\n"),
            folder.string(), found.traces.empty() ? "" : ", or leave these out with --partial"));
    left_out = std::move(found.complaints);
    return std::move(found.traces);
}

std::vector<Command> commands_of(const RankTrace &trace) {
    try {
        CommandReader reader;
        for (const Json &event : trace.events) {
            reader.take(event);
            check_event(event);
        }
        return reader.finish();
    } catch (const Json::exception &) {
        throw TraceError("has a damaged event");
    }
}

}  // namespace cldist::tool
