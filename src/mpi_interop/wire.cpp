#include "mpi_interop/wire.hpp"

#include <cstring>

namespace cldist {
namespace {

struct Encoded {
    std::uint32_t magic = 0x54534443;  // "CDST"
    std::uint16_t version = wire_version;
    std::uint16_t bytes = header_size;
    MessageHeader header;
};
static_assert(sizeof(Encoded) <= header_size);

}  // namespace

void encode(const MessageHeader &header, std::byte *out) {
    Encoded encoded;
    encoded.header = header;
    std::memset(out, 0, header_size);
    std::memcpy(out, &encoded, sizeof encoded);
}

bool begins_like_a_header(const void *memory) {
    static constexpr Encoded expected;
    static_assert(offsetof(Encoded, header) == header_beginning);
    return std::memcmp(memory, &expected, header_beginning) == 0;
}

std::optional<MessageHeader> decode(std::span<const std::byte> message) {
    if (message.size() < header_size) return std::nullopt;
    const Encoded expected;
    Encoded encoded;
    std::memcpy(&encoded, message.data(), sizeof encoded);
    if (encoded.magic != expected.magic || encoded.version != expected.version ||
        encoded.bytes != expected.bytes)
        return std::nullopt;
    const MessageHeader &header = encoded.header;
    const bool eager = header.block == 0 && header.failure == 0;
    if (message.size() != header_size + (eager ? header.size : 0)) return std::nullopt;
    return header;
}

}  // namespace cldist
