#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cldist {

/// The header of every message. It is sent with the user's tag on the user's communicator. A small
/// payload follows it in the same MPI message. A larger payload is sent in blocks on the library's
/// communicator, with the channel as tag.
struct MessageHeader {
    std::uint64_t size = 0;     ///< bytes of payload
    std::uint64_t block = 0;    ///< bytes per block; 0: the payload follows the header
    std::uint32_t channel = 0;  ///< tag of the blocks
    std::int32_t failure = 0;   ///< CL_SUCCESS, or the reason why the sender sends no payload
    /// 1: neither process may stage blocks, although the sender could.
    std::uint32_t in_place = 0;
    std::uint32_t ring = 0;   ///< the sender's ring that replaces MPI for the blocks; 0: none
    std::uint32_t depth = 0;  ///< blocks in the ring
    /// Memory of the sender's device that the receiver's device may import; 0: none.
    std::uint32_t exported = 0;
    std::uint32_t exports_range = 0;  ///< 1: the payload is in that memory, from `offset` on
    /// 1 + the sender's slot, if a kernel of the sender writes the payload to landing memory of the
    /// receiver's device, from `offset` on; 0: none.
    std::uint32_t slot = 0;
    std::uint64_t offset = 0;

    bool operator==(const MessageHeader &) const = default;
};

/// The protocol version. Processes with different versions refuse to exchange messages. Increase it
/// with each change of a header, of the order of messages, or of the data that processes exchange
/// at the start.
inline constexpr std::uint16_t wire_version = 5;

/// Bytes of an encoded header. Keeps the payload behind it aligned.
inline constexpr std::size_t header_size = 64;

/// Writes the header to the first header_size bytes of `out`.
void encode(const MessageHeader &header, std::byte *out);

/// This many bytes distinguish a header from other messages.
inline constexpr std::size_t header_beginning = 8;

/// Returns true if the first header_beginning bytes belong to a header.
bool begins_like_a_header(const void *memory);

/// Reads a header that encode() wrote. Returns nothing if no cldist command of the same protocol
/// version sent `message`, which is a complete MPI message.
std::optional<MessageHeader> decode(std::span<const std::byte> message);

}  // namespace cldist
