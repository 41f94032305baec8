#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cldist {

/// What opens every message, sent with the user's tag on the user's communicator. A small payload follows it in the
/// same MPI message; a larger one comes in blocks on the library's own communicator, with the channel as tag.
struct Envelope {
    std::uint64_t size = 0;      ///< bytes of payload
    std::uint64_t block = 0;     ///< bytes per block; 0: the payload follows the envelope
    std::uint32_t channel = 0;   ///< tag of the blocks
    std::int32_t failure = 0;    ///< CL_SUCCESS, or why the sender has nothing to send (then there is no payload)
    std::uint32_t in_place = 0;  ///< 1: the sender stages no blocks that it could stage, and so shall not the receiver

    bool operator==(const Envelope &) const = default;
};

/// Bytes of an encoded envelope; keeps the payload behind it aligned.
inline constexpr std::size_t envelope_size = 64;

/// Writes the envelope to the first envelope_size bytes of `out`.
void encode(const Envelope &envelope, std::byte *out);

/// Reads what encode() wrote. Nothing if `message`, a whole MPI message, was not sent by a cldist command of the same
/// protocol version.
std::optional<Envelope> decode(std::span<const std::byte> message);

}  // namespace cldist
