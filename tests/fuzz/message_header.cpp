// The header of a message, as another process sends it.
#include "fuzz.hpp"

#include <array>

#include "mpi_interop/wire.cpp"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace cldist;
    const std::span message(reinterpret_cast<const std::byte *>(data), size);
    const std::optional<MessageHeader> header = decode(message);
    if (!header) return 0;
    FUZZ_REQUIRE(begins_like_a_header(message.data()));
    std::array<std::byte, header_size> again{};
    encode(*header, again.data());
    FUZZ_REQUIRE(header->block != 0 || header->failure != 0 || header->size == size - header_size);
    const bool eager = header->block == 0 && header->failure == 0 && header->size != 0;
    if (!eager) FUZZ_REQUIRE(decode(again) == header);
    return 0;
}
