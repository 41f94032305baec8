#include "pipeline/plan.hpp"
#include "support.hpp"

#include <doctest/doctest.h>

using namespace cldist;

namespace {

Config forced(Path path) {
    Config config;
    config.path = path;
    return config;
}

constexpr Situation cpu{true, true, false};
constexpr Situation cpu_same_host{true, true, true};
constexpr Situation cpu_unmapped{true, false, false};
constexpr Situation gpu{false, false, false};
constexpr Situation gpu_same_host{false, false, true};

}  // namespace

TEST_CASE("mapping is requested if device memory is host memory, unless another path is forced") {
    CHECK(plan_mapping(true, mib, nullptr, {}));
    CHECK_FALSE(plan_mapping(false, mib, nullptr, {}));
    for (const bool host_memory : {true, false}) {
        CHECK(plan_mapping(host_memory, mib, nullptr, forced(Path::mapped)) == host_memory);
        CHECK_FALSE(plan_mapping(host_memory, mib, nullptr, forced(Path::staged)));
        CHECK_FALSE(plan_mapping(host_memory, mib, nullptr, forced(Path::chunked)));
    }
}

TEST_CASE("small messages are eager, large messages go in place or in blocks") {
    struct Row {
        std::size_t size;
        Situation situation;
        Path path;
        bool eager;
    };
    for (const Row &row :
         {Row{8, cpu, Path::mapped, true}, Row{4 * kib, gpu, Path::staged, true},
          Row{mib, cpu, Path::mapped, false}, Row{100 * kib, cpu_same_host, Path::mapped, false},
          Row{mib, cpu_same_host, Path::chunked, false}, Row{mib, gpu, Path::chunked, false},
          Row{256 * kib, gpu, Path::staged, true}, Row{4 * mib, gpu_same_host, Path::staged, true},
          Row{4 * mib + 1, gpu_same_host, Path::chunked, false},
          Row{6 * gib, cpu, Path::mapped, false}, Row{6 * gib, cpu_same_host, Path::chunked, false},
          Row{6 * gib, gpu, Path::chunked, false}}) {
        CAPTURE(row.size);
        CAPTURE(row.situation.mapped);
        const Plan plan = plan_send(row.size, row.situation, {});
        CHECK(plan.path == row.path);
        CHECK(plan.eager == row.eager);
    }
}

TEST_CASE(
    "a profile chooses the shared memory path if a ring exists; a profile without shared paths is "
    "ignored") {
    const Advice shared(Way{Path::shared, false, false, 2 * mib, 16});
    const Advice direct(Way{Path::peer_to_peer, false, false, mib, 16});
    const Advice by_mpi(Way{Path::chunked, false, false, mib, 4});
    Situation situation = gpu_same_host;
    situation.advice = &shared;
    CHECK(plan_send(64 * mib, situation, {}) == Plan{Path::chunked, 2 * mib, 16});
    situation.ring = true;
    CHECK(plan_send(64 * mib, situation, {}) == Plan{Path::shared, 2 * mib, 8});
    situation.advice = &direct;
    CHECK(plan_send(64 * mib, situation, {}) == Plan{Path::shared, mib, 16});
    situation.exports = Exports::landing;
    CHECK(plan_send(64 * mib, situation, {}) == Plan{Path::peer_to_peer, mib, 16});
    situation.advice = &by_mpi;
    CHECK(plan_send(64 * mib, situation, {}).path == Path::peer_to_peer);

    const Advice mapped(Way{Path::shared, true, false, 512 * kib, 3});
    situation = cpu_same_host;
    situation.advice = &mapped;
    CHECK(plan_mapping(true, 4 * mib, &mapped, {}));
    CHECK(plan_send(4 * mib, situation, {}).path == Path::chunked);
    situation.ring = true;
    CHECK(plan_send(4 * mib, situation, {}) == Plan{Path::shared, 512 * kib, 3});
}

TEST_CASE("large messages are copied from the sender's device, smaller ones through a ring") {
    Situation situation = gpu_same_host;
    situation.ring = true;
    const auto path = [&](std::size_t size, Exports exports, const Config &config = {}) {
        situation.exports = exports;
        return plan_send(size, situation, config).path;
    };
    CHECK(plan_send(16 * kib, situation, {}).eager);
    CHECK(path(16 * kib + 1, Exports::range) == Path::shared);
    CHECK(path(gib, Exports::nothing) == Path::shared);
    CHECK(path(mib - 1, Exports::landing) == Path::shared);
    CHECK(path(mib, Exports::landing) == Path::peer_to_peer);
    CHECK(path(256 * kib - 1, Exports::range) == Path::shared);
    CHECK(path(256 * kib, Exports::range) == Path::peer_to_peer);
    CHECK(path(64 * kib, Exports::landing, forced(Path::peer_to_peer)) == Path::peer_to_peer);
    CHECK(path(gib, Exports::range, forced(Path::shared)) == Path::shared);
}

TEST_CASE("blocks go through a ring if there is one, and are never more than the ring holds") {
    const auto with_ring = [](Situation situation) {
        situation.ring = true;
        return situation;
    };
    constexpr Situation cpu_copied{true, false, true};
    for (const Situation &situation : {with_ring(cpu_copied), with_ring(gpu_same_host)}) {
        for (const std::size_t size : {512 * kib, 4 * mib + 1, 256 * mib, 6 * gib}) {
            for (const std::size_t block : {std::size_t{0}, std::size_t{4097}, mib, gib}) {
                CAPTURE(size);
                CAPTURE(block);
                Config config = forced(Path::shared);
                config.block_size.value = block;
                const Plan plan = plan_send(size, situation, config);
                CHECK(plan.path == Path::shared);
                CHECK(plan.depth >= 1);
                CHECK(plan.block * plan.depth <= ring_capacity);
                CHECK(plan_send(size, situation, {}).path ==
                      (situation.host_memory ? Path::chunked : Path::shared));
                CHECK(plan_send(size, situation, forced(Path::chunked)).path == Path::chunked);
            }
        }
        CHECK(plan_send(64, situation, forced(Path::shared)).eager);
    }
    CHECK(plan_send(mib, cpu_same_host, forced(Path::shared)).path == Path::chunked);
    // Between CPU devices, whose memory is mapped, MPI's own paths are as fast.
    CHECK(plan_send(mib, with_ring(cpu_same_host), {}).path == Path::chunked);
    CHECK(plan_copying(false, true, true, 512 * kib, nullptr, {}));
    CHECK_FALSE(plan_copying(false, true, true, 512 * kib + 1, nullptr, {}));
}

TEST_CASE("a queue copies messages of a discrete device eagerly, up to a limit") {
    CHECK(plan_copying(false, true, false, 1, nullptr, {}));
    CHECK(plan_copying(false, true, false, 4 * mib, nullptr, {}));
    CHECK_FALSE(plan_copying(false, true, false, 4 * mib + 1, nullptr, {}));
    CHECK(plan_copying(false, false, false, 256 * kib, nullptr, {}));
    CHECK_FALSE(plan_copying(false, false, false, 256 * kib + 1, nullptr, {}));
    for (const bool host_memory : {true, false}) {
        CHECK_FALSE(plan_copying(host_memory, true, false, 0, nullptr, forced(Path::staged)));
        CHECK(plan_copying(host_memory, true, false, mib, nullptr, forced(Path::staged)));
        CHECK_FALSE(plan_copying(host_memory, true, false, mib, nullptr, forced(Path::mapped)));
        CHECK_FALSE(plan_copying(host_memory, true, false, mib, nullptr, forced(Path::chunked)));
    }
    CHECK_FALSE(plan_copying(true, true, false, mib, nullptr, {}));
    Config config;
    config.staged_max.value = 4 * kib;
    CHECK_FALSE(plan_copying(false, true, false, 4 * kib + 1, nullptr, config));
}

TEST_CASE("strided regions can't be transferred in place") {
    const Situation apart{true, true, false, true};
    for (const Path path : {Path::automatic, Path::mapped, Path::chunked}) {
        CHECK(plan_send(mib, apart, forced(path)).path == Path::chunked);
        CHECK(plan_recv(mib, 64 * kib, apart, forced(path)).path == Path::chunked);
    }
    CHECK(plan_send(mib, apart, forced(Path::staged)).path == Path::staged);
    CHECK(plan_send(4 * kib, apart, {}) == plan_send(4 * kib, cpu, {}));
}

TEST_CASE("an empty message is sent in its header on every path") {
    for (const Path path : {Path::automatic, Path::mapped, Path::staged, Path::chunked})
        CHECK(plan_send(0, cpu_unmapped, forced(path)).eager);
}

TEST_CASE("a forced path is taken for every size") {
    for (const std::size_t size : {std::size_t{1}, 4 * kib, 100 * mib, 5 * gib}) {
        for (const bool same_host : {true, false}) {
            for (const bool host_memory : {true, false}) {
                CHECK(plan_send(size, {host_memory, true, same_host}, forced(Path::mapped)).path ==
                      Path::mapped);
                CHECK(plan_send(size, {host_memory, false, same_host}, forced(Path::staged)).path ==
                      Path::staged);
                CHECK(
                    plan_send(size, {host_memory, false, same_host}, forced(Path::chunked)).path ==
                    Path::chunked);
            }
        }
    }
}

TEST_CASE("if mapping was refused, the size decides") {
    CHECK(plan_send(8, cpu_unmapped, forced(Path::mapped)).path == Path::staged);
    CHECK(plan_send(mib, cpu_unmapped, {}).path == Path::chunked);
}

TEST_CASE(
    "every plan's blocks can be counted by MPI and cover the message, and its depth is at most the "
    "number of blocks") {
    for (const Path path : {Path::automatic, Path::mapped, Path::staged, Path::chunked}) {
        for (const std::size_t size :
             {std::size_t{1}, 4 * kib + 1, 64 * kib, mib - 1, 64 * mib, 5 * gib}) {
            for (const Situation &situation : {cpu, cpu_same_host, cpu_unmapped, gpu}) {
                const Plan send = plan_send(size, situation, forced(path));
                CAPTURE(size);
                CHECK(send.block >= 1);
                CHECK(send.block <= max_block);
                CHECK(send.block <= size);
                const std::size_t blocks = (size + send.block - 1) / send.block;
                CHECK(send.depth >= 1);
                CHECK(send.depth <= blocks);
                const Plan recv = plan_recv(size, send.block, situation, forced(path));
                CHECK(recv.block == send.block);
                CHECK(recv.depth >= 1);
                CHECK(recv.depth <= blocks);
                CHECK_FALSE(recv.eager);
            }
        }
    }
}

TEST_CASE(
    "block size and depth follow the settings; the receiver's block size always comes from the "
    "sender") {
    Config config;
    config.path = Path::chunked;
    config.block_size.value = 100;
    config.depth = 7;
    CHECK(plan_send(10'000, gpu, config) == Plan{Path::chunked, 100, 7, false});
    CHECK(plan_recv(10'000, 3000, gpu, config) == Plan{Path::chunked, 3000, 4, false});
}

TEST_CASE("the limit for eager messages follows its setting") {
    Config config;
    config.staged_max.value = mib;
    CHECK(plan_send(mib, cpu, config).eager);
    CHECK_FALSE(plan_send(mib + 1, cpu, config).eager);
}

TEST_CASE("files are transferred in place or in blocks, depending on device, path and file") {
    const Situation mapped{true, true, false};
    const Situation cpu_copied{true, false, false};
    struct Row {
        const char *what;
        std::size_t size;
        Situation situation;
        FileBlocks file;
        Path path;
        Plan plan;
    };
    const FileBlocks one{1, 1};
    const FileBlocks four{4, 1};
    const FileBlocks aligned{1, 4096};
    const FileBlocks coarse{1, 3 * mib};
    const FileBlocks whole{1, 0};
    for (const Row &row :
         {Row{"in place, one thread",
              300 * mib,
              mapped,
              one,
              Path::automatic,
              {Path::mapped, 64 * mib, 2, false}},
          Row{"in place, small", 100, mapped, one, Path::automatic, {Path::mapped, 100, 1, false}},
          Row{"in place, four threads",
              300 * mib,
              mapped,
              four,
              Path::automatic,
              {Path::mapped, 2 * mib, 5, false}},
          Row{"in place, too small for threads",
              10 * mib,
              mapped,
              four,
              Path::automatic,
              {Path::mapped, 10 * mib, 1, false}},
          Row{"in place, forced",
              300 * mib,
              mapped,
              four,
              Path::mapped,
              {Path::mapped, 2 * mib, 5, false}},
          Row{"mapping was refused",
              8 * mib,
              cpu_copied,
              one,
              Path::mapped,
              {Path::chunked, 2 * mib, 3, false}},
          Row{"a GPU", 64 * mib, gpu, one, Path::automatic, {Path::chunked, 2 * mib, 4, false}},
          Row{"a GPU, four threads",
              64 * mib,
              gpu,
              four,
              Path::automatic,
              {Path::chunked, 2 * mib, 7, false}},
          Row{"a GPU, small", 100, gpu, four, Path::automatic, {Path::staged, 100, 1, false}},
          Row{"staged: one block",
              64 * mib,
              gpu,
              four,
              Path::staged,
              {Path::staged, 64 * mib, 1, false}},
          Row{"staged: the largest block",
              3 * gib,
              gpu,
              one,
              Path::staged,
              {Path::staged, gib, 1, false}},
          Row{"staged, where memory could be mapped",
              mib,
              mapped,
              one,
              Path::staged,
              {Path::staged, mib, 1, false}},
          Row{"chunked, where memory could be mapped",
              8 * mib,
              mapped,
              one,
              Path::chunked,
              {Path::chunked, 2 * mib, 3, false}},
          Row{"in one block, in place",
              3 * gib,
              mapped,
              whole,
              Path::automatic,
              {Path::mapped, 3 * gib, 1, false}},
          Row{"in one block, of a GPU",
              3 * gib,
              gpu,
              whole,
              Path::chunked,
              {Path::staged, 3 * gib, 1, false}},
          Row{"whole sectors",
              9'000'000,
              cpu_copied,
              aligned,
              Path::automatic,
              {Path::chunked, 2 * mib, 3, false}},
          Row{"blocks of the file's granularity",
              15 * mib,
              cpu_copied,
              coarse,
              Path::automatic,
              {Path::chunked, 3 * mib, 3, false}}}) {
        CAPTURE(row.what);
        const Plan plan = plan_file(row.size, row.situation, row.file, forced(row.path));
        CAPTURE(plan.block);
        CAPTURE(plan.depth);
        CHECK(plan == row.plan);
    }
}

TEST_CASE(
    "every plan of a file covers it with multiples of the file's granularity, in bounded memory") {
    for (const Path path : {Path::automatic, Path::mapped, Path::staged, Path::chunked}) {
        for (const std::size_t size : {std::size_t{1}, 4 * kib + 1, mib - 1, 64 * mib, 5 * gib}) {
            for (const Situation &situation : {cpu, cpu_unmapped, gpu}) {
                for (const unsigned threads : {1U, 8U}) {
                    for (const std::size_t grain :
                         {std::size_t{0}, std::size_t{1}, 4 * kib, 3 * mib}) {
                        for (const std::size_t asked : {std::size_t{0}, std::size_t{1}, 64 * kib}) {
                            Config config = forced(path);
                            config.block_size.value = asked;
                            const Plan plan = plan_file(size, situation, {threads, grain}, config);
                            CAPTURE(size);
                            CAPTURE(grain);
                            CHECK(plan.block >= 1);
                            CHECK(plan.block <= size);
                            const std::size_t blocks = (size + plan.block - 1) / plan.block;
                            CHECK(plan.depth >= 1);
                            CHECK(plan.depth <= blocks);
                            if (grain == 0)
                                CHECK(blocks == 1);
                            else if (blocks > 1)
                                CHECK(plan.block % grain == 0);
                            if (plan.depth > 2 && plan.path != Path::mapped)
                                CHECK(plan.block * plan.depth <= 64 * mib);
                            CHECK((plan.path == Path::mapped) <= situation.mapped);
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("on one host a mapped range may be staged or go in place, and both ends do the same") {
    const Config nothing{};
    for (const std::size_t size : {512 * kib, 3 * mib + 1, 64 * mib, 1024 * mib}) {
        CAPTURE(size);
        REQUIRE(may_stage(size, cpu_same_host, nothing));
        CHECK(plan_send(size, cpu_same_host, nothing).path == Path::chunked);
        Situation in_place = cpu_same_host;
        in_place.in_place = true;
        const Plan sent = plan_send(size, in_place, nothing);
        CHECK(sent.path == Path::mapped);
        CHECK(sent.block <= 16 * mib);
        CHECK(plan_recv(size, sent.block, in_place, nothing).path == Path::mapped);
    }
    CHECK_FALSE(may_stage(64 * mib, cpu, nothing));
    CHECK_FALSE(may_stage(64 * mib, gpu_same_host, nothing));
    CHECK_FALSE(may_stage(64 * mib, cpu_unmapped, nothing));
    CHECK_FALSE(may_stage(256 * kib, cpu_same_host, nothing));
    CHECK_FALSE(may_stage(64 * mib, cpu_same_host, forced(Path::mapped)));
    CHECK_FALSE(may_stage(64 * mib, cpu_same_host, forced(Path::chunked)));
}
