#include "cluster/objects/ending.hpp"

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

std::shared_ptr<Ending> regardless_of_failure(const std::shared_ptr<Ending> &ending) {
    if (!is_open(ending)) return nullptr;
    auto passed = std::make_shared<Ending>();
    ending->then([passed](cl_int) { passed->set(CL_COMPLETE); });
    return passed;
}

std::shared_ptr<Ending> all_of(std::span<const std::shared_ptr<Ending>> endings) {
    struct Open {
        std::atomic<std::size_t> number;
        std::atomic<cl_int> failure = CL_COMPLETE;
    };
    auto all = std::make_shared<Ending>();
    const auto open = std::make_shared<Open>(endings.size());
    for (const auto &ending : endings)
        ending->then([all, open](cl_int status) {
            if (status < 0) open->failure = status;
            if (--open->number == 0) all->set(open->failure);
        });
    return all;
}

std::shared_ptr<Ending> both(const std::shared_ptr<Ending> &a, const std::shared_ptr<Ending> &b) {
    const bool a_is_open = is_open(a);
    const bool b_is_open = is_open(b);
    if (!a_is_open || !b_is_open || a == b) return a_is_open ? a : b_is_open ? b : nullptr;
    return all_of(std::array{a, b});
}

}  // namespace cldist::cluster
