#include "cluster/hazards.hpp"

#include <algorithm>

namespace cldist::cluster {

namespace {

constexpr auto always = [](const auto &) { return true; };
constexpr auto never = [](const auto &) { return false; };

}  // namespace

void Hazards::Uses::forget(CommandId over) {
    if (writer.step.command < over) writer = {};
    std::erase_if(readers, [over](const Use &use) { return use.step.command < over; });
}

void Hazards::read(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over,
                   std::vector<Step> &after) {
    tidy(over);
    uses_.change(begin, end, always, [&](std::size_t, std::size_t, Uses &uses) {
        uses.forget(over);
        const auto is_before = [&](const Use &use) {
            return use.step == step || (queue != unordered && use.queue == queue);
        };
        if (uses.writer.step.command != 0 && !is_before(uses.writer)) after.push_back(uses.writer.step);
        // Who waits for this one waits for those before it on its queue.
        const auto same = std::find_if(uses.readers.begin(), uses.readers.end(), is_before);
        if (same == uses.readers.end()) {
            uses.readers.push_back({step, queue});
        } else {
            same->step = step;
        }
    });
}

void Hazards::write(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over,
                    std::vector<Step> &after) {
    tidy(over);
    const auto add = [&](const Use &use) {
        const bool is_before = use.step == step || (queue != unordered && use.queue == queue);
        if (use.step.command >= over && use.step.command != 0 && !is_before) after.push_back(use.step);
    };
    const auto visit = [&](std::size_t, std::size_t, const Uses &uses) {
        // Those who read waited for who wrote.
        if (uses.readers.empty()) add(uses.writer);
        std::for_each(uses.readers.begin(), uses.readers.end(), add);
    };
    uses_.visit(begin, end, visit);
    uses_.overwrite(begin, end, never, [&](Uses &uses) {
        uses.writer = {step, queue};
        uses.readers.clear();
    });
}

void Hazards::tidy(CommandId over) {
    if (uses_.pieces() < tidy_at_) return;
    uses_.change(0, uses_.size(), always, [over](std::size_t, std::size_t, Uses &uses) { uses.forget(over); });
    tidy_at_ = std::max<std::size_t>(16, 2 * uses_.pieces());
}

}  // namespace cldist::cluster
