#include "collectives/schedule.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

namespace cldist::collectives {
namespace {

// From these sizes on, sending parts is faster although it needs more messages.
constexpr std::size_t large_broadcast = std::size_t{512} << 10U;
constexpr std::size_t large_reduction = std::size_t{1} << 20U;
constexpr std::size_t fewest_for_parts = 4;
// From this number of processes on, a tree is faster than through_first.
constexpr std::size_t fewest_for_tree = 9;

// Preferred alignment of parts in bytes. For parts that are not aligned for a device, kernels get
// the whole buffer or a copy.
constexpr std::size_t grain = 1024;

constexpr Place source(std::size_t index, std::size_t offset = 0) {
    return {Role::source, index, offset};
}
constexpr Place destination(std::size_t index, std::size_t offset = 0) {
    return {Role::destination, index, offset};
}
constexpr Place own(std::size_t index, std::size_t offset = 0) {
    return {Role::own, index, offset};
}

struct Part {
    std::size_t offset;
    std::size_t size;
};

// One of `n` nearly equal parts: whole elements, or whole grains if there are enough of them.
Part part_of(const Task &task, std::size_t n, std::size_t index) {
    std::size_t unit = task.element;
    const std::size_t divisor = std::gcd(unit, grain);
    if (unit / divisor <= task.bytes / grain / n) unit = unit / divisor * grain;
    const std::size_t count = (task.bytes + unit - 1) / unit;
    const auto begin = [&](std::size_t i) {
        return std::min((count / n * i + std::min(i, count % n)) * unit, task.bytes);
    };
    return {begin(index), begin(index + 1) - begin(index)};
}

class Maker {
public:
    explicit Maker(const Task &task) : task_(task) { schedule_.own.resize(task.n); }

    void copy(const Place &to, const Place &from, std::size_t size) { add(false, to, from, size); }
    void combine(const Place &to, const Place &from, std::size_t size) {
        add(true, to, from, size);
    }
    // Reserves memory of the library for a destination; `index` is 0 if there is only one.
    Place reserve(std::size_t index, std::size_t size) {
        const Place place = own(index, schedule_.own[index]);
        schedule_.own[index] += (size + grain - 1) / grain * grain;
        return place;
    }
    Schedule take() { return std::move(schedule_); }

    // Combines the bytes at `offset` of the run's sources, in their order, into `to`. With
    // `behind`, starts with the contents of `to`.
    void combine_run(const Run &run, const Place &to, std::size_t offset, std::size_t size,
                     bool behind = false) {
        for (std::size_t i = run.begin; i < run.end; ++i)
            add(behind || i != run.begin, to, source(i, offset), size);
    }

    // Each destination in `all` has its own part and receives the other parts.
    template <typename PartOf>
    void exchange(const std::vector<std::size_t> &all, const PartOf &part_of) {
        const std::size_t n = all.size();
        for (std::size_t step = 1; step < n; ++step)
            for (std::size_t i = 0; i < n; ++i) {
                const std::size_t from = (i + step) % n;
                const Part part = part_of(from);
                copy(destination(all[i], part.offset), destination(all[from], part.offset),
                     part.size);
            }
    }

    // Copies from the first destination of the run to the others. On the cluster platform each
    // device that has received the bytes sends them on, in a binomial tree, so that no process
    // sends to all.
    void share(const Run &run) {
        for (std::size_t i = run.begin + 1; i < run.end; ++i)
            copy(destination(i), destination(run.begin), task_.bytes);
    }

private:
    void add(bool combines, const Place &to, const Place &from, std::size_t size) {
        if (size != 0) schedule_.steps.push_back({combines, to.index, to, from, size});
    }

    const Task &task_;
    Schedule schedule_;
};

void broadcast(Maker &maker, const Task &task, Algorithm algorithm) {
    if (algorithm == Algorithm::linear) {
        for (std::size_t i = 0; i < task.n; ++i) maker.copy(destination(i), source(0), task.bytes);
        return;
    }
    const std::vector<Run> runs = runs_of(task);
    const auto part = [&](std::size_t i) { return part_of(task, runs.size(), i); };
    std::vector<std::size_t> firsts;
    for (const Run &run : runs) {
        const Part own_part = part(firsts.size());
        maker.copy(destination(run.begin, own_part.offset), source(0, own_part.offset),
                   own_part.size);
        firsts.push_back(run.begin);
    }
    maker.exchange(firsts, part);
    for (const Run &run : runs) maker.share(run);
}

void all_gather(Maker &maker, const Task &task) {
    for (std::size_t step = 0; step < task.n; ++step)
        for (std::size_t i = 0; i < task.n; ++i) {
            const std::size_t from = (i + step) % task.n;
            maker.copy(destination(i, from * task.bytes), source(from), task.bytes);
        }
}

// In place, the sources are copied first.
void all_to_all(Maker &maker, const Task &task) {
    const std::size_t n = task.n;
    for (std::size_t i = 0; task.in_place && i < n; ++i)
        maker.copy(maker.reserve(i, n * task.bytes), source(i), n * task.bytes);
    for (std::size_t step = 0; step < n; ++step)
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t from = (i + step) % n;
            const Place given =
                task.in_place ? own(from, i * task.bytes) : source(from, i * task.bytes);
            maker.copy(destination(i, from * task.bytes), given, task.bytes);
        }
}

// If the destination is also a source, the result is first combined in the library's memory.
void reduce(Maker &maker, const Task &task) {
    const Place to = task.in_place ? maker.reserve(0, task.bytes) : destination(0);
    maker.combine_run({0, task.n}, to, 0, task.bytes);
    if (task.in_place) maker.copy(destination(0), to, task.bytes);
}

// Each destination combines all sources.
void all_reduce_pairwise(Maker &maker, const Task &task) {
    std::vector<Place> to;
    for (std::size_t i = 0; i < task.n; ++i) {
        to.push_back(task.in_place ? maker.reserve(i, task.bytes) : destination(i));
        maker.combine_run({0, task.n}, to[i], 0, task.bytes);
    }
    for (std::size_t i = 0; task.in_place && i < task.n; ++i)
        maker.copy(destination(i), to[i], task.bytes);
}

// The first device of each run combines the sources of its run. Then the first run, or a tree of
// runs, combines the results.
void all_reduce_small(Maker &maker, const Task &task, Algorithm algorithm) {
    const std::vector<Run> runs = runs_of(task);
    const bool tree = algorithm == Algorithm::tree;
    std::vector<Place> has;
    for (std::size_t r = 0; r < runs.size(); ++r) {
        const Run &run = runs[r];
        const bool combines = r == 0 || (tree && r % 2 == 0 && r + 1 < runs.size());
        if (run.end - run.begin == 1 && !combines) {
            has.push_back(source(run.begin));
            continue;
        }
        has.push_back(task.in_place ? maker.reserve(run.begin, task.bytes)
                                    : destination(run.begin));
        maker.combine_run(run, has[r], 0, task.bytes);
    }
    if (tree)
        for (std::size_t step = 1; step < runs.size(); step *= 2)
            for (std::size_t r = 0; r + step < runs.size(); r += 2 * step)
                maker.combine(has[r], has[r + step], task.bytes);
    else
        for (std::size_t r = 1; r < runs.size(); ++r) maker.combine(has[0], has[r], task.bytes);
    if (task.in_place) maker.copy(destination(0), has[0], task.bytes);
    maker.share({0, task.n});
}

// The devices of each run combine the run's sources, each device one part. Then each device
// combines one part of all runs. Then the devices exchange these parts.
void all_reduce_parts(Maker &maker, const Task &task) {
    const std::vector<Run> runs = runs_of(task);
    const bool one = runs.size() == 1;
    struct Piece {
        std::size_t begin, end;
        Place place;
    };
    std::vector<std::vector<Piece>> has;  // for each run, or for each source of a single run
    std::vector<bool> gives(task.n, false);
    for (Run run : runs) {
        const std::size_t devices = run.end - run.begin;
        for (std::size_t i = run.begin; (one || devices == 1) && i < run.end; ++i) {
            has.push_back({{0, task.bytes, source(i)}});
            gives[i] = true;
        }
        if (one || devices == 1) continue;
        has.emplace_back();
        for (std::size_t i = 0; i < devices; ++i) {
            const Part part = part_of(task, devices, i);
            const Place to = maker.reserve(run.begin + i, part.size);
            maker.combine_run(run, to, part.offset, part.size);
            has.back().push_back({part.offset, part.offset + part.size, to});
        }
    }
    const auto part = [&](std::size_t i) { return part_of(task, task.n, i); };
    std::vector<Place> to;
    for (std::size_t i = 0; i < task.n; ++i) {
        const auto [begin, size] = part(i);
        // In place, device i, and no other, reads this part of its source until all is combined.
        const bool aside = task.in_place && gives[i];
        to.push_back(aside ? maker.reserve(i, size) : destination(i, begin));
        for (const std::vector<Piece> &pieces : has)
            for (const Piece &piece : pieces) {
                const std::size_t from = std::max(begin, piece.begin);
                const std::size_t end = std::min(begin + size, piece.end);
                if (from >= end) continue;
                Place at = to[i];
                Place given = piece.place;
                at.offset += from - begin;
                given.offset += from - piece.begin;
                if (&pieces == &has.front())
                    maker.copy(at, given, end - from);
                else
                    maker.combine(at, given, end - from);
            }
        if (aside) maker.copy(destination(i, begin), to[i], size);
    }
    std::vector<std::size_t> all(task.n);
    std::iota(all.begin(), all.end(), 0);
    maker.exchange(all, part);
}

// For each destination of another run, one of the run's devices combines the run's sources. The
// devices take turns.
void reduce_scatter(Maker &maker, const Task &task) {
    std::vector<Run> runs = runs_of(task);
    if (runs.size() == 1) {
        runs.clear();
        for (std::size_t i = 0; i < task.n; ++i) runs.push_back({i, i + 1});
    }
    const auto has_itself = [](const Run &run, std::size_t i) {
        return run.end - run.begin == 1 || (run.begin <= i && i < run.end);
    };
    std::vector<std::vector<Place>> has(task.n);  // for each destination: the results of other runs
    for (std::size_t i = 0; i < task.n; ++i)
        for (const Run &run : runs) {
            if (has_itself(run, i)) continue;
            has[i].push_back(maker.reserve(run.begin + i % (run.end - run.begin), task.bytes));
            maker.combine_run(run, has[i].back(), i * task.bytes, task.bytes);
        }
    std::vector<Place> to;
    for (std::size_t i = 0; i < task.n; ++i) {
        to.push_back(task.in_place ? maker.reserve(i, task.bytes) : destination(i));
        auto next = has[i].begin();
        for (const Run &run : runs) {
            const bool first = &run == &runs.front();
            if (has_itself(run, i))
                maker.combine_run(run, to[i], i * task.bytes, task.bytes, !first);
            else if (first)
                maker.copy(to[i], *next++, task.bytes);
            else
                maker.combine(to[i], *next++, task.bytes);
        }
    }
    for (std::size_t i = 0; task.in_place && i < task.n; ++i)
        maker.copy(destination(i), to[i], task.bytes);
}

// A chain, in which neighbours of one process need no message.
void scan(Maker &maker, const Task &task) {
    maker.copy(destination(0), source(0), task.bytes);
    for (std::size_t i = 1; i < task.n; ++i) {
        const Place to = task.in_place ? maker.reserve(i, task.bytes) : destination(i);
        maker.copy(to, destination(i - 1), task.bytes);
        maker.combine(to, source(i), task.bytes);
        if (task.in_place) maker.copy(destination(i), to, task.bytes);
    }
}

}  // namespace

const char *name_of(Kind kind) {
    constexpr std::array names{"broadcast",  "scatter",        "gather",
                               "all-gather", "all-to-all",     "reduce",
                               "all-reduce", "reduce-scatter", "scan"};
    static_assert(names.size() == std::size(all_kinds));
    return names.at(static_cast<std::size_t>(kind));
}

const char *name_of(Algorithm algorithm) {
    constexpr std::array names{"linear", "parts", "pairwise", "through the first", "tree", "chain"};
    static_assert(names.size() == static_cast<std::size_t>(Algorithm::chain) + 1);
    return names.at(static_cast<std::size_t>(algorithm));
}

std::vector<Run> runs_of(const Task &task) {
    if (task.processes.empty()) return {{0, task.n}};
    std::vector<Run> runs;
    for (std::size_t i = 0; i < task.n; ++i) {
        if (i == 0 || task.processes[i] != task.processes[i - 1]) runs.push_back({i, i});
        runs.back().end = i + 1;
    }
    return runs;
}

Algorithm choose(Kind kind, std::size_t processes, std::size_t devices, std::size_t bytes) {
    switch (kind) {
        case Kind::broadcast:
            return processes >= fewest_for_parts && bytes >= large_broadcast ? Algorithm::parts
                                                                             : Algorithm::linear;
        case Kind::scatter:
        case Kind::gather:
        case Kind::reduce: return Algorithm::linear;
        case Kind::all_gather:
        case Kind::all_to_all:
        case Kind::reduce_scatter: return Algorithm::pairwise;
        case Kind::all_reduce:
            if (devices <= 2) return Algorithm::pairwise;
            if (bytes >= large_reduction) return Algorithm::parts;
            return processes >= fewest_for_tree ? Algorithm::tree : Algorithm::through_first;
        case Kind::scan: return Algorithm::chain;
    }
    return Algorithm::linear;
}

Schedule make_schedule(const Task &task, Algorithm algorithm) {
    Maker maker(task);
    const std::size_t bytes = task.bytes;
    switch (task.kind) {
        case Kind::broadcast: broadcast(maker, task, algorithm); break;
        case Kind::scatter:
            for (std::size_t i = 0; i < task.n; ++i)
                maker.copy(destination(i), source(0, i * bytes), bytes);
            break;
        case Kind::gather:
            for (std::size_t i = 0; i < task.n; ++i)
                maker.copy(destination(0, i * bytes), source(i), bytes);
            break;
        case Kind::all_gather: all_gather(maker, task); break;
        case Kind::all_to_all: all_to_all(maker, task); break;
        case Kind::reduce: reduce(maker, task); break;
        case Kind::all_reduce:
            if (algorithm == Algorithm::parts)
                all_reduce_parts(maker, task);
            else if (algorithm == Algorithm::pairwise)
                all_reduce_pairwise(maker, task);
            else
                all_reduce_small(maker, task, algorithm);
            break;
        case Kind::reduce_scatter: reduce_scatter(maker, task); break;
        case Kind::scan: scan(maker, task); break;
    }
    return maker.take();
}

}  // namespace cldist::collectives
