#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include <mpi.h>

#include "cluster/world/call_stream.hpp"

namespace cldist::cluster {

/// Uses MPI messages down a binomial tree. A process receives the next message when it has executed
/// the last one's calls, and forwards it at once. The sender knows when a message was received, and
/// has only a few in transit. So memory is bounded.
class MpiCallStream final : public CallStream {
public:
    /// Duplicates the communicator; collective.
    explicit MpiCallStream(MPI_Comm comm);

    void begin(Recorder &recorder) override;
    void finish() override;
    std::span<const std::byte> next() override;

private:
    using Records = std::vector<std::byte>;
    struct Sending {
        std::shared_ptr<const Records> records;
        std::vector<MPI_Request> requests;
    };

    void run(Recorder &recorder);
    void send(std::shared_ptr<const Records> records);
    /// Waits until at most so many messages are on their way.
    void wait_for(std::size_t most);
    bool first_was_taken();

    const MPI_Comm comm_;
    const CallTree tree_;
    std::deque<Sending> sendings_;
    std::shared_ptr<const Records> last_;
    std::thread thread_;
};

}  // namespace cldist::cluster
