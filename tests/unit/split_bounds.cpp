/// The text form of kernel descriptions, and the accesses that models compute from them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "splitting/description.hpp"

using namespace cldist::splitting;

namespace {

Immediate number(std::int32_t value) {
    Immediate immediate;
    immediate.value.resize(sizeof value);
    std::memcpy(immediate.value.data(), &value, sizeof value);
    return immediate;
}

/// kernel void f(global float *in, global float *out, int n)
KernelDescription kernel(std::vector<AccessDescription> accesses) {
    return {"f", {{"in", true, {}}, {"out", true, {}}, {"n", false, {}}}, std::move(accesses), {}};
}

Operand global_id(int d) { return leaf(Kind::global_id, 64, d); }
Operand n() { return node(Kind::sext, 64, {leaf(Kind::immediate, 32, 2)}); }
Operand times(std::int64_t by, Operand what) {
    return node(Kind::mul, 64, {constant(by), std::move(what)});
}
Operand plus(Operand a, Operand b) { return node(Kind::add, 64, {std::move(a), std::move(b)}); }

ArgumentAccess of(const KernelDescription &kernel, const Launch &launch, const SubRange &part,
                  std::int32_t value, std::size_t argument) {
    const std::vector<Immediate> arguments{{}, {}, number(value)};
    const auto all = model_from_description(kernel)->accesses(launch, part, arguments);
    REQUIRE(all);
    return all->at(argument);
}

}  // namespace

TEST_CASE("descriptions survive the conversion to text and back") {
    KernelDescription f =
        kernel({{0,
                 false,
                 true,
                 7,
                 times(4, plus(global_id(0), n())),
                 constant(4),
                 {node(Kind::slt, 64, {global_id(0), n()})}},
                {1, true, false, 0, times(-4, leaf(Kind::counter, 64, 3)), constant(16), {}}});
    f.accesses[0].text = "in[get_global_id(0) + n]";
    f.arguments[0].why_whole = "an index depends on data (line 3)";
    KernelDescription g{
        "g", {{"p", true, {}}}, {}, "it has atomic operations on global memory", "leave them out"};
    const std::string text = text_of({{"f", f}, {"g", g}});
    const Descriptions parsed = parse_descriptions(text);
    CHECK(text_of(parsed) == text);
    CHECK(parsed.at("g").why_not == g.why_not);
    CHECK(parsed.at("g").advice == g.advice);
    CHECK(parsed.at("f").accesses.at(0).text == f.accesses[0].text);
    CHECK(parsed.at("f").accesses.at(0).conditions.size() == 1);
    for (const char *wrong :
         {"", "cldist-accesses 1\n",
          "cldist-accesses 2\nread 0 1 0 (constant 64 0) (constant 64 4)\n",
          "cldist-accesses 2\nkernel f\nread 0 1 0 (constant 64 0) (constant 64 4)\n",
          "cldist-accesses 2\nkernel f\nbuffer a\nread 0 1 0 (constant 64 0\n",
          "cldist-accesses 2\nkernel f\nbuffer a\nread 0 1 0 (plus 64) (constant 64 0)\n",
          "cldist-accesses 2\nkernel f\nbuffer a\nread 0 1 0 (udiv 64 (constant 64 0)) (constant "
          "64 0)\n"}) {
        CHECK_THROWS_AS(parse_descriptions(wrong), std::invalid_argument);
    }
}

TEST_CASE(
    "a condition on the id bounds the written range, and the bytes in it are surely written") {
    const KernelDescription f = kernel({{1,
                                         true,
                                         true,
                                         0,
                                         times(4, global_id(0)),
                                         constant(4),
                                         {node(Kind::slt, 64, {global_id(0), n()})}}});
    const Launch launch{1, {0, 0, 0}, {128, 1, 1}, {16, 1, 1}};
    const ArgumentAccess low = of(f, launch, {{0, 0, 0}, {64, 1, 1}}, 100, 1);
    CHECK(low.written == Intervals{{0, 256}});
    CHECK(low.read.empty());
    const ArgumentAccess high = of(f, launch, {{64, 0, 0}, {128, 1, 1}}, 100, 1);
    CHECK(high.written == Intervals{{256, 400}});
    CHECK(high.read.empty());
    CHECK(of(f, launch, {{64, 0, 0}, {128, 1, 1}}, 5, 1).written.empty());
}

TEST_CASE("bytes that may stay unwritten are also read") {
    const KernelDescription f =
        kernel({{1, true, false, 0, times(4, global_id(0)), constant(4), {}}});
    const ArgumentAccess access =
        of(f, {1, {0, 0, 0}, {8, 1, 1}, {1, 1, 1}}, {{0, 0, 0}, {8, 1, 1}}, 0, 1);
    CHECK(access.written == Intervals{{0, 32}});
    CHECK(access.read == access.written);
}

TEST_CASE("columns of a matrix stay columns") {
    // out[y * n + x]
    const KernelDescription f =
        kernel({{1,
                 true,
                 true,
                 0,
                 times(4, plus(node(Kind::mul, 64, {global_id(1), n()}), global_id(0))),
                 constant(4),
                 {}}});
    const Launch launch{2, {0, 0, 0}, {8, 5, 1}, {4, 1, 1}};
    const ArgumentAccess access = of(f, launch, {{4, 0, 0}, {8, 5, 1}}, 100, 1);
    CHECK(access.written == Intervals(Box{16, 16, {{400, 5}}}));
}

TEST_CASE("accesses without gaps between them are one range, however many there are") {
    // Accesses out[3 * id + 1], out[3 * id] and out[3 * id + 2] of four million work-items, and the
    // same of in.
    constexpr std::size_t count = std::size_t{1} << 22;
    const Launch launch{1, {0, 0, 0}, {count, 1, 1}, {64, 1, 1}};
    const SubRange part{{64, 0, 0}, {count, 1, 1}};
    std::vector<AccessDescription> reads;
    std::vector<AccessDescription> writes;
    for (const std::int64_t byte : {4, 0, 8}) {
        const Operand offset = plus(times(12, global_id(0)), constant(byte));
        reads.push_back({0, false, true, 0, offset, constant(4), {}});
        writes.push_back({1, true, true, 0, offset, constant(4), {}});
    }
    CHECK(of(kernel(reads), launch, part, 0, 0).read == Intervals{{12 * 64, 12 * count}});
    CHECK(of(kernel(writes), launch, part, 0, 1).written == Intervals{{12 * 64, 12 * count}});
    // With a gap there are too many ranges. Reads may be extended, writes may not.
    reads.pop_back();
    writes.pop_back();
    CHECK(of(kernel(reads), launch, part, 0, 0).read == Intervals{{12 * 64, 12 * count - 4}});
    CHECK_FALSE(model_from_description(kernel(writes))
                    ->accesses(launch, part, std::vector<Immediate>{{}, {}, number(0)}));
}

TEST_CASE("a 32-bit index that overflows is not treated as one without overflow") {
    // in[(int)(id * n)], where n is so large that the product wraps around.
    const Operand wraps =
        node(Kind::sext, 64,
             {node(Kind::mul, 32,
                   {node(Kind::trunc, 32, {global_id(0)}), leaf(Kind::immediate, 32, 2)})});
    const KernelDescription f = kernel({{0, false, true, 0, times(4, wraps), constant(4), {}}});
    const Launch launch{1, {0, 0, 0}, {8, 1, 1}, {1, 1, 1}};
    CHECK(of(f, launch, {{0, 0, 0}, {8, 1, 1}}, 10, 0).read == Intervals(Box{0, 4, {{40, 8}}}));
    CHECK(of(f, launch, {{0, 0, 0}, {8, 1, 1}}, 1 << 30, 0).read ==
          Intervals{{0, (std::size_t{1} << 33)}});
}

TEST_CASE("in a launch whose last groups are smaller, each group has its own size") {
    // out[get_group_id(0) * 100 + get_local_size(0)]
    const Operand index =
        plus(times(100, leaf(Kind::group_id, 64, 0)), leaf(Kind::local_size, 64, 0));
    const KernelDescription f = kernel({{1, true, true, 0, index, constant(1), {}}});
    const Launch launch{1, {0, 0, 0}, {10, 1, 1}, {4, 1, 1}};
    CHECK(of(f, launch, whole(launch), 0, 1).written == Intervals{{4, 5}, {104, 105}, {202, 203}});
}
