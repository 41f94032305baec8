#include "pipeline/profile.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "base/status.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/profile_file.hpp"
#include "support.hpp"

using namespace cldist;

namespace {

constexpr Way eager{Path::mapped, true, true, 0, 1};
constexpr Way in_place{Path::mapped, true, false, 4 * mib, 8};
constexpr Way chunked{Path::chunked, true, false, 256 * kib, 3};
constexpr Way staged{Path::staged, false, false, 0, 1};

// With these times, `eager` is best up to 64 KiB, `in_place` up to 1 MiB, `chunked` above.
const std::vector<Curve> curves{
    {eager, {{kib, 1e-6}, {64 * kib, 20e-6}, {mib, 500e-6}}},
    {in_place, {{kib, 15e-6}, {64 * kib, 20.5e-6}, {mib, 100e-6}, {16 * mib, 1600e-6}}},
    {chunked, {{512 * kib, 60e-6}, {mib, 101e-6}, {16 * mib, 1000e-6}}}};

Profile some_profile() {
    Profile profile;
    profile.system = {"a-host", "a \"device\"", "1.2", "Open MPI v4.1.4"};
    profile.ceilings = {{"MPI, same host", 2e-6, 1e-10}};
    profile.routes[0] = Profile::Measurement{"2026-01-02T03:04:05Z", "a-host", curves};
    profile.routes[2] =
        Profile::Measurement{"2026-01-02T03:05:05Z", "/tmp", {{staged, {{mib, 1e-3}}}}};
    return profile;
}

std::string complaint_about(const std::string &text) {
    try {
        static_cast<void>(parse_profile(text));
    } catch (const Error &error) {
        return error.status().message;
    }
    return {};
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE(
    "expected times are linear between points, and follow the bandwidth beyond the last point") {
    const Curve curve{in_place, {{100, 1.0}, {200, 3.0}, {400, 4.0}}};
    CHECK(curve.expected_seconds(1) == 1.0);
    CHECK(curve.expected_seconds(100) == 1.0);
    CHECK(*curve.expected_seconds(150) == doctest::Approx(2.0));
    CHECK(*curve.expected_seconds(400) == doctest::Approx(4.0));
    CHECK(*curve.expected_seconds(800) == doctest::Approx(6.0));
    CHECK(*Curve{in_place, {{100, 1.0}}}.expected_seconds(300) == doctest::Approx(3.0));
    // Times may fall if larger messages use a faster protocol, but not beyond the last point.
    const Curve falling{in_place, {{16 * kib, 134e-6}, {32 * kib, 30e-6}}};
    CHECK(*falling.expected_seconds(24 * kib) == doctest::Approx(82e-6));
    CHECK(*falling.expected_seconds(64 * kib) == doctest::Approx(30e-6));
}

TEST_CASE("a way has no expected time for sizes that it does not support") {
    CHECK_FALSE(Curve{eager, {{kib, 1e-6}}}.expected_seconds(2 * mib));
    CHECK_FALSE(Curve{chunked, {{mib, 1e-6}}}.expected_seconds(256 * kib));
    CHECK(Curve{in_place, {{kib, 1e-6}}}.expected_seconds(2 * kib));
}

TEST_CASE("the way with the shortest expected time is best, and the runner-up is a different way") {
    for (const auto &[size, best, runner_up] :
         {std::tuple{4 * kib, eager, in_place}, std::tuple{256 * kib, in_place, eager},
          std::tuple{8 * mib, chunked, in_place}}) {
        const std::size_t bytes = size;  // clang 14 captures no bindings
        CAPTURE(bytes);
        const Ranking ranking = rank(curves, bytes);
        REQUIRE(ranking.best != nullptr);
        CHECK(ranking.best->way == best);
        REQUIRE(ranking.runner_up != nullptr);
        CHECK(ranking.runner_up->way == runner_up);
    }
    CHECK(rank({}, 1).best == nullptr);
    CHECK(rank({{chunked, {{mib, 1}}}}, kib).best == nullptr);
}

TEST_CASE("a curve that ends early is not used beyond its end") {
    const std::vector<Curve> some{{in_place, {{kib, 9e-6}, {64 * mib, 9e-3}}},
                                  {chunked, {{mib, 1e-4}, {4 * mib, 1.1e-4}}}};
    CHECK(rank(some, 4 * mib).best->way == chunked);
    CHECK(rank(some, 32 * mib).best->way == in_place);
    CHECK(rank(some, 128 * mib).best->way == in_place);
    CHECK(rank(some, 32 * mib).runner_up == nullptr);
}

TEST_CASE("there are four size classes per octave, in order, and each contains its smallest size") {
    for (std::size_t size = 1; size < 64 * kib; ++size)
        CHECK(size_class(size) <= size_class(size + 1));
    for (std::size_t i = 0; i < size_class_count; ++i) {
        CHECK(size_class(smallest_of_class(i)) == i);
        if (i > 0) CHECK(size_class(smallest_of_class(i) - 1) == i - 1);
    }
    CHECK(size_class(kib) == 1);
    CHECK(size_class(2 * kib) == 5);
    CHECK(size_class(SIZE_MAX) == size_class_count - 1);
}

TEST_CASE(
    "advice is the best way of each size, and plans follow it unless the user forces a choice") {
    const Advice advice(curves);
    CHECK(advice.way(4 * kib) == eager);
    CHECK(advice.way(16 * mib) == chunked);
    Situation situation{true, true, true};
    situation.advice = &advice;
    CHECK(plan_send(4 * kib, situation, {}) == Plan{Path::mapped, 4 * kib, 1, true});
    CHECK(plan_send(16 * mib, situation, {}) == Plan{Path::chunked, 256 * kib, 3, false});
    CHECK(plan_recv(16 * mib, 64 * kib, situation, {}) == Plan{Path::chunked, 64 * kib, 3, false});
    Config config;
    config.block_size.value = 32 * kib;
    config.depth = 2;
    CHECK(plan_send(16 * mib, situation, config) == Plan{Path::chunked, 32 * kib, 2, false});
    config = {};
    config.path = Path::mapped;
    CHECK(plan_send(16 * mib, situation, config).path == Path::mapped);
    config = {};
    config.staged_max.value = kib;
    CHECK_FALSE(plan_send(4 * kib, situation, config).eager);
    // Unmapped memory can't be sent in place. Strided regions and host memory were not measured, so
    // the advice does not apply.
    situation.mapped = false;
    CHECK(plan_send(256 * kib, situation, {}).path == Path::chunked);
    situation = {true, true, true, true};
    situation.advice = &advice;
    Situation plain = situation;
    plain.advice = nullptr;
    CHECK(plan_send(16 * mib, situation, {}) == plan_send(16 * mib, plain, {}));
}

TEST_CASE(
    "advice for messages without header leaves the sizes of eager messages to the built-in "
    "choice") {
    const Advice advice = Advice(curves).without_headers();
    CHECK_FALSE(advice.way(4 * kib).has_value());
    CHECK(advice.way(16 * mib) == chunked);
}

TEST_CASE("a way that is hardly faster than the way of smaller sizes is not chosen") {
    std::vector<Curve> close{{in_place, {{kib, 1e-5}, {mib, 1e-4}, {64 * mib, 1e-2}}},
                             {chunked, {{mib, 1.1e-4}, {64 * mib, 0.98e-2}}}};
    CHECK(Advice(close).way(64 * mib) == in_place);
    close[1].points[1].seconds = 0.95e-2;
    CHECK(Advice(close).way(64 * mib) == chunked);
    // Beyond the last measured point, the expected time is a guess.
    close[0].points.pop_back();
    CHECK(Advice(close).way(64 * mib) == chunked);
}

TEST_CASE("mapping is requested if a profile's best way maps, unless a path is forced") {
    const Advice maps(in_place);
    const Advice copies(staged);
    CHECK(plan_mapping(true, mib, &maps, {}));
    CHECK_FALSE(plan_mapping(true, mib, &copies, {}));
    Config config;
    config.path = Path::mapped;
    CHECK(plan_mapping(true, mib, &copies, config));
}

TEST_CASE("blocks and depth of files come from a profile") {
    const Advice advice(Way{Path::chunked, false, false, 3 * mib, 5});
    Situation situation{false, false, false};
    situation.advice = &advice;
    const Plan plan = plan_file(64 * mib, situation, {4, 1}, {});
    CHECK(plan.path == Path::chunked);
    CHECK(plan.block == 3 * mib);
    CHECK(plan.depth == 5);
}

TEST_CASE("a fitted line has the points' start-up time and bandwidth") {
    const Ceiling ceiling = fit(
        "a copy", {{1000, 2e-6 + 1000e-9}, {100000, 2e-6 + 100000e-9}, {10000000, 2e-6 + 0.01}});
    CHECK(ceiling.startup_seconds == doctest::Approx(2e-6));
    CHECK(ceiling.seconds_per_byte == doctest::Approx(1e-9));
    // Neither is negative, whatever the noise.
    CHECK(fit("", {{1000, 1e-6}, {2000, 3e-6}}).startup_seconds == 0);
    CHECK(fit("", {{1000, 3e-6}, {2000, 1e-6}}).seconds_per_byte >= 0);
}

TEST_CASE("a written profile is read back unchanged") {
    const Profile profile = some_profile();
    CHECK(parse_profile(profile_text(profile)).system == profile.system);
    const auto read = parse_profile(profile_text(profile)).routes.at(0);
    REQUIRE(read);
    CHECK(read->between == "a-host");
    REQUIRE(read->curves.size() == curves.size());
    CHECK(read->curves[2].way == chunked);
    CHECK(read->curves[2].points[1].seconds == doctest::Approx(101e-6));
    CHECK(profile_text(parse_profile(profile_text(profile))) == profile_text(profile));
}

TEST_CASE("a damaged profile is refused with line and cause") {
    const std::string text = profile_text(some_profile());
    struct Row {
        const char *from;
        const char *to;
        const char *says;
    };
    for (const Row &row : {Row{"version = 1", "version = 2", "line 2: version is 2; expected 1"},
                           Row{"version = 1", "version = 1 1", "line 2: "},
                           Row{"[system]\nhost", "[sistem]\nhost", "system is missing"},
                           Row{"driver = \"1.2\"", "driver = 1.2", "driver is not a text"},
                           Row{"[route.same-host]", "[route.other-host]", "way is missing"},
                           Row{"path = \"chunked\"", "path = \"pipeline\"",
                               "path is \"pipeline\"; expected whole, mapped"},
                           Row{"depth = 3", "depth = 65", "depth is 65; expected 1 to 64"},
                           Row{"block = 262144", "block = 0", "block is 0; expected 1 to"},
                           Row{"bytes = [1024, 65536,", "bytes = [65536, 1024,",
                               "bytes is not a list of increasing whole numbers"},
                           Row{"bytes = [1024, 65536,", "bytes = [1024,",
                               "bytes has 2 numbers, but microseconds has 3"},
                           Row{"microseconds = [1.000,", "microseconds = [-1.000,",
                               "microseconds is not a number"}}) {
        CAPTURE(row.to);
        const std::string complaint = complaint_about(replaced(text, row.from, row.to));
        CAPTURE(complaint);
        CHECK(complaint.find(row.says) != std::string::npos);
        CHECK(complaint.rfind("line ", 0) == 0);
    }
    CHECK(complaint_about(text + "[route.moon]\n").find("unknown route \"moon\"") !=
          std::string::npos);
    CHECK(complaint_about(text.substr(0, text.size() / 2)) != "");
    CHECK(complaint_about("") != "");
}

TEST_CASE("a profile's file is named after host and device, in the user's settings folder") {
    ::setenv("XDG_CONFIG_HOME", "/some/config", 1);
    CHECK(profile_path({"node7", "pthread-AMD EPYC (TM) 7", "", ""}) ==
          "/some/config/cldist/node7-pthread-amd-epyc-tm-7.toml");
    ::unsetenv("XDG_CONFIG_HOME");
    ::setenv("HOME", "/home/me", 1);
    CHECK(profile_path({"a", "b", "", ""}) == "/home/me/.config/cldist/a-b.toml");
}

TEST_CASE("a profile is written into an existing folder, and failures are reported") {
    const auto folder =
        std::filesystem::temp_directory_path() / ("cldist-profile-" + std::to_string(::getpid()));
    const std::string path = folder / "deep" / "p.toml";
    CHECK_THROWS_AS(write_profile(path, some_profile()), Error);
    std::filesystem::create_directories(folder / "deep");
    write_profile(path, some_profile());
    CHECK_THROWS_AS(static_cast<void>(read_profile(folder)), Error);
    CHECK(read_profile(path).system == some_profile().system);
    std::ofstream(folder / "file") << "no folder";
    CHECK_THROWS_AS(write_profile(folder / "file" / "p.toml", some_profile()), Error);
    std::filesystem::remove_all(folder);
    CHECK_THROWS_AS(static_cast<void>(read_profile(path)), Error);
}
