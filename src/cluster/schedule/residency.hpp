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
    undefined,   ///< nothing was written, so reads need no copy
    everywhere,  ///< all processes initialised all their memories with the same bytes
};

/// Bytes [begin, end) of a buffer that `source` has and another device needs.
struct Copy {
    std::size_t begin;
    std::size_t end;
    MemoryId source;
    std::uint64_t behind = 0;  ///< Holders::behind() of the bytes

    bool operator==(const Copy &) const = default;
};

/// The devices that have the newest bytes of a range. They are stored by place (see Topology), as
/// runs of neighbours in the order in which they got the bytes. "All devices", or devices that read
/// one after another, therefore need no allocation. More than `most_runs` runs are replaced by one
/// bit for each place, and the order is lost. Copies share the bits until one of them changes.
class Holders {
public:
    Holders() = default;
    /// All devices, places [0, places).
    explicit Holders(std::uint32_t places);

    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] bool contains(std::uint32_t place) const;
    [[nodiscard]] bool is_only(std::uint32_t place) const {
        return count_ == 1 && runs_[0].first == place;
    }

    void set_only(std::uint32_t place, std::uint64_t behind = 0);
    /// Adds a holder. `place` must be less than `places`, the number of all places, and not a
    /// holder yet.
    void add(std::uint32_t place, std::uint32_t places);

    [[nodiscard]] std::size_t count_in(Topology::Places places) const;
    /// The nth holder, from 0, among `places`, which must contain more than n holders. They are in
    /// the order in which they got the bytes if it is known, otherwise in the order of places.
    [[nodiscard]] std::uint32_t nth_in(Topology::Places places, std::size_t n) const;

    /// Identifies the user events that the writer of these bytes waited for
    /// (ScheduledCommand::behind). Bytes that differ in it are sent separately.
    [[nodiscard]] std::uint64_t behind() const { return behind_; }

    /// The allocated bytes. Bits that n objects share count as 1/n.
    [[nodiscard]] std::size_t bytes() const {
        return bits_ != nullptr ? bits_->capacity() * sizeof(std::uint64_t) /
                                      static_cast<std::size_t>(bits_.use_count())
                                : 0;
    }

    /// Ignores the order in which the holders were added.
    bool operator==(const Holders &other) const;

private:
    /// Adjacent places that were added in ascending order (first <= last) or in descending order.
    struct Run {
        std::uint32_t first = 0;
        std::uint32_t last = 0;

        [[nodiscard]] Topology::Places places() const {
            return {std::min(first, last), std::max(first, last) + 1};
        }
        [[nodiscard]] std::size_t count_in(Topology::Places within) const;
        /// The nth place of the run within `within`, oldest first.
        [[nodiscard]] std::uint32_t nth_in(Topology::Places within, std::size_t n) const;
        bool extend(std::uint32_t place);
    };
    using Bits = std::vector<std::uint64_t>;  // a bit for each place

    template <typename Use>
    void for_each_word(Topology::Places places, Use &&use) const;
    [[nodiscard]] std::span<const Run> runs() const { return {runs_.data(), run_count_}; }

    static constexpr std::size_t most_runs = 4;

    std::uint32_t count_ = 0;
    std::uint32_t run_count_ = 0;  // 0 if there are bits
    std::uint64_t behind_ = 0;
    std::uint64_t sum_ = 0;              // of all places; distinguishes most sets
    std::array<Run, most_runs> runs_{};  // oldest first
    std::shared_ptr<Bits> bits_;
};

/// Records which devices have the newest value of each byte of a buffer. All processes make the
/// same calls in the same order and therefore agree. Sub-buffers are ranges of their parent buffer.
/// Not thread-safe.
///
/// Ranges are [begin, end) in bytes and must be within the buffer.
class Residency {
public:
    Residency(const Topology &topology, std::size_t size, Contents contents);

    /// Records that a command on `reader` reads the range. Appends to `copies`, in order, the bytes
    /// that this device must get first, and makes it a holder of them. Bytes that were never
    /// written need no copy and stay undefined.
    ///
    /// The source is a device of the same process, otherwise of the same host, otherwise any
    /// holder. Among several candidates, the choice depends on their number, so that many readers
    /// use different sources.
    void read(const Topology &topology, MemoryId reader, std::size_t begin, std::size_t end,
              std::vector<Copy> &copies);

    /// Makes `writer` the only holder, because a command on it writes the range. If the command may
    /// leave bytes unchanged, read() must come first. `behind` is as in Holders.
    void write(const Topology &topology, MemoryId writer, std::size_t begin, std::size_t end,
               std::uint64_t behind = 0);

    /// Whether read(), or write() for is_only(), would change nothing.
    [[nodiscard]] bool has(const Topology &topology, MemoryId reader, std::size_t begin,
                           std::size_t end) const;
    [[nodiscard]] bool is_only(const Topology &topology, MemoryId writer, std::size_t begin,
                               std::size_t end, std::uint64_t behind = 0) const;

    /// Records that all devices write the same bytes.
    void write_everywhere(const Topology &topology, std::size_t begin, std::size_t end);

    /// Records that each device copies the bytes that it holds of [from_begin, from_end) of `from`
    /// to this buffer, at `begin`. `from` may be this object, but the ranges must not overlap.
    void copy(const Residency &from, std::size_t from_begin, std::size_t from_end,
              std::size_t begin);

    bool operator==(const Residency &) const = default;

    [[nodiscard]] const IntervalMap<Holders> &holders() const { return holders_; }
    /// The allocated bytes.
    [[nodiscard]] std::size_t bytes() const;

private:
    IntervalMap<Holders> holders_;
};

}  // namespace cldist::cluster
