#include "stdio/file_name.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include <fmt/format.h>

namespace cldist {
namespace {

std::string with_path(std::string name, int descriptor) {
    std::array<char, PATH_MAX> path{};
    const ssize_t size =
        descriptor < 0 ? -1 : readlink(path_of(descriptor).c_str(), path.data(), path.size());
    if (size > 0)
        name += fmt::format(" ({})", std::string_view(path.data(), static_cast<std::size_t>(size)));
    return name;
}

}  // namespace

std::string path_of(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

std::string name_of_descriptor(int descriptor) {
    const int error = errno;
    std::string name = with_path(fmt::format("descriptor {}", descriptor), descriptor);
    errno = error;
    return name;
}

std::string name_of_stream(std::FILE *stream) {
    const int error = errno;
    std::string name = with_path(fmt::format("stream {}", fmt::ptr(stream)), fileno(stream));
    errno = error;
    return name;
}

}  // namespace cldist
