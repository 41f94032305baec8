/// Random kernels: the accesses derived from their source, compared with the bytes that their
/// work-items really access.
///
/// The generator keeps the program as a tree. It prints the tree as OpenCL C, and executes it with
/// the widths and wrap-around of OpenCL C's types.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "intervals.hpp"
#include "splitting/library.hpp"
#include "splitting/partition.hpp"

using namespace cldist::splitting;

namespace {

struct Item {
    const Launch &launch;
    std::array<std::size_t, 3> id;  // from 0
    std::vector<std::int64_t> counters{};
};

/// The values of the arguments n, m and u.
struct Values {
    std::int32_t n;
    std::int32_t m;
    std::uint32_t u;
};

enum class Type { int_type, uint_type, long_type };

/// An expression. Its value is always within the range of its type.
struct Term {
    std::string text;
    Type type;
    std::function<std::int64_t(const Item &, const Values &)> value;
};

std::int64_t as(Type type, std::int64_t value) {
    switch (type) {
        case Type::int_type: return static_cast<std::int32_t>(value);
        case Type::uint_type: return static_cast<std::uint32_t>(value);
        case Type::long_type: return value;
    }
    return 0;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t times(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

const char *name(Type type) {
    switch (type) {
        case Type::int_type: return "int";
        case Type::uint_type: return "uint";
        case Type::long_type: return "long";
    }
    return "";
}

/// One statement: an access, or a loop or condition with inner statements.
struct Statement {
    enum class What { read, write, loop, guard } what;
    Term term;           // the index, the loop's end, or the condition's left side
    Term other{};        // the condition's right side
    std::string sign{};  // the condition's operator
    int step = 1;        // the loop's step; it begins at `from`
    int from = 0;
    // Above 1: each round multiplies the counter by it, or, if is_down, divides the counter until
    // it is 0.
    int factor = 1;
    bool is_down = false;
    std::vector<Statement> inner{};
};

class Generator {
public:
    explicit Generator(std::mt19937 &random, unsigned dimensions)
        : random_(random), dimensions_(dimensions) {}

    std::vector<Statement> statements(unsigned depth = 0) {
        std::vector<Statement> all;
        for (unsigned count = 1 + random_() % 2; count > 0; --count) {
            const unsigned kind = random_() % 6;
            if (kind == 0 && depth < 3 && counters_ < 2) {
                Statement loop{Statement::What::loop,
                               random_() % 2 == 0 ? constant(1 + random_() % 5) : leaf()};
                loop.step = 1 + static_cast<int>(random_() % 3);
                loop.from = static_cast<int>(random_() % 3);
                if (random_() % 3 == 0) {
                    loop.factor = 2 + static_cast<int>(random_() % 2);
                    loop.from = 1 + static_cast<int>(random_() % 2);
                    loop.is_down = random_() % 2 == 0;
                }
                ++counters_;
                loop.inner = statements(depth + 1);
                --counters_;
                all.push_back(std::move(loop));
            } else if (kind <= 2 && depth < 3) {
                static const std::array<const char *, 6> signs{"<", "<=", ">", ">=", "==", "!="};
                Statement guard{Statement::What::guard, term(2)};
                guard.other =
                    random_() % 2 == 0 ? constant(static_cast<int>(random_() % 12)) : leaf();
                guard.sign = signs.at(random_() % signs.size());
                guard.inner = statements(depth + 1);
                all.push_back(std::move(guard));
            } else {
                all.push_back(
                    {random_() % 2 == 0 ? Statement::What::read : Statement::What::write, term(3)});
            }
        }
        return all;
    }

private:
    Term constant(std::int64_t value) {
        return {std::to_string(value), Type::int_type,
                [=](const Item &, const Values &) { return value; }};
    }

    Term leaf() {
        const unsigned d = random_() % dimensions_;
        const std::string in = "(" + std::to_string(d) + ")";
        const Type type = static_cast<Type>(random_() % 3);
        const auto function = [&](const char *text, auto &&of) -> Term {
            return {std::string("(") + name(type) + ")" + text + in, type,
                    [=](const Item &item, const Values &) {
                        return as(type, static_cast<std::int64_t>(of(item, d)));
                    }};
        };
        switch (random_() % 10) {
            case 0:
            case 1:
            case 2:
                return function("get_global_id", [](const Item &item, unsigned i) {
                    return item.launch.offset[i] + item.id[i];
                });
            case 3:
                return function("get_local_id", [](const Item &item, unsigned i) {
                    return item.id[i] % item.launch.local[i];
                });
            case 4:
                return function("get_group_id", [](const Item &item, unsigned i) {
                    return item.id[i] / item.launch.local[i];
                });
            case 5:
                return function("get_local_size", [](const Item &item, unsigned i) {
                    const std::size_t first =
                        item.id[i] / item.launch.local[i] * item.launch.local[i];
                    return std::min(item.launch.local[i], item.launch.global[i] - first);
                });
            case 6:
                return function("get_global_size",
                                [](const Item &item, unsigned i) { return item.launch.global[i]; });
            case 7: {
                const unsigned which = random_() % 3;
                if (which == 0)
                    return {"n", Type::int_type, [](const Item &, const Values &values) {
                                return std::int64_t{values.n};
                            }};
                if (which == 1)
                    return {"m", Type::int_type, [](const Item &, const Values &values) {
                                return std::int64_t{values.m};
                            }};
                return {"u", Type::uint_type,
                        [](const Item &, const Values &values) { return std::int64_t{values.u}; }};
            }
            case 8:
                if (counters_ > 0) {
                    const unsigned which = random_() % counters_;
                    return {"k" + std::to_string(which), Type::int_type,
                            [=](const Item &item, const Values &) { return item.counters[which]; }};
                }
                [[fallthrough]];
            default: return constant(static_cast<std::int64_t>(random_() % 20) - 4);
        }
    }

    Term term(unsigned depth) {
        if (depth == 0 || random_() % 4 == 0) return leaf();
        const Term a = term(depth - 1);
        const unsigned operation = random_() % 16;
        if (operation >= 7 && operation <= 9) {
            // A division or remainder by a constant above 0, or a mask, of the same type.
            const std::int64_t by =
                operation == 9 ? (std::int64_t{1} << (random_() % 5)) - 1 : 1 + random_() % 7;
            const char sign = operation == 7 ? '/' : operation == 8 ? '%' : '&';
            return {
                "(" + a.text + " " + sign + " (" + name(a.type) + ")" + std::to_string(by) + ")",
                a.type, [=](const Item &item, const Values &values) {
                    const std::int64_t left = a.value(item, values);
                    return sign == '/' ? left / by : sign == '%' ? left % by : left & by;
                }};
        }
        const Term b = operation < 4 || operation > 6 ? term(depth - 1) : leaf();
        const Type type = std::max(a.type, b.type);
        const auto both = [=](auto &&of) {
            return [=](const Item &item, const Values &values) {
                return as(type,
                          of(as(type, a.value(item, values)), as(type, b.value(item, values))));
            };
        };
        // Signed overflow is undefined, so sums are computed in the unsigned type.
        const std::string plain = type == Type::int_type    ? "uint"
                                  : type == Type::long_type ? "ulong"
                                                            : "uint";
        const auto text = [&](const char *sign) {
            return std::string("(") + name(type) + ")((" + plain + ")" + a.text + " " + sign +
                   " (" + plain + ")" + b.text + ")";
        };
        switch (operation) {
            case 10:
                return {std::string("min((") + name(type) + ")" + a.text + ", (" + name(type) +
                            ")" + b.text + ")",
                        type, both([](std::int64_t x, std::int64_t y) { return std::min(x, y); })};
            case 11:
                return {std::string("(") + name(type) + ")(" + a.text + " > " + b.text + " ? " +
                            a.text + " : " + b.text + ")",
                        type, both([](std::int64_t x, std::int64_t y) { return std::max(x, y); })};
            case 12: {
                const std::int64_t low = static_cast<std::int64_t>(random_() % 6);
                const std::int64_t high = low + static_cast<std::int64_t>(random_() % 9);
                const std::string of = std::string(", (") + name(a.type) + ")";
                return {"clamp((" + std::string(name(a.type)) + ")" + a.text + of +
                            std::to_string(low) + of + std::to_string(high) + ")",
                        a.type, [=](const Item &item, const Values &values) {
                            return std::clamp(a.value(item, values), low, high);
                        }};
            }
            case 13: {
                const std::string vector = std::string(name(type)) + "2";
                return {
                    "((" + vector + ")(" + a.text + ", " + b.text + ") + (" + vector + ")(1)).y",
                    type, both([](std::int64_t, std::int64_t y) { return plus(y, 1); })};
            }
            case 14:
                return {"select((int)" + a.text + ", (int)" + b.text + ", (int)get_local_id(0))",
                        Type::int_type, [=](const Item &item, const Values &values) {
                            return as(Type::int_type, item.id[0] % item.launch.local[0] != 0
                                                          ? b.value(item, values)
                                                          : a.value(item, values));
                        }};
            case 15: {
                const Term c = leaf();
                return {"mad24((int)(" + a.text + " & 255), (int)(" + b.text + " & 255), (int)" +
                            c.text + ")",
                        Type::int_type, [=](const Item &item, const Values &values) {
                            return as(Type::int_type,
                                      plus(times(a.value(item, values) & 255,
                                                 b.value(item, values) & 255),
                                           as(Type::int_type, c.value(item, values))));
                        }};
            }
            case 4:
            case 5:
            case 6: return {"(" + text("*") + ")", type, both(times)};
            case 3:
                return {"(" + text("-") + ")", type,
                        both([](std::int64_t x, std::int64_t y) { return plus(x, times(-1, y)); })};
            default: return {"(" + text("+") + ")", type, both(plus)};
        }
    }

    std::mt19937 &random_;
    const unsigned dimensions_;
    unsigned counters_ = 0;
};

std::string text(const std::vector<Statement> &statements, unsigned counters = 0) {
    std::string all;
    const std::string k = "k" + std::to_string(counters);
    for (const Statement &statement : statements) {
        switch (statement.what) {
            case Statement::What::read: all += "x += in[" + statement.term.text + "];\n"; break;
            case Statement::What::write: all += "out[" + statement.term.text + "] = x;\n"; break;
            case Statement::What::guard:
                all += "if (" + statement.term.text + " " + statement.sign + " " +
                       statement.other.text + ") {\n" + text(statement.inner, counters) + "}\n";
                break;
            case Statement::What::loop:
                // The loop's end is small, because the kernel is also executed here.
                if (statement.factor > 1) {
                    const std::string factor = std::to_string(statement.factor);
                    const std::string end = "(int)min((long)" + statement.term.text + ", (long)9)";
                    all += statement.is_down
                               ? "for (int " + k + " = " + end + "; " + k + " > 0; " + k +
                                     (statement.factor == 2 ? " >>= 1" : " /= " + factor) + ") {\n"
                               : "for (int " + k + " = " + std::to_string(statement.from) + "; " +
                                     k + " < " + end + "; " + k +
                                     (statement.factor == 2 ? " <<= 1" : " *= " + factor) + ") {\n";
                    all += text(statement.inner, counters + 1) + "}\n";
                    break;
                }
                all += "for (int " + k + " = " + std::to_string(statement.from) + "; " + k +
                       " < (int)min((long)" + statement.term.text + ", (long)9); " + k +
                       " += " + std::to_string(statement.step) + ") {\n" +
                       text(statement.inner, counters + 1) + "}\n";
        }
    }
    return all;
}

struct Trace {
    std::set<std::int64_t> read, written;  // element indices
};

void run(const std::vector<Statement> &statements, Item &item, const Values &values, Trace &trace) {
    for (const Statement &statement : statements) {
        switch (statement.what) {
            case Statement::What::read:
                trace.read.insert(statement.term.value(item, values));
                break;
            case Statement::What::write:
                trace.written.insert(statement.term.value(item, values));
                break;
            case Statement::What::guard: {
                const Type type = std::max(statement.term.type, statement.other.type);
                const std::int64_t a = as(type, statement.term.value(item, values));
                const std::int64_t b = as(type, statement.other.value(item, values));
                const std::string &sign = statement.sign;
                const bool holds = sign == "<"    ? a < b
                                   : sign == "<=" ? a <= b
                                   : sign == ">"  ? a > b
                                   : sign == ">=" ? a >= b
                                   : sign == "==" ? a == b
                                                  : a != b;
                if (holds) run(statement.inner, item, values, trace);
                break;
            }
            case Statement::What::loop: {
                const auto end = [&] {
                    return std::min<std::int64_t>(statement.term.value(item, values), 9);
                };
                if (statement.factor > 1) {
                    item.counters.push_back(statement.from);
                    if (statement.is_down) {
                        item.counters.pop_back();
                        const std::int64_t first = end();
                        item.counters.push_back(first);
                    }
                    const auto goes_on = [&] {
                        if (statement.is_down) return item.counters.back() > 0;
                        const std::int64_t here = item.counters.back();
                        return here < end();
                    };
                    while (goes_on()) {
                        const std::int64_t here = item.counters.back();
                        run(statement.inner, item, values, trace);
                        item.counters.back() =
                            statement.is_down ? here / statement.factor : here * statement.factor;
                    }
                    item.counters.pop_back();
                    break;
                }
                item.counters.push_back(statement.from);
                for (; item.counters.back() <
                       std::min<std::int64_t>(statement.term.value(item, values), 9);
                     item.counters.back() += statement.step) {
                    const std::int64_t here = item.counters.back();
                    run(statement.inner, item, values, trace);
                    item.counters.back() = here;
                }
                item.counters.pop_back();
            }
        }
    }
}

template <typename Number>
Immediate by_value(Number number) {
    Immediate immediate;
    immediate.value.resize(sizeof number);
    std::memcpy(immediate.value.data(), &number, sizeof number);
    return immediate;
}

std::size_t environment(const char *name, std::size_t otherwise) {
    const char *const value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoul(value, nullptr, 10);
}

bool can_derive(const char *test) {
    try {
        derive("kernel void nothing(void) {}", "");
        return true;
    } catch (const std::exception &error) {
        std::printf("SKIP: %s: %s\n", test, error.what());
        return false;
    }
}

}  // namespace

TEST_CASE(
    "the accesses derived for a random kernel include all real accesses, and sure writes really "
    "happen") {
    if (!can_derive("derivation of random kernels")) return;
    const std::size_t rounds = environment("CLDIST_TEST_KERNELS", 4);
    const std::size_t seed = environment("CLDIST_TEST_SEED", 1);
    std::size_t parts_seen = 0, reads_known = 0, writes_known = 0, sure = 0, kernels_split = 0,
                kernels_all = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        std::mt19937 random(static_cast<unsigned>(seed + round));
        constexpr std::size_t kernels = 60;  // in one program, which clang compiles in one go
        std::vector<std::vector<Statement>> bodies;
        std::vector<unsigned> dimensions;
        std::string source;
        for (std::size_t i = 0; i < kernels; ++i) {
            dimensions.push_back(1 + random() % 3);
            bodies.push_back(Generator(random, dimensions.back()).statements());
            source += "kernel void f" + std::to_string(i) +
                      "(global const volatile int *in, global volatile int *out, int n, int m, "
                      "uint u) {\nint x = 0;\n" +
                      text(bodies.back()) + "}\n";
        }
        const Descriptions derived = parse_descriptions(text_of(derive(source, "-cl-std=CL2.0")));
        REQUIRE(derived.size() == kernels);
        for (std::size_t i = 0; i < kernels; ++i) {
            const KernelDescription &kernel = derived.at("f" + std::to_string(i));
            const auto model = model_from_description(kernel);
            std::string why;
            ++kernels_all;
            if (!model->splittable(why)) continue;
            ++kernels_split;
            for (int launches = 0; launches < 4; ++launches) {
                Launch launch;
                launch.dimensions = dimensions[i];
                for (unsigned d = 0; d < launch.dimensions; ++d) {
                    launch.offset[d] = random() % 3 == 0 ? random() % 5 : 0;
                    launch.global[d] = 1 + random() % (launch.dimensions == 1   ? 40
                                                       : launch.dimensions == 2 ? 12
                                                                                : 6);
                    launch.local[d] = 1 + random() % 5;
                }
                const Values values{static_cast<std::int32_t>(random() % 30) - 5,
                                    static_cast<std::int32_t>(random() % 10),
                                    random() % 5 == 0 ? static_cast<std::uint32_t>(random())
                                                      : static_cast<std::uint32_t>(random() % 20)};
                const std::vector<Immediate> arguments{
                    {}, {}, by_value(values.n), by_value(values.m), by_value(values.u)};
                for (const SubRange &part : partition(launch, std::vector<double>{1, 2, 1})) {
                    Trace trace;
                    for (std::size_t z = part.begin[2]; z < part.end[2]; ++z) {
                        for (std::size_t y = part.begin[1]; y < part.end[1]; ++y) {
                            for (std::size_t x = part.begin[0]; x < part.end[0]; ++x) {
                                Item item{launch, {x, y, z}};
                                run(bodies[i], item, values, trace);
                            }
                        }
                    }
                    ++parts_seen;
                    const auto accesses = model->accesses(launch, part, arguments);
                    if (!accesses) continue;
                    INFO("seed " << seed + round << "\n"
                                 << source.substr(source.find("f" + std::to_string(i) + "("))
                                        .substr(0, 1500)
                                 << readable(kernel));
                    INFO("offset "
                         << launch.offset[0] << " " << launch.offset[1] << " " << launch.offset[2]
                         << " global " << launch.global[0] << " " << launch.global[1] << " "
                         << launch.global[2] << " local " << launch.local[0] << " "
                         << launch.local[1] << " " << launch.local[2] << " from " << part.begin[0]
                         << " " << part.begin[1] << " " << part.begin[2] << " to " << part.end[0]
                         << " " << part.end[1] << " " << part.end[2] << " n " << values.n << " m "
                         << values.m << " u " << values.u);
                    // Byte offsets wrap around. An offset before the buffer counts as contained.
                    const auto first_byte = [](std::int64_t element) { return times(element, 4); };
                    const auto contains = [&](const Intervals &set, std::int64_t element) {
                        if (first_byte(element) < 0) return true;
                        const auto begin = static_cast<std::size_t>(first_byte(element));
                        return includes(set, {{begin, begin + 4}});
                    };
                    reads_known += accesses->at(0).reads_whole ? 0 : 1;
                    for (const std::int64_t element : trace.read) {
                        const bool found =
                            accesses->at(0).reads_whole || contains(accesses->at(0).read, element);
                        if (!found) FAIL("element " << element << " is read, but not derived");
                    }
                    ++writes_known;
                    for (const std::int64_t element : trace.written) {
                        if (!contains(accesses->at(1).written, element))
                            FAIL("element " << element << " is written, but not derived");
                    }
                    // Bytes that are derived as written and not as read must really be written.
                    Intervals surely = accesses->at(1).written;
                    surely.subtract(accesses->at(1).read);
                    sure += surely.empty() ? 0 : 1;
                    std::vector<Interval> really;
                    for (const std::int64_t element : trace.written) {
                        if (first_byte(element) < 0) continue;
                        const auto begin = static_cast<std::size_t>(first_byte(element));
                        really.push_back({begin, begin + 4});
                    }
                    if (!includes(Intervals(really), surely))
                        FAIL("bytes are derived as surely written, but not written");
                }
            }
        }
    }
    std::printf(
        "%zu of %zu kernels can be split; of %zu parts, %zu with known writes, %zu with known "
        "reads, %zu with sure "
        "writes\n",
        kernels_split, kernels_all, parts_seen, writes_known, reads_known, sure);
    CHECK(kernels_split * 2 > kernels_all);
    CHECK(sure > 0);
}

// Without a limit, each of these kernels would take minutes at least.
TEST_CASE("an index that many branches or loops change is too large, and is derived at once") {
    if (!can_derive("derivation of large indices")) return;
    std::string branches, loops;
    for (int i = 0; i < 12; ++i) {
        branches += "switch (in[i + " + std::to_string(i) + "]) {\n";
        for (int j = 0; j < 8; ++j)
            branches += "case " + std::to_string(j) + ": k += " + std::to_string(i * i + 7 * j) +
                        "; out[i] += 1; break;\n";
        branches += "}\n";
    }
    for (int i = 0; i < 36; ++i) loops += "while (in[k] > " + std::to_string(i) + ") k >>= 1;\n";
    for (const auto &[start, body] : {std::pair("0", branches), std::pair("i * 64", loops)}) {
        const Descriptions derived = derive(
            "kernel void f(global const int *in, global int *out) {\n"
            "int i = get_global_id(0), k = " +
                std::string(start) + ";\n" + body + "out[i] = in[k];\n}\n",
            "");
        const KernelDescription &kernel = derived.at("f");
        CHECK(kernel.why_not.empty());
        CHECK(kernel.arguments.at(0).why_whole.starts_with(
            "the expression of an index is too large"));
    }
}
