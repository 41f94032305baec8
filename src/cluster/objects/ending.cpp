#include "cluster/objects/ending.hpp"

#include <utility>

namespace cldist::cluster {

void Ending::call_all(std::vector<Then> then, cl_int status) {
    static thread_local std::vector<std::pair<std::vector<Then>, cl_int>> *outer = nullptr;
    if (then.empty()) return;
    if (outer != nullptr) {
        outer->emplace_back(std::move(then), status);
        return;
    }
    std::vector<std::pair<std::vector<Then>, cl_int>> open;
    outer = &open;
    open.emplace_back(std::move(then), status);
    while (!open.empty()) {
        const auto [calls, of] = std::move(open.back());
        open.pop_back();
        for (const Then &call : calls) call(of);
    }
    outer = nullptr;
}

std::shared_ptr<Ending> both(const std::shared_ptr<Ending> &a, const std::shared_ptr<Ending> &b) {
    const bool a_is_open = a != nullptr && !a->over();
    const bool b_is_open = b != nullptr && !b->over();
    if (!a_is_open || !b_is_open || a == b) return a_is_open ? a : b_is_open ? b : nullptr;
    auto joined = std::make_shared<Ending>();
    auto open = std::make_shared<std::atomic<int>>(2);
    const auto count = [joined, open](cl_int) {
        if (--*open == 0) joined->set(CL_COMPLETE);
    };
    a->then(count);
    b->then(count);
    return joined;
}

}  // namespace cldist::cluster
