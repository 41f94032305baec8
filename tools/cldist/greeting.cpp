#include "greeting.hpp"

#include <cstring>

#include "host/channel.hpp"

namespace cldist::tool {

std::optional<Greeting> parse_greeting(std::span<const std::byte> bytes, const Secret &secret) {
    Greeting greeting{};
    if (bytes.size() != sizeof greeting) return std::nullopt;
    std::memcpy(&greeting, bytes.data(), sizeof greeting);
    unsigned differences = 0;
    for (std::size_t i = 0; i < secret.size(); ++i)
        differences |= static_cast<unsigned char>(greeting.secret[i] ^ secret[i]);
    if (differences != 0 || greeting.rank >= greeting.ranks ||
        greeting.rank >= host::Channel::most_readers || greeting.host.back() != '\0')
        return std::nullopt;
    return greeting;
}

}  // namespace cldist::tool
