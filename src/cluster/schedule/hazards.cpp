#include "cluster/schedule/hazards.hpp"

#include <algorithm>

namespace cldist::cluster {

namespace {

constexpr auto always = [](const auto &) { return true; };
constexpr auto never = [](const auto &) { return false; };

/// Frees memory that many readers once needed.
void give_back(std::vector<Step> &steps) {
    constexpr std::size_t kept = 64;
    if (steps.capacity() > kept && steps.capacity() / 4 > steps.size()) steps.shrink_to_fit();
}

}  // namespace

void Hazards::forget(Uses &uses, CommandId over) {
    if (uses.writer.step.command < over) uses.writer = {};
    looked_at_ += uses.in_order.size() + 1;
    std::erase_if(uses.in_order, [over](const Use &use) { return use.step.command < over; });
    uses.unordered.erase(uses.unordered.begin(),
                         std::ranges::lower_bound(uses.unordered, over, {}, &Step::command));
    give_back(uses.unordered);
    uses.forget_at = std::max(few, 2 * (uses.in_order.size() + uses.unordered.size()));
}

void Hazards::add_reader(Uses &uses, const Use &reader) {
    ++looked_at_;
    if (reader.queue == unordered) {
        // A step may read bytes twice.
        for (auto at = uses.unordered.rbegin();
             at != uses.unordered.rend() && at->command == reader.step.command; ++at) {
            ++looked_at_;
            if (*at == reader.step) return;
        }
        uses.unordered.push_back(reader.step);
        return;
    }
    // A step that waits for this reader also waits for the readers before it on its queue.
    const auto at = std::ranges::lower_bound(uses.in_order, reader.queue, {}, &Use::queue);
    if (at != uses.in_order.end() && at->queue == reader.queue)
        at->step = reader.step;
    else
        uses.in_order.insert(at, reader);
}

void Hazards::read(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over,
                   std::vector<Step> &after) {
    tidy(over);
    const Use reader{step, queue};
    uses_.change(begin, end, always, [&](std::size_t, std::size_t, Uses &uses) {
        if (uses.in_order.size() + uses.unordered.size() >= uses.forget_at) forget(uses, over);
        // An earlier reader on this queue has waited for the writer.
        const auto before = std::ranges::lower_bound(uses.in_order, queue, {}, &Use::queue);
        if (before == uses.in_order.end() || before->queue != queue)
            add_wait(uses.writer, reader, over, after);
        add_reader(uses, reader);
    });
}

void Hazards::write(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over,
                    std::vector<Step> &after) {
    tidy(over);
    const Use writer{step, queue};
    const auto visit = [&](std::size_t, std::size_t, const Uses &uses) {
        // The readers have waited for the writer.
        if (uses.in_order.empty() && uses.unordered.empty())
            return add_wait(uses.writer, writer, over, after);
        looked_at_ += uses.in_order.size() + uses.unordered.size();
        for (const Use &reader : uses.in_order) add_wait(reader, writer, over, after);
        for (const Step &reader : uses.unordered)
            add_wait({reader, unordered}, writer, over, after);
    };
    uses_.visit(begin, end, visit);
    uses_.overwrite(begin, end, never, [&](Uses &uses) {
        uses.writer = writer;
        uses.in_order.clear();
        if (uses.unordered.empty()) return;
        uses.unordered.clear();
        give_back(uses.unordered);
        uses.forget_at = few;
    });
}

void Hazards::tidy(CommandId over) {
    if (uses_.pieces() < tidy_at_) return;
    uses_.change(0, uses_.size(), always,
                 [&](std::size_t, std::size_t, Uses &uses) { forget(uses, over); });
    tidy_at_ = std::max<std::size_t>(16, 2 * uses_.pieces());
}

}  // namespace cldist::cluster
