#pragma once

#include <cassert>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace cldist::cluster {

/// Gives each byte of [0, size) a value. Neighbours with equal values are one piece, so that a buffer which is always
/// used whole is one piece, and using it allocates nothing; nor does what splits and merges pieces again and again,
/// which uses old ones. Ranges are [begin, end) in bytes, and within the size; an empty range changes nothing.
///
/// `Value` is copied where a piece is split, and compared (==) where pieces may merge. Not thread-safe.
template <typename Value>
class IntervalMap {
public:
    explicit IntervalMap(std::size_t size = 0, Value value = {}) : size_(size) {
        if (size > 0) recent_ = pieces_.emplace(0, std::move(value)).first;
    }

    IntervalMap(const IntervalMap &other) : size_(other.size_), pieces_(other.pieces_), recent_(pieces_.begin()) {}
    IntervalMap(IntervalMap &&) = default;
    IntervalMap &operator=(const IntervalMap &) = delete;
    IntervalMap &operator=(IntervalMap &&) = default;
    ~IntervalMap() = default;

    bool operator==(const IntervalMap &other) const { return size_ == other.size_ && pieces_ == other.pieces_; }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::size_t pieces() const { return pieces_.size(); }
    /// What it has allocated, without what values have of their own: a node has four words besides its piece.
    [[nodiscard]] std::size_t bytes() const {
        return (pieces_.size() + spare_.size()) * (sizeof(typename Pieces::value_type) + 4 * sizeof(void *)) +
               spare_.capacity() * sizeof(typename Pieces::node_type);
    }

    /// Calls `visit(begin, end, value)` for each piece that has bytes in the range, in order; cut to the range.
    template <typename Visit>
    void visit(std::size_t begin, std::size_t end, Visit &&visit) const {
        assert(end <= size_);
        if (begin >= end) return;
        for (auto at = piece_of(begin); at != pieces_.end() && at->first < end; ++at) {
            visit(at->first < begin ? begin : at->first, end_of(at) < end ? end_of(at) : end, at->second);
        }
    }

    /// Calls `change(begin, end, value)` for each piece of the range for which `wanted(value)` holds; it may change the
    /// value for these bytes.
    template <typename Wanted, typename Change>
    void change(std::size_t begin, std::size_t end, Wanted &&wanted, Change &&change) {
        assert(end <= size_);
        if (begin >= end) return;
        auto first = pieces_.end();
        auto last = pieces_.end();
        for (auto at = piece_of(begin); at != pieces_.end() && at->first < end; ++at) {
            if (!wanted(std::as_const(at->second))) continue;
            if (at->first < begin) at = split(at, begin);
            if (end_of(at) > end) split(at, end);
            change(at->first, end_of(at), at->second);
            if (first == pieces_.end()) first = at;
            last = at;
        }
        if (first != pieces_.end()) merge(first, std::next(last));
    }

    /// Makes the range one piece, whose value `set(value)` sets; it gets that of the range's first byte, to re-use what
    /// it holds. Does nothing if `is_set(value)` holds for each piece of the range.
    template <typename IsSet, typename Set>
    void overwrite(std::size_t begin, std::size_t end, IsSet &&is_set, Set &&set) {
        assert(end <= size_);
        if (begin >= end) return;
        auto first = piece_of(begin);
        auto at = first;
        while (at != pieces_.end() && at->first < end && is_set(std::as_const(at->second))) {
            ++at;
        }
        if (at == pieces_.end() || at->first >= end) return;
        if (first->first < begin) first = split(first, begin);
        auto last = std::next(first);
        if (end_of(first) > end) {
            last = split(first, end);
        }
        while (last != pieces_.end() && last->first < end) {
            if (end_of(last) > end) split(last, end);
            last = remove(last);
        }
        set(first->second);
        merge(first, last);
    }

private:
    using Pieces = std::map<std::size_t, Value>;  // by first byte

    [[nodiscard]] auto piece_of(std::size_t byte) const {
        return byte == 0 ? pieces_.begin() : std::prev(pieces_.upper_bound(byte));
    }
    /// The next range mostly begins in the piece that was last looked for, or a few behind it.
    [[nodiscard]] auto piece_of(std::size_t byte) {
        if (byte == 0) return pieces_.begin();
        for (int tries = 0; tries < 4 && recent_->first <= byte; ++tries, ++recent_) {
            if (byte < end_of(recent_)) return recent_;
        }
        return recent_ = std::prev(pieces_.upper_bound(byte));
    }

    template <typename Iterator>
    [[nodiscard]] std::size_t end_of(Iterator at) const {
        if (pieces_.size() == 1) return size_;
        const auto next = std::next(at);
        return next == pieces_.end() ? size_ : next->first;
    }

    /// Splits the piece `at` at a byte inside of it; returns the second part.
    typename Pieces::iterator split(typename Pieces::iterator at, std::size_t byte) {
        const auto next = std::next(at);
        if (spare_.empty()) return pieces_.emplace_hint(next, byte, at->second);
        auto node = std::move(spare_.back());
        spare_.pop_back();
        node.key() = byte;
        node.mapped() = at->second;
        return pieces_.insert(next, std::move(node));
    }

    /// Returns the next one.
    typename Pieces::iterator remove(typename Pieces::iterator at) {
        const auto next = std::next(at);
        if (recent_ == at) recent_ = next == pieces_.end() ? pieces_.begin() : next;
        auto node = pieces_.extract(at);
        if (spare_.size() < most_spare) spare_.push_back(std::move(node));
        return next;
    }

    /// Merges the pieces from `first` up to `last` with each other and with their neighbours.
    void merge(typename Pieces::iterator first, typename Pieces::iterator last) {
        if (pieces_.size() == 1) return;
        auto at = first == pieces_.begin() ? first : std::prev(first);
        if (last != pieces_.end()) ++last;
        for (auto next = std::next(at); next != last;) {
            if (next->second == at->second) {
                next = remove(next);
            } else {
                at = next++;
            }
        }
    }

    static constexpr std::size_t most_spare = 4096;

    std::size_t size_;
    Pieces pieces_;
    typename Pieces::iterator recent_;  // the piece last looked for; none where there are no bytes
    std::vector<typename Pieces::node_type> spare_;
};

}  // namespace cldist::cluster
