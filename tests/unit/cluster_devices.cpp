#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "base/status.hpp"
#include "cluster/world/device_choice.hpp"
#include "cluster/world/native_icds.hpp"

using namespace cldist;
using namespace cldist::cluster;

TEST_CASE("CLDIST_DEVICES accepts types, with or without a count") {
    const auto choices = parse_device_choice("gpu:2,cpu");
    REQUIRE(choices.size() == 2);
    CHECK(choices[0].type == CL_DEVICE_TYPE_GPU);
    CHECK(choices[0].most == 2);
    CHECK(choices[1].type == CL_DEVICE_TYPE_CPU);
    CHECK(choices[1].most > 1000);
    CHECK(parse_device_choice("all").front().type == CL_DEVICE_TYPE_ALL);
}

TEST_CASE("an invalid CLDIST_DEVICES is refused, and the message lists what is valid") {
    for (const char *const text :
         {"gpus", "gpu:", "gpu:x", "gpu:1x", "gpu,,cpu", "gpu:-1", "auto", ""}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_device_choice(text), Error);
    }
}

TEST_CASE(
    "each device of a host belongs to exactly one process; if devices are few, several processes "
    "share one") {
    for (std::size_t count = 1; count <= 9; ++count)
        for (std::size_t processes = 1; processes <= 9; ++processes) {
            CAPTURE(count);
            CAPTURE(processes);
            std::vector<int> owners(count);
            for (std::size_t number = 0; number < processes; ++number) {
                const auto [begin, end] = share_of(count, number, processes);
                REQUIRE(begin < end);
                REQUIRE(end <= count);
                if (count < processes) CHECK(end - begin == 1);
                for (std::size_t i = begin; i < end; ++i) ++owners[i];
            }
            for (const int times : owners) {
                CHECK(times >= 1);
                if (count >= processes) CHECK(times == 1);
            }
        }
    CHECK(share_of(0, 1, 3) == std::pair<std::size_t, std::size_t>{0, 0});
}

TEST_CASE(
    "a host's drivers are found in folders, .icd files and by file name, in order, without the "
    "platform itself") {
    const auto folder = std::filesystem::temp_directory_path() / "cldist-test-icds";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "b.icd") << "libb.so\nignored\n";
    std::ofstream(folder / "a.icd") << "/opt/liba.so\n";
    std::ofstream(folder / "self.icd") << "/usr/lib/libcldist-cluster.so.0\n";
    std::ofstream(folder / "notes.txt") << "libc.so\n";
    const std::string places = "first.so::" + folder.string() + ":" + (folder / "b.icd").string();
    CHECK(native_libraries(places) ==
          std::vector<std::string>{"first.so", "/opt/liba.so", "libb.so", "libb.so"});
    CHECK(native_libraries("").empty());
    std::filesystem::remove_all(folder);
}
