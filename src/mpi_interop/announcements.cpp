#include "mpi_interop/announcements.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mpi_interop/collective_check.hpp"
#include "mpi_interop/collective_operations.hpp"

namespace cldist {
namespace {

constexpr std::uint32_t announced(std::uint64_t number, bool on_devices) {
    return static_cast<std::uint32_t>(number * 2 + (on_devices ? 1 : 0));
}

// Returns whether kernels may carry out the command, or nothing if `call` announces another one.
std::optional<bool> answer_of(std::uint64_t call, std::uint64_t number) {
    for (const bool answer : {false, true})
        if (static_cast<std::uint32_t>(call) == announced(number, answer)) return answer;
    return std::nullopt;
}

}  // namespace

void Announcements::begin(std::uint64_t first) {
    first_ = first;
    CollectiveBoard &board = *boards_[rank_];
    for (auto &call : board.calls) call.store(0, std::memory_order_relaxed);
    board.first.store(first, std::memory_order_release);
}

std::uint64_t Announcements::call_of(std::size_t rank, std::uint64_t number) const {
    return boards_[rank]->calls[number % CollectiveBoard::window].load(std::memory_order_acquire);
}

std::string Announcements::difference(std::size_t rank, std::uint64_t number) const {
    const std::size_t place = number % CollectiveBoard::window;
    return difference_of(rank_, boards_[rank_]->parts[place][rank], rank,
                         boards_[rank]->parts[place][rank_]);
}

bool Announcements::announce(std::uint64_t number, std::uint64_t oldest, bool on_devices,
                             const Collective &what, const std::vector<PartSizes> &parts) {
    if (first_ == 0 || number < first_) return true;
    // All processes have read the announcement that this one replaces if its command has ended.
    if (number - oldest >= CollectiveBoard::window) return false;
    const std::uint64_t hash = hash_of(what);
    const std::size_t place = number % CollectiveBoard::window;
    std::copy(parts.begin(), parts.end(), boards_[rank_]->parts[place].begin());
    boards_[rank_]->calls[place].store(hash << 32U | announced(number, on_devices),
                                       std::memory_order_release);
    return true;
}

std::optional<bool> Announcements::decision(std::uint64_t number, const Collective &what) const {
    bool all = true, refused = false;
    const std::uint64_t own = call_of(rank_, number);
    if (!answer_of(own, number)) return std::nullopt;
    for (std::size_t rank = 0; rank < boards_.size(); ++rank) {
        const std::uint64_t first = boards_[rank]->first.load(std::memory_order_acquire);
        if (first == 0) {
            all = false;
            continue;
        }
        if (number < first) return false;
        const std::uint64_t call = call_of(rank, number);
        const std::optional<bool> answer = answer_of(call, number);
        if (answer && call >> 32U != own >> 32U)
            throw Error(CL_COLLECTIVE_MISMATCH,
                        fmt::format("collective command {} differs between the processes: this "
                                    "process called {}, rank {} called something else",
                                    number, text_of(summary_of(what)), rank));
        if (answer && traits_of(what.kind).has_sizes)
            if (const std::string text = difference(rank, number); !text.empty())
                throw Error(
                    CL_COLLECTIVE_MISMATCH,
                    fmt::format("collective command {} differs between the processes: {}, {}",
                                number, text_of(summary_of(what)), text));
        all = all && answer == true;
        refused = refused || answer == false;
    }
    if (refused) return false;
    return all ? std::optional(true) : std::nullopt;
}

}  // namespace cldist
