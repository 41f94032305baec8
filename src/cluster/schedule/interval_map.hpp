#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace cldist::cluster {

/// Gives each byte of [0, size) a value. Neighbours with equal values are one piece. So a buffer
/// that is always used whole is one piece, and using it allocates nothing. If pieces are split and
/// merged again and again, old values are reused without allocation. Ranges are [begin, end) in
/// bytes, and within the size. An empty range changes nothing.
///
/// A copy shares with the original what neither of them changes later, in chunks of up to `most`
/// pieces: it costs a pointer for each chunk.
///
/// `Value` is copied where a piece is split, and compared (==) where pieces may merge. Not
/// thread-safe, nor are two that share chunks.
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
    /// Its allocated bytes, without the allocations of values, and with a part of the shared
    /// chunks.
    [[nodiscard]] std::size_t bytes() const {
        std::size_t bytes = chunks_.capacity() * sizeof(Chunk) + spare_.capacity() * sizeof(Value);
        for (const Chunk &chunk : chunks_)
            bytes += (sizeof(Pieces) + chunk.pieces->capacity() * sizeof(Piece)) /
                     static_cast<std::size_t>(chunk.pieces.use_count());
        return bytes;
    }

    /// Calls `visit(begin, end, value)` for each piece that has bytes in the range, in order; cut
    /// to the range.
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
    /// holds; it may change the value for these bytes.
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

    /// Makes the range one piece, whose value `set(value)` sets; it gets that of the range's first
    /// byte, to re-use what it holds. Does nothing if `is_set(value)` holds for each piece of the
    /// range.
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
    using Pieces = std::vector<Piece>;  // neither none nor more than `most`, by first byte
    struct Chunk {
        std::size_t begin;  // its first piece's
        std::shared_ptr<Pieces> pieces;
    };
    /// Behind the last piece: of the chunk that would be the next one.
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
    /// For the place after the last piece, it is the size.
    [[nodiscard]] std::size_t begin_of(Place place) const {
        return place.chunk < chunks_.size() ? at(place).begin : size_;
    }

    [[nodiscard]] Place place_of(std::size_t byte) const {
        if (byte == 0) return {};
        const auto chunk = std::prev(std::upper_bound(
            chunks_.begin(), chunks_.end(), byte,
            [](std::size_t wanted, const Chunk &of) { return wanted < of.begin; }));
        const auto piece = std::prev(std::upper_bound(
            chunk->pieces->begin(), chunk->pieces->end(), byte,
            [](std::size_t wanted, const Piece &of) { return wanted < of.begin; }));
        return {static_cast<std::size_t>(chunk - chunks_.begin()),
                static_cast<std::size_t>(piece - chunk->pieces->begin())};
    }
    /// The next range mostly begins in the piece that was last looked for, or a few behind it.
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

    /// Splits a piece at a byte inside of it; returns the second part's place.
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

    /// Removes the pieces behind `place` that begin before `end`.
    void remove_behind(Place place, std::size_t end) {
        Place from = next(place);
        std::size_t empty = 0;  // chunks, from the next one
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

    /// Puts a chunk and the next one together if they are small.
    void join(std::size_t chunk) {
        if (chunk + 1 >= chunks_.size()) return;
        if (chunks_[chunk].pieces->size() + chunks_[chunk + 1].pieces->size() > most / 2) return;
        Pieces &pieces = own_pieces(chunk);
        Pieces &others = own_pieces(chunk + 1);
        std::move(others.begin(), others.end(), std::back_inserter(pieces));
        chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1);
    }

    /// Merges the pieces of the range with each other and with their neighbours; at both ends is an
    /// end of a piece.
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
    std::vector<Chunk> chunks_;  // by first byte
    Place recent_;               // the piece last looked for, if there is still one
    std::vector<Value> spare_;
};

}  // namespace cldist::cluster
