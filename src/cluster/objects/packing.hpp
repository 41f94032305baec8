#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.hpp"

namespace cldist::cluster {

using Blob = std::vector<std::byte>;

/// Serialises values for another process that runs the same binary.
class Packer {
public:
    template <typename T>
    Packer &put(const T &value) {
        static_assert(std::is_trivially_copyable_v<T>);
        const auto *const bytes = reinterpret_cast<const std::byte *>(&value);
        blob_.insert(blob_.end(), bytes, bytes + sizeof value);
        return *this;
    }
    Packer &put_bytes(std::span<const std::byte> bytes) {
        put(bytes.size());
        blob_.insert(blob_.end(), bytes.begin(), bytes.end());
        return *this;
    }
    Packer &put_text(const std::string &text) { return put_bytes(std::as_bytes(std::span(text))); }
    [[nodiscard]] Blob take() { return std::move(blob_); }

private:
    Blob blob_;
};

/// Reads the values back in the same order.
class Unpacker {
public:
    explicit Unpacker(std::span<const std::byte> blob) : rest_(blob) {}

    template <typename T>
    T get() {
        T value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    Blob get_bytes() {
        const auto bytes = take(get<std::size_t>());
        return {bytes.begin(), bytes.end()};
    }
    std::string get_text() {
        const auto bytes = take(get<std::size_t>());
        return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
    }
    [[nodiscard]] bool empty() const { return rest_.empty(); }

private:
    // If the processes' calls differ, the data may belong to another call. The call-consistency
    // check reports the difference later.
    std::span<const std::byte> take(std::size_t size) {
        if (size > rest_.size())
            throw Error(CL_OUT_OF_RESOURCES, "another process returned less data than requested");
        const auto bytes = rest_.first(size);
        rest_ = rest_.subspan(size);
        return bytes;
    }

    std::span<const std::byte> rest_;
};

/// The element at an index that another process has sent. Throws an Error if it is out of range.
template <typename T>
T &told_place(std::vector<T> &list, std::size_t place) {
    if (place >= list.size())
        throw Error(CL_OUT_OF_RESOURCES, "another process returned an invalid position");
    return list[place];
}

}  // namespace cldist::cluster
