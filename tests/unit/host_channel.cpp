#include "host/channel.hpp"

#include <memory>

#include <doctest/doctest.h>

namespace host = cldist::host;

TEST_CASE("a record that arrives in pieces is read when its last byte is there") {
    const auto channel = std::make_unique<host::Channel>();
    channel->readers = 1;
    // The record crosses the end of the ring.
    const std::uint64_t begin = host::Channel::capacity - 10;
    channel->written = begin;
    channel->reader[0].position = begin;
    struct {
        host::Record record{sizeof(std::uint64_t), static_cast<std::uint32_t>(host::Answer::read),
                            1, 7, 3};
        std::uint64_t payload = 42;
    } sent;

    host::ChannelWriter writer(*channel);
    host::ChannelReader reader(*channel, 0);
    host::Record got{};
    for (std::size_t i = 0; i < sizeof sent; ++i) {
        CHECK_FALSE(reader.peek(got, reader.there()));
        writer.copy(reinterpret_cast<const std::byte *>(&sent) + i, 1);
    }
    REQUIRE(reader.peek(got, reader.there()));
    CHECK(got.key == 7);
    std::uint64_t payload = 0;
    reader.peek(&payload, sizeof payload, sizeof got);
    CHECK(payload == 42);
    reader.take(sizeof sent);
    CHECK_FALSE(reader.peek(got, reader.there()));
}
