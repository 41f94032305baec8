/// The tags of the cluster platform's messages.
#include <initializer_list>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "cluster/world/message_tag.hpp"

using namespace cldist::cluster;

TEST_SUITE("message tags") {
    TEST_CASE("messages of different contents or sizes do not match, whatever their numbers") {
        std::set<int> tags;
        int messages = 0;
        for (const Content content : {Content::data, Content::status, Content::result})
            for (const std::size_t size : {0U, 1U, 40U, 64U, 4096U, 1U << 20U, 16U << 20U})
                for (const std::uint64_t number : {0U, 1U, 2U, 524287U}) {
                    tags.insert(
                        message_tag(std::numeric_limits<int>::max(), number, content, size));
                    ++messages;
                }
        CHECK(tags.size() == std::size_t(messages));
    }

    TEST_CASE("tags are in the range of the MPI library") {
        for (const int max_tag : {32767, 65535, (1 << 20) - 1, (1 << 28) - 1, (1 << 30) - 1})
            for (std::uint64_t number = 0; number < 3'000'000; number += 9'973) {
                const int tag = message_tag(max_tag, number, Content::result, number * 7);
                CHECK(tag >= 0);
                CHECK(tag <= max_tag);
            }
    }
}
