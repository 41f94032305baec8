#include "cluster/residency.hpp"

#include <algorithm>
#include <bit>

namespace cldist::cluster {

namespace {

constexpr std::uint32_t word_bits = 64;

/// Who of `count` holders gives the bytes to the next one: its parent in a binomial tree of all that came so far.
std::size_t parent_of_next(std::size_t count) { return count - std::bit_floor(count); }

Holders all_places(std::uint32_t places) {
    Holders all;
    for (std::uint32_t place = 0; place < places; ++place) {
        all.add(place, places);
    }
    return all;
}

Device nearest(const Topology &topology, const Holders &holders, Device reader) {
    for (const Topology::Places near : {topology.same_process(reader), topology.same_host(reader)}) {
        if (const auto place = holders.pick_in(near)) return topology.device_at(*place);
    }
    return topology.device_at(holders.pick());
}

}  // namespace

// ---- Holders -------------------------------------------------------------------------------------------------------

bool Holders::contains(std::uint32_t place) const {
    if (count_ > few) return (bits_[place / word_bits] >> (place % word_bits) & 1) != 0;
    const auto end = first_.begin() + static_cast<std::ptrdiff_t>(count_);
    return std::find(first_.begin(), end, place) != end;
}

void Holders::add(std::uint32_t place, std::uint32_t places) {
    const auto set = [this](std::uint32_t at) { bits_[at / word_bits] |= std::uint64_t{1} << (at % word_bits); };
    if (count_ < few) {
        first_[count_++] = place;
        return;
    }
    if (count_ == few) {
        bits_.assign((places + word_bits - 1) / word_bits, 0);
        std::for_each(first_.begin(), first_.end(), set);
    }
    later_.push_back(place);
    set(place);
    ++count_;
}

/// Calls `use(first place, bits)` for each word, without the bits outside, until it returns true.
template <typename Use>
void Holders::for_each_word(Topology::Places places, Use &&use) const {
    for (std::uint32_t word = places.begin / word_bits; word * word_bits < places.end; ++word) {
        const std::uint32_t first = word * word_bits;
        std::uint64_t bits = bits_[word];
        if (first < places.begin) bits &= ~std::uint64_t{0} << (places.begin - first);
        if (first + word_bits > places.end) bits &= ~std::uint64_t{0} >> (first + word_bits - places.end);
        if (use(first, bits)) return;
    }
}

std::optional<std::uint32_t> Holders::pick_in(Topology::Places places) const {
    std::size_t count = 0;
    if (count_ <= few) {
        std::array<std::uint32_t, few> inside;
        for (std::size_t i = 0; i < count_; ++i) {
            if (first_[i] >= places.begin && first_[i] < places.end) inside[count++] = first_[i];
        }
        if (count == 0) return std::nullopt;
        return inside[parent_of_next(count)];
    }
    for_each_word(places, [&](std::uint32_t, std::uint64_t bits) {
        count += static_cast<std::size_t>(std::popcount(bits));
        return false;
    });
    if (count == 0) return std::nullopt;
    std::size_t before = parent_of_next(count);
    std::uint32_t found = 0;
    for_each_word(places, [&](std::uint32_t first, std::uint64_t bits) {
        const auto here = static_cast<std::size_t>(std::popcount(bits));
        if (before >= here) {
            before -= here;
            return false;
        }
        for (; before > 0; --before) {
            bits &= bits - 1;
        }
        found = first + static_cast<std::uint32_t>(std::countr_zero(bits));
        return true;
    });
    return found;
}

std::uint32_t Holders::pick() const { return by_age(parent_of_next(count_)); }

bool Holders::operator==(const Holders &other) const {
    if (count_ != other.count_) return false;
    if (count_ > few) return bits_ == other.bits_;
    return std::is_permutation(first_.begin(), first_.begin() + static_cast<std::ptrdiff_t>(count_),
                               other.first_.begin());
}

// ---- Residency -----------------------------------------------------------------------------------------------------

Residency::Residency(const Topology &topology, std::size_t size, Contents contents)
    : holders_(size, contents == Contents::everywhere ? all_places(topology.devices()) : Holders()) {}

void Residency::read(const Topology &topology, Device reader, std::size_t begin, std::size_t end,
                     std::vector<Copy> &copies) {
    const std::uint32_t place = topology.place_of(reader);
    const auto lacks = [place](const Holders &holders) { return holders.count() > 0 && !holders.contains(place); };
    const std::size_t first = copies.size();
    holders_.change(begin, end, lacks, [&](std::size_t piece_begin, std::size_t piece_end, Holders &holders) {
        const Device source = nearest(topology, holders, reader);
        holders.add(place, topology.devices());
        if (copies.size() > first && copies.back().source == source && copies.back().end == piece_begin) {
            copies.back().end = piece_end;
        } else {
            copies.push_back({piece_begin, piece_end, source});
        }
    });
}

void Residency::write(const Topology &topology, Device writer, std::size_t begin, std::size_t end) {
    const std::uint32_t place = topology.place_of(writer);
    holders_.overwrite(
        begin, end, [place](const Holders &holders) { return holders.is_only(place); },
        [place](Holders &holders) { holders.set_only(place); });
}

}  // namespace cldist::cluster
