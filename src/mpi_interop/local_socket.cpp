#include "mpi_interop/local_socket.hpp"

#include <sys/random.h>

#include <fmt/format.h>

namespace cldist {

sockaddr_un address_of(const LocalName &name, socklen_t &size) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // An abstract socket name begins with a zero byte.
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return address;
}

Descriptor open_local_socket(LocalName &name) {
    std::array<unsigned char, std::tuple_size_v<LocalName> / 2> random{};
    Descriptor opened(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!opened ||
        getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        return {};
    for (std::size_t i = 0; i < random.size(); ++i)
        fmt::format_to(name.data() + 2 * i, "{:02x}", random[i]);
    socklen_t length = 0;
    const sockaddr_un address = address_of(name, length);
    if (bind(opened.get(), reinterpret_cast<const sockaddr *>(&address), length) != 0) return {};
    return opened;
}

}  // namespace cldist
