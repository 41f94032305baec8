#include "collectives/schedule.hpp"

#include <algorithm>

namespace cldist::collectives {
namespace {

// From so much on, sending parts of it pays for more messages.
constexpr std::size_t large_broadcast = std::size_t{512} << 10U;
constexpr std::size_t large_reduction = std::size_t{1} << 20U;
constexpr std::size_t fewest_for_parts = 4;

constexpr Place source(std::size_t index, std::size_t offset = 0) { return {Role::source, index, offset}; }
constexpr Place destination(std::size_t index, std::size_t offset = 0) { return {Role::destination, index, offset}; }
constexpr Place own(std::size_t index, std::size_t offset = 0) { return {Role::own, index, offset}; }

// What each destination has of bytes that are cut into nearly equal parts of whole elements.
struct Part {
    std::size_t offset;
    std::size_t size;
};
Part part_of(const Task &task, std::size_t index) {
    const std::size_t count = task.bytes / task.element;
    const std::size_t begin = count / task.n * index + std::min(index, count % task.n);
    const std::size_t size = count / task.n + (index < count % task.n ? 1 : 0);
    return {begin * task.element, size * task.element};
}

class Maker {
public:
    explicit Maker(const Task &task) : task_(task) { schedule_.own.resize(task.n); }

    void copy(const Place &to, const Place &from, std::size_t size) { add(false, to, from, size, to.index); }
    void combine(const Place &to, const Place &from, std::size_t size) { add(true, to, from, size, to.index); }
    // Of a destination that is alone, whatever the index of the memory.
    void reserve(std::size_t index, std::size_t size) { schedule_.own[index] = size; }
    Schedule take() { return std::move(schedule_); }

    // All sources' bytes at `offset`, in the order of the sources, at `to`.
    void combine_all(const Place &to, std::size_t offset, std::size_t size) {
        copy(to, source(0, offset), size);
        for (std::size_t i = 1; i < task_.n; ++i) combine(to, source(i, offset), size);
    }

    // Each destination has its part, and gets the others'.
    template <typename PartOf>
    void exchange(const PartOf &part) {
        const std::size_t n = task_.n;
        for (std::size_t step = 1; step < n; ++step)
            for (std::size_t i = 0; i < n; ++i) {
                const std::size_t from = (i + step) % n;
                copy(destination(i, part(from).offset), destination(from, part(from).offset), part(from).size);
            }
    }

    // The first destination has it.
    void pass_on() {
        for (std::size_t have = 1; have < task_.n; have *= 2)
            for (std::size_t i = 0; i < have && have + i < task_.n; ++i)
                copy(destination(have + i), destination(i), task_.bytes);
    }

private:
    void add(bool combines, const Place &to, const Place &from, std::size_t size, std::size_t queue) {
        if (size != 0) schedule_.steps.push_back({combines, queue, to, from, size});
    }

    const Task &task_;
    Schedule schedule_;
};

void broadcast(Maker &maker, const Task &task, Algorithm algorithm) {
    const std::size_t n = task.n;
    if (algorithm == Algorithm::parts) {
        const auto part = [&](std::size_t i) { return part_of(task, i); };
        for (std::size_t i = 0; i < n; ++i)
            maker.copy(destination(i, part(i).offset), source(0, part(i).offset), part(i).size);
        maker.exchange(part);
        return;
    }
    maker.copy(destination(0), source(0), task.bytes);
    if (algorithm == Algorithm::linear) {
        for (std::size_t i = 1; i < n; ++i) maker.copy(destination(i), source(0), task.bytes);
        return;
    }
    maker.pass_on();
}

void all_gather(Maker &maker, const Task &task) {
    for (std::size_t step = 0; step < task.n; ++step)
        for (std::size_t i = 0; i < task.n; ++i) {
            const std::size_t from = (i + step) % task.n;
            maker.copy(destination(i, from * task.bytes), source(from), task.bytes);
        }
}

// In place, what is given is put aside before anything comes.
void all_to_all(Maker &maker, const Task &task) {
    const std::size_t n = task.n;
    for (std::size_t i = 0; task.in_place && i < n; ++i) {
        maker.reserve(i, n * task.bytes);
        maker.copy(own(i), source(i), n * task.bytes);
    }
    for (std::size_t step = 0; step < n; ++step)
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t from = (i + step) % n;
            const Place given = task.in_place ? own(from, i * task.bytes) : source(from, i * task.bytes);
            maker.copy(destination(i, from * task.bytes), given, task.bytes);
        }
}

// `size` bytes from `offset` of all sources, to `to` of destination `i`: by way of the library's memory where that is also
// a source.
void combine_for(Maker &maker, const Task &task, std::size_t i, const Place &to, std::size_t offset, std::size_t size) {
    if (task.in_place) maker.reserve(i, size);
    maker.combine_all(task.in_place ? own(i) : to, offset, size);
}
void bring_back(Maker &maker, const Task &task, std::size_t i, const Place &to, std::size_t size) {
    if (task.in_place) maker.copy(to, own(i), size);
}

void all_reduce(Maker &maker, const Task &task, Algorithm algorithm) {
    if (algorithm == Algorithm::through_first) {
        combine_for(maker, task, 0, destination(0), 0, task.bytes);
        bring_back(maker, task, 0, destination(0), task.bytes);
        maker.pass_on();
        return;
    }
    const bool cut = algorithm == Algorithm::parts;
    const auto part = [&](std::size_t i) { return cut ? part_of(task, i) : Part{0, task.bytes}; };
    for (std::size_t i = 0; i < task.n; ++i)
        combine_for(maker, task, i, destination(i, part(i).offset), part(i).offset, part(i).size);
    for (std::size_t i = 0; i < task.n; ++i) bring_back(maker, task, i, destination(i, part(i).offset), part(i).size);
    if (cut) maker.exchange(part);
}

void scan(Maker &maker, const Task &task) {
    maker.copy(destination(0), source(0), task.bytes);
    for (std::size_t i = 1; i < task.n; ++i) {
        const Place to = task.in_place ? own(i) : destination(i);
        if (task.in_place) maker.reserve(i, task.bytes);
        maker.copy(to, destination(i - 1), task.bytes);
        maker.combine(to, source(i), task.bytes);
        bring_back(maker, task, i, destination(i), task.bytes);
    }
}

}  // namespace

const char *name_of(Algorithm algorithm) {
    switch (algorithm) {
        case Algorithm::linear: return "linear";
        case Algorithm::binomial: return "binomial tree";
        case Algorithm::parts: return "parts";
        case Algorithm::direct: return "direct";
        case Algorithm::through_first: return "through the first";
        case Algorithm::chain: return "chain";
    }
    return "";
}

Algorithm choose(Kind kind, std::size_t n, std::size_t bytes, bool apart) {
    switch (kind) {
        case Kind::broadcast:
            if (n <= 2 || !apart) return Algorithm::linear;
            return n >= fewest_for_parts && bytes >= large_broadcast ? Algorithm::parts : Algorithm::binomial;
        case Kind::scatter:
        case Kind::gather:
        case Kind::reduce: return Algorithm::linear;
        case Kind::all_gather:
        case Kind::all_to_all:
        case Kind::reduce_scatter: return Algorithm::direct;
        case Kind::all_reduce:
            if (n <= 2) return Algorithm::direct;
            return bytes < large_reduction ? Algorithm::through_first : Algorithm::parts;
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
            for (std::size_t i = 0; i < task.n; ++i) maker.copy(destination(i), source(0, i * bytes), bytes);
            break;
        case Kind::gather:
            for (std::size_t i = 0; i < task.n; ++i) maker.copy(destination(0, i * bytes), source(i), bytes);
            break;
        case Kind::all_gather: all_gather(maker, task); break;
        case Kind::all_to_all: all_to_all(maker, task); break;
        case Kind::reduce:
            combine_for(maker, task, 0, destination(0), 0, bytes);
            bring_back(maker, task, 0, destination(0), bytes);
            break;
        case Kind::all_reduce: all_reduce(maker, task, algorithm); break;
        case Kind::reduce_scatter:
            for (std::size_t i = 0; i < task.n; ++i) combine_for(maker, task, i, destination(i), i * bytes, bytes);
            for (std::size_t i = 0; i < task.n; ++i) bring_back(maker, task, i, destination(i), bytes);
            break;
        case Kind::scan: scan(maker, task); break;
    }
    return maker.take();
}

}  // namespace cldist::collectives
