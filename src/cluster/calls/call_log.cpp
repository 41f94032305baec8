#include "cluster/calls/call_log.hpp"

#include <algorithm>
#include <charconv>

#include "base/error_code.hpp"

namespace cldist::cluster {

namespace {

std::string value_text(Argument::Kind kind, std::uint64_t value) {
    if (kind == Argument::Kind::status) return status_text(static_cast<int>(value));
    const bool hexadecimal = value >= std::uint64_t{1} << 48;
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.begin(), digits.end(), value, hexadecimal ? 16 : 10).ptr;
    return (hexadecimal ? "0x" : "") + std::string(digits.begin(), end);
}

/// Removes the first element of a list with separators ", ", and returns it.
std::string_view next_of(std::string_view &list) {
    const std::string_view next = list.substr(0, list.find(", "));
    list.remove_prefix(std::min(list.size(), next.size() + 2));
    return next;
}

/// For example " (argument size)". Empty for calls of different functions.
std::string differing_arguments(std::string_view a, std::string_view b) {
    const std::size_t function = a.find('(') + 1;
    if (function == 0 || a.substr(0, function) != b.substr(0, function)) return "";
    a.remove_prefix(function);
    b.remove_prefix(function);
    std::string names;
    std::size_t count = 0;
    while (!a.empty() && !b.empty()) {
        const std::string_view argument = next_of(a);
        if (argument == next_of(b)) continue;
        names += (count++ == 0 ? "" : ", ");
        names += argument.substr(0, argument.find(' '));
    }
    return (count == 1 ? " (argument " : " (arguments ") + names + ")";
}

}  // namespace

void CallLog::record(const Call &call, std::span<const std::uint64_t> values) {
    const std::uint64_t number = count_.load(std::memory_order_relaxed) + 1;
    if (threads_.note(number)) look_for_overlap();
    Recorded &place = calls_[number % ring];
    for (std::size_t i = 0; i < values.size(); ++i)
        place.values[i].store(values[i], std::memory_order_release);
    std::uint64_t sum = call.hash;
    for (std::size_t i = 0; i < values.size(); ++i) sum += weighted(values[i], i);
    hash_ = mixed(hash_ + sum + aside_.load(std::memory_order_relaxed));
    place.call.store(&call, std::memory_order_release);
    hashes_[number % hash_ring].store(hash_, std::memory_order_release);
    count_.store(number, std::memory_order_release);
    if (number % checkpoint == 0) keep_checkpoint(number);
}

void CallLog::Counter::add() {
    if (creator_ == std::this_thread::get_id())
        of_creator_.store(of_creator_.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
    else
        of_others_.fetch_add(1, std::memory_order_relaxed);
}

bool CallLog::in_ring(std::uint64_t number, std::uint64_t size) const {
    const std::uint64_t count = count_.load(std::memory_order_acquire);
    return number >= 1 && number <= count && number + size > count + 1;
}

bool CallLog::Threads::note(std::uint64_t number) {
    const auto ask = ask_for_thread.load(std::memory_order_relaxed);
    const std::uint32_t asked = ask != nullptr ? ask() : 0;
    const bool is_new = std::exchange(asked_thread_, asked) != asked;
    // A new thread may have the id of a thread that has ended.
    const auto id = std::this_thread::get_id();
    if (std::exchange(thread_, id) == id && !is_new) return false;
    if (ask != nullptr && (is_new || number == 1)) {
        const std::lock_guard lock(mutex_);
        const std::uint64_t before = changes_.empty() ? 0 : changes_.back().hash;
        changes_.push_back({number, mixed(before + weighted(number, 0) + asked)});
        if (changes_.size() > most_changes) changes_.pop_front();
    }
    if (number == 1) return false;
    changed_at_ = number;
    return true;
}

bool CallLog::Threads::look_for_overlap() {
    const auto ask = ask_for_overlap.load(std::memory_order_relaxed);
    if (ask == nullptr || !ask()) return false;
    ask_for_overlap = nullptr;
    has_overlap_ = true;
    return true;
}

void CallLog::keep_checkpoint(std::uint64_t number) {
    checkpoints_[number / checkpoint % checkpoints].store(hash_, std::memory_order_release);
    at_checkpoint.wake();
    held_.wait(true);
}

CallHash CallLog::last() const {
    for (;;) {
        const std::uint64_t number = count_.load(std::memory_order_acquire);
        if (const auto hash = hash_after(number)) return {number, *hash};
    }
}

std::optional<std::uint64_t> CallLog::hash_after(std::uint64_t number) const {
    if (number == 0) return 0;
    if (in_ring(number, hash_ring)) {
        const std::uint64_t hash = hashes_[number % hash_ring].load(std::memory_order_acquire);
        if (in_ring(number, hash_ring)) return hash;
    }
    // The hash of a checkpoint is stored before its call leaves the ring.
    const std::uint64_t index = number / checkpoint;
    if (number % checkpoint != 0 || number > count_.load(std::memory_order_acquire)) return {};
    const std::uint64_t hash = checkpoints_[index % checkpoints].load(std::memory_order_acquire);
    if (index + checkpoints > count_.load(std::memory_order_acquire) / checkpoint + 1) return hash;
    return {};
}

std::optional<std::uint64_t> CallLog::Threads::hash_until(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    if (changes_.empty() || number == 0) return 0;
    const auto after = std::ranges::upper_bound(changes_, number, {}, &CallHash::number);
    if (after == changes_.begin()) return {};
    return (after - 1)->hash;
}

std::vector<CallHash> CallLog::known() const {
    const std::uint64_t count = count_.load(std::memory_order_acquire);
    const std::uint64_t begin = count - std::min(count, ring);  // first call in the ring
    std::vector<CallHash> hashes;
    const auto add = [&](std::uint64_t number) {
        if (const auto hash = hash_after(number)) hashes.push_back({number, *hash});
    };
    for (std::uint64_t number = 0; number < begin; number += checkpoint) add(number);
    for (std::uint64_t number = begin; number <= count; ++number)
        if (number % checkpoint == 0 || in_ring(number)) add(number);
    return hashes;
}

std::string CallLog::text(std::uint64_t number) const {
    if (!in_ring(number)) return "";
    const Recorded &place = calls_[number % ring];
    const Call &call = *place.call.load(std::memory_order_acquire);
    std::string text(call.function);
    if (call.hash != program_end.hash) {
        std::array<std::uint64_t, Call::most_arguments + 1> values{};
        for (std::size_t i = 0; i < call.value_count; ++i)
            values[call.values[i]] = place.values[i].load(std::memory_order_acquire);
        const char *before = "(";
        for (std::size_t i = 0; i < call.count; ++i) {
            const Argument &argument = call.arguments[i];
            if (!argument.is_valued() && !argument.is_address()) continue;
            text.append(std::exchange(before, ", ")).append(argument.name).append(" ");
            if (argument.is_valued())
                text += value_text(argument.kind, values[i]);
            else
                text += (values[Call::addresses] >> i & 1U) != 0 ? "NULL" : "given";
        }
        text += call.count > 0 ? ")" : "()";
    }
    return in_ring(number) ? text : "";
}

Difference first_difference(std::span<const CallHash> a, std::span<const CallHash> b) {
    Difference difference{0, std::min(a.back().number, b.back().number)};
    for (auto p = a.begin(), q = b.begin(); p != a.end() && q != b.end();) {
        if (p->number != q->number) {
            ++(p->number < q->number ? p : q);
        } else if (p->hash != q->hash) {
            difference.differ_at = p->number;
            break;
        } else {
            difference.equal_until = p->number;
            ++p;
            ++q;
        }
    }
    return difference;
}

std::string difference_message(const Difference &difference, int rank_a, const std::string &text_a,
                               int rank_b, const std::string &text_b, Start start) {
    if (rank_a > rank_b)
        return difference_message(difference, rank_b, text_b, rank_a, text_a, start);
    const auto at = std::to_string(difference.differ_at);
    const auto of_rank = [](int rank) { return "rank " + std::to_string(rank) + "'s"; };
    std::string message = "the processes' calls differ: ";
    if (!difference.exact() || text_a.empty() || text_b.empty()) {
        message +=
            difference.exact()
                ? "call " + at
                : "one of the calls " + std::to_string(difference.equal_until + 1) + " to " + at;
        message += " of rank " + std::to_string(rank_a) + " and rank " + std::to_string(rank_b) +
                   ", which is too old to be identified";
    } else {
        const auto account = [&](int rank, const std::string &text, bool whole) {
            if (text == program_end.function)
                return of_rank(rank) + " program ended after call " +
                       std::to_string(difference.equal_until);
            return of_rank(rank) + (whole ? " call " + at : "") + " is " + text;
        };
        message += account(rank_a, text_a, true) + ", " +
                   account(rank_b, text_b, text_a == program_end.function) +
                   differing_arguments(text_a, text_b);
        if (text_a == text_b) message += "; the difference is in earlier commands on bound buffers";
    }
    message +=
        ". A program that runs on the cluster platform must make the same calls in all processes.";
    if (difference.several_threads != 0)
        message +=
            " The calls come from several threads; their order must be the same in all processes.";
    switch (start) {
        case Start::own_mpi:
            message +=
                " This program uses MPI itself, so its processes may be meant to differ. Either "
                "make the same OpenCL calls in all processes, or start the program with mpirun "
                "instead of `cldist run`: each process then has the devices of its host, and the "
                "processes exchange data by MPI or by the commands of CL/cl_ext_dist.h. `cldist "
                "run --host-mode central` does not support programs that use MPI.";
            return message;
        case Start::without_answers:
            message +=
                " Each process has its own clocks, random numbers, process numbers, host names and "
                "temporary names, because `cldist run` has not started it or CLDIST_HOST_WRAP is "
                "off. With `cldist run -n N PROGRAM`, all processes get rank 0's.";
            break;
        case Start::with_answers: break;
    }
    message += " `cldist run --host-mode central` runs the program in one process only.";
    return message;
}

}  // namespace cldist::cluster
