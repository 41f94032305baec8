#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cluster/schedule/interval_map.hpp"
#include "cluster/schedule/topology.hpp"

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
    MemoryId source;
    std::uint64_t behind = 0;  ///< Holders::behind() of the bytes

    bool operator==(const Copy &) const = default;
};

/// The devices that have the newest bytes of a range. They are stored by place (see Topology), as
/// runs of neighbours in the order in which they got the bytes. So "all devices", or devices that
/// read one after the other, need no allocation. If there are too many runs, there is a bit for
/// each place instead, without an order. Copies share the bits until one of them changes.
class Holders {
public:
    Holders() = default;
    /// All of `places`.
    explicit Holders(std::uint32_t places);

    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] bool contains(std::uint32_t place) const;
    [[nodiscard]] bool is_only(std::uint32_t place) const {
        return count_ == 1 && runs_[0].first == place;
    }

    void set_only(std::uint32_t place, std::uint64_t behind = 0);
    /// `place` is none of them yet, and below `places`.
    void add(std::uint32_t place, std::uint32_t places);

    [[nodiscard]] std::size_t count_in(Topology::Places places) const;
    /// The nth of those among `places`, from 0, which are more: in the order in which they came
    /// while that is known, else in that of places.
    [[nodiscard]] std::uint32_t nth_in(Topology::Places places, std::size_t n) const;

    /// Names the user events that whoever wrote these bytes waited for, as ScheduledCommand::behind
    /// does. Bytes that differ in it don't travel together.
    [[nodiscard]] std::uint64_t behind() const { return behind_; }

    /// What it has allocated; a part of it, where others share that.
    [[nodiscard]] std::size_t bytes() const {
        return bits_ != nullptr ? bits_->capacity() * sizeof(std::uint64_t) /
                                      static_cast<std::size_t>(bits_.use_count())
                                : 0;
    }

    /// In whatever order they came.
    bool operator==(const Holders &other) const;

private:
    /// Places that came one after the other, each the next one, or each the one before.
    struct Run {
        std::uint32_t first = 0;
        std::uint32_t last = 0;

        [[nodiscard]] Topology::Places places() const {
            return {std::min(first, last), std::max(first, last) + 1};
        }
        [[nodiscard]] std::size_t count_in(Topology::Places within) const;
        /// The nth of those within, by age.
        [[nodiscard]] std::uint32_t nth_in(Topology::Places within, std::size_t n) const;
        bool extend(std::uint32_t place);
    };
    using Bits = std::vector<std::uint64_t>;  // by place

    template <typename Use>
    void for_each_word(Topology::Places places, Use &&use) const;
    [[nodiscard]] std::span<const Run> runs() const { return {runs_.data(), run_count_}; }

    static constexpr std::size_t most_runs = 4;

    std::uint32_t count_ = 0;
    std::uint32_t run_count_ = 0;  // none where there are bits
    std::uint64_t behind_ = 0;
    std::uint64_t sum_ = 0;              // of places: it distinguishes most sets
    std::array<Run, most_runs> runs_{};  // by age
    std::shared_ptr<Bits> bits_;
};

/// Which devices have the newest bytes of a buffer, for each byte. All processes do the same calls
/// in the same order, and so agree. Sub-buffers are ranges of the buffer they are part of. Not
/// thread-safe.
///
/// Ranges are [begin, end) in bytes, and within the buffer.
class Residency {
public:
    Residency(const Topology &topology, std::size_t size, Contents contents);

    /// A command on `reader` reads the range: appends to `copies` what that device must get before,
    /// in the order of the bytes. It then is a holder. Bytes never written need no copy and stay
    /// undefined.
    ///
    /// The source is a device of the same process, else of the same host, else any. Among several
    /// candidates, the choice depends on their number, so that many readers ask different holders.
    void read(const Topology &topology, MemoryId reader, std::size_t begin, std::size_t end,
              std::vector<Copy> &copies);

    /// A command on `writer` writes every byte of the range, or has read it before: it is the only
    /// holder. `behind` is that of Holders.
    void write(const Topology &topology, MemoryId writer, std::size_t begin, std::size_t end,
               std::uint64_t behind = 0);

    /// Whether that would change nothing.
    [[nodiscard]] bool has(const Topology &topology, MemoryId reader, std::size_t begin,
                           std::size_t end) const;
    [[nodiscard]] bool is_only(const Topology &topology, MemoryId writer, std::size_t begin,
                               std::size_t end, std::uint64_t behind = 0) const;

    /// All devices write the same bytes.
    void write_everywhere(const Topology &topology, std::size_t begin, std::size_t end);

    /// Each device that has bytes [from_begin, from_end) of `from`, which may be this one, copies
    /// what it has to `begin` on. The ranges don't overlap.
    void copy(const Residency &from, std::size_t from_begin, std::size_t from_end,
              std::size_t begin);

    bool operator==(const Residency &) const = default;

    [[nodiscard]] const IntervalMap<Holders> &holders() const { return holders_; }
    /// What it has allocated.
    [[nodiscard]] std::size_t bytes() const;

private:
    IntervalMap<Holders> holders_;
};

}  // namespace cldist::cluster
