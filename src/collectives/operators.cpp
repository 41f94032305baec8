#include "collectives/operators.hpp"

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ocl/query.hpp"

namespace cldist::collectives {
namespace {

struct Datatype {
    cl_channel_type type;
    const char *name;
    std::size_t size;
    bool integer;
};
constexpr Datatype datatypes[] = {
    {CL_SIGNED_INT8, "char", 1, true},       {CL_UNSIGNED_INT8, "uchar", 1, true},
    {CL_SIGNED_INT16, "short", 2, true},     {CL_UNSIGNED_INT16, "ushort", 2, true},
    {CL_SIGNED_INT32, "int", 4, true},       {CL_UNSIGNED_INT32, "uint", 4, true},
    {CL_SIGNED_INT64_DIST, "long", 8, true}, {CL_UNSIGNED_INT64_DIST, "ulong", 8, true},
    {CL_HALF_FLOAT, "half", 2, false},       {CL_FLOAT, "float", 4, false},
    {CL_DOUBLE_DIST, "double", 8, false},
};

struct Combining {
    cl_reduction_op op;
    const char *combination;  ///< an expression of x and y
    bool for_integers;        ///< only for integers
};
constexpr Combining operators[] = {
    {CL_REDUCTION_SUM, "x + y", false},           {CL_REDUCTION_PROD, "x * y", false},
    {CL_REDUCTION_MIN, "y < x ? y : x", false},   {CL_REDUCTION_MAX, "x < y ? y : x", false},
    {CL_REDUCTION_BAND, "x & y", true},           {CL_REDUCTION_BOR, "x | y", true},
    {CL_REDUCTION_BXOR, "x ^ y", true},           {CL_REDUCTION_LAND, "x != 0 && y != 0", true},
    {CL_REDUCTION_LOR, "x != 0 || y != 0", true}, {CL_REDUCTION_LXOR, "(x != 0) != (y != 0)", true},
};

const Datatype &find(cl_channel_type type) {
    const auto *const found = std::ranges::find(datatypes, type, &Datatype::type);
    if (found == std::end(datatypes))
        throw Error(CL_INVALID_VALUE, fmt::format("0x{:x} is not a supported datatype", type));
    return *found;
}

std::string kernel_name(const Combining &op) { return fmt::format("combine_{:x}", op.op); }

// Integers wrap around. Signed integers are combined as unsigned integers if they could overflow.
std::string source_of(const Datatype &type, const Combining &op) {
    const std::string name = type.name;
    const bool half = name == "half";
    std::string in = half ? "float" : name;
    const bool wraps = op.op == CL_REDUCTION_SUM || op.op == CL_REDUCTION_PROD;
    if (type.integer && wraps && name.front() != 'u') in = "u" + name;
    // C promotes small types to int, which may overflow.
    if (type.integer && wraps && type.size < 4) in = "uint";
    const std::string load = half ? "vload_half({1} + k, {0})" : "({2}){0}[{1} + k]";
    const auto loaded = [&](const char *array) {
        return fmt::format(fmt::runtime(load), array, std::string("first_") + array, in);
    };
    const std::string store = half
                                  ? fmt::format("vstore_half({}, first_a + k, a);", op.combination)
                                  : fmt::format("a[first_a + k] = ({})({});", name, op.combination);
    const std::string body = fmt::format("{{ const {0} x = {1}; const {0} y = {2}; {3} }}", in,
                                         loaded("a"), loaded("b"), store);
    // On CPU devices, work-groups have one work-item. Each work-item processes consecutive
    // elements, which compilers can vectorise.
    return fmt::format(
        "kernel void {0}(global {1} *restrict a, ulong first_a, const global {1} *restrict b, "
        "ulong first_b, ulong count) {{\n"
        "    if (get_local_size(0) == 1) {{\n"
        "        const ulong chunk = (count + get_global_size(0) - 1) / get_global_size(0);\n"
        "        const ulong end = min((get_global_id(0) + 1) * chunk, count);\n"
        "        for (ulong k = get_global_id(0) * chunk; k < end; ++k) {2}\n"
        "    }} else {{\n"
        "        for (ulong k = get_global_id(0); k < count; k += get_global_size(0)) {2}\n"
        "    }}\n"
        "}}\n",
        kernel_name(op), name, body);
}

// The programs of this many contexts are kept. They keep their contexts alive.
constexpr std::size_t most_contexts = 4;

// Builds all operators of a datatype, because this takes only slightly longer than one operator.
Program build(cl_context context, const Datatype &type) {
    if (type.type == CL_DOUBLE_DIST)
        for (const auto device : devices_of(context))
            if (query<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG).value_or(0) == 0)
                throw Error(CL_INVALID_OPERATION,
                            "a device of the context does not support double precision");
    std::string source =
        type.type == CL_DOUBLE_DIST ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : "";
    for (const Combining &op : operators)
        if (type.integer || !op.for_integers) source += source_of(type, op);
    const char *text = source.c_str();
    Program program =
        create("clCreateProgramWithSource", clCreateProgramWithSource, context, 1U, &text, nullptr);
    check(clBuildProgram(program.get(), 0, nullptr, "", nullptr, nullptr), "clBuildProgram");
    return program;
}

}  // namespace

std::size_t element_size(cl_channel_type datatype) { return find(datatype).size; }

struct Operator::Built {
    Context context;
    cl_channel_type datatype;
    Program program;
    std::mutex mutex{};
    std::map<cl_reduction_op, std::vector<Kernel>> unused{};

    static std::shared_ptr<Built> find(cl_context context, const Datatype &type);
};

std::shared_ptr<Operator::Built> Operator::Built::find(cl_context context, const Datatype &type) {
    static std::mutex mutex;
    // Never destroyed, because the platform may be unloaded at exit.
    static auto &kept = *new std::list<std::shared_ptr<Built>>;
    const std::lock_guard lock(mutex);
    const auto same = [&](const auto &b) {
        return b->context.get() == context && b->datatype == type.type;
    };
    if (const auto at = std::ranges::find_if(kept, same); at != kept.end()) return *at;
    std::vector<cl_context> contexts;
    for (const auto &built : kept)
        if (std::ranges::find(contexts, built->context.get()) == contexts.end())
            contexts.push_back(built->context.get());
    if (contexts.size() >= most_contexts && std::ranges::find(contexts, context) == contexts.end())
        kept.remove_if([&](const auto &b) { return b->context.get() == contexts.front(); });
    kept.push_back(std::shared_ptr<Built>(
        new Built{Context::share(context), type.type, build(context, type)}));
    return kept.back();
}

Operator::Operator(cl_context context, cl_channel_type datatype, cl_reduction_op op) : op_(op) {
    const Datatype &type = find(datatype);
    const auto *const found = std::ranges::find(operators, op, &Combining::op);
    if (found == std::end(operators))
        throw Error(CL_INVALID_VALUE,
                    fmt::format("0x{:x} is not an operator of a reduction (CL_REDUCTION_...)", op));
    if (found->for_integers && !type.integer)
        throw Error(CL_INVALID_OPERATION,
                    fmt::format("operator 0x{:x} accepts only integers, not {}", op, type.name));
    built_ = Built::find(context, type);
    const std::lock_guard lock(built_->mutex);
    if (std::vector<Kernel> &unused = built_->unused[op]; !unused.empty()) {
        kernel_ = std::move(unused.back());
        unused.pop_back();
        return;
    }
    kernel_ = create("clCreateKernel", clCreateKernel, built_->program.get(),
                     kernel_name(*found).c_str());
}

Operator::~Operator() {
    const std::lock_guard lock(built_->mutex);
    built_->unused[op_].push_back(std::move(kernel_));
}

}  // namespace cldist::collectives
