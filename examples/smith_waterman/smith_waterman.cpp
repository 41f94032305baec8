// Searches a protein database for relatives of a query on an OpenCL device. The host programs share
// one kernel. They differ in how they copy the database from its file to the device.

#include "fasta.hpp"
#include "figures.hpp"
#include "generate.hpp"
#include "hosts.hpp"
#include "packed.hpp"
#include "page_cache.hpp"
#include "reference.hpp"

#include "options.hpp"

#include <getopt.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace smith_waterman {
namespace {

constexpr char usage[] =
    R"(usage: smith_waterman generate [--residues SIZE] [--seed N] [--query FILE] FASTA
       smith_waterman pack FASTA DATABASE
       smith_waterman search [options] DATABASE

generate writes random proteins, with relatives of the query among them, as a FASTA file.
  --residues SIZE       of all together (default 1M); sizes are like 511, 4K or 1M
  --seed N              another seed, other proteins (default 1)
  --query FILE          as for search
pack makes a database of a FASTA file.
search computes the score of every protein.
  --query FILE          a FASTA file with one protein (default: the alpha chain of human haemoglobin)
  --open N, --extend N  what a gap costs: its first residue (default 10), each further one (default 1)
  --blocks LIST         sizes of chunks, as 511,4K,1M (default 1M)
  --host NAME           serial, hand-optimised, event-chained or all (default all)
  --buffers N           chunks that are on the device at once (default 3); serial needs one
  --rounds R            runs of each host and block size, in turns; the medians count (default 1)
  --cache warm|cold     whether the system holds the file in memory when a run begins (default warm)
  --check PERCENT       of the proteins, evenly spread, compared with the reference (default 100)
  --top N               hits that are printed (default 5)
  --lanes 1|16          proteins that a work-item computes at once (default: 1 on GPUs, else 16)
  --device N            use device N of the host (default 0)
  --json FILE           also write the results as JSON
  --help

Always checked, with status 1 if it fails: that all runs give the same scores, and that those of the top hits and of the
proteins to be checked are the reference's.
)";

// UniProt P69905.
constexpr std::string_view haemoglobin =
    "MVLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLSFPTTKTYFPHFDLSHGSAQVKGHGKKVADALTNAVAHVDDMPNALSALSDLHAHKLRV"
    "DPVNFKLLSHCLLVTLAAHL"
    "PAEFTPAVHASLDKFLASVSTVLTSKYR";
constexpr int highest_gap = 1000;

struct Options {
    std::vector<std::string> words;  ///< words that are no options: a command and its files
    std::uint64_t residues = 1 << 20;
    int seed = 1, rounds = 1, buffers = 3, check = 100, top = 5, lanes = 0, device = 0;
    Gap gap;
    std::vector<std::size_t> blocks = {1 << 20};
    std::string query, host = "all", json;
    bool cold = false, help = false;
};

std::size_t size(std::string text) {
    int shift = 0;
    if (text.ends_with('k') || text.ends_with('K')) shift = 10;
    if (text.ends_with('m') || text.ends_with('M')) shift = 20;
    const std::string given = text;
    if (shift) text.pop_back();
    const int count = number(text.c_str(), 1);
    if (count > (1 << 30) >> shift) refuse(fmt::format("'{}' is more than 1024M", given));
    return std::size_t(count) << shift;
}

std::vector<std::size_t> sizes(const char *list) {
    std::vector<std::size_t> all;
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');) all.push_back(size(part));
    if (all.empty()) refuse(fmt::format("'{}' is not a list of sizes", list));
    return all;
}

int number_up_to(const char *text, int least, int most) {
    const int value = number(text, least);
    if (value > most) refuse(fmt::format("'{}' is more than {}", text, most));
    return value;
}

Options parse(int argc, char **argv) {
    static const option names[] = {{"residues", required_argument, nullptr, 'r'},
                                   {"seed", required_argument, nullptr, 's'},
                                   {"query", required_argument, nullptr, 'q'},
                                   {"open", required_argument, nullptr, 'o'},
                                   {"extend", required_argument, nullptr, 'e'},
                                   {"blocks", required_argument, nullptr, 'b'},
                                   {"host", required_argument, nullptr, 'v'},
                                   {"buffers", required_argument, nullptr, 'u'},
                                   {"rounds", required_argument, nullptr, 'n'},
                                   {"cache", required_argument, nullptr, 'c'},
                                   {"check", required_argument, nullptr, 'k'},
                                   {"top", required_argument, nullptr, 't'},
                                   {"lanes", required_argument, nullptr, 'l'},
                                   {"device", required_argument, nullptr, 'd'},
                                   {"json", required_argument, nullptr, 'j'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};
    Options options;
    opterr = 0;  // refuse() reports the error
    for (int name; (name = getopt_long(argc, argv, "", names, nullptr)) != -1;) {
        switch (name) {
            case 'r': options.residues = size(optarg); break;
            case 's': options.seed = number(optarg, 0); break;
            case 'q': options.query = optarg; break;
            case 'o': options.gap.open = number_up_to(optarg, 0, highest_gap); break;
            case 'e': options.gap.extend = number_up_to(optarg, 0, highest_gap); break;
            case 'b': options.blocks = sizes(optarg); break;
            case 'v': options.host = optarg; break;
            case 'u': options.buffers = number_up_to(optarg, 1, 16); break;
            case 'n': options.rounds = number(optarg, 1); break;
            case 'c':
                options.cold = std::string_view(optarg) == "cold";
                if (!options.cold && std::string_view(optarg) != "warm")
                    refuse(fmt::format("the cache is warm or cold, not '{}'", optarg));
                break;
            case 'k': options.check = number_up_to(optarg, 0, 100); break;
            case 't': options.top = number(optarg, 0); break;
            case 'l':
                options.lanes = number(optarg, 1);
                if (options.lanes != 1 && options.lanes != 16)
                    refuse(fmt::format("a work-item computes 1 or 16 proteins, not {}", optarg));
                break;
            case 'd': options.device = number(optarg, 0); break;
            case 'j': options.json = optarg; break;
            case 'h': options.help = true; break;
            default: refuse(fmt::format("cannot make sense of '{}'", argv[optind - 1]));
        }
    }
    options.words.assign(argv + optind, argv + argc);
    if (options.gap.extend > options.gap.open)
        refuse(fmt::format("the first residue of a gap costs {}, less than a further one with {}",
                           options.gap.open, options.gap.extend));
    return options;
}

Protein query_of(const Options &options) {
    if (!options.query.empty()) {
        std::vector<Protein> proteins = read_fasta(options.query);
        if (proteins.size() != 1)
            refuse(fmt::format("{}: has {} proteins; the query is one", options.query,
                               proteins.size()));
        return std::move(proteins.front());
    }
    Protein query{"HBA_HUMAN", {}};
    for (const char letter : haemoglobin) query.residues.push_back(*residue_of(letter));
    return query;
}

std::vector<Host> hosts_of(const Options &options) {
    std::vector<Host> hosts = {{"serial", run_serial},
                               {"hand-optimised", run_hand_optimised},
                               {"event-chained", run_event_chained}};
    if (options.host != "all")
        std::erase_if(hosts, [&](const Host &host) { return host.name != options.host; });
    if (hosts.empty()) refuse(fmt::format("there is no host '{}'", options.host));
    return hosts;
}

std::string quoted(const std::string &text) {
    std::string all = "\"";
    for (const char letter : text) {
        if (letter == '"' || letter == '\\') all += '\\';
        // Names must not contain control characters.
        all += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
    return all + '"';
}

/// Returns the indices of the proteins with the highest scores, the highest first.
std::vector<std::size_t> top_hits(const std::vector<int> &scores, std::size_t count) {
    std::vector<std::size_t> all(scores.size());
    std::iota(all.begin(), all.end(), 0);
    count = std::min(count, all.size());
    std::partial_sort(all.begin(), all.begin() + std::ptrdiff_t(count), all.end(),
                      [&](std::size_t left, std::size_t right) {
                          return scores[left] != scores[right] ? scores[left] > scores[right]
                                                               : left < right;
                      });
    all.resize(count);
    return all;
}

/// All runs of the search of one database, and their results.
class Measurement {
public:
    Measurement(const Options &options, const Database &database, const Protein &query,
                const Device &device)
        : options_(options),
          database_(database),
          query_(query),
          search_(database, device, query.residues, options.gap, options.lanes, options.buffers) {}

    /// Executes all runs, and counts those whose scores differ from the first run's.
    void run(const std::vector<Host> &hosts) {
        warm_page_cache(database_.path);
        search_.set_block(options_.blocks.front());
        for (const Host &host : hosts) run(host);  // warms up; the first run sets scores_
        for (const std::size_t block : options_.blocks) {
            search_.set_block(block);
            for (const Host &host : hosts)
                series_.push_back({host.name, block, search_.chunks().size()});
        }
        for (int round = 0; round < options_.rounds; ++round)
            for (std::size_t first = 0; first < series_.size(); first += hosts.size()) {
                search_.set_block(series_[first].block);
                for (std::size_t turn = 0; turn < hosts.size(); ++turn) {
                    const std::size_t host = (std::size_t(round) + turn) % hosts.size();
                    series_[first + host].runs.push_back(run(hosts[host]));
                }
            }
    }

    /// Checks the scores against the reference. Prints how many were checked, and the differences.
    bool check_scores() const {
        const Residues residues = database_.read_residues();
        std::vector<std::size_t> chosen = top_hits(scores_, std::size_t(options_.top));
        const auto share = std::size_t(options_.check);
        for (std::size_t n = 0; n < database_.size(); ++n)
            if ((n + 1) * share / 100 > n * share / 100) chosen.push_back(n);
        std::sort(chosen.begin(), chosen.end());
        chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());

        std::atomic<std::size_t> next = 0, wrong = 0;
        const auto work = [&] {
            for (std::size_t n; (n = next++) < chosen.size();) {
                const std::size_t protein = chosen[n];
                const std::uint64_t begin = database_.starts[protein],
                                    end = database_.starts[protein + 1];
                const int right = reference_score(
                    query_.residues, std::span(residues).subspan(begin, end - begin), options_.gap);
                if (right == scores_[protein]) continue;
                if (wrong++ < 10)
                    fmt::print("WRONG: '{}' has score {}, the reference has {}\n",
                               database_.names[protein], scores_[protein], right);
            }
        };
        {
            std::vector<std::jthread> threads;
            for (unsigned n = 0; n < std::max(1U, std::thread::hardware_concurrency()); ++n)
                threads.emplace_back(work);
        }
        fmt::print(
            "{} of {} scores compared with the reference ({:.1f} %), {} wrong; {} of {} runs with "
            "the scores of the "
            "first\n",
            chosen.size(), database_.size(),
            100.0 * double(chosen.size()) / double(database_.size()), wrong.load(),
            runs_ - different_, runs_);
        return wrong == 0 && different_ == 0;
    }

    /// Returns the top hits as members of a JSON array.
    std::string hits_as_json() const {
        std::string all;
        for (const std::size_t hit : top_hits(scores_, std::size_t(options_.top)))
            all += fmt::format("{}{{\"name\": {}, \"score\": {}}}", all.empty() ? "" : ", ",
                               quoted(database_.names[hit]), scores_[hit]);
        return all;
    }

    void print_hits() const {
        fmt::print("\n{:>7} {:>7}  {}\n", "score", "length", "protein");
        for (const std::size_t hit : top_hits(scores_, std::size_t(options_.top)))
            fmt::print("{:>7} {:>7}  {}\n", scores_[hit],
                       database_.starts[hit + 1] - database_.starts[hit], database_.names[hit]);
        fmt::print("\n");
    }

    const std::vector<Series> &series() const { return series_; }
    double still_cached() const { return still_cached_; }
    double cells() const { return double(query_.residues.size()) * double(database_.residues()); }

private:
    Run run(const Host &host) {
        search_.reset();
        if (options_.cold) still_cached_ = std::max(still_cached_, drop_page_cache(database_.path));
        const File file = search_.open();
        const auto start = std::chrono::steady_clock::now();
        const Times times = host.run(search_, file.get());
        const std::chrono::duration<double> total = std::chrono::steady_clock::now() - start;

        const std::vector<int> scores = search_.scores();
        if (runs_ == 0) scores_ = scores;
        ++runs_;
        if (scores != scores_) {
            ++different_;
            fmt::print("WRONG: {} gives other scores with chunks of {} bytes than the first run\n",
                       host.name, search_.size_of(0));
        }
        return {total.count(), times};
    }

    const Options &options_;
    const Database &database_;
    const Protein &query_;
    Search search_;
    std::vector<Series> series_;
    std::vector<int> scores_;  ///< of the first run
    int runs_ = 0, different_ = 0;
    /// The largest fraction of the file that was in memory before a run with a cold cache.
    double still_cached_ = 0.0;
};

/// Returns whether all checks passed.
bool search(const Options &options) {
    const std::vector<Host> hosts = hosts_of(options);
    const Protein query = query_of(options);
    const Database database = Database::open(options.words[1]);
    const Device device = Device::choose(options.device, MPI_COMM_NULL);
    Measurement measurement(options, database, query, device);

    fmt::print(
        "{} ({} residues) against {} proteins ({} residues) on {}; gaps {}/{}, {} buffers, median "
        "of {}\n",
        query.name, query.residues.size(), database.size(), database.residues(), device.name,
        options.gap.open, options.gap.extend, options.buffers, options.rounds);
    std::fflush(stdout);
    measurement.run(hosts);
    std::string cache = "in memory (page cache) before every run";
    if (options.cold)
        cache =
            fmt::format("dropped from memory before every run; at most {:.1f} % of it stayed there",
                        measurement.still_cached() * 100);
    fmt::print("The database was {}.\n", cache);
    measurement.print_hits();
    print(measurement.series(), measurement.cells());
    const bool correct = measurement.check_scores();

    if (!options.json.empty()) {
        const std::string head = fmt::format(
            "\"device\": {}, \"query\": {}, \"query_residues\": {}, \"proteins\": {}, "
            "\"residues\": {}, \"open\": {}, "
            "\"extend\": {}, \"buffers\": {}, \"rounds\": {}, \"cache\": \"{}\", \"still_cached\": "
            "{:.4f}, "
            "\"checked_percent\": {}, \"correct\": {},\n \"hits\": [{}]",
            quoted(device.name), quoted(query.name), query.residues.size(), database.size(),
            database.residues(), options.gap.open, options.gap.extend, options.buffers,
            options.rounds, options.cold ? "cold" : "warm", measurement.still_cached(),
            options.check, correct, measurement.hits_as_json());
        write_text(options.json, to_json(head, measurement.series(), measurement.cells()));
    }
    return correct;
}

int run(const Options &options) {
    const std::string command = options.words.empty() ? "" : options.words.front();
    const auto files = options.words.size() - 1;
    if (options.help) {
        fmt::print("{}", usage);
    } else if (command == "generate" && files == 1) {
        generate(options.words[1], options.residues, std::uint64_t(options.seed),
                 query_of(options));
    } else if (command == "pack" && files == 2) {
        pack(options.words[1], options.words[2]);
    } else if (command == "search" && files == 1) {
        return search(options) ? 0 : 1;
    } else {
        refuse(
            "the commands are generate FASTA, pack FASTA DATABASE and search DATABASE; see --help");
    }
    return 0;
}

}  // namespace
}  // namespace smith_waterman

int main(int argc, char **argv) {
    try {
        return smith_waterman::run(smith_waterman::parse(argc, argv));
    } catch (const std::invalid_argument &refusal) {
        fmt::print(stderr, "smith_waterman: {}\n", refusal.what());
        return 2;
    } catch (const std::exception &error) {
        fmt::print(stderr, "smith_waterman: {}\n", error.what());
        return 1;
    }
}
