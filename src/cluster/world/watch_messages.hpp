#pragma once

#include <list>
#include <optional>
#include <string>
#include <string_view>

#include <mpi.h>

namespace cldist::cluster {

/// The messages of a DivergenceWatch. One thread at a time.
class WatchMessages {
public:
    enum Tag : int { report, hashes, answer, verdict, host, threads, question, consent, decision };
    struct Message {
        int from;
        Tag tag;
        std::string bytes;
    };

    /// Collective over `comm`, which is duplicated. Throws an Error, like all functions.
    explicit WatchMessages(MPI_Comm comm);
    /// Frees the duplicate. Collective.
    void close();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    /// Starts a synchronous send, which ends when the receiver has received the message.
    void send(int to, Tag tag, std::string bytes);
    /// Frees the messages whose sends have ended. Returns true if there were some.
    bool free_sent();
    /// Returns true if a send has not ended.
    [[nodiscard]] bool is_sending() const { return !sendings_.empty(); }
    [[nodiscard]] bool is_sending(int to, Tag tag) const;
    /// Returns a message that has arrived.
    [[nodiscard]] std::optional<Message> receive();
    /// Enters the last barrier. Returns true when all processes have entered it.
    bool pass_barrier();
    [[nodiscard]] bool in_barrier() const { return barrier_ != MPI_REQUEST_NULL; }
    /// Prints the message and calls MPI_Abort.
    void end_job(std::string_view message);

private:
    struct Sending {
        int to;
        Tag tag;
        std::string bytes;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    MPI_Comm comm_;
    const int rank_;
    const int size_;
    std::list<Sending> sendings_;
    MPI_Request barrier_ = MPI_REQUEST_NULL;
};

}  // namespace cldist::cluster
