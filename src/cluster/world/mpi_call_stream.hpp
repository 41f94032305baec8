#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include <mpi.h>

#include "cluster/world/call_stream.hpp"

namespace cldist::cluster {

/// Sends MPI messages down a binomial tree. A process receives the next message when it has
/// executed the last message's calls, and forwards it at once. Sends are synchronous, and only a
/// few are in transit, so memory is bounded.
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
    /// Waits until at most `most` messages are in transit.
    void wait_for(std::size_t most);
    /// Removes the oldest message in transit and returns true if all children have received it.
    bool first_was_taken();

    const MPI_Comm comm_;
    const CallTree tree_;
    std::deque<Sending> sendings_;  ///< messages in transit
    std::shared_ptr<const Records> last_;
    std::thread thread_;
};

}  // namespace cldist::cluster
