#include "mpi_interop/collective_check.hpp"

#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "mpi_interop/collective_operations.hpp"

namespace cldist {
namespace {

template <std::size_t Size>
void put(std::array<char, Size> &to, std::string_view text) {
    text.copy(to.data(), Size - 1);
}

void mix(std::uint64_t &hash, std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3U + 1; }

auto compared(const CallSummary &call) {
    return std::tie(call.kind, call.root, call.bytes, call.counts, call.element, call.type,
                    call.op);
}

}  // namespace

CallSummary summary_of(const Collective &what) {
    CallSummary call{};
    call.kind = static_cast<int>(what.kind);
    call.root = what.root;
    if (!traits_of(what.kind).has_sizes) call.bytes = what.bytes;
    call.element = what.element;
    if (what.op == MPI_OP_NULL) return call;
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    PMPI_Type_get_name(what.type, name, &length);
    put(call.type, name);
    if (const Operator *const op = find_operator(what.op)) put(call.op, op->name);
    for (const std::size_t count : what.counts) mix(call.counts, count);
    return call;
}

std::uint32_t hash_of(const Collective &what) {
    std::uint64_t hash = 0;
    mix(hash, static_cast<std::uint64_t>(what.kind));
    mix(hash, static_cast<std::uint64_t>(what.root));
    if (!traits_of(what.kind).has_sizes) mix(hash, what.bytes);
    for (const std::size_t count : what.counts) mix(hash, count);
    const CollectiveKernels::Combination combination =
        combination_of(what).value_or(CollectiveKernels::Combination{});
    for (const std::string_view text : {combination.type, combination.op})
        for (const char letter : text) mix(hash, static_cast<unsigned char>(letter));
    return static_cast<std::uint32_t>(hash ^ hash >> 32U);
}

std::string text_of(const CallSummary &call) {
    const auto kind = static_cast<CollectiveKind>(call.kind);
    std::string text = traits_of(kind).name;
    if (call.op[0] != 0)
        text += fmt::format(" of {} {} with {}", call.bytes / call.element, call.type.data(),
                            call.op.data());
    else if (kind != CollectiveKind::barrier && !traits_of(kind).has_sizes)
        text += fmt::format(" of {} bytes{}", call.bytes,
                            kind == CollectiveKind::bcast ? "" : " for each process");
    if (traits_of(kind).has_root) text += fmt::format(", root {}", call.root);
    return text;
}

std::string difference_of(std::size_t rank, const PartSizes &sizes, std::size_t other,
                          const PartSizes &sizes_of_other) {
    const auto text = [](std::size_t from, std::uint64_t given, std::size_t to,
                         std::uint64_t expected) {
        return fmt::format("rank {} sends rank {} {} bytes, but rank {} expects {}", from, to,
                           given, to, expected);
    };
    if (sizes.given != sizes_of_other.expected)
        return text(rank, sizes.given, other, sizes_of_other.expected);
    if (sizes.expected != sizes_of_other.given)
        return text(other, sizes_of_other.given, rank, sizes.expected);
    return {};
}

CollectiveCheck::CollectiveCheck(const Collective &what, const std::vector<PartSizes> &parts,
                                 std::uint64_t number, const CollectiveTransport &transport)
    : number_(number),
      transport_(transport),
      mine_(static_cast<std::size_t>(transport_.line->size()), summary_of(what)),
      theirs_(mine_.size()) {
    for (std::size_t i = 0; i < parts.size(); ++i) mine_[i].parts = parts[i];
}

Outcome CollectiveCheck::poll() {
    const Member me{transport_.line->rank(), transport_.line->size()};
    if (step_ == Step::start) {
        const auto place = [](int rank) {
            return Span{static_cast<std::size_t>(rank) * sizeof(CallSummary), sizeof(CallSummary)};
        };
        const CollectiveExchange::Memory memory{reinterpret_cast<std::byte *>(mine_.data()),
                                                reinterpret_cast<std::byte *>(theirs_.data()),
                                                nullptr};
        if (!exchange_.begin(exchange_rounds(me, place, place), memory, {}, transport_)) return {};
        step_ = Step::compare;
    }
    if (!exchange_.poll()) return {};
    if (step_ == Step::compare) {
        difference_ = exchange_.status().ok() ? difference() : exchange_.status().message;
        differs_ = difference_.empty() ? 0 : 1;
        step_ = Step::compared;
    }
    if (step_ == Step::compared) {
        CollectiveExchange::Memory memory;
        memory.out = reinterpret_cast<std::byte *>(&differs_);
        memory.scratch = reinterpret_cast<std::byte *>(others_differ_.data());
        if (!exchange_.begin(agreement_rounds(me), memory, {MPI_INT, MPI_MAX, sizeof(int)},
                             transport_))
            return {};
        step_ = Step::agree;
        if (!exchange_.poll()) return {};
    }
    if (!exchange_.status().ok()) return exchange_.status();
    if (differs_ == 0) return Status{};
    if (difference_.empty())
        difference_ = "two other processes send and expect parts of different sizes";
    return Status::failure(
        CL_COLLECTIVE_MISMATCH,
        fmt::format("collective command {} on {} differs between the processes: {}", number_,
                    transport_.line->name(), difference_));
}

std::string CollectiveCheck::difference() const {
    for (std::size_t i = 1; i < theirs_.size(); ++i)
        if (compared(theirs_[i]) != compared(theirs_[0]))
            return fmt::format(
                "rank 0 called {}, rank {} called {}{}", text_of(theirs_[0]), i,
                text_of(theirs_[i]),
                text_of(theirs_[0]) == text_of(theirs_[i]) ? " with other counts" : "");
    const auto me = static_cast<std::size_t>(transport_.line->rank());
    std::string text;
    for (std::size_t i = 0; i < theirs_.size() && text.empty(); ++i)
        text = difference_of(me, mine_[i].parts, i, theirs_[i].parts);
    return text;
}

}  // namespace cldist
