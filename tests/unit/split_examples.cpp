// The accesses derived from kernels of examples/splitting must equal the access functions there.
#include <doctest/doctest.h>

#include <CL/cl.h>

#include <array>
#include <cstring>
#include <string>

#include "back_propagation_cl.hpp"
#include "binomial_option_cl.hpp"
#include "bitonic_sort_cl.hpp"
#include "hash_cl.hpp"
#include "hotspot_cl.hpp"
#include "intervals.hpp"
#include "k_means_cl.hpp"
#include "lu_decomposition_cl.hpp"
#include "mandelbrot_cl.hpp"
#include "monte_carlo_cl.hpp"
#include "n_body_cl.hpp"
#include "nearest_neighbour_cl.hpp"
#include "splitting/functions.hpp"
#include "splitting/library.hpp"
#include "splitting/partition.hpp"

using namespace cldist::splitting;

#define KERNEL(name)                                                                  \
    extern "C" int is_buffer_range_read_##name(                                       \
        const void **, const std::size_t *, const std::size_t *, const std::size_t *, \
        const std::size_t *, unsigned, std::size_t, std::size_t *);                   \
    extern "C" int is_buffer_range_written_##name(                                    \
        const void **, const std::size_t *, const std::size_t *, const std::size_t *, \
        const std::size_t *, unsigned, std::size_t, std::size_t *);
#include "kernels.def"
#undef KERNEL

namespace {

std::unique_ptr<AccessModel> by_hand(const std::string &kernel) {
#define KERNEL(name)     \
    if (kernel == #name) \
        return model_from_functions(is_buffer_range_read_##name, is_buffer_range_written_##name);
#include "kernels.def"
#undef KERNEL
    FAIL("no access functions for " << kernel);
    return {};
}

Immediate buffer(std::size_t bytes) { return {{}, bytes}; }
template <typename T>
Immediate value(T what) {
    Immediate immediate{std::vector<std::byte>(sizeof what), 0};
    std::memcpy(immediate.value.data(), &what, sizeof what);
    return immediate;
}
const Immediate local_memory;

using Sizes = std::array<std::size_t, 3>;

struct Case {
    const char *source, *options, *kernel;
    unsigned dimensions;
    Sizes global, local;
    std::vector<Immediate> arguments;
    bool reads_are_exact = true;  ///< otherwise the derived reads may exceed the hand-written ones
};

Intervals within(Intervals set, std::size_t size, bool whole = false) {
    if (whole) return {{0, size}};
    set.intersect({{0, size}});
    return set;
}

std::string text(const Intervals &set) {
    std::string all;
    for (const Interval &each : set)
        all += " [" + std::to_string(each.begin) + ", " + std::to_string(each.end) + ")";
    return all.substr(0, 400);
}

void compare_with_derived(const Case &launch) {
    CAPTURE(std::string(launch.kernel));
    const Descriptions derived = derive(launch.source, launch.options);
    const auto one = model_from_description(derived.at(launch.kernel));
    const auto other = by_hand(launch.kernel);
    std::string why_not;
    REQUIRE_MESSAGE(one->splittable(why_not), why_not);
    const Launch shape{launch.dimensions, {0, 0, 0}, launch.global, launch.local};
    for (const std::vector<double> &shares :
         {std::vector<double>{1, 1}, {1, 1, 1}, {3, 1, 2, 2, 1}}) {
        for (const SubRange &part : partition(shape, shares)) {
            if (part.empty()) continue;
            const auto found = one->accesses(shape, part, launch.arguments);
            const auto said = other->accesses(shape, part, launch.arguments);
            REQUIRE(found);
            REQUIRE(said);
            for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
                const std::size_t size = launch.arguments[i].buffer_size;
                if (size == 0) continue;
                CAPTURE(i);
                CAPTURE(part.begin[0]);
                CAPTURE(part.begin[1]);
                const auto check = [&](const std::string &how, bool exact, const Intervals &a,
                                       const Intervals &b) {
                    if (exact ? a != b : !includes(a, b))
                        FAIL_CHECK(how << " derived:" << text(a) << ", by hand:" << text(b));
                };
                check("read", launch.reads_are_exact,
                      within((*found)[i].read, size, (*found)[i].reads_whole),
                      within((*said)[i].read, size, (*said)[i].reads_whole));
                check("written", true, within((*found)[i].written, size),
                      within((*said)[i].written, size));
            }
        }
    }
}

}  // namespace

TEST_CASE(
    "the accesses derived from the examples' kernels equal the hand-written access functions") {
    const auto i = [](int n) { return value(cl_int(n)); };
    const Immediate real = value(0.5F);
    const Immediate n1000 = buffer(1000 * 4);
    compare_with_derived({nearest_neighbour_source,
                          "",
                          "squared_distances",
                          1,
                          {1000, 1, 1},
                          {8, 1, 1},
                          {buffer(8000), n1000, real, real}});
    compare_with_derived({mandelbrot_source,
                          "",
                          "mandelbrot",
                          2,
                          {60, 40, 1},
                          {4, 4, 1},
                          {buffer(60 * 40 * 4), i(60), real, real, real, i(100)}});
    compare_with_derived({hash_source,
                          "",
                          "sha256",
                          1,
                          {1000, 1, 1},
                          {10, 1, 1},
                          {buffer(32000), value(cl_uint{7})}});
    for (const std::size_t distance : {1U, 8U, 256U, 512U})
        compare_with_derived(
            {bitonic_sort_source,
             "",
             "compare",
             2,
             {distance, 512 / distance, 1},
             {std::min<std::size_t>(distance, 8), std::min<std::size_t>(512 / distance, 8), 1},
             {buffer(4096), value(cl_uint(distance)), value(cl_uint{512})}});
    compare_with_derived({binomial_option_source,
                          "",
                          "binomial_option",
                          1,
                          {20 * 32, 1, 1},
                          {32, 1, 1},
                          {buffer(320), buffer(80), i(31), local_memory}});
    compare_with_derived({monte_carlo_source,
                          "",
                          "asian_option",
                          1,
                          {100, 1, 1},
                          {4, 1, 1},
                          {buffer(1600), buffer(400), i(3), i(4)}});
    compare_with_derived({n_body_source,
                          "",
                          "move",
                          1,
                          {100, 1, 1},
                          {4, 1, 1},
                          {buffer(1600), buffer(1600), buffer(1600), buffer(1600), i(100), real}});
    compare_with_derived({k_means_source,
                          "",
                          "nearest_centres",
                          1,
                          {100, 1, 1},
                          {4, 1, 1},
                          {buffer(3200), buffer(5 * 32), buffer(400), i(8), i(5)}});
    compare_with_derived({back_propagation_source,
                          "",
                          "forward",
                          2,
                          {16, 160, 1},
                          {16, 16, 1},
                          {buffer(640), buffer(160 * 64), buffer(640), i(16), local_memory}});
    compare_with_derived(
        {back_propagation_source,
         "",
         "adjust",
         2,
         {16, 160, 1},
         {16, 16, 1},
         {buffer(160 * 64), buffer(160 * 64), buffer(640), buffer(64), i(16), real, real}});
    for (int steps = 1; steps <= 6; ++steps)
        compare_with_derived({hotspot_source,
                              "-DBLOCK=16",
                              "hotspot",
                              2,
                              {80, 96, 1},
                              {16, 16, 1},
                              {buffer(70 * 90 * 4), buffer(70 * 90 * 4), buffer(70 * 90 * 4), i(70),
                               i(90), i(steps), real, real, real, real, local_memory},
                              // A counter begins at the local id and has a limit. Together they do
                              // not form a box, so the derived range is larger.
                              false});
    const Immediate matrix = buffer(128 * 128 * 4);
    const auto lu = [&](const char *kernel, unsigned dimensions, Sizes global, Sizes local) {
        compare_with_derived({lu_decomposition_source,
                              "-DBLOCK=16",
                              kernel,
                              dimensions,
                              global,
                              local,
                              {matrix, i(128), i(32)}});
    };
    lu("lu_diagonal", 1, {16, 1, 1}, {16, 1, 1});
    lu("lu_row", 1, {80, 1, 1}, {16, 1, 1});
    lu("lu_column", 1, {80, 1, 1}, {16, 1, 1});
    lu("lu_inner", 2, {80, 80, 1}, {16, 16, 1});
}
