#include "cluster/world/agreement.hpp"

#include <algorithm>
#include <utility>

#include "base/binomial_tree.hpp"

namespace cldist::cluster {

void Agreement::tell(const CallHash &call, std::span<const Process> to, const Blob &blob) const {
    for (const Process process : to)
        if (traffic_ != nullptr) traffic_->sent(process, Carries::agreement, blob.size());
    send(call, to, blob);
}

Blob Agreement::hear(const CallHash &call, Process from, Blob expected) const {
    Blob blob = receive(call, from, std::move(expected));
    if (traffic_ != nullptr) traffic_->received(from, Carries::agreement, blob.size());
    return blob;
}

Blob Agreement::from(const CallHash &call, Process root, Blob said) const {
    if (alone()) return said;
    const Process place = (self_ + processes_ - root) % processes_;
    const auto process_at = [&](Process at) { return (at + root) % processes_; };
    if (place != 0) said = hear(call, process_at(parent_in_tree(place)), std::move(said));
    std::vector<Process> children = children_in_tree(place, processes_);
    for (Process &child : children) child = process_at(child);
    if (!children.empty()) tell(call, children, said);
    return said;
}

Blob Agreement::from_to(const CallHash &call, Process root, Process to, Blob said) const {
    if (root == to) return said;
    if (self_ == root) tell(call, {&to, 1}, said);
    if (self_ == to) said = hear(call, root, std::move(said));
    return said;
}

std::vector<Blob> Agreement::of(const CallHash &call, std::span<const Process> some,
                                std::vector<Blob> said) const {
    const bool is_first = some.front() == self_;
    Packer all;
    for (std::size_t i = 0; i < some.size(); ++i) {
        if (is_first && i > 0) said[i] = hear(call, some[i], std::move(said[i]));
        if (!is_first && some[i] == self_) tell(call, some.first(1), said[i]);
        all.put_bytes(said[i]);
    }
    const Blob told = from(call, some.front(), all.take());
    Unpacker unpacker(told);
    for (Blob &each : said) each = unpacker.get_bytes();
    return said;
}

// Reduces up the tree of from(), then broadcasts.
int Agreement::least(const CallHash &call, int mine) const {
    const std::vector<Process> children = children_in_tree(self_, processes_);
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
        const Blob theirs = hear(call, *child, Packer().put(mine).take());
        mine = std::min(mine, Unpacker(theirs).get<int>());
    }
    const Process parent = parent_in_tree(self_);
    if (self_ != 0) tell(call, {&parent, 1}, Packer().put(mine).take());
    const Blob told = from(call, 0, Packer().put(mine).take());
    return Unpacker(told).get<int>();
}

int Agreement::in_turn(const CallHash &call, std::span<const Process> some, int begin,
                       const std::function<int(int before)> &work) const {
    Blob told = Packer().put(begin).take();
    if (const auto self = std::ranges::find(some, self_); self != some.end()) {
        if (self != some.begin()) told = hear(call, *(self - 1), std::move(told));
        told = Packer().put(work(Unpacker(told).get<int>())).take();
        if (self + 1 != some.end()) tell(call, {&*(self + 1), 1}, told);
    }
    const Blob last = from(call, some.back(), std::move(told));
    return Unpacker(last).get<int>();
}

}  // namespace cldist::cluster
