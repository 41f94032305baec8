#include "pipeline/ring_endpoint.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "pipeline/block_pipeline.hpp"
#include "support.hpp"

using namespace cldist;

namespace {

// The device endpoint of a pipeline over a ring. It copies from or to a vector in start().
class Bytes final : public DeviceEndpoint {
public:
    Bytes(std::vector<std::byte> &bytes, Ring &ring, bool sends, std::size_t block)
        : bytes_(bytes), ring_(ring), sends_(sends), block_(block) {}

    std::byte *host(const Block &block) override { return ring_.data() + block.slot * block_; }
    void start(const Block &block) override {
        std::byte *const own = bytes_.data() + block.offset;
        std::memcpy(sends_ ? block.host : own, sends_ ? own : block.host, block.size);
    }
    void skip(const Block &) override {}
    Outcome ended(const Block &block) override {
        return block.index == fails_at ? failure : Status{};
    }

    std::size_t fails_at = ~std::size_t{0};
    const Status failure = Status::failure(CL_OUT_OF_RESOURCES, "as asked");

private:
    std::vector<std::byte> &bytes_;
    Ring &ring_;
    const bool sends_;
    const std::size_t block_;
};

std::shared_ptr<Record> some_record(Direction direction, std::size_t size) {
    return std::make_shared<Record>(direction, 1, 1, 0, size);
}

// One end of a message through a ring, with its pipeline.
struct Side {
    Side(const std::shared_ptr<Ring> &ring, Direction direction, std::vector<std::byte> &bytes,
         const Plan &plan, const bool &peer_lives)
        : device(bytes, *ring, direction == Direction::send, plan.block),
          far(ring, {"rank 1", [&peer_lives] { return peer_lives; }}, direction, plan, bytes.size(),
              some_record(direction, bytes.size())),
          pipeline(direction == Direction::send ? static_cast<Endpoint &>(device) : far,
                   direction == Direction::send ? static_cast<Endpoint &>(far) : device, device,
                   bytes.size(), plan) {}

    Bytes device;
    RingEndpoint far;
    BlockPipeline pipeline;
};

// The two ends of one ring, as its two processes open them.
struct Pair {
    Pair() : receivers(Ring::open(descriptor, senders->id())) {}

    Descriptor descriptor;
    std::shared_ptr<Ring> senders = Ring::create(descriptor);
    std::shared_ptr<Ring> receivers;
};

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 4096);
    return bytes;
}

bool lives = true;

}  // namespace

TEST_CASE("messages of any block size pass through a ring in order and unchanged") {
    Pair pair;
    for (const std::size_t size : {1 * kib, 64 * kib, 100 * kib + 1, 1000 * kib}) {
        for (const Plan &plan : {Plan{Path::shared, size, 1}, Plan{Path::shared, 16 * kib, 2},
                                 Plan{Path::shared, 7001, 5}}) {
            CAPTURE(size);
            CAPTURE(plan.block);
            REQUIRE(pair.senders->take());
            REQUIRE(pair.receivers->take());
            std::vector<std::byte> sent = pattern(size);
            std::vector<std::byte> received(size);
            Side sender(pair.senders, Direction::send, sent, plan, lives);
            Side receiver(pair.receivers, Direction::recv, received, plan, lives);
            bool done = false;
            for (int turn = 0; turn < 100000 && !done; ++turn) {
                const bool sent_all = sender.pipeline.poll() == Progress::done;
                const bool received_all = receiver.pipeline.poll() == Progress::done;
                done = sent_all && received_all;
            }
            CHECK(done);
            CHECK(sender.pipeline.status().ok());
            CHECK(receiver.pipeline.status().ok());
            CHECK(std::equal(sent.begin(), sent.end(), received.begin()));
        }
    }
}

TEST_CASE("the sender may reuse a ring as soon as it knows that the receiver has everything") {
    Pair pair;
    REQUIRE(pair.senders->take());
    REQUIRE(pair.receivers->take());
    CHECK_FALSE(pair.senders->take());
    std::vector<std::byte> bytes = pattern(kib);
    std::vector<std::byte> received(kib);
    const Plan plan{Path::shared, kib, 1};
    auto sender = std::make_unique<Side>(pair.senders, Direction::send, bytes, plan, lives);
    const Side receiver(pair.receivers, Direction::recv, received, plan, lives);
    sender->pipeline.poll();
    CHECK(const_cast<BlockPipeline &>(receiver.pipeline).poll() == Progress::done);
    CHECK(sender->pipeline.poll() == Progress::done);
    sender.reset();
    CHECK(pair.senders->take());
    CHECK(pair.receivers->take());  // the receiver's end still exists
}

TEST_CASE(
    "a sender that fails reports the first failed block to the receiver, and the ring is reused") {
    Pair pair;
    REQUIRE(pair.senders->take());
    REQUIRE(pair.receivers->take());
    std::vector<std::byte> bytes = pattern(64 * kib);
    std::vector<std::byte> received(64 * kib);
    const Plan plan{Path::shared, 8 * kib, 2};
    {
        Side sender(pair.senders, Direction::send, bytes, plan, lives);
        Side receiver(pair.receivers, Direction::recv, received, plan, lives);
        sender.device.fails_at = 3;
        for (int turn = 0; turn < 100; ++turn) {
            sender.pipeline.poll();
            receiver.pipeline.poll();
        }
        CHECK(sender.pipeline.poll() == Progress::done);
        CHECK(sender.pipeline.status().code == CL_OUT_OF_RESOURCES);
        CHECK(receiver.pipeline.poll() == Progress::done);
        CHECK(receiver.pipeline.status().code == CL_PEER_TRANSFER_FAILED);
        CHECK(receiver.pipeline.bytes_moved() == 24 * kib);
    }
    CHECK(pair.senders->take());
    CHECK(pair.receivers->take());
}

TEST_CASE("if the receiver fails, it takes the remaining blocks and the sender succeeds") {
    Pair pair;
    REQUIRE(pair.senders->take());
    REQUIRE(pair.receivers->take());
    std::vector<std::byte> bytes = pattern(64 * kib);
    std::vector<std::byte> received(64 * kib);
    const Plan plan{Path::shared, 8 * kib, 2};
    Side sender(pair.senders, Direction::send, bytes, plan, lives);
    Side receiver(pair.receivers, Direction::recv, received, plan, lives);
    receiver.device.fails_at = 1;
    for (int turn = 0; turn < 100; ++turn) {
        sender.pipeline.poll();
        receiver.pipeline.poll();
    }
    CHECK(sender.pipeline.poll() == Progress::done);
    CHECK(sender.pipeline.status().ok());
    CHECK(receiver.pipeline.poll() == Progress::done);
    CHECK(receiver.pipeline.status().code == CL_OUT_OF_RESOURCES);
}

TEST_CASE("if one end disappears in the middle of a message, the other end fails") {
    const auto ends = [](BlockPipeline &pipeline) {
        for (const auto since = std::chrono::steady_clock::now();
             std::chrono::steady_clock::now() - since < std::chrono::seconds(10);)
            if (pipeline.poll() == Progress::done) return true;
        return false;
    };
    std::vector<std::byte> bytes = pattern(64 * kib);
    std::vector<std::byte> received(64 * kib);
    const Plan plan{Path::shared, 8 * kib, 2};
    SUBCASE("its peer has died") {
        for (const Direction direction : {Direction::send, Direction::recv}) {
            Pair pair;
            REQUIRE(pair.senders->take());
            bool peer_lives = true;
            Side side(pair.senders, direction, bytes, plan, peer_lives);
            side.pipeline.poll();
            peer_lives = false;
            CHECK(ends(side.pipeline));
            CHECK(side.pipeline.status().code == CL_PEER_TRANSFER_FAILED);
        }
    }
    SUBCASE("its peer has given up the message") {
        Pair pair;
        REQUIRE(pair.senders->take());
        REQUIRE(pair.receivers->take());
        {
            Side sender(pair.senders, Direction::send, bytes, plan, lives);
            sender.pipeline.poll();
        }
        CHECK(pair.senders->closed());
        {
            Side receiver(pair.receivers, Direction::recv, received, plan, lives);
            CHECK(ends(receiver.pipeline));
            CHECK(receiver.pipeline.status().code == CL_PEER_TRANSFER_FAILED);
        }
        CHECK(pair.receivers->closed());
    }
}

TEST_CASE("an idle ring is released, first by the process that created it") {
    Pair pair;
    Ring::release_idle(3600);
    CHECK_FALSE(pair.senders->closed());
    REQUIRE(pair.senders->take());
    Ring::release_idle(0);
    CHECK_FALSE(pair.senders->closed());
    pair.senders->give_back(true);
    REQUIRE(pair.receivers->take());
    pair.receivers->give_back(true);
    Ring::release_idle(0);
    CHECK(pair.senders->closed());
    CHECK_FALSE(pair.senders->take());
    Ring::release_idle(0);
    CHECK(pair.receivers->closed());
}

TEST_CASE("memory of the wrong size is not accepted as a ring") {
    const Descriptor none;
    CHECK_THROWS_AS(Ring::open(none, 1), Error);
}
