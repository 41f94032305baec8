#include "cluster/schedule/residency.hpp"

#include <bit>

namespace cldist::cluster {

namespace {

constexpr std::uint32_t word_bits = 64;

/// Returns which of `count` holders sends the bytes to the next one: its parent in a binomial tree
/// of all holders.
std::size_t parent_of_next(std::size_t count) { return count - std::bit_floor(count); }

void set_bit(std::vector<std::uint64_t> &bits, std::uint32_t at) {
    bits[at / word_bits] |= std::uint64_t{1} << (at % word_bits);
}

MemoryId nearest(const Topology &topology, const Holders &holders, MemoryId reader) {
    const Topology::Places all{0, topology.memories()};
    if (holders.count() == 1) return topology.memory_at(holders.nth_in(all, 0));
    for (const Topology::Places near :
         {topology.same_process(reader), topology.same_host(reader)}) {
        if (const std::size_t count = holders.count_in(near); count > 0) {
            return topology.memory_at(holders.nth_in(near, parent_of_next(count)));
        }
    }
    return topology.memory_at(holders.nth_in(all, parent_of_next(holders.count())));
}

}  // namespace

// ---- Holders ----

Holders::Holders(std::uint32_t places)
    : count_(places),
      run_count_(places > 0 ? 1 : 0),
      sum_(std::uint64_t{places} * (places - 1) / 2) {
    if (places > 0) runs_[0] = {0, places - 1};
}

std::size_t Holders::Run::count_in(Topology::Places within) const {
    const Topology::Places all = places();
    const std::uint32_t begin = std::max(all.begin, within.begin);
    const std::uint32_t end = std::min(all.end, within.end);
    return begin < end ? end - begin : 0;
}

std::uint32_t Holders::Run::nth_in(Topology::Places within, std::size_t n) const {
    const auto steps = static_cast<std::uint32_t>(n);
    return first <= last ? std::max(first, within.begin) + steps
                         : std::min(first, within.end - 1) - steps;
}

bool Holders::Run::extend(std::uint32_t place) {
    const bool follows =
        (place == last + 1 && first <= last) || (place + 1 == last && first >= last);
    if (follows) last = place;
    return follows;
}

bool Holders::contains(std::uint32_t place) const {
    if (count_ == 1) return is_only(place);
    if (bits_ != nullptr) return ((*bits_)[place / word_bits] >> (place % word_bits) & 1) != 0;
    return std::ranges::any_of(runs(), [place](const Run &run) {
        return run.count_in({place, place + 1}) != 0;
    });
}

void Holders::set_only(std::uint32_t place, std::uint64_t behind) {
    behind_ = behind;
    count_ = 1;
    run_count_ = 1;
    sum_ = place;
    runs_[0] = {place, place};
    bits_.reset();
}

void Holders::add(std::uint32_t place, std::uint32_t places) {
    ++count_;
    sum_ += place;
    if (bits_ == nullptr) {
        if (run_count_ > 0 && runs_[run_count_ - 1].extend(place)) return;
        if (run_count_ < most_runs) {
            runs_[run_count_++] = {place, place};
            return;
        }
        bits_ = std::make_shared<Bits>((places + word_bits - 1) / word_bits);
        for (const Run &run : runs()) {
            for (std::uint32_t at = run.places().begin; at < run.places().end; ++at)
                set_bit(*bits_, at);
        }
        run_count_ = 0;
        runs_ = {};
    } else if (bits_.use_count() > 1) {
        bits_ = std::make_shared<Bits>(*bits_);
    }
    set_bit(*bits_, place);
}

/// Calls `use(first place, bits)` for each word that overlaps `places`, with the other places' bits
/// cleared, until `use` returns true.
template <typename Use>
void Holders::for_each_word(Topology::Places places, Use &&use) const {
    for (std::uint32_t word = places.begin / word_bits; word * word_bits < places.end; ++word) {
        const std::uint32_t first = word * word_bits;
        std::uint64_t bits = (*bits_)[word];
        if (first < places.begin) bits &= ~std::uint64_t{0} << (places.begin - first);
        if (first + word_bits > places.end)
            bits &= ~std::uint64_t{0} >> (first + word_bits - places.end);
        if (use(first, bits)) return;
    }
}

std::size_t Holders::count_in(Topology::Places places) const {
    std::size_t count = 0;
    for (const Run &run : runs()) count += run.count_in(places);
    if (bits_ != nullptr) {
        for_each_word(places, [&](std::uint32_t, std::uint64_t bits) {
            count += static_cast<std::size_t>(std::popcount(bits));
            return false;
        });
    }
    return count;
}

std::uint32_t Holders::nth_in(Topology::Places places, std::size_t n) const {
    for (const Run &run : runs()) {
        const std::size_t here = run.count_in(places);
        if (n < here) return run.nth_in(places, n);
        n -= here;
    }
    std::uint32_t found = 0;
    for_each_word(places, [&](std::uint32_t first, std::uint64_t bits) {
        const auto here = static_cast<std::size_t>(std::popcount(bits));
        if (n >= here) {
            n -= here;
            return false;
        }
        for (; n > 0; --n) bits &= bits - 1;
        found = first + static_cast<std::uint32_t>(std::countr_zero(bits));
        return true;
    });
    return found;
}

bool Holders::operator==(const Holders &other) const {
    if (count_ != other.count_ || sum_ != other.sum_ || behind_ != other.behind_) return false;
    if (bits_ != nullptr && other.bits_ != nullptr)
        return bits_ == other.bits_ || *bits_ == *other.bits_;
    if (bits_ != nullptr) return other == *this;
    return std::ranges::all_of(runs(), [&](const Run &run) {
        return other.count_in(run.places()) == run.places().end - run.places().begin;
    });
}

// ---- Residency ----

Residency::Residency(const Topology &topology, std::size_t size, Contents contents)
    : holders_(size, contents == Contents::everywhere ? Holders(topology.memories()) : Holders()) {}

void Residency::read(const Topology &topology, MemoryId reader, std::size_t begin, std::size_t end,
                     std::vector<Copy> &copies) {
    const std::uint32_t place = topology.place_of(reader);
    const auto lacks = [place](const Holders &holders) {
        return holders.count() > 0 && !holders.contains(place);
    };
    const std::size_t first = copies.size();
    holders_.change(
        begin, end, lacks, [&](std::size_t piece_begin, std::size_t piece_end, Holders &holders) {
            const MemoryId source = nearest(topology, holders, reader);
            holders.add(place, topology.memories());
            if (copies.size() > first && copies.back().source == source &&
                copies.back().end == piece_begin && copies.back().behind == holders.behind()) {
                copies.back().end = piece_end;
            } else {
                copies.push_back({piece_begin, piece_end, source, holders.behind()});
            }
        });
}

void Residency::write(const Topology &topology, MemoryId writer, std::size_t begin, std::size_t end,
                      std::uint64_t behind) {
    const std::uint32_t place = topology.place_of(writer);
    holders_.overwrite(
        begin, end,
        [place, behind](const Holders &holders) {
            return holders.is_only(place) && holders.behind() == behind;
        },
        [place, behind](Holders &holders) { holders.set_only(place, behind); });
}

bool Residency::has(const Topology &topology, MemoryId reader, std::size_t begin,
                    std::size_t end) const {
    const std::uint32_t place = topology.place_of(reader);
    bool has = true;
    holders_.visit(begin, end, [&](std::size_t, std::size_t, const Holders &holders) {
        has = has && (holders.count() == 0 || holders.contains(place));
    });
    return has;
}

bool Residency::is_only(const Topology &topology, MemoryId writer, std::size_t begin,
                        std::size_t end, std::uint64_t behind) const {
    const std::uint32_t place = topology.place_of(writer);
    bool is_only = true;
    holders_.visit(begin, end, [&](std::size_t, std::size_t, const Holders &holders) {
        is_only = is_only && holders.is_only(place) && holders.behind() == behind;
    });
    return is_only;
}

void Residency::write_everywhere(const Topology &topology, std::size_t begin, std::size_t end) {
    const Holders all(topology.memories());
    holders_.overwrite(
        begin, end, [&](const Holders &holders) { return holders == all; },
        [&](Holders &holders) { holders = all; });
}

void Residency::copy(const Residency &from, std::size_t from_begin, std::size_t from_end,
                     std::size_t begin) {
    std::vector<std::pair<std::size_t, Holders>> pieces;
    from.holders_.visit(from_begin, from_end,
                        [&](std::size_t, std::size_t piece_end, const Holders &of) {
                            pieces.emplace_back(piece_end - from_begin + begin, of);
                        });
    for (const auto &[end, of] : pieces) {
        holders_.overwrite(
            begin, end, [&](const Holders &holders) { return holders == of; },
            [&](Holders &holders) { holders = of; });
        begin = end;
    }
}

std::size_t Residency::bytes() const {
    std::size_t bytes = holders_.bytes();
    holders_.visit(0, holders_.size(),
                   [&](std::size_t, std::size_t, const Holders &of) { bytes += of.bytes(); });
    return bytes;
}

}  // namespace cldist::cluster
