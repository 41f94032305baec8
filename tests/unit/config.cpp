#include "base/config.hpp"

#include <doctest/doctest.h>

using namespace cldist;

namespace {

Config read(const std::vector<std::string_view> &environment,
            std::vector<std::string> &complaints) {
    return read_config(environment, complaints);
}

}  // namespace

TEST_CASE(
    "CLDIST_SIMULATE is a number of processes, with an optional rank and an optional number per "
    "host") {
    const auto simulation = parse_simulation("1024:17:8");
    REQUIRE(simulation);
    CHECK(simulation->processes == 1024);
    CHECK(simulation->rank == 17);
    CHECK(simulation->per_host == 8);
    CHECK(parse_simulation("65536")->rank == 0);
    CHECK(parse_simulation("4:3")->per_host == 1);
    for (const char *const text :
         {"", "0", "65537", "4:4", "4:3:0", "4:", "4:3:2:1", "four", "-1", "4:-1", " 4"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_simulation(text));
    }
}

TEST_CASE("CLDIST_SHARES is a word or weights") {
    CHECK(parse_shares("auto")->by == Shares::By::automatic);
    CHECK(parse_shares("equal")->by == Shares::By::equal);
    CHECK(parse_shares("measured")->by == Shares::By::measured);
    const auto shares = parse_shares("2,0.5,0");
    REQUIRE(shares);
    CHECK(shares->by == Shares::By::weights);
    CHECK(shares->weights == std::vector<double>{2, 0.5, 0});
    CHECK(parse_shares("3")->weights == std::vector<double>{3});
    for (const char *const text :
         {"", "0", "0,0", "1,", ",1", "1,-1", "1,x", "nan", "inf,1", "1 2", "1e308,1e308"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_shares(text));
    }
    std::vector<std::string> complaints;
    CHECK(read({"CLDIST_SHARES=fair"}, complaints).shares.by == Shares::By::automatic);
    REQUIRE(complaints.size() == 1);
    CHECK(complaints[0].find("expected auto, equal, measured, or weights") != std::string::npos);
}

TEST_CASE("old names of settings and paths work with a warning") {
    std::vector<std::string> complaints;
    const Config config =
        read({"CLDIST_PATH=pipelined", "CLDIST_PINNED_MAX=1M", "CLDIST_META=./a.so"}, complaints);
    CHECK(config.path == Path::chunked);
    CHECK(config.staged_max.value == 1 << 20);
    CHECK(config.access_functions == "./a.so");
    REQUIRE(complaints.size() == 3);
    CHECK(complaints[0] ==
          "CLDIST_PATH=pipelined is now called CLDIST_PATH=chunked; the next version will not know "
          "the old name");
    for (const char *const old : {"pinned", "direct"}) CHECK(std::string(current_path(old)) != old);
    CHECK(read({"CLDIST_STAGED_MAX=2k", "CLDIST_PINNED_MAX=1k"}, complaints).staged_max.value ==
          2048);
}

TEST_CASE("settings are read from their variables") {
    std::vector<std::string> complaints;
    const Config config =
        read({"CLDIST_PATH=chunked", "CLDIST_BLOCK_SIZE=64k", "CLDIST_DEPTH=3",
              "CLDIST_STALL_SECONDS=1.5", "CLDIST_TRACE=/tmp/a=b", "CLDIST_ON_ERROR=abort",
              "CLDIST_LOG=debug", "HOME=/", "CLDIST_STAGED_MAX=1M"},
             complaints);
    CHECK(complaints.empty());
    CHECK(config.path == Path::chunked);
    CHECK(config.block_size.value == 65536);
    CHECK(config.depth == 3);
    CHECK(config.stall_seconds == doctest::Approx(1.5));
    CHECK(config.trace == "/tmp/a=b");
    CHECK(config.on_error == OnError::abort);
    CHECK(config.log == LogLevel::debug);
    CHECK(config.staged_max.value == 1 << 20);
}

TEST_CASE("an unreadable value is reported with the expected form, and the default is used") {
    for (const char *bad :
         {"CLDIST_PATH=fast", "CLDIST_PATH=", "CLDIST_BLOCK_SIZE=64kB", "CLDIST_BLOCK_SIZE=-1",
          "CLDIST_BLOCK_SIZE=2G", "CLDIST_BLOCK_SIZE=", "CLDIST_BLOCK_SIZE=k", "CLDIST_DEPTH=65",
          "CLDIST_DEPTH=x", "CLDIST_STALL_SECONDS=-1", "CLDIST_STALL_SECONDS=nan",
          "CLDIST_STALL_SECONDS=", "CLDIST_STALL_SECONDS=1e10", "CLDIST_LOG=loud",
          "CLDIST_ON_ERROR=ignore"}) {
        CAPTURE(bad);
        std::vector<std::string> complaints;
        const Config config = read({bad}, complaints);
        REQUIRE(complaints.size() == 1);
        CHECK(complaints[0].find("expected") != std::string::npos);
        CHECK(config.path == Path::automatic);
        CHECK(config.block_size.value == 0);
        CHECK(config.depth == 0);
        CHECK(config.stall_seconds == 30.0);
    }
}

TEST_CASE(
    "a misspelt variable is reported with the nearest name, other programs' variables are not") {
    std::vector<std::string> complaints;
    read({"CLDIST_BLOCKSIZE=1", "CLDIST_PAHT=auto", "CLDIST_SOMETHING_ELSE=1", "CLDIST_FOO=1",
          "CLDISTX=1"},
         complaints);
    REQUIRE(complaints.size() == 2);
    CHECK(complaints[0].find("CLDIST_BLOCK_SIZE") != std::string::npos);
    CHECK(complaints[1].find("CLDIST_PATH") != std::string::npos);
}

TEST_CASE("every setting is printed in the form in which it is set") {
    std::vector<std::string> complaints;
    const Config changed =
        read_config({"CLDIST_BLOCK_SIZE=65536", "CLDIST_REFINE=off", "CLDIST_DEPTH=3"}, complaints);
    const std::vector<SettingText> settings = settings_of(changed);
    const auto value_of = [&](const std::string &name) -> std::string {
        for (const SettingText &setting : settings)
            if (name == setting.name) return setting.value;
        return "none";
    };
    CHECK(value_of("CLDIST_BLOCK_SIZE") == "64k");
    CHECK(value_of("CLDIST_REFINE") == "off");
    CHECK(value_of("CLDIST_DEPTH") == "3");
    CHECK(value_of("CLDIST_PATH") == "auto");
    // The printed settings are valid input.
    for (const SettingText &setting : settings) {
        const std::string entry = std::string(setting.name) + "=" + setting.value;
        CAPTURE(entry);
        static_cast<void>(read_config({entry}, complaints));
        CHECK(complaints.empty());
    }
}
