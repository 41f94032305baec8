#include "mpi_interop/wire.hpp"

#include <vector>

#include <doctest/doctest.h>

using namespace cldist;

namespace {

std::vector<std::byte> message(const MessageHeader &header, std::size_t payload) {
    std::vector<std::byte> bytes(header_size + payload, std::byte{0x5a});
    encode(header, bytes.data());
    return bytes;
}

}  // namespace

TEST_CASE("a header is decoded as it was encoded") {
    for (const MessageHeader &header :
         {MessageHeader{}, MessageHeader{1, 0, 0, 0}, MessageHeader{5'000'000'000, 4096, 77, 0},
          MessageHeader{0, 0, 0, -14}, MessageHeader{1 << 20, 4096, 3, 0, 1}}) {
        const std::size_t payload = header.block == 0 && header.failure == 0 ? header.size : 0;
        CHECK(decode(message(header, payload)) == header);
    }
}

TEST_CASE("a message with a wrong byte in its magic, version or size is not accepted as a header") {
    const std::vector<std::byte> good = message({16, 0, 0, 0}, 16);
    for (std::size_t i = 0; i < 8; ++i) {
        std::vector<std::byte> bad = good;
        bad[i] ^= std::byte{1};
        CHECK_FALSE(decode(bad));
    }
}

TEST_CASE("a message shorter or longer than its header states is not accepted") {
    const std::vector<std::byte> good = message({16, 0, 0, 0}, 16);
    for (std::size_t size = 0; size < good.size(); ++size)
        CHECK_FALSE(decode(std::span(good).first(size)));
    CHECK(decode(good));
    CHECK_FALSE(decode(message({16, 0, 0, 0}, 17)));
    CHECK_FALSE(decode(message({16, 8, 0, 0}, 16)));
    CHECK_FALSE(decode(message({0, 0, 0, -14}, 1)));
}
