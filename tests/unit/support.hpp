/// What several unit tests use.
#pragma once

#include <cstddef>
#include <string_view>

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;
inline constexpr std::size_t gib = 1024 * mib;

inline bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}
