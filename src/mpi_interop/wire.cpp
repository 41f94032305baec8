#include "mpi_interop/wire.hpp"

#include <cstddef>
#include <cstring>

namespace cldist {
namespace {

struct Header {
    std::uint32_t magic = 0x54534443;  // "CDST"
    std::uint16_t version = 3;
    std::uint16_t bytes = envelope_size;
    Envelope envelope;
};
static_assert(sizeof(Header) <= envelope_size);

}  // namespace

void encode(const Envelope &envelope, std::byte *out) {
    Header header;
    header.envelope = envelope;
    std::memset(out, 0, envelope_size);
    std::memcpy(out, &header, sizeof header);
}

bool begins_like_an_envelope(const void *memory) {
    static constexpr Header expected;
    static_assert(offsetof(Header, envelope) == envelope_beginning);
    return std::memcmp(memory, &expected, envelope_beginning) == 0;
}

std::optional<Envelope> decode(std::span<const std::byte> message) {
    if (message.size() < envelope_size) return std::nullopt;
    const Header expected;
    Header header;
    std::memcpy(&header, message.data(), sizeof header);
    if (header.magic != expected.magic || header.version != expected.version || header.bytes != expected.bytes)
        return std::nullopt;
    const Envelope &envelope = header.envelope;
    const bool inlined = envelope.block == 0 && envelope.failure == 0;
    if (message.size() != envelope_size + (inlined ? envelope.size : 0)) return std::nullopt;
    return envelope;
}

}  // namespace cldist
