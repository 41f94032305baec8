/// The records of device-ordered messages, in every order of what their processes and kernels do.
#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "mpi_interop/held_commands.hpp"
#include "pipeline/slot_pool.hpp"

using namespace cldist;

namespace {

constexpr std::size_t range = FreeRanges::alignment;
constexpr std::uint32_t first_slot = 3, end_slot = 6;

/// How a message ends.
enum class Fate { moved, not_enqueued, not_sent, wait_list_failed };

/// What may happen to a message next. The hosts' steps are in the order of the host; the kernel
/// runs at any time after it is enqueued.
enum class Step { reserve, enqueue, post, kernel, note_end, take };

struct Message {
    Fate fate = Fate::moved;
    std::optional<LandingPlace> place{};
    bool enqueued = false, posted = false, kernel_ended = false, noted = false, taken = false;

    [[nodiscard]] bool over() const {
        return fate == Fate::not_enqueued ? enqueued : noted && posted && taken;
    }
    /// Returns true if a process or a kernel may use the place.
    [[nodiscard]] bool live() const { return place && !over(); }

    [[nodiscard]] std::vector<Step> next() const {
        if (over()) return {};
        if (!place) return {Step::reserve};
        if (!enqueued) return {Step::enqueue};
        std::vector<Step> steps;
        if (!posted) steps.push_back(Step::post);
        if (!kernel_ended) steps.push_back(Step::kernel);
        if (kernel_ended && !noted) steps.push_back(Step::note_end);
        const bool reads = fate == Fate::moved && posted && kernel_ended;
        if (reads && !taken) steps.push_back(Step::take);
        return steps;
    }
};

struct World {
    std::array<TransferSlot, end_slot> slots{};
    SlotPool pool;
    LandingPlaces places{2 * range};
    std::vector<Message> messages;

    explicit World(const std::vector<Fate> &fates) {
        pool.add(slots.data(), first_slot, end_slot);
        for (const Fate fate : fates) messages.push_back({fate});
    }

    void set_taken(Message &message) {
        pool[message.place->slot].taken = 1;
        message.taken = true;
    }

    /// Returns false if there is no free place.
    bool carry_out(Message &message, Step step) {
        switch (step) {
            case Step::reserve: message.place = places.take(pool, range); break;
            case Step::enqueue:
                message.enqueued = true;
                if (message.fate == Fate::not_enqueued) places.give_back(pool, *message.place);
                break;
            case Step::post:
                message.posted = true;
                // The sender sends an error message, or none.
                if (message.fate != Fate::moved) set_taken(message);
                break;
            case Step::kernel: message.kernel_ended = true; break;
            case Step::note_end:
                message.noted = true;
                places.ended(*message.place);
                break;
            case Step::take: set_taken(message); break;
        }
        return step != Step::reserve || message.place;
    }

    void check() {
        for (const Message &a : messages) {
            if (!a.live()) continue;
            CHECK(a.place->slot >= first_slot);
            CHECK(a.place->slot < end_slot);
            CHECK(a.place->offset + range <= 2 * range);
            for (const Message &b : messages) {
                if (&a == &b || !b.live()) continue;
                CHECK(a.place->slot != b.place->slot);
                CHECK(a.place->offset != b.place->offset);
            }
        }
    }

    /// All places are free again.
    void check_end() {
        CHECK(places.take(pool, 2 * range).has_value());
        for (std::uint32_t i = first_slot + 1; i < end_slot; ++i) CHECK(pool.take().has_value());
        CHECK(!pool.take().has_value());
    }
};

/// Repeats the steps, then does all that may happen next, in every order. Returns the number of
/// orders.
std::size_t for_every_order(const std::vector<Fate> &fates,
                            std::vector<std::pair<std::size_t, Step>> &steps) {
    World world(fates);
    for (const auto &[index, step] : steps)
        if (!world.carry_out(world.messages[index], step)) return 0;
    world.check();
    std::size_t orders = 0;
    bool ended = true;
    for (std::size_t i = 0; i < fates.size(); ++i) {
        for (const Step step : world.messages[i].next()) {
            ended = false;
            steps.emplace_back(i, step);
            orders += for_every_order(fates, steps);
            steps.pop_back();
        }
    }
    if (!ended) return orders;
    world.check_end();
    return 1;
}

}  // namespace

TEST_CASE("no two messages use a landing place at once in any order, and all become free") {
    constexpr std::array fates = {Fate::moved, Fate::not_enqueued, Fate::not_sent,
                                  Fate::wait_list_failed};
    std::size_t orders = 0;
    for (const Fate first : fates) {
        for (const Fate second : fates) {
            std::vector<std::pair<std::size_t, Step>> steps;
            orders += for_every_order({first, second}, steps);
        }
    }
    CHECK(orders > 10000);
}

TEST_CASE("in random orders, messages wait for a place until earlier ones are taken") {
    std::mt19937 random(1);
    World world(std::vector<Fate>(2000, Fate::moved));
    std::size_t full = 0;
    for (std::size_t first = 0; first < world.messages.size();) {
        const std::size_t end = std::min(first + 5, world.messages.size());
        Message &message = world.messages[first + random() % (end - first)];
        const std::vector<Step> steps = message.next();
        if (!steps.empty() && !world.carry_out(message, steps[random() % steps.size()])) ++full;
        if (random() % 16 == 0) world.check();
        while (first < world.messages.size() && world.messages[first].over()) ++first;
    }
    CHECK(full > 0);
    world.check_end();
}

TEST_CASE("a place without a free slot leaves the landing memory free") {
    std::array<TransferSlot, 1> slots{};
    SlotPool pool;
    pool.add(slots.data(), 0, 1);
    LandingPlaces places(2 * range);
    const auto only = places.take(pool, range);
    REQUIRE(only);
    CHECK(!places.take(pool, range));
    CHECK(!places.take(pool, range));
    places.give_back(pool, *only);
    CHECK(places.take(pool, 2 * range));
}

TEST_CASE("a command is held back by earlier ones of its queue, but not by its own line") {
    std::array<int, 2> objects{};
    const auto queue = [&](std::size_t i) {
        return reinterpret_cast<cl_command_queue>(&objects.at(i));
    };
    struct Held {
        std::size_t queue;
        std::uint64_t number;
        const void *line;
    };
    std::vector<Held> model;
    HeldCommands held;
    std::mt19937 random(1);
    for (int i = 0; i < 5000; ++i) {
        if (model.size() < 6 && random() % 2 == 0) {
            const std::size_t on = random() % 2;
            const void *const line = random() % 2 == 0 ? nullptr : &objects.at(random() % 2);
            model.push_back({on, held.hold(queue(on), line), line});
        } else if (!model.empty()) {
            const auto at = model.begin() + static_cast<std::ptrdiff_t>(random() % model.size());
            held.release(queue(at->queue), at->number);
            model.erase(at);
        }
        for (std::size_t on = 0; on < 2; ++on) {
            for (const void *line :
                 {static_cast<const void *>(nullptr), static_cast<const void *>(&objects[0])}) {
                const std::uint64_t number =
                    held.next() - std::min<std::uint64_t>(held.next(), random() % 8);
                const bool expected = std::any_of(model.begin(), model.end(), [&](const Held &h) {
                    return h.queue == on && h.number < number &&
                           (line == nullptr || h.line != line);
                });
                REQUIRE(held.any_before(queue(on), number, line) == expected);
            }
        }
    }
}
