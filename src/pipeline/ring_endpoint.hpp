#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "events/record.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/ring.hpp"

namespace cldist {

/// The process at the other end of a ring.
struct RingPeer {
    std::string name;             ///< for example "rank 3"
    std::function<bool()> lives;  ///< any thread may call it
};

/// The far end of a message whose blocks pass through a ring. The device endpoints of both
/// processes copy the bytes. This endpoint only updates the ring's counters. The ring must be
/// reserved with take(). The endpoint ends the reservation.
class RingEndpoint final : public Endpoint {
public:
    RingEndpoint(std::shared_ptr<Ring> ring, RingPeer peer, Direction direction, const Plan &plan,
                 std::size_t size, std::shared_ptr<Record> record);
    ~RingEndpoint() override;

    void start(const Block &block) override;
    void skip(const Block &block) override;
    Outcome ended(const Block &block) override;
    Outcome close() override;

private:
    [[nodiscard]] bool passed(const Block &block) const;
    [[nodiscard]] bool left_alone();

    const std::shared_ptr<Ring> ring_;
    const RingPeer peer_;
    const bool sends_;
    const std::size_t count_;
    std::vector<std::uint64_t> start_ns_;  ///< per slot
    const std::shared_ptr<Record> record_;
    std::uint64_t next_check_ns_ = 0;  ///< when to check again whether the peer lives
    bool alone_ = false;
    bool clean_ = false;  ///< sender: the receiver has read all blocks
    bool given_back_ = false;
};

}  // namespace cldist
