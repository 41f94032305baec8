/// Tests the guarantees of the stress test's plan. If one were broken, the stress test would fail
/// without an error in cldist.

#include "../stress/plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

using namespace cldist_stress;

namespace {

constexpr int rounds = 60;

settings with(std::uint64_t seed, int ranks, int threads) {
    settings s;
    s.seed = seed;
    s.ranks = ranks;
    s.threads = threads;
    return s;
}

const message &message_at(const round_plan &r, int index) {
    return r.messages[static_cast<std::size_t>(index)];
}

bool is_ordered(const command &c) {
    return c.queue == first || c.queue == second || c.queue == wild;
}

/// Executes a round in the worst case: a message waits for its receiver, and queues keep at least
/// as much order as on any platform. stuck() returns the number of commands that never end.
class simulation {
public:
    simulation(const round_plan &plan, bool all_queues_in_order)
        : r(plan), all_in_order(all_queues_in_order), state(plan.commands.size()) {}

    long stuck() {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t i = 0; i < state.size(); ++i) {
                moved |= advance(i);
            }
            moved |= match();
        }
        return std::count_if(state.begin(), state.end(),
                             [](const progress &p) { return !p.done(); });
    }

private:
    struct progress {
        bool issued = false;
        bool started = false;
        bool sent = true;
        bool received = true;
        [[nodiscard]] bool done() const { return started && sent && received; }
    };

    bool advance(std::size_t i) {
        const command &c = r.commands[i];
        progress &p = state[i];
        if (p.started) {
            return false;
        }
        bool starts = true;
        for (std::size_t j = 0; j < i; ++j) {
            const command &before = r.commands[j];
            if (before.rank != c.rank || before.thread != c.thread || state[j].done()) {
                continue;
            }
            if (before.blocking || !state[j].issued) {
                return false;
            }
            const bool queue_waits = before.queue == c.queue && (all_in_order || is_ordered(c));
            // This is stricter than the real wait list.
            const bool list_waits = c.wait != waits_for::nothing && !before.with_wildcards;
            starts = starts && !queue_waits && !list_waits;
        }
        const bool moves = starts || !p.issued;
        p = {true, starts, c.sends == none, c.receives == none && !c.with_wildcards};
        return moves;
    }

    /// Matches receives with wildcards in the worst order: the last message first. A sender's
    /// messages are in one in-order queue, so only one of them is in flight.
    bool match() {
        bool moved = false;
        for (std::size_t i = 0; i < state.size(); ++i) {
            const command &c = r.commands[i];
            if (!state[i].started || state[i].received) {
                continue;
            }
            for (std::size_t k = state.size(); k-- > 0 && !state[i].received;) {
                const command &other = r.commands[k];
                if (other.sends == none || !state[k].started || state[k].sent) {
                    continue;
                }
                const message &m = message_at(r, other.sends);
                const bool meant = c.with_wildcards ? m.receiver == c.rank && is_wild(m) &&
                                                          (c.source == none || c.source == m.sender)
                                                    : other.sends == c.receives;
                if (meant) {
                    state[i].received = state[k].sent = moved = true;
                }
            }
        }
        return moved;
    }

    [[nodiscard]] bool is_wild(const message &m) const {
        return std::none_of(r.commands.begin(), r.commands.end(), [&](const command &c) {
            return c.receives != none && &message_at(r, c.receives) == &m;
        });
    }

    const round_plan &r;
    const bool all_in_order;
    std::vector<progress> state;
};

}  // namespace

TEST_CASE("a stress plan is the same for the same seed, and differs for another seed") {
    const auto text = [](std::uint64_t seed, std::uint64_t number) {
        const round_plan r = make_round(with(seed, 4, 2), number);
        std::string all;
        for (const command &c : r.commands) {
            all += describe(r, c) + "\n";
        }
        return all;
    };
    CHECK(text(1, 0) == text(1, 0));
    CHECK(text(1, 0) != text(1, 1));
    CHECK(text(1, 0) != text(2, 0));
}

TEST_CASE("a stress plan sends and receives each message once, within its communicator") {
    for (const int ranks : {1, 2, 3, 4, 5}) {
        const std::vector<communicator> comms = communicators(ranks);
        for (std::uint64_t number = 0; number < rounds; ++number) {
            const round_plan r = make_round(with(7, ranks, 2), number);
            std::vector<int> sends(r.messages.size());
            std::vector<int> receives(r.messages.size());
            std::map<int, int> wild_receives;
            for (const command &c : r.commands) {
                if (c.sends != none) {
                    ++sends[static_cast<std::size_t>(c.sends)];
                    REQUIRE(message_at(r, c.sends).sender == c.rank);
                }
                if (c.receives != none) {
                    ++receives[static_cast<std::size_t>(c.receives)];
                    REQUIRE(message_at(r, c.receives).receiver == c.rank);
                    REQUIRE((c.capacity >= message_at(r, c.receives).size) != c.too_short);
                }
                wild_receives[c.rank] += c.with_wildcards ? 1 : 0;
            }
            for (std::size_t i = 0; i < r.messages.size(); ++i) {
                const message &m = r.messages[i];
                const auto at = static_cast<std::size_t>(m.communicator);
                REQUIRE(comms[at].reaches(m.sender, m.receiver));
                REQUIRE(sends[i] == 1);
                const bool is_wild = at == comms.size() - 1;
                REQUIRE(receives[i] == (is_wild ? 0 : 1));
                wild_receives[m.receiver] -= is_wild ? 1 : 0;
            }
            for (const auto &[rank, left] : wild_receives) {
                REQUIRE(left == 0);
            }
        }
    }
}

TEST_CASE(
    "in a stress plan, messages that must keep their order have one thread and one queue at each "
    "end") {
    for (std::uint64_t number = 0; number < rounds; ++number) {
        const round_plan r = make_round(with(9, 4, 3), number);
        std::map<std::tuple<int, int, int, int, bool>, std::set<std::tuple<int, int>>> places;
        std::map<std::tuple<int, int, int, int>, int> uses;
        for (const message &m : r.messages) {
            ++uses[{m.communicator, m.sender, m.receiver, m.tag}];
        }
        for (const command &c : r.commands) {
            for (const auto &[index, sends] :
                 {std::pair{c.sends, true}, std::pair{c.receives, false}}) {
                if (index == none) {
                    continue;
                }
                const message &m = message_at(r, index);
                if (uses[{m.communicator, m.sender, m.receiver, m.tag}] < 2) {
                    continue;
                }
                places[{m.communicator, m.sender, m.receiver, m.tag, sends}].insert(
                    {c.thread, c.queue});
                const bool starts_in_order = c.queue == out_of_order || c.queue == competing;
                REQUIRE((is_ordered(c) || (starts_in_order && c.wait == waits_for::nothing)));
            }
        }
        for (const auto &[lane, found] : places) {
            REQUIRE(found.size() == 1);
        }
    }
}

TEST_CASE(
    "a stress plan has no deadlock, even if every queue keeps its order and no message is "
    "buffered") {
    for (const int ranks : {1, 2, 4, 5}) {
        for (const int threads : {1, 3}) {
            for (std::uint64_t number = 0; number < rounds; ++number) {
                const round_plan r = make_round(with(11, ranks, threads), number);
                CAPTURE(ranks);
                CAPTURE(number);
                REQUIRE(simulation(r, true).stuck() == 0);
                REQUIRE(simulation(r, false).stuck() == 0);
            }
        }
    }
}

TEST_CASE("the payloads of a stress plan differ by sender, number and seed") {
    const message m{5, 0, 1, 2, 3, 100};
    message other = m;
    other.number = 6;
    CHECK(payload(1, m) == payload(1, m));
    CHECK(payload(1, m) != payload(2, m));
    CHECK(payload(1, m) != payload(1, other));
    other = m;
    other.sender = 0;
    CHECK(payload(1, m) != payload(1, other));
    CHECK(payload(1, m).size() == 100);
}

TEST_CASE("in a stress plan, competing receives are posted in the order of their messages") {
    int wide = 0;
    for (std::uint64_t number = 0; number < rounds; ++number) {
        const round_plan r = make_round(with(13, 4, 3), number);
        std::map<int, std::vector<const command *>> sends;
        std::map<int, std::vector<const command *>> receives;
        for (const command &c : r.commands) {
            if (c.competes) {
                receives[message_at(r, c.receives).communicator].push_back(&c);
                wide += c.any_tag || c.any_source ? 1 : 0;
            }
        }
        for (const command &c : r.commands) {
            if (c.sends != none && receives.count(message_at(r, c.sends).communicator) != 0) {
                sends[message_at(r, c.sends).communicator].push_back(&c);
            }
        }
        for (const auto &[communicator, posted] : receives) {
            REQUIRE(posted.size() == sends[communicator].size());
            for (std::size_t i = 0; i < posted.size(); ++i) {
                REQUIRE(posted[i]->receives == sends[communicator][i]->sends);
                REQUIRE(posted[i]->thread == posted.front()->thread);
                REQUIRE(posted[i]->queue == competing);
                REQUIRE(sends[communicator][i]->rank == sends[communicator].front()->rank);
                REQUIRE(sends[communicator][i]->queue == sends[communicator].front()->queue);
            }
        }
    }
    CHECK(wide > 100);
}
