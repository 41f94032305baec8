#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "events/record.hpp"

namespace cldist {

class Communicator;

/// A send of a message in blocks.
struct BlockSend {
    std::shared_ptr<const Record> record;
    std::shared_ptr<const Communicator> comm;
};

/// Numbers for the blocks of one message each, none used twice at the same time. Thread-safe.
class Channels {
public:
    explicit Channels(int largest) : largest_(largest) {}

    /// Throws an Error with CL_OUT_OF_RESOURCES if all are in use.
    int acquire(BlockSend send = {});
    void release(int channel);
    /// The sends of which nothing has moved since `time`; each is listed once.
    std::vector<BlockSend> unmoved_since(std::uint64_t time);

private:
    const int largest_;
    std::mutex mutex_;
    int next_ = 0;
    std::map<int, BlockSend> in_use_;  ///< without a record once it was listed
};

}  // namespace cldist
