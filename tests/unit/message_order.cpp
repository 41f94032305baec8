#include "mpi_interop/message_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <deque>
#include <functional>
#include <string>

using namespace cldist;

namespace {

struct sent_message {
    int source;
    int tag;
    std::size_t arrives;  ///< it arrives before the probe with this number
    bool taken = false;
};

/// One communicator of a simulated MPI. Its messages arrive between the probes.
class scripted_mpi final : public Probing {
public:
    /// In the order of arrival. The `bytes` of a message are its index here.
    std::vector<sent_message> messages;
    int first_source = 0;  ///< the sender that MPI_ANY_SOURCE prefers if several match
    std::size_t probes = 0;
    /// Called before take().
    std::function<void()> meanwhile = [] {};

    std::optional<MatchedMessage> peek(const Communicator & /*comm*/, int source,
                                       int tag) override {
        return found(find(source, tag));
    }
    std::optional<MatchedMessage> take(const Communicator & /*comm*/, int source,
                                       int tag) override {
        meanwhile();
        const std::size_t at = find(source, tag);
        if (at != messages.size()) messages[at].taken = true;
        return found(at);
    }
    void receive(MatchedMessage &message) override { message.content.resize(message.bytes); }

    [[nodiscard]] bool all_arrived() const {
        return messages.empty() || probes > messages.back().arrives;
    }

private:
    [[nodiscard]] std::size_t find(int source, int tag) {
        std::array<std::size_t, 2> oldest{messages.size(), messages.size()};
        for (std::size_t i = messages.size(); i-- > 0;) {
            const sent_message &m = messages[i];
            if (m.taken || m.arrives > probes ||
                !MessagePattern{nullptr, source, tag}.accepts(m.source, m.tag))
                continue;
            oldest.at(static_cast<std::size_t>(m.source)) = i;
        }
        ++probes;
        const auto first = static_cast<std::size_t>(first_source);
        return oldest.at(first) != messages.size() ? oldest.at(first) : oldest.at(1 - first);
    }
    [[nodiscard]] std::optional<MatchedMessage> found(std::size_t at) const {
        if (at == messages.size()) return std::nullopt;
        MatchedMessage message;
        message.source = messages[at].source;
        message.tag = messages[at].tag;
        message.bytes = at;
        return message;
    }
};

std::shared_ptr<const Communicator> some_communicator() {
    return std::make_shared<Communicator>(MPI_COMM_NULL, MPI_COMM_NULL,
                                          PeerRanks({0, 1}, {0, 1}, {0, 1}));
}

struct receive {
    int source;
    int tag;
    int got = -1;  ///< index of the message

    [[nodiscard]] bool accepts(const sent_message &m) const {
        return MessagePattern{nullptr, source, tag}.accepts(m.source, m.tag);
    }
};

/// Checks MPI's rules of order (MPI standard, section 3.5) for receives in the order of posting.
/// Returns "" or the violation.
std::string broken_rule(const std::vector<receive> &receives,
                        const std::vector<sent_message> &messages) {
    std::vector<int> receiver(messages.size(), -1);
    for (std::size_t r = 0; r < receives.size(); ++r)
        if (receives[r].got >= 0)
            receiver[static_cast<std::size_t>(receives[r].got)] = static_cast<int>(r);
    for (std::size_t m = 0; m < messages.size(); ++m) {
        const int by = receiver[m];
        if (messages[m].taken != (by >= 0)) return "a message was lost";
        for (std::size_t r = 0; r < receives.size(); ++r) {
            if (!receives[r].accepts(messages[m])) continue;
            if (receives[r].got < 0) {
                if (by < 0) return "a receive and a message wait for each other";
                if (static_cast<int>(r) < by)
                    return "a message skipped a receive that was posted earlier";
            } else if (const auto got = static_cast<std::size_t>(receives[r].got);
                       got > m && messages[got].source == messages[m].source &&
                       (by < 0 || by > static_cast<int>(r))) {
                return "a receive got a message before an older one of the same sender";
            }
        }
    }
    return {};
}

struct setting {
    std::vector<receive> receives;
    std::vector<sent_message> messages;
    int first_source;
    unsigned drivers;  ///< bit i: receive i uses the second driver
    bool last_takes;   ///< the last receive is a call that takes its message itself

    [[nodiscard]] std::string text() const {
        std::string all = "receives";
        for (const receive &r : receives)
            all += " (" + std::to_string(r.source) + ", " + std::to_string(r.tag) + ": " +
                   std::to_string(r.got) + ")";
        all += ", messages";
        for (const sent_message &m : messages)
            all += " (" + std::to_string(m.source) + ", " + std::to_string(m.tag) + ", at " +
                   std::to_string(m.arrives) + ")";
        return all + ", source " + std::to_string(first_source) + " first, drivers " +
               std::to_string(drivers) + (last_takes ? ", the last one takes" : "");
    }
};

/// Runs the setting to its end. Returns "" if MPI's rules hold.
std::string outcome(setting &s, const std::shared_ptr<const Communicator> &comm) {
    scripted_mpi mpi;
    mpi.messages = s.messages;
    mpi.first_source = s.first_source;
    MessageOrder order(mpi);
    std::array<Watches, 2> drivers;
    std::deque<PendingMatch> pending;
    const std::size_t announced = s.receives.size() - (s.last_takes ? 1 : 0);
    for (std::size_t i = 0; i < announced; ++i) {
        PendingMatch &p = pending.emplace_back();
        p.pattern = {comm, s.receives[i].source, s.receives[i].tag};
        order.announce(p, drivers.at((s.drivers >> i) & 1U));
    }
    receive &last = s.receives.back();
    for (bool moved = true; moved;) {
        moved = !mpi.all_arrived();
        for (Watches &driver : drivers) {
            const std::size_t before = mpi.probes;
            moved |= order.probe(driver);
            if (mpi.probes == before) ++mpi.probes;  // guarantees that the loop ends
            if (!s.last_takes || last.got >= 0) continue;
            const MessagePattern pattern{comm, last.source, last.tag};
            const auto seen = order.peek(pattern);
            const auto found = order.take(pattern);
            if (seen && !found) return "a message that a probe saw was not there";
            if (!found) continue;
            last.got = static_cast<int>(found->bytes);
            moved = true;
        }
    }
    for (std::size_t i = 0; i < announced; ++i) {
        if (pending[i].done)
            s.receives[i].got = static_cast<int>(pending[i].message.bytes);
        else
            order.forget(pending[i]);
    }
    std::string broken = broken_rule(s.receives, mpi.messages);
    if (broken.empty() && !order.quiet()) broken = "an entry is left in the order";
    return broken;
}

/// Calls `body` for all non-descending `arrives` values of the messages up to `last`.
void for_all_arrivals(std::vector<sent_message> &messages, std::size_t at, std::size_t last,
                      const std::function<void()> &body) {
    if (at == messages.size()) {
        body();
        return;
    }
    for (std::size_t when = at == 0 ? 0 : messages[at - 1].arrives; when <= last; ++when) {
        messages[at].arrives = when;
        for_all_arrivals(messages, at + 1, last, body);
    }
}

struct extent {
    std::size_t receives;
    std::size_t messages;
    int sources;
    std::size_t last_arrival;
};

std::size_t power(std::size_t base, std::size_t exponent) {
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

/// Tries all patterns of receives, all messages and all arrivals. Returns the number of settings.
std::size_t enumerate(const extent &e) {
    const auto comm = some_communicator();
    std::vector<std::pair<int, int>> patterns;
    std::vector<std::pair<int, int>> kinds;
    for (int source = 0; source < e.sources; ++source)
        for (const int tag : {0, 1}) kinds.emplace_back(source, tag);
    for (int source = 0; source <= e.sources; ++source)
        for (const int tag : {0, 1, MPI_ANY_TAG})
            if (source < e.sources || e.sources > 1)
                patterns.emplace_back(source < e.sources ? source : MPI_ANY_SOURCE, tag);
    std::size_t count = 0;
    std::string wrong;
    for (std::size_t r = 0; r < power(patterns.size(), e.receives) && wrong.empty(); ++r) {
        setting s;
        for (std::size_t i = 0, rest = r; i < e.receives; ++i, rest /= patterns.size())
            s.receives.push_back(
                {patterns[rest % patterns.size()].first, patterns[rest % patterns.size()].second});
        for (std::size_t m = 0; m < power(kinds.size(), e.messages) && wrong.empty(); ++m) {
            s.messages.clear();
            for (std::size_t i = 0, rest = m; i < e.messages; ++i, rest /= kinds.size())
                s.messages.push_back(
                    {kinds[rest % kinds.size()].first, kinds[rest % kinds.size()].second, 0});
            for_all_arrivals(s.messages, 0, e.last_arrival, [&] {
                if (!wrong.empty()) return;
                // Each setting is tried with one combination of these variants, which alternate.
                s.first_source = static_cast<int>(count % 2);
                s.drivers = static_cast<unsigned>(count / 2 % 3) * 5;  // 0, 0101, 1010
                s.last_takes = count / 6 % 2 != 0;
                ++count;
                for (receive &one : s.receives) one.got = -1;
                if (const std::string broken = outcome(s, comm); !broken.empty())
                    wrong = broken + ": " + s.text();
            });
        }
    }
    CHECK(wrong == "");
    return count;
}

}  // namespace

TEST_CASE(
    "receives from one sender keep MPI's order, whenever the messages arrive between probes") {
    CHECK(enumerate({2, 3, 1, 9}) > 10'000);
    CHECK(enumerate({3, 3, 1, 9}) > 40'000);
    CHECK(enumerate({4, 3, 1, 6}) > 50'000);
}

TEST_CASE(
    "receives from two senders keep MPI's order, whenever the messages arrive between probes") {
    CHECK(enumerate({2, 3, 2, 7}) > 500'000);
    CHECK(enumerate({3, 2, 2, 7}) > 400'000);
}

TEST_CASE("a receive of any tag gets the older of two messages that arrived between two probes") {
    scripted_mpi mpi;
    // Both arrive after the first probe, which is for any tag.
    mpi.messages = {{0, 0, 1}, {0, 1, 1}};
    MessageOrder order(mpi);
    Watches driver;
    const auto comm = some_communicator();
    PendingMatch any;
    PendingMatch one;
    any.pattern = {comm, 0, MPI_ANY_TAG};
    one.pattern = {comm, 0, 1};
    order.announce(any, driver);
    order.announce(one, driver);
    while (!any.done || !one.done) order.probe(driver);
    CHECK(any.message.tag == 0);
    CHECK(one.message.tag == 1);
}

TEST_CASE("a message that the program itself receives after a probe is delivered to no receive") {
    scripted_mpi mpi;
    mpi.messages = {{0, 1, 0}, {0, 1, 0}};
    mpi.meanwhile = [&] { mpi.messages[0].taken = mpi.messages[1].taken = true; };
    MessageOrder order(mpi);
    Watches driver;
    PendingMatch pending;
    pending.pattern = {some_communicator(), 0, MPI_ANY_TAG};
    order.announce(pending, driver);
    CHECK_FALSE(order.probe(driver));
    CHECK_FALSE(order.peek({pending.pattern.comm, 0, 1}));
    CHECK_FALSE(pending.done);
    order.forget(pending);
    CHECK(order.quiet());
}

TEST_CASE("the number of probes does not grow with the number of pending receives") {
    scripted_mpi mpi;
    MessageOrder order(mpi);
    Watches driver;
    const auto comm = some_communicator();
    constexpr int many = 50'000;
    std::deque<PendingMatch> pending(many);
    for (int i = 0; i < many; ++i) {
        pending[static_cast<std::size_t>(i)].pattern = {comm, i % 2, i};
        order.announce(pending[static_cast<std::size_t>(i)], driver);
    }
    order.probe(driver);
    CHECK(mpi.probes == 2);  // one per sender
    mpi.messages = {{0, 40'000, 0}, {1, 1, 0}};
    CHECK(order.probe(driver));
    // For each sender, one probe sees the message, one takes it, and one finds no other.
    CHECK(mpi.probes == 2 + 2 * 3);
    CHECK(pending[40'000].done);
    CHECK(pending[1].done);
    for (PendingMatch &p : pending) order.forget(p);
    CHECK(order.quiet());
}

TEST_CASE("the time to remove a send does not grow with the number of sends behind it") {
    scripted_mpi mpi;
    MessageOrder order(mpi);
    std::vector<char> senders(100'000);
    const auto turn = [&](const char &sender) { return SendTurn{nullptr, 0, &sender}; };
    const std::clock_t begin = std::clock();
    for (const char &sender : senders) order.take_turn(turn(sender));
    for (const char &sender : senders) {
        REQUIRE(order.may_post(turn(sender)));
        order.leave_turn(turn(sender));
    }
    // CPU time. If each removal walked over all turns, this would take a minute.
    CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 3);
}

TEST_CASE("a message without receiver hides no later message") {
    scripted_mpi mpi;
    mpi.messages = {{0, 9, 0}, {0, 1, 0}, {0, 2, 0}};
    MessageOrder order(mpi);
    Watches driver;
    const auto comm = some_communicator();
    std::array<PendingMatch, 3> pending;
    for (int i = 0; i < 3; ++i) {
        pending.at(static_cast<std::size_t>(i)).pattern = {comm, 0, i};
        order.announce(pending.at(static_cast<std::size_t>(i)), driver);
    }
    order.probe(driver);
    CHECK_FALSE(pending[0].done);
    CHECK(pending[1].done);
    CHECK(pending[2].done);
    order.forget(pending[0]);
    CHECK(order.take({comm, 0, MPI_ANY_TAG})->tag == 9);
}
