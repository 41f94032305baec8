#include "check.hpp"

#include <doctest/doctest.h>

#include "support.hpp"

using namespace cldist;
using namespace cldist::tool;

namespace {

constexpr Way measured_way{Path::mapped, true, false, 4 * mib, 8};

// A system on which chunked transfers take `chunked` seconds and all other transfers 1 ms.
class SimulatedRoute final : public Transfers {
public:
    explicit SimulatedRoute(double chunked) : chunked_(chunked) {}
    double seconds(const Way &way, std::size_t, unsigned count) override {
        const double once = way.path == Path::chunked ? chunked_ : 1e-3;
        clock += once * count;
        return once;
    }
    bool arrives(const Way &, std::size_t size) override { return size != wrong_at; }

    double clock = 0;
    std::size_t wrong_at = 0;

private:
    double chunked_;
};

Profile profile_with(const Way &way) {
    Profile profile;
    profile.routes[0] =
        Profile::Measurement{"now", "here", {{way, {{kib, 1e-3}, {64 * mib, 2e-3}}}}};
    return profile;
}

std::vector<CheckedSize> checked(SimulatedRoute &transfers, std::size_t largest) {
    Task task;
    task.host_memory = true;
    task.largest = largest;
    task.budget = 100;
    task.loop_seconds = 0.001;
    task.now = [&] { return transfers.clock; };
    task.progress = [](std::size_t, double) {};
    return check_route(transfers, task, profile_with(measured_way), {true, 2});
}

}  // namespace

TEST_CASE(
    "the chosen way is compared with the built-in choice and with every way that can be forced, "
    "each once") {
    const auto contenders =
        contenders_of(profile_with(measured_way), Route::same_host, 16 * mib, {true, 2});
    REQUIRE(contenders.size() == 9);
    CHECK(contenders[0] == Contender{"chosen", {Path::mapped, true, false, 4 * mib, 4}});
    std::string names;
    for (const Contender &contender : contenders) names += contender.name + "; ";
    CHECK(names ==
          "chosen; built-in; mapped; staged; chunked; shared; chunked, 256 KiB; chunked, 1 "
          "MiB; chunked, 4 "
          "MiB; ");
    // Small messages are sent eagerly on most paths, so fewer ways differ.
    const auto small = contenders_of(profile_with(measured_way), Route::same_host, kib, {true, 2});
    CHECK(small.size() < contenders.size());
    CHECK(small[1].way.eager);
}

TEST_CASE("the ratio compares the choice with the best different way") {
    SimulatedRoute slower(0.8e-3);
    const auto sizes = checked(slower, 64 * mib);
    REQUIRE(sizes.back().size == 64 * mib);
    CHECK(against_best(sizes.back()) == doctest::Approx(1 / 0.8));
    SimulatedRoute faster(2e-3);
    CHECK(against_best(checked(faster, 64 * mib).back()) == doctest::Approx(1.0));
    const Contender only{"chosen", measured_way};
    CHECK(against_best({mib, {only, {"built-in", measured_way}}, {2, 1}}) == 1);
    const std::string text = check_text(Route::same_host, sizes);
    CHECK(text.find("| 64 MiB | mapped, 4 MiB x 8 | 67.1 | built-in: chunked, ") !=
          std::string::npos);
    CHECK(text.find("At worst 1.25 times as long as the best of the others.") != std::string::npos);
}

TEST_CASE("a check leaves out sizes for which there is no time") {
    SimulatedRoute transfers(1e-3);
    Task task;
    task.host_memory = true;
    task.largest = 64 * mib;
    task.budget = 0.3;
    task.loop_seconds = 0.001;
    task.now = [&] { return transfers.clock; };
    task.progress = [](std::size_t, double) {};
    const auto sizes = check_route(transfers, task, profile_with(measured_way), {true, 2});
    CHECK(sizes.back().size < 64 * mib);
    CHECK(transfers.clock < 1);
}

TEST_CASE("if wrong bytes arrive, the check ends and reports size and way") {
    SimulatedRoute transfers(1e-3);
    transfers.wrong_at = 16 * kib;
    CHECK_THROWS_WITH_AS(static_cast<void>(checked(transfers, mib)), doctest::Contains("16 KiB"),
                         TuneError);
}
