#include "pipeline/block_pipeline.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace cldist;

namespace {

// An endpoint whose blocks end only when the test allows it. It records all requests.
class FakeEndpoint final : public DeviceEndpoint {
public:
    explicit FakeEndpoint(std::size_t blocks)
        : allowed_(blocks, 0), outcomes_(blocks), parts_(blocks) {}

    Outcome open() override {
        ++opened;
        return opened > 1 ? Outcome(open_outcome) : std::nullopt;
    }
    void start(const Block &block) override {
        started.push_back(block.index);
        sizes.push_back(block.size);
        busy_slots.push_back(block.slot);
    }
    void skip(const Block &block) override {
        skipped.push_back(block.index);
        busy_slots.push_back(block.slot);
    }
    Outcome ended(const Block &block) override {
        if (allowed_[block.index] == 0) return std::nullopt;
        busy_slots.erase(std::find(busy_slots.begin(), busy_slots.end(), block.slot));
        return block.skipped ? Status{} : outcomes_[block.index];
    }
    [[nodiscard]] std::size_t moved_of_failed(const Block &block) const override {
        return parts_[block.index];
    }
    Outcome close() override {
        closed = true;
        return Status{};
    }
    std::byte *host(const Block &) override { return nullptr; }

    void allow(std::size_t block) { allowed_[block] = 1; }
    void fail(std::size_t block, cl_int code, std::size_t moved = 0) {
        outcomes_[block] = Status::failure(code, "as asked");
        parts_[block] = moved;
    }

    int opened = 0;
    bool closed = false;
    Status open_outcome;
    std::vector<std::size_t> started, skipped, sizes;
    std::vector<unsigned> busy_slots;

private:
    std::vector<char> allowed_;
    std::vector<Status> outcomes_;
    std::vector<std::size_t> parts_;
};

std::vector<std::size_t> first(std::size_t n) {
    std::vector<std::size_t> indices(n);
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    return indices;
}

}  // namespace

TEST_CASE(
    "in every order in which blocks may end, all move in order and no slot is used twice at a "
    "time") {
    constexpr std::size_t blocks = 3;
    // Events 0 to 2: block i of the source ends. Events 3 to 5: block i - 3 of the sink ends.
    std::vector<std::size_t> order = first(2 * blocks);
    do {
        for (const unsigned depth : {1U, 2U, 3U}) {
            FakeEndpoint source(blocks);
            FakeEndpoint sink(blocks);
            BlockPipeline pipeline(source, sink, source, 25, Plan{Path::chunked, 10, depth, false});
            CHECK(pipeline.poll() == Progress::idle);
            for (const std::size_t event : order) {
                (event < blocks ? source : sink).allow(event % blocks);
                pipeline.poll();
                auto slots = source.busy_slots;
                std::sort(slots.begin(), slots.end());
                CHECK(std::adjacent_find(slots.begin(), slots.end()) == slots.end());
                CHECK(source.busy_slots.size() + sink.busy_slots.size() <= depth);
            }
            CHECK(pipeline.poll() == Progress::done);
            CHECK(pipeline.status().ok());
            CHECK(pipeline.bytes_moved() == 25);
            CHECK(source.started == first(blocks));
            CHECK(sink.started == first(blocks));
            CHECK(sink.sizes == std::vector<std::size_t>{10, 10, 5});
            CHECK(source.closed);
            CHECK(sink.closed);
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE(
    "after a failure anywhere every block is skipped at both ends, and the first error is "
    "reported") {
    constexpr std::size_t blocks = 4;
    for (std::size_t bad = 0; bad < blocks; ++bad) {
        for (const bool at_source : {true, false}) {
            CAPTURE(bad);
            CAPTURE(at_source);
            FakeEndpoint source(blocks);
            FakeEndpoint sink(blocks);
            (at_source ? source : sink).fail(bad, -42);
            if (bad + 1 < blocks) sink.fail(bad + 1, -43);
            for (std::size_t i = 0; i < blocks; ++i) {
                source.allow(i);
                sink.allow(i);
            }
            BlockPipeline pipeline(source, sink, sink, 40, Plan{Path::chunked, 10, 2, false});
            while (pipeline.poll() != Progress::done) {
            }
            CHECK(pipeline.status().code == -42);
            CHECK(pipeline.bytes_moved() == 10 * bad);
            CHECK(source.started.size() + source.skipped.size() == blocks);
            CHECK(sink.started.size() + sink.skipped.size() == blocks);
            CHECK(sink.closed);
        }
    }
}

TEST_CASE("if an endpoint fails to open, the transfer fails and skips all its blocks") {
    FakeEndpoint source(2);
    FakeEndpoint sink(2);
    source.open_outcome = Status::failure(-5, "no memory");
    for (std::size_t i = 0; i < 2; ++i) {
        source.allow(i);
        sink.allow(i);
    }
    BlockPipeline pipeline(source, sink, source, 20, Plan{Path::chunked, 10, 2, false});
    while (pipeline.poll() != Progress::done) {
    }
    CHECK(pipeline.status().code == -5);
    CHECK(source.started.empty());
    CHECK(sink.skipped == first(2));
}

TEST_CASE("a transfer that failed before it began opens nothing and skips all its blocks") {
    FakeEndpoint source(3);
    FakeEndpoint sink(3);
    for (std::size_t i = 0; i < 3; ++i) {
        source.allow(i);
        sink.allow(i);
    }
    BlockPipeline pipeline(source, sink, source, 30, Plan{Path::chunked, 10, 2, false},
                           Status::failure(CL_MESSAGE_TRUNCATED, "too long"));
    while (pipeline.poll() != Progress::done) {
    }
    CHECK(source.opened == 0);
    CHECK(source.skipped == first(3));
    CHECK(pipeline.status().code == CL_MESSAGE_TRUNCATED);
}

TEST_CASE(
    "bytes read before the source fails are delivered and counted; later blocks are skipped") {
    constexpr std::size_t blocks = 4;
    for (std::size_t bad = 0; bad < blocks; ++bad) {
        for (const std::size_t part : {0U, 1U, 9U}) {
            CAPTURE(bad);
            CAPTURE(part);
            FakeEndpoint source(blocks);
            FakeEndpoint sink(blocks);
            source.fail(bad, -42, part);
            for (std::size_t i = 0; i < blocks; ++i) {
                source.allow(i);
                sink.allow(i);
            }
            BlockPipeline pipeline(source, sink, sink, 40, Plan{Path::chunked, 10, 2, false});
            while (pipeline.poll() != Progress::done) {
            }
            CHECK(pipeline.status().code == -42);
            CHECK(pipeline.bytes_moved() == 10 * bad + part);
            CHECK(std::accumulate(sink.sizes.begin(), sink.sizes.end(), std::size_t{0}) ==
                  10 * bad + part);
            CHECK(sink.started.size() + sink.skipped.size() == blocks);
        }
    }
}

TEST_CASE(
    "bytes written before the sink fails are counted, even if the source failed in a later block") {
    constexpr std::size_t blocks = 4;
    for (const bool source_fails : {false, true}) {
        for (const std::size_t part : {0U, 4U}) {
            FakeEndpoint source(blocks);
            FakeEndpoint sink(blocks);
            sink.fail(1, -43, part);
            // The sink received block 2 before block 1 failed, and takes no more.
            sink.fail(2, -43);
            if (source_fails) source.fail(2, -42, 5);
            // The pipeline sees the sink's failure after the source's.
            for (std::size_t i = 0; i < blocks; ++i) source.allow(i);
            BlockPipeline pipeline(source, sink, source, 40, Plan{Path::chunked, 10, 3, false});
            CHECK(pipeline.poll() != Progress::done);
            CHECK(pipeline.poll() != Progress::done);
            for (std::size_t i = 0; i < blocks; ++i) sink.allow(i);
            while (pipeline.poll() != Progress::done) {
            }
            CHECK(pipeline.status().code == (source_fails ? -42 : -43));
            CHECK(pipeline.bytes_moved() == 10 + part);
        }
    }
}

TEST_CASE("after the sink fails, bytes that the source has already read are not delivered") {
    FakeEndpoint source(3);
    FakeEndpoint sink(3);
    sink.fail(0, -43, 2);
    source.fail(1, -42, 5);
    source.allow(0);
    sink.allow(0);
    sink.allow(1);
    sink.allow(2);
    BlockPipeline pipeline(source, sink, source, 30, Plan{Path::chunked, 10, 2, false});
    for (int i = 0; i < 4; ++i) CHECK(pipeline.poll() != Progress::done);
    source.allow(1);
    source.allow(2);
    while (pipeline.poll() != Progress::done) {
    }
    CHECK(pipeline.status().code == -43);
    CHECK(pipeline.bytes_moved() == 2);
    CHECK(sink.started == first(1));
}
