// The header of a message, as another process sends it.
#include "fuzz.hpp"

#include <array>

#include "mpi_interop/wire.cpp"

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace cldist;
    const std::span message(reinterpret_cast<const std::byte *>(data), size);
    const std::optional<Envelope> envelope = decode(message);
    if (!envelope) return 0;
    FUZZ_REQUIRE(begins_like_an_envelope(message.data()));
    std::array<std::byte, envelope_size> again{};
    encode(*envelope, again.data());
    FUZZ_REQUIRE(envelope->block != 0 || envelope->failure != 0 || envelope->size == size - envelope_size);
    const bool inlined = envelope->block == 0 && envelope->failure == 0 && envelope->size != 0;
    if (!inlined) FUZZ_REQUIRE(decode(again) == envelope);
    return 0;
}
