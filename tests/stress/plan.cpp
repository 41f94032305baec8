#include "plan.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cldist_stress {
namespace {

constexpr std::size_t most_messages = 600;  // per round
// per round; the commands that reach it end the round
constexpr std::size_t most_bytes = std::size_t{16} << 20;
// the largest message for receives with wildcards and for competing receives
constexpr std::size_t largest_wild = std::size_t{128} << 10;
constexpr int ordered_tags = 6;
constexpr int first_own_tag = 100;

std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

template <typename... More>
std::uint64_t mix(std::uint64_t x, std::uint64_t y, More... more) {
    return mix(mix(x + 0x9e3779b97f4a7c15ULL) ^ y, static_cast<std::uint64_t>(more)...);
}

/// Random numbers that are equal on all systems, unlike those of <random>'s distributions.
class numbers {
public:
    explicit numbers(std::uint64_t seed) : state(seed) {}

    std::uint64_t below(std::uint64_t limit) { return mix(state += 0x9e3779b97f4a7c15ULL) % limit; }
    int index(std::size_t limit) { return static_cast<int>(below(limit)); }
    bool chance(std::uint64_t percent) { return below(100) < percent; }
    /// All powers of two are equally likely.
    std::size_t between(std::size_t low, std::size_t high) {
        unsigned doublings = 0;
        while (low << (doublings + 1) <= high) {
            ++doublings;
        }
        const std::size_t start = low << below(doublings + 1);
        return std::min(high, start + below(start));
    }

private:
    std::uint64_t state;
};

class planner {
public:
    planner(const settings &settings_in, std::uint64_t number)
        : s(settings_in),
          salt(mix(s.seed, number)),
          random(salt),
          comms(communicators(s.ranks)),
          base(number << 16U) {}

    round_plan make() {
        make_wild();
        const std::size_t wanted = result.messages.size() + random.between(8, most_messages);
        auto next_wild = wild_sends.cbegin();  // inserted between the other commands
        while (result.messages.size() < wanted && bytes < most_bytes) {
            for (; next_wild != wild_sends.cend() && random.chance(20); ++next_wild) {
                result.commands.push_back(*next_wild);
            }
            if (s.ranks > 1 && random.chance(8)) {
                make_competing();
            } else if (s.ranks == 1 || random.chance(20)) {
                make_exchange();
            } else {
                make_message();
            }
        }
        result.commands.insert(result.commands.end(), next_wild, wild_sends.cend());
        return std::move(result);
    }

private:
    std::size_t size() {
        const std::uint64_t percent = random.below(100);
        const std::size_t found =
            percent < 4    ? 0
            : percent < 60 ? random.between(1, 1024)
            : percent < 88 ? random.between(1024, std::size_t{64} << 10U)
            : percent < 98 ? random.between(std::size_t{64} << 10U, std::size_t{512} << 10U)
                           : random.between(std::size_t{512} << 10U, std::size_t{16} << 20U);
        return std::min(found, s.largest);
    }

    int add(int communicator, int sender, int receiver, int tag, std::size_t message_size) {
        const std::size_t at = result.messages.size();
        result.messages.push_back({base + at, communicator, sender, receiver, tag, message_size});
        bytes += message_size;
        return static_cast<int>(at);
    }

    int own_tag() const { return first_own_tag + static_cast<int>(result.messages.size()); }

    /// The other ranks that `rank` can send to on a communicator.
    std::vector<int> peers(int communicator, int rank) const {
        std::vector<int> found;
        for (int other = 0; other < s.ranks; ++other) {
            if (other != rank &&
                comms[static_cast<std::size_t>(communicator)].reaches(rank, other)) {
                found.push_back(other);
            }
        }
        return found;
    }

    /// A command of this rank, with random values of everything that any command may choose freely.
    command somewhere(int rank) {
        command c;
        c.rank = rank;
        c.thread = random.index(static_cast<std::size_t>(s.threads));
        c.queue = random.index(wild);  // any queue except those for wildcards
        c.blocking = random.chance(25);
        c.wants_event = random.chance(70);
        c.sub_buffer = random.chance(s.sub_buffers);
        c.read_behind = random.chance(40);
        c.overwritten = random.chance(30);
        return c;
    }

    void choose_wait(command &c) {
        const int choice = random.index(6);
        c.wait = choice == 0                  ? waits_for::previous
                 : choice == 1 && !c.blocking ? waits_for::user_event
                 : choice == 2                ? waits_for::writing
                                              : waits_for::nothing;
    }

    /// Derives the command's thread, and its queue among the first `queues`, from the message's
    /// communicator, sender, receiver and tag, so that messages which must keep their order share
    /// both. `end` is 0 for the sender and 1 for the receiver.
    void bind(command &c, const message &m, int end, int queues) {
        const std::uint64_t lane =
            mix(salt, static_cast<std::uint64_t>(m.communicator),
                static_cast<std::uint64_t>(m.sender), static_cast<std::uint64_t>(m.receiver),
                static_cast<std::uint64_t>(m.tag), static_cast<std::uint64_t>(end));
        c.thread = static_cast<int>(lane % static_cast<unsigned>(s.threads));
        c.queue = static_cast<int>((lane >> 32U) % static_cast<unsigned>(queues));
        if (c.queue != out_of_order) {
            choose_wait(c);
        }
    }

    std::size_t capacity_for(std::size_t message_size) {
        return random.chance(70) ? message_size
                                 : message_size + random.below(message_size / 2 + 200);
    }

    void make_message() {
        const int communicator = random.index(comms.size() - 3);
        const int sender = random.index(static_cast<std::size_t>(s.ranks));
        const std::vector<int> reached = peers(communicator, sender);
        if (reached.empty()) {
            return;
        }
        const int receiver = reached[static_cast<std::size_t>(random.index(reached.size()))];
        const bool ordered = random.chance(60);
        const int at = add(communicator, sender, receiver,
                           ordered ? random.index(ordered_tags) : own_tag(), size());
        const message &m = result.messages[static_cast<std::size_t>(at)];

        command sending = somewhere(sender);
        command receiving = somewhere(receiver);
        if (ordered) {
            bind(sending, m, 0, out_of_order + 1);
            bind(receiving, m, 1, out_of_order + 1);
        } else {
            choose_wait(sending);
            choose_wait(receiving);
        }
        sending.sends = at;
        receiving.receives = at;
        receiving.capacity = capacity_for(m.size);
        if (!ordered && receiving.blocking && m.size > 1 && random.chance(10)) {
            // Without an event, only the caller gets the error. Later commands don't fail.
            receiving.too_short = true;
            receiving.wants_event = false;
            receiving.capacity = 1 + random.below(m.size - 1);
        }
        result.commands.push_back(sending);
        result.commands.push_back(receiving);
    }

    /// A ring of Sendrecvs of one process, of two, or of all processes that reach each other.
    void make_exchange() {
        const int communicator = random.index(comms.size() - 3);
        const int begin = random.index(static_cast<std::size_t>(s.ranks));
        std::vector<int> ring = peers(communicator, begin);
        const bool inter = comms[static_cast<std::size_t>(communicator)].inter;
        const bool alone = !inter && random.chance(25);
        if (ring.empty() && inter) {
            return;
        }
        if (alone) {
            ring.clear();
        } else if (inter || random.chance(60)) {
            ring = ring.empty()
                       ? ring
                       : std::vector{ring[static_cast<std::size_t>(random.index(ring.size()))]};
        }
        ring.push_back(begin);
        const int start = static_cast<int>(result.messages.size());
        const int length = static_cast<int>(ring.size());
        for (int i = 0; i < length; ++i) {
            add(communicator, ring[static_cast<std::size_t>(i)],
                ring[static_cast<std::size_t>((i + 1) % length)], own_tag(), size());
        }
        for (int i = 0; i < length; ++i) {
            command c = somewhere(ring[static_cast<std::size_t>(i)]);
            choose_wait(c);
            c.sends = start + i;
            c.receives = start + (i + length - 1) % length;
            c.capacity = capacity_for(result.messages[static_cast<std::size_t>(c.receives)].size);
            result.commands.push_back(c);
        }
    }

    /// Messages of one sender, and receives that may match several of them.
    void make_competing() {
        const int communicator = static_cast<int>(comms.size()) - 2 - random.index(2);
        const auto ranks = static_cast<std::uint64_t>(s.ranks);
        const std::uint64_t lane = mix(salt, static_cast<std::uint64_t>(communicator));
        const int sender = static_cast<int>(lane % ranks);
        const int receiver =
            static_cast<int>((lane % ranks + 1 + (lane >> 32U) % (ranks - 1)) % ranks);
        std::vector<command> sends;
        std::vector<command> receives;
        for (std::uint64_t left = random.between(2, 8); left > 0; --left) {
            const int at = add(communicator, sender, receiver, random.index(3),
                               std::min(size(), largest_wild));
            const message &m = result.messages[static_cast<std::size_t>(at)];
            command sending = somewhere(sender);
            bind(sending, {0, communicator, sender, receiver, 0, 0}, 0, out_of_order);
            sending.sends = at;
            sends.push_back(sending);
            command receiving = somewhere(receiver);
            bind(receiving, {0, communicator, sender, receiver, 0, 0}, 1, out_of_order);
            receiving.wait = waits_for::nothing;
            receiving.queue = competing;
            receiving.competes = true;
            receiving.any_source = random.chance(30);
            receiving.any_tag = random.chance(50);
            receiving.blocking = left == 1 && random.chance(50);
            receiving.probes = receiving.blocking && random.chance(50);
            receiving.wants_event = true;
            receiving.receives = at;
            receiving.capacity = m.size;
            receives.push_back(receiving);
        }
        result.commands.insert(result.commands.end(), receives.begin(), receives.end() - 1);
        result.commands.insert(result.commands.end(), sends.begin(), sends.end());
        result.commands.push_back(receives.back());
    }

    /// Messages from other ranks to one receiver, which have receives with wildcards.
    void make_wild() {
        if (s.ranks == 1 || random.chance(30)) {
            return;
        }
        const int communicator = static_cast<int>(comms.size()) - 1;
        const int receiver = random.index(static_cast<std::size_t>(s.ranks));
        const bool any_source = random.chance(60);
        // If the receives have a tag, all messages have this tag; otherwise it would matter which
        // receive gets which message.
        const bool any_tag = !any_source || random.chance(50);
        const int only_tag = random.index(ordered_tags);
        std::vector<command> receives;
        std::size_t room = 0;
        for (std::uint64_t count = random.between(1, 32); count > 0; --count) {
            int sender = random.index(static_cast<std::size_t>(s.ranks - 1));
            sender += sender >= receiver ? 1 : 0;
            const int tag = any_tag ? random.index(ordered_tags) : only_tag;
            const int at = add(communicator, sender, receiver, tag, std::min(size(), largest_wild));
            const message &m = result.messages[static_cast<std::size_t>(at)];
            command sending = somewhere(sender);
            // An in-order queue keeps the order of messages with different tags.
            bind(sending, {0, communicator, sender, receiver, 0, 0}, 0, out_of_order);
            sending.sends = at;
            wild_sends.push_back(sending);
            command receiving;
            receiving.rank = receiver;
            receiving.with_wildcards = true;
            receiving.source = any_source ? none : sender;
            receiving.tag = any_tag ? none : only_tag;
            receives.push_back(receiving);
            room = std::max(room, m.size);
        }
        const int thread = random.index(static_cast<std::size_t>(s.threads));
        const int queue = random.chance(50) ? wild : wild_out_of_order;
        for (command &c : receives) {
            c.thread = thread;
            c.queue = queue;
            c.capacity = room;
            c.read_behind = random.chance(40);
            result.commands.push_back(c);
        }
    }

    const settings s;
    const std::uint64_t salt;
    numbers random;
    const std::vector<communicator> comms;
    const std::uint64_t base;
    round_plan result;
    std::vector<command> wild_sends;
    std::size_t bytes = 0;
};

std::vector<unsigned char> scramble(std::uint64_t seed, std::size_t size) {
    std::vector<unsigned char> data(size);
    for (std::size_t i = 0; i < size; i += sizeof(seed)) {
        const std::uint64_t word = mix(seed + i);
        std::memcpy(data.data() + i, &word, std::min(sizeof(word), size - i));
    }
    return data;
}

}  // namespace

std::vector<communicator> communicators(int ranks) {
    const auto count = static_cast<std::size_t>(ranks);
    std::vector<int> all_in_one(count, 0);
    std::vector<int> ascending(count);
    std::iota(ascending.begin(), ascending.end(), 0);
    const std::vector<int> descending(ascending.rbegin(), ascending.rend());
    std::vector<int> parity;
    std::vector<int> of_parity;
    std::vector<int> half;
    std::vector<int> of_half;
    for (int i = 0; i < ranks; ++i) {
        parity.push_back(i % 2);
        of_parity.push_back(i / 2);
        half.push_back(i < ranks / 2 ? 0 : 1);
        of_half.push_back(i < ranks / 2 ? i : i - ranks / 2);
    }
    std::vector<communicator> found{{"the world", false, all_in_one, ascending},
                                    {"a duplicate", false, all_in_one, ascending},
                                    {"all, in reverse", false, all_in_one, descending},
                                    {"even and odd", false, parity, of_parity}};
    if (ranks > 1) {
        found.push_back({"the inter-communicator", true, half, of_half});
    }
    found.push_back({"the communicator of competing receives", false, all_in_one, ascending});
    found.push_back(
        {"the plain communicator of competing receives", false, all_in_one, ascending, true});
    found.push_back({"the communicator of wildcards", false, all_in_one, ascending});
    return found;
}

round_plan make_round(const settings &s, std::uint64_t number) { return planner(s, number).make(); }

std::vector<unsigned char> payload(std::uint64_t seed, const message &m) {
    return scramble(mix(seed, m.number, m.sender), m.size);
}

std::vector<unsigned char> background(std::uint64_t seed, std::size_t size) {
    return scramble(mix(~seed), size);
}

std::string describe(const round_plan &r, const command &c) {
    const auto part = [&](const char *what, int index) {
        const message &m = r.messages[static_cast<std::size_t>(index)];
        return std::string(what) + " message " + std::to_string(m.number) + " (" +
               std::to_string(m.sender) + " to " + std::to_string(m.receiver) + ", communicator " +
               std::to_string(m.communicator) + ", tag " + std::to_string(m.tag) + ", " +
               std::to_string(m.size) + " bytes) ";
    };
    std::string text =
        "rank " + std::to_string(c.rank) + ", thread " + std::to_string(c.thread) + ": ";
    if (c.sends != none) {
        text += part("send", c.sends);
    }
    if (c.receives != none) {
        text += part("receive", c.receives);
    }
    if (c.with_wildcards) {
        text += "receive with wildcards (source " + std::to_string(c.source) + ", tag " +
                std::to_string(c.tag) + ") ";
    }
    return text + "in queue " + std::to_string(c.queue) + (c.blocking ? ", blocking" : "") +
           (c.wants_event ? ", with event" : "") + ", wait " +
           std::to_string(static_cast<int>(c.wait)) +
           (c.capacity != 0 ? ", room for " + std::to_string(c.capacity) : "") +
           (c.too_short ? ", too short" : "") + (c.sub_buffer ? ", sub-buffer" : "") +
           (c.competes ? ", competes" : "") + (c.any_source ? ", any source" : "") +
           (c.any_tag ? ", any tag" : "") + (c.probes ? ", probed" : "");
}

}  // namespace cldist_stress
