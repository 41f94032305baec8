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
    std::uint32_t ring = 0;      ///< the sender's ring that the blocks pass through, rather than MPI; 0: none
    std::uint32_t depth = 0;     ///< blocks that the ring holds
    std::uint32_t exported = 0;  ///< memory of the sender's device that the receiver's may import; 0: none
    std::uint32_t whole = 0;     ///< 1: the payload lies there, from `offset` on
    std::uint32_t reserved = 0;
    std::uint64_t offset = 0;

    bool operator==(const Envelope &) const = default;
};

/// Bytes of an encoded envelope; keeps the payload behind it aligned.
inline constexpr std::size_t envelope_size = 64;

/// Writes the envelope to the first envelope_size bytes of `out`.
void encode(const Envelope &envelope, std::byte *out);

/// So many bytes tell an envelope from other messages.
inline constexpr std::size_t envelope_beginning = 8;

/// Whether the first envelope_beginning bytes are those of an envelope.
bool begins_like_an_envelope(const void *memory);

/// Reads what encode() wrote. Nothing if `message`, a whole MPI message, was not sent by a cldist command of the same
/// protocol version.
std::optional<Envelope> decode(std::span<const std::byte> message);

}  // namespace cldist
