#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cldist::cluster {

/// The "binary" of a built program on an aggregate device. The drivers' binaries are unsuitable:
/// they may come from an adapted source, and they do not show what their kernels access.
struct SourceBinary {
    std::string source;   ///< included files replace their directives
    std::string options;  ///< of clBuildProgram

    bool operator==(const SourceBinary &) const = default;
};

std::vector<std::byte> binary_of(const SourceBinary &program);

/// Returns true if it begins like the result of binary_of(). It may be damaged.
bool is_source_binary(std::span<const std::byte> binary);
/// Returns nothing if it is not the unchanged result of binary_of().
std::optional<SourceBinary> source_of(std::span<const std::byte> binary);

}  // namespace cldist::cluster
