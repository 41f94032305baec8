#include "cluster/objects/user_events.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace {

using cldist::cluster::OpenUserEvents;
using cldist::cluster::UserEvent;

std::vector<std::shared_ptr<UserEvent>> user_events(std::size_t count) {
    std::vector<std::shared_ptr<UserEvent>> events;
    for (std::size_t n = 1; n <= count; ++n)
        events.push_back(std::make_shared<UserEvent>(UserEvent{n}));
    return events;
}

}  // namespace

TEST_CASE("a set of user events has the same name in any order, another set has another name") {
    const auto events = user_events(3);
    OpenUserEvents a;
    CHECK(a.name() == 0);
    a.add(events[0]);
    const std::uint64_t first = a.name();
    CHECK(first != 0);
    a.add(events[1]);
    CHECK(a.name() != first);
    OpenUserEvents b;
    b.add(events[1]);
    CHECK(b.name() != a.name());
    b.add(events[0]);
    b.add(events[0]);
    CHECK(b.name() == a.name());
    b.add(a);
    CHECK(b.name() == a.name());
    b.add(events[2]);
    CHECK(b.name() != a.name());
}

TEST_CASE("user events that are set do not count any more") {
    const auto events = user_events(2);
    OpenUserEvents both;
    both.add(events[0]);
    const std::uint64_t first = both.name();
    both.add(events[1]);
    events[1]->is_complete = true;
    CHECK(both.name() == first);
    events[0]->is_complete = true;
    CHECK(!both.any());
    CHECK(both.name() == 0);
    both.add(events[0]);
    CHECK(!both.any());
}

TEST_CASE("many user events keep their name until other ones are added, and still count") {
    const auto events = user_events(40);
    OpenUserEvents all;
    std::vector<std::uint64_t> names;
    for (std::size_t n = 0; n < 30; ++n) {
        all.add(events[n]);
        for (const std::uint64_t before : names) CHECK(all.name() != before);
        names.push_back(all.name());
    }
    OpenUserEvents same;
    same.add(all);
    CHECK(same.name() == all.name());
    same.add(all);
    CHECK(same.name() == all.name());
    OpenUserEvents more;
    more.add(events[35]);
    const std::uint64_t before = more.name();
    more.add(all);
    CHECK(more.name() != before);
    CHECK(more.name() != all.name());
    for (const auto &event : events) event->is_complete = true;
    CHECK(all.any());
}
