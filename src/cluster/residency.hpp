#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cluster/interval_map.hpp"
#include "cluster/topology.hpp"

namespace cldist::cluster {

/// What a buffer contains before its first write.
enum class Contents {
    undefined,   ///< no device's bytes are any better than another's
    everywhere,  ///< all processes wrote the same bytes for all their devices when they made it
};

/// Bytes [begin, end) of a buffer that one device has and another needs.
struct Copy {
    std::size_t begin;
    std::size_t end;
    Device source;

    bool operator==(const Copy &) const = default;
};

/// The devices that have the newest bytes of a range. Kept by place (see Topology).
class Holders {
public:
    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] bool contains(std::uint32_t place) const;
    [[nodiscard]] bool is_only(std::uint32_t place) const { return count_ == 1 && first_[0] == place; }
    /// In the order in which they came.
    [[nodiscard]] std::uint32_t by_age(std::size_t index) const {
        return index < few ? first_[index] : later_[index - few];
    }

    void set_only(std::uint32_t place) {
        first_[0] = place;
        count_ = 1;
        later_.clear();  // or they would be copied
        bits_.clear();
    }
    /// `place` is none of them yet, and below `places`.
    void add(std::uint32_t place, std::uint32_t places);

    /// One of those among `places`, if there is any. It is the nth, and n depends on how many there are such that
    /// readers who come one after the other form a binomial tree.
    [[nodiscard]] std::optional<std::uint32_t> pick_in(Topology::Places places) const;
    /// The same among all. At least one.
    [[nodiscard]] std::uint32_t pick() const;

    /// In whatever order they came.
    bool operator==(const Holders &other) const;

private:
    template <typename Use>
    void for_each_word(Topology::Places places, Use &&use) const;

    static constexpr std::size_t few = 4;  // are kept without more memory, and looked at one by one

    std::size_t count_ = 0;
    std::array<std::uint32_t, few> first_{};
    std::vector<std::uint32_t> later_;  // empty where there are no more than a few, as are
    std::vector<std::uint64_t> bits_;   // of all of them, by place
};

/// Which devices have the newest bytes of a buffer, for each byte. All processes do the same calls in the same order,
/// and so agree. Sub-buffers are ranges of the buffer they are part of. Not thread-safe.
///
/// Ranges are [begin, end) in bytes, and within the buffer.
class Residency {
public:
    Residency(const Topology &topology, std::size_t size, Contents contents);

    /// A command on `reader` reads the range: appends to `copies` what that device must get before, in the order of the
    /// bytes. It then is a holder. Bytes never written need no copy and stay undefined.
    ///
    /// The source is a device of the same process, else of the same host, else any. Of several it is one that depends
    /// on their number, so that many readers in turn ask different holders.
    void read(const Topology &topology, Device reader, std::size_t begin, std::size_t end, std::vector<Copy> &copies);

    /// A command on `writer` writes every byte of the range, or has read it before: it is the only holder.
    void write(const Topology &topology, Device writer, std::size_t begin, std::size_t end);

    [[nodiscard]] const IntervalMap<Holders> &holders() const { return holders_; }

private:
    IntervalMap<Holders> holders_;
};

}  // namespace cldist::cluster
