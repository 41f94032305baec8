#include "mpi_interop/collective_inquiries.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist {
namespace {

// The beginning of every message. In an answer, text follows.
struct Head {
    enum class Kind : std::int32_t { question, nothing_pending, pending };
    Kind kind;
    std::int32_t question;  ///< number of the question in the asking process
    /// In a question: the receiver's number of the communicator; negative if it is unknown.
    std::int32_t context;
    std::uint32_t members;  ///< hash of the members; used if `context` is unknown
};

std::uint32_t hash_of(const std::vector<int> &ranks) {
    std::uint32_t hash = 2166136261U;
    for (const int rank : ranks) hash = (hash ^ static_cast<std::uint32_t>(rank)) * 16777619U;
    return hash;
}

void send(const Head &head, const std::string &text, int rank, MPI_Comm comm) {
    send_inquiry(std::string(reinterpret_cast<const char *>(&head), sizeof head) + text, rank,
                 max_tag_of(comm), comm);
}

/// Describes this process's pending commands.
std::string text_of(const CollectiveLine &line) {
    constexpr std::size_t most = 5;
    std::string text;
    std::size_t listed = 0;
    for (const PendingCollectives::Pending &each : line.pending().first(most + 1)) {
        if (listed++ == most) {
            text += ", and more";
            break;
        }
        const bool waits = each.record->state().phase == CL_QUEUED;
        text += fmt::format("{}command {}, {}{}", text.empty() ? "" : "; ", each.number, each.call,
                            waits ? " (waits for its wait list or its queue)" : "");
    }
    return text.empty() ? fmt::format("no command pending, {} ended", line.pending().added())
                        : text;
}

std::string ranks_text(const std::vector<int> &ranks) {
    constexpr std::size_t most = 10;
    std::string text = ranks.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i)
        text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
    return ranks.size() > most ? text + fmt::format(" and {} more", ranks.size() - most) : text;
}

}  // namespace

void send_inquiry(std::string data, int rank, int tag, MPI_Comm comm) {
    struct Sent {
        std::string data;
        MPI_Request request = MPI_REQUEST_NULL;
    };
    // Never destroyed, because MPI may still read unsent messages. Only the progress thread sends.
    static auto &sent = *new std::list<Sent>;
    sent.remove_if([](Sent &s) {
        int done = 0;
        return PMPI_Test(&s.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    });
    Sent &next = sent.emplace_back(Sent{std::move(data)});
    PMPI_Isend(next.data.data(), static_cast<int>(next.data.size()), MPI_BYTE, rank, tag, comm,
               &next.request);
}

std::optional<InquiryMessage> receive_inquiry(int tag, MPI_Comm comm) {
    const OwnYields own_yields;
    int found = 0;
    MPI_Status status;
    if (PMPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &found, &status) != MPI_SUCCESS || found == 0)
        return {};
    InquiryMessage message{status.MPI_SOURCE, std::string(bytes_of(status), '\0')};
    if (PMPI_Recv(message.data.data(), static_cast<int>(message.data.size()), MPI_BYTE,
                  message.source, tag, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return {};
    return message;
}

struct CollectiveInquiries::Question {
    struct Answer {
        bool pending;
        std::string text;
    };
    int number;
    std::shared_ptr<CollectiveLine> line;
    std::uint64_t asked_ns;
    std::map<int, Answer> answers;  ///< by rank in the line
};

CollectiveInquiries::CollectiveInquiries(Communicators &communicators, double stall_seconds)
    : communicators_(communicators), stall_seconds_(stall_seconds) {}
CollectiveInquiries::~CollectiveInquiries() = default;

void CollectiveInquiries::tick() {
    if (stall_seconds_ <= 0) return;
    ask_about_older(static_cast<std::uint64_t>(stall_seconds_ * 1e9));
    answered();
}

bool CollectiveInquiries::answered() {
    for (const MPI_Comm comm : communicators_.collective_comms()) serve(comm);
    report(now_ns());
    return questions_.empty();
}

void CollectiveInquiries::ask_about_older(std::uint64_t age_ns) {
    const std::uint64_t now = now_ns();
    const auto lines = communicators_.collectives();
    std::erase_if(asked_, [&](const auto &asked) {
        return std::none_of(lines.begin(), lines.end(),
                            [&](const auto &line) { return line.get() == asked.first; });
    });
    for (const auto &line : lines) {
        const auto first = line->pending().first(1);
        if (first.empty()) continue;
        // The first command may be old, although the commands before it have ended just now.
        if (std::max(first[0].record->last_moved(), line->pending().last_removed()) + age_ns > now)
            continue;
        // Asks once for each command that was first when it stalled.
        if (std::exchange(asked_[line.get()], first[0].number) != first[0].number) ask(line, now);
    }
}

void CollectiveInquiries::ask(const std::shared_ptr<CollectiveLine> &line, std::uint64_t now) {
    Question &question = questions_.emplace_back(Question{next_++, line, now, {}});
    question.answers[line->rank()] = {true, text_of(*line)};
    for (int rank = 0; rank < line->size(); ++rank) {
        if (rank == line->rank()) continue;
        const int context = line->agreed() ? line->context(rank) : -1;
        send({Head::Kind::question, question.number, context, hash_of(line->ranks())}, {},
             line->ranks()[static_cast<std::size_t>(rank)], line->comm());
    }
}

void CollectiveInquiries::serve(MPI_Comm comm) {
    while (const auto message = receive_inquiry(max_tag_of(comm), comm)) {
        const std::string &data = message->data;
        Head head{};
        if (data.size() < sizeof head) continue;
        std::memcpy(&head, data.data(), sizeof head);
        if (head.kind == Head::Kind::question) {
            // A line that does not exist here has no command here.
            Head answer{Head::Kind::nothing_pending, head.question, 0, 0};
            std::string text = "no command";
            for (const auto &line : communicators_.collectives()) {
                const bool meant = head.context >= 0
                                       ? line->own_context() == head.context
                                       : !line->agreed() && hash_of(line->ranks()) == head.members;
                if (line->comm() != comm || !meant) continue;
                if (!line->pending().first(1).empty()) answer.kind = Head::Kind::pending;
                text = text_of(*line);
                break;
            }
            send(answer, text, message->source, comm);
            continue;
        }
        for (Question &question : questions_) {
            if (question.number != head.question || question.line->comm() != comm) continue;
            const std::vector<int> &ranks = question.line->ranks();
            const auto from =
                std::find(ranks.begin(), ranks.end(), message->source) - ranks.begin();
            question.answers[static_cast<int>(from)] = {head.kind == Head::Kind::pending,
                                                        data.substr(sizeof head)};
        }
    }
}

void CollectiveInquiries::report(std::uint64_t now) {
    const auto patience = static_cast<std::uint64_t>(std::max(stall_seconds_, 2.0) * 1e9);
    questions_.remove_if([&](const Question &question) {
        const int size = question.line->size();
        const bool all = question.answers.size() == static_cast<std::size_t>(size);
        if (!all && now - question.asked_ns < patience) return false;
        // Only the lowest waiting rank prints. It prints nothing if it has made progress meanwhile.
        const auto lowest = std::find_if(question.answers.begin(), question.answers.end(),
                                         [](const auto &answer) { return answer.second.pending; });
        if (lowest->first != question.line->rank() || question.line->pending().first(1).empty())
            return true;
        std::map<std::string, std::vector<int>> by_text;
        std::vector<int> missing;
        for (int rank = 0; rank < size; ++rank) {
            const auto answer = question.answers.find(rank);
            by_text[answer == question.answers.end() ? "no answer" : answer->second.text].push_back(
                rank);
            if (answer == question.answers.end() || !answer->second.pending)
                missing.push_back(rank);
        }
        std::string text;
        for (const auto &[what, ranks] : by_text)
            text += fmt::format("\n  {}: {}", ranks_text(ranks), what);
        if (!missing.empty())
            text += fmt::format("\n  missing: {}", ranks_text(missing));
        else if (by_text.size() > 1)
            text +=
                "\n  if calls, sizes or roots differ, CLDIST_CHECK=on finds the first command that "
                "does";
        log_error("collective commands on {} ({} processes) do not end:{}", question.line->name(),
                  size, text);
        return true;
    });
}

}  // namespace cldist
