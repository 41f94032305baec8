#include "base/idle_cache.hpp"

#include <semaphore>
#include <thread>

#include <doctest/doctest.h>

using namespace cldist;

namespace {

// Its destructor waits until the test releases it.
struct Slow {
    std::counting_semaphore<2> &ending, &may_end;
    Slow(std::counting_semaphore<2> &e, std::counting_semaphore<2> &m) : ending(e), may_end(m) {}
    ~Slow() {
        ending.release();
        may_end.acquire();
    }
};

}  // namespace

TEST_CASE("used entries stay, idle entries are released and created anew") {
    IdleCache<int, int> cache;
    int made = 0;
    const auto make = [&] { return std::make_shared<int>(++made); };
    const std::shared_ptr<int> used = cache.get(1, make);
    CHECK(*cache.get(2, make) == 2);
    cache.release_idle(60);
    CHECK(*cache.get(2, make) == 2);
    cache.release_idle(0);
    CHECK(*cache.get(1, make) == 1);
    CHECK(*cache.get(2, make) == 3);
}

TEST_CASE("get() does not wait while idle entries are being destroyed") {
    std::counting_semaphore<2> ending{0}, may_end{0};
    IdleCache<int, Slow> cache;
    cache.get(1, [&] { return std::make_shared<Slow>(ending, may_end); });
    std::jthread cleanup([&] { cache.release_idle(0); });
    ending.acquire();
    const std::shared_ptr<Slow> again =
        cache.get(1, [&] { return std::make_shared<Slow>(ending, may_end); });
    CHECK(again != nullptr);
    may_end.release(2);
}
