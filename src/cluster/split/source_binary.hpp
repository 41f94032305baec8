#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cldist::cluster {

/// A built program as an aggregate device gives it for its binary. The drivers' binaries do not
/// serve: they may be of a source that was adapted, and do not show what their kernels access.
struct SourceBinary {
    std::string source;   ///< with its included files in place
    std::string options;  ///< that it was built with

    bool operator==(const SourceBinary &) const = default;
};

std::vector<std::byte> binary_of(const SourceBinary &program);

/// Whether it is such a binary, whole or not.
bool is_source_binary(std::span<const std::byte> binary);
/// Nothing if it is none, or was changed.
std::optional<SourceBinary> source_of(std::span<const std::byte> binary);

}  // namespace cldist::cluster
