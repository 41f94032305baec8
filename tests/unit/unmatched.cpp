#include <doctest/doctest.h>

#include "mpi_interop/runtime.hpp"

using namespace cldist;

namespace {

constexpr int send = static_cast<int>(Direction::send);
constexpr int recv = static_cast<int>(Direction::recv);
constexpr int collective = static_cast<int>(Direction::collective);

}  // namespace

TEST_CASE("unmatched commands are listed with what the other side has instead") {
    const auto lines = match_unmatched(
        {{send, 0, 1, 5, 64}, {recv, 1, 0, 6, 128}, {recv, 2, MPI_ANY_SOURCE, 9, 1}});
    REQUIRE(lines.size() == 3);
    CHECK(
        lines[0] ==
        "rank 0: send to rank 1, tag 5, 64 bytes; rank 1 has a pending recv with tag 6, 128 bytes");
    CHECK(lines[1] ==
          "rank 1: recv from rank 0, tag 6, 128 bytes; rank 0 has a pending send with tag 5, 64 "
          "bytes");
    CHECK(lines[2] ==
          "rank 2: recv from any rank, tag 9, 1 bytes; any rank has no pending send for it");
}

TEST_CASE("commands that have not started are listed with what they wait for") {
    const auto lines =
        match_unmatched({{send, 0, 1, 5, 64, {": waits for rain"}},
                         {recv, 1, 0, 5, 64},
                         {collective, 2, MPI_UNDEFINED, MPI_ANY_TAG, 0, {"Barrier"}}});
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] ==
          "rank 0: send to rank 1, tag 5, 64 bytes: waits for rain; rank 1 has a pending recv with "
          "tag 5, 64 bytes");
    CHECK(lines[1] ==
          "rank 1: recv from rank 0, tag 5, 64 bytes; rank 0 has a pending send with tag 5, 64 "
          "bytes, that has not started");
    CHECK(lines[2] == "rank 2: Barrier");
}

TEST_CASE("an incomplete MPI request is listed, and matches nothing") {
    constexpr int request = static_cast<int>(Direction::request);
    constexpr int event = static_cast<int>(Direction::event);
    const auto lines = match_unmatched({{send, 0, 1, 5, 64},
                                        {request, 1, MPI_UNDEFINED, MPI_ANY_TAG, 0},
                                        {event, 1, MPI_ANY_SOURCE, MPI_ANY_TAG, 0}});
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] == "rank 0: send to rank 1, tag 5, 64 bytes; rank 1 has no pending recv for it");
    CHECK(lines[1] == "rank 1: MPI request");
    CHECK(lines[2] == "rank 1: MPI request of an event");
}

TEST_CASE("a long list of unmatched commands is cut") {
    const auto lines = match_unmatched(std::vector<Unmatched>(1000, {send, 0, 1, 5, 64}));
    CHECK(lines.size() == 41);
    CHECK(lines.back() == "... and 960 more");
}

TEST_CASE("a channel is not used twice at the same time") {
    Channels channels(3);
    CHECK(channels.acquire() == 0);
    CHECK(channels.acquire() == 1);
    CHECK(channels.acquire() == 2);
    channels.release(1);
    CHECK(channels.acquire() == 3);
    CHECK(channels.acquire() == 1);
    CHECK_THROWS_AS(channels.acquire(), const Error &);
    channels.release(2);
    CHECK(channels.acquire() == 2);
}
