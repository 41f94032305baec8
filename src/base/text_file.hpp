#pragma once

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace cldist {

/// Reads a file into `text`. Returns an empty text or the error. Reads with ifstream::read(),
/// because an istreambuf_iterator throws if the file is a folder.
[[nodiscard]] inline std::string read_text(const std::string &path, std::string &text) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::array<char, 65536> part{};
    while (file.good()) {
        file.read(part.data(), part.size());
        text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    }
    return file.eof() && !file.bad() ? "" : std::strerror(errno != 0 ? errno : EIO);
}

}  // namespace cldist
