#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace cldist::cluster {

/// Maps each byte of [0, size) to a value. Adjacent bytes with equal values form one piece. A
/// buffer that is always used whole is therefore one piece, and using it allocates nothing. The
/// values of removed pieces are reused, so repeated splitting and merging does not allocate. Ranges
/// are [begin, end) in bytes and must be within the size. An empty range changes nothing.
///
/// Copies share chunks of up to `most` pieces until one of them changes a chunk. A copy costs one
/// pointer per chunk.
///
/// `Value` is copied when a piece is split, and compared (==) when pieces may merge. Not
/// thread-safe; two maps that share chunks are not, either.
template <typename Value>
class IntervalMap {
public:
    explicit IntervalMap(std::size_t size = 0, Value value = {}) : size_(size) {
        if (size == 0) return;
        chunks_.push_back({0, std::make_shared<Pieces>()});
        chunks_.front().pieces->push_back({0, std::move(value)});
        count_ = 1;
    }

    IntervalMap(const IntervalMap &other)
        : size_(other.size_), count_(other.count_), chunks_(other.chunks_) {}
    IntervalMap(IntervalMap &&) = default;
    IntervalMap &operator=(const IntervalMap &) = delete;
    IntervalMap &operator=(IntervalMap &&) = default;
    ~IntervalMap() = default;

    bool operator==(const IntervalMap &other) const {
        if (size_ != other.size_ || count_ != other.count_) return false;
        Place there;
        for (Place here; here.chunk < chunks_.size();) {
            const Chunk &chunk = chunks_[here.chunk];
            if (here.piece == 0 && there.piece == 0 &&
                chunk.pieces == other.chunks_[there.chunk].pieces) {
                ++here.chunk;
                ++there.chunk;
                continue;
            }
            const Piece &mine = at(here);
            const Piece &others = other.at(there);
            if (mine.begin != others.begin || !(mine.value == others.value)) return false;
            here = next(here);
            there = other.next(there);
        }
        return true;
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::size_t pieces() const { return count_; }
    /// The allocated bytes, except those of values. A chunk shared by n maps counts as 1/n.
    [[nodiscard]] std::size_t bytes() const {
        std::size_t bytes = chunks_.capacity() * sizeof(Chunk) + spare_.capacity() * sizeof(Value);
        for (const Chunk &chunk : chunks_)
            bytes += (sizeof(Pieces) + chunk.pieces->capacity() * sizeof(Piece)) /
                     static_cast<std::size_t>(chunk.pieces.use_count());
        return bytes;
    }

    /// Calls `visit(begin, end, value)` in order for each piece of the range, clipped to the range.
    template <typename Visit>
    void visit(std::size_t begin, std::size_t end, Visit &&visit) const {
        assert(end <= size_);
        if (begin >= end) return;
        for (Place place = place_of(begin);
             place.chunk < chunks_.size() && at(place).begin < end;) {
            const Piece &piece = at(place);
            const Place following = next(place);
            visit(std::max(begin, piece.begin), std::min(end, begin_of(following)), piece.value);
            place = following;
        }
    }

    /// Calls `change(begin, end, value)` for each piece of the range for which `wanted(value)`
    /// holds, clipped to the range. `change` may modify the value of these bytes.
    template <typename Wanted, typename Change>
    void change(std::size_t begin, std::size_t end, Wanted &&wanted, Change &&change) {
        assert(end <= size_);
        if (begin >= end) return;
        if (count_ == 1) {
            if (!wanted(at({}).value)) return;
            if (begin == 0 && end == size_) {
                change(begin, end, own({}).value);
                return;
            }
        }
        std::size_t first = end;
        std::size_t last = begin;
        Place place = recent_place_of(begin);
        for (; place.chunk < chunks_.size() && at(place).begin < end; place = next(place)) {
            if (!wanted(at(place).value)) continue;
            if (at(place).begin < begin) place = split(place, begin);
            const std::size_t piece_end = std::min(end, begin_of(next(place)));
            if (begin_of(next(place)) > end) place = previous(split(place, end));
            change(at(place).begin, piece_end, own(place).value);
            first = std::min(first, at(place).begin);
            last = piece_end;
        }
        if (first < last) merge(first, last);
    }

    /// Makes the range one piece, whose value `set(value)` sets. `value` starts as the value of the
    /// range's first byte, so that `set` can reuse its allocations. Does nothing if `is_set(value)`
    /// holds for each piece of the range.
    template <typename IsSet, typename Set>
    void overwrite(std::size_t begin, std::size_t end, IsSet &&is_set, Set &&set) {
        assert(end <= size_);
        if (begin >= end) return;
        if (count_ == 1) {
            if (is_set(at({}).value)) return;
            if (begin == 0 && end == size_) {
                set(own({}).value);
                return;
            }
        }
        Place place = recent_place_of(begin);
        Place look = place;
        while (look.chunk < chunks_.size() && at(look).begin < end && is_set(at(look).value))
            look = next(look);
        if (look.chunk == chunks_.size() || at(look).begin >= end) return;
        if (at(place).begin < begin) place = split(place, begin);
        const Place last = place_of(end - 1);
        if (begin_of(next(last)) > end) {
            split(last, end);
            place = place_of(begin);
        }
        remove_behind(place, end);
        set(own(place).value);
        merge(begin, end);
    }

private:
    struct Piece {
        std::size_t begin;
        Value value;
    };
    using Pieces = std::vector<Piece>;  // 1 to `most` pieces, sorted by `begin`
    struct Chunk {
        std::size_t begin;  // of the first piece
        std::shared_ptr<Pieces> pieces;
    };
    /// The place after the last piece is {chunks_.size(), 0}.
    struct Place {
        std::size_t chunk = 0;
        std::size_t piece = 0;

        bool operator==(const Place &) const = default;
    };
    static constexpr std::size_t most = 32;
    static constexpr std::size_t most_spare = 4096;

    [[nodiscard]] const Piece &at(Place place) const {
        return (*chunks_[place.chunk].pieces)[place.piece];
    }
    [[nodiscard]] Pieces &own_pieces(std::size_t chunk) {
        std::shared_ptr<Pieces> &pieces = chunks_[chunk].pieces;
        if (pieces.use_count() > 1) pieces = std::make_shared<Pieces>(*pieces);
        return *pieces;
    }
    [[nodiscard]] Piece &own(Place place) { return own_pieces(place.chunk)[place.piece]; }

    [[nodiscard]] Place next(Place place) const {
        return place.piece + 1 < chunks_[place.chunk].pieces->size()
                   ? Place{place.chunk, place.piece + 1}
                   : Place{place.chunk + 1, 0};
    }
    [[nodiscard]] Place previous(Place place) const {
        return place.piece > 0
                   ? Place{place.chunk, place.piece - 1}
                   : Place{place.chunk - 1, chunks_[place.chunk - 1].pieces->size() - 1};
    }
    /// The size for the place after the last piece.
    [[nodiscard]] std::size_t begin_of(Place place) const {
        return place.chunk < chunks_.size() ? at(place).begin : size_;
    }

    [[nodiscard]] Place place_of(std::size_t byte) const {
        if (byte == 0) return {};
        const auto chunk = std::prev(std::ranges::upper_bound(chunks_, byte, {}, &Chunk::begin));
        const auto piece =
            std::prev(std::ranges::upper_bound(*chunk->pieces, byte, {}, &Piece::begin));
        return {static_cast<std::size_t>(chunk - chunks_.begin()),
                static_cast<std::size_t>(piece - chunk->pieces->begin())};
    }
    /// place_of(), but starts from its last result: the next range usually begins in the same piece
    /// or a few pieces later.
    [[nodiscard]] Place recent_place_of(std::size_t byte) {
        if (byte == 0) return {};
        if (recent_.chunk < chunks_.size() &&
            recent_.piece < chunks_[recent_.chunk].pieces->size()) {
            for (int tries = 0; tries < 4 && begin_of(recent_) <= byte && byte < size_; ++tries) {
                const Place following = next(recent_);
                if (byte < begin_of(following)) return recent_;
                recent_ = following;
            }
        }
        return recent_ = place_of(byte);
    }

    /// Splits a piece at a byte inside it. Returns the place of the second part.
    Place split(Place place, std::size_t byte) {
        Pieces &pieces = own_pieces(place.chunk);
        Value value;
        if (!spare_.empty()) {
            value = std::move(spare_.back());
            spare_.pop_back();
        }
        value = pieces[place.piece].value;
        ++count_;
        const auto offset = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
        Place second{place.chunk, place.piece + 1};
        if (pieces.size() == most) {
            const auto middle = pieces.begin() + offset(most / 2);
            auto upper = std::make_shared<Pieces>();
            upper->reserve(most);
            std::move(middle, pieces.end(), std::back_inserter(*upper));
            pieces.erase(middle, pieces.end());
            chunks_.insert(chunks_.begin() + offset(place.chunk) + 1,
                           {upper->front().begin, upper});
            if (second.piece > most / 2) second = {place.chunk + 1, second.piece - most / 2};
        }
        Pieces &into = *chunks_[second.chunk].pieces;
        into.insert(into.begin() + offset(second.piece), Piece{byte, std::move(value)});
        return second;
    }

    /// Removes the pieces after `place` that begin before `end`.
    void remove_behind(Place place, std::size_t end) {
        Place from = next(place);
        std::size_t empty = 0;  // number of empty chunks after place.chunk
        while (from.chunk < chunks_.size() && begin_of(from) < end) {
            Pieces &pieces = own_pieces(from.chunk);
            const auto begin = pieces.begin() + static_cast<std::ptrdiff_t>(from.piece);
            const auto last = std::find_if(
                begin, pieces.end(), [end](const Piece &piece) { return piece.begin >= end; });
            for (auto removed = begin; removed != last && spare_.size() < most_spare; ++removed)
                spare_.push_back(std::move(removed->value));
            count_ -= static_cast<std::size_t>(last - begin);
            const bool all = last == pieces.end();
            pieces.erase(begin, last);
            if (pieces.empty())
                ++empty;
            else if (from.piece == 0)
                chunks_[from.chunk].begin = pieces.front().begin;
            if (!all) break;
            from = {from.chunk + 1, 0};
        }
        const auto first = chunks_.begin() + static_cast<std::ptrdiff_t>(place.chunk) + 1;
        chunks_.erase(first, first + static_cast<std::ptrdiff_t>(empty));
        join(place.chunk);
    }

    /// Merges a chunk with the next one if both together are small.
    void join(std::size_t chunk) {
        if (chunk + 1 >= chunks_.size()) return;
        if (chunks_[chunk].pieces->size() + chunks_[chunk + 1].pieces->size() > most / 2) return;
        Pieces &pieces = own_pieces(chunk);
        Pieces &others = own_pieces(chunk + 1);
        std::move(others.begin(), others.end(), std::back_inserter(pieces));
        chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1);
    }

    /// Merges equal pieces of the range with each other and with their neighbours. Pieces must
    /// begin at `begin` and at `end`.
    void merge(std::size_t begin, std::size_t end) {
        if (count_ == 1) return;
        Place place = place_of(begin);
        if (place != Place{}) place = previous(place);
        for (Place following = next(place);
             following.chunk < chunks_.size() && begin_of(following) <= end;
             following = next(place)) {
            if (at(following).value == at(place).value)
                remove_behind(place, begin_of(following) + 1);
            else
                place = following;
        }
    }

    std::size_t size_;
    std::size_t count_ = 0;      // pieces
    std::vector<Chunk> chunks_;  // sorted by `begin`
    Place recent_;               // the last result of recent_place_of(); may no longer exist
    std::vector<Value> spare_;   // of removed pieces, for reuse
};

}  // namespace cldist::cluster
