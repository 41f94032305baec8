#include "pipeline/plan.hpp"

#include <doctest/doctest.h>

using namespace cldist;

namespace {

Config forced(Path path) {
    Config config;
    config.path = path;
    return config;
}

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t gib = 1024 * mib;

}  // namespace

TEST_CASE("mapping is asked for where memory is the host's, unless a path is forced") {
    CHECK(plan_mapping(true, {}));
    CHECK_FALSE(plan_mapping(false, {}));
    for (const bool host_memory : {true, false}) {
        CHECK(plan_mapping(host_memory, forced(Path::mapped)));
        CHECK_FALSE(plan_mapping(host_memory, forced(Path::pinned)));
        CHECK_FALSE(plan_mapping(host_memory, forced(Path::pipelined)));
    }
}

TEST_CASE("small messages go whole with their envelope, large ones in place or in blocks") {
    struct Row {
        std::size_t size;
        bool mapped;
        Path path;
        bool inlined;
    };
    for (const Row &row : {Row{8, true, Path::mapped, true}, Row{4 * kib, false, Path::pinned, true},
                           Row{mib, true, Path::mapped, false}, Row{mib, false, Path::pipelined, false},
                           Row{6 * gib, true, Path::mapped, false}, Row{6 * gib, false, Path::pipelined, false}}) {
        CAPTURE(row.size);
        CAPTURE(row.mapped);
        const Plan plan = plan_send(row.size, row.mapped, row.mapped, {});
        CHECK(plan.path == row.path);
        CHECK(plan.inlined == row.inlined);
    }
}

TEST_CASE("an empty message travels with its envelope on every path") {
    for (const Path path : {Path::automatic, Path::mapped, Path::pinned, Path::pipelined})
        CHECK(plan_send(0, false, true, forced(path)).inlined);
}

TEST_CASE("a forced path is taken for every size") {
    for (const std::size_t size : {std::size_t{1}, 4 * kib, 100 * mib, 5 * gib}) {
        CHECK(plan_send(size, true, false, forced(Path::mapped)).path == Path::mapped);
        CHECK(plan_send(size, false, true, forced(Path::pinned)).path == Path::pinned);
        CHECK(plan_send(size, false, true, forced(Path::pipelined)).path == Path::pipelined);
    }
}

TEST_CASE("where mapping was refused the size decides") {
    CHECK(plan_send(8, false, true, forced(Path::mapped)).path == Path::pinned);
    CHECK(plan_send(mib, false, true, {}).path == Path::pipelined);
}

TEST_CASE("every plan has blocks that MPI can count and that cover the message, and no more depth than blocks") {
    for (const Path path : {Path::automatic, Path::mapped, Path::pinned, Path::pipelined}) {
        for (const std::size_t size : {std::size_t{1}, 4 * kib + 1, 64 * kib, mib - 1, 64 * mib, 5 * gib}) {
            for (const bool mapped : {true, false}) {
                const Plan send = plan_send(size, mapped, mapped, forced(path));
                CAPTURE(size);
                CHECK(send.block >= 1);
                CHECK(send.block <= max_block);
                CHECK(send.block <= size);
                const std::size_t blocks = (size + send.block - 1) / send.block;
                CHECK(send.depth >= 1);
                CHECK(send.depth <= blocks);
                const Plan recv = plan_recv(size, send.block, mapped, forced(path));
                CHECK(recv.block == send.block);
                CHECK(recv.depth >= 1);
                CHECK(recv.depth <= blocks);
                CHECK_FALSE(recv.inlined);
            }
        }
    }
}

TEST_CASE("block size and depth are taken as asked, the receiver's block always from the sender") {
    Config config;
    config.path = Path::pipelined;
    config.block_size.value = 100;
    config.depth = 7;
    CHECK(plan_send(10'000, false, false, config) == Plan{Path::pipelined, 100, 7, false});
    CHECK(plan_recv(10'000, 3000, false, config) == Plan{Path::pipelined, 3000, 4, false});
}

TEST_CASE("the limit of whole messages is taken as asked") {
    Config config;
    config.pinned_max.value = mib;
    CHECK(plan_send(mib, true, true, config).inlined);
    CHECK_FALSE(plan_send(mib + 1, true, true, config).inlined);
}
