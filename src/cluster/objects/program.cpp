#include "cluster/objects/program.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "cluster/calls/call.hpp"
#include "cluster/objects/lock.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

// The native sampler of a space. Throws an Error.
cl_sampler native_sampler(SamplerObject &sampler, Space &space) {
    for (const auto &[of, native] : sampler.natives)
        if (of == &space) return native;
    cl_int code = CL_SUCCESS;
    // A function of OpenCL 1, which every platform supports.
    const cl_sampler native = clCreateSampler(space.context.get(), sampler.normalized,
                                              sampler.addressing, sampler.filter, &code);
    check(code, "clCreateSampler");
    sampler.natives.emplace_back(&space, native);
    return native;
}

}  // namespace

void ArgumentInfo::classify() {
    if (address == CL_KERNEL_ARG_ADDRESS_LOCAL)
        kind = ArgumentKind::local;
    else if (address != CL_KERNEL_ARG_ADDRESS_PRIVATE || access != CL_KERNEL_ARG_ACCESS_NONE)
        kind = ArgumentKind::memory;
    else if (type == "sampler_t")
        kind = ArgumentKind::sampler;
    static const std::map<std::string_view, std::size_t> sizes{
        {"char", 1}, {"uchar", 1}, {"short", 2}, {"ushort", 2}, {"half", 2},  {"int", 4},
        {"uint", 4}, {"float", 4}, {"long", 8},  {"ulong", 8},  {"double", 8}};
    const std::string full = type.starts_with("unsigned ") ? "u" + type.substr(9) : type;
    const std::size_t digits = full.find_first_of("0123456789");
    const auto scalar = sizes.find(full.substr(0, digits));
    if (scalar == sizes.end()) return;
    is_scalar = digits == std::string::npos;
    const std::string width = is_scalar ? "1" : full.substr(digits);
    if (width == "3")
        size = 4 * scalar->second;
    else if (is_scalar || width == "2" || width == "4" || width == "8" || width == "16")
        size = std::stoul(width) * scalar->second;
}

ProgramObject::~ProgramObject() {
    // A node of a std::map has four words besides its value.
    constexpr std::size_t node = 4 * sizeof(void *);
    count_of(Kind::program).more_bytes +=
        devices.bytes() + executables.bytes() +
        build_options.size() * (sizeof(*build_options.begin()) + node) +
        made_of.size() * (sizeof(*made_of.begin()) + node);
}

cl_program ProgramObject::native(const Space &space) const {
    for (const auto &[of, program] : natives)
        if (of == &space) return program.get();
    return nullptr;
}

bool ProgramObject::has(const DeviceObject &device) const {
    return device.is_aggregate() ? context->has(device) : devices.contains(device);
}

bool ProgramObject::has_executable_for(const DeviceObject &device) const {
    if (device.is_aggregate())
        return context->has(device) && std::ranges::all_of(device.members, [&](const auto &member) {
                   return executables.contains(*member);
               });
    return executables.contains(device) || (device.parent && has_executable_for(*device.parent));
}

void ProgramObject::built_for(const DeviceList &built, bool well, std::uint64_t how) {
    made_for(built, well, how);
    for (const auto &device : built)
        if (well) executables.add(*device);
}

void ProgramObject::compiled_for(const DeviceList &built, bool well, std::uint64_t how) {
    compiled = well;
    made_for(built, well, how);
}

void ProgramObject::made_for(const DeviceList &built, bool well, std::uint64_t how) {
    DeviceList rest;
    for (const auto &device : executables)
        if (!built.contains(*device)) rest.add(*device);
    executables = std::move(rest);
    for (const auto &device : built) {
        std::uint64_t &hash = made_of[device.get()];
        hash = mixed(hash + how + (well ? 0 : device->number));
    }
    answers = {};
}

const std::vector<std::size_t> &ProgramObject::alike() const {
    if (!answers.alike.empty()) return answers.alike;
    std::map<std::tuple<std::uint32_t, std::uint64_t, bool>, std::size_t> first;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const auto hash = made_of.find(devices[i].get());
        answers.alike.push_back(
            first
                .try_emplace({devices[i]->type, hash != made_of.end() ? hash->second : 0,
                              has_executable_for(*devices[i])},
                             i)
                .first->second);
    }
    return answers.alike;
}

std::vector<Process> ProgramObject::answerers() const {
    DeviceList first;
    for (std::size_t i = 0; i < devices.size(); ++i)
        if (alike()[i] == i) first.add(*devices[i]);
    return processes_of(first);
}

KernelObject::KernelObject(ProgramObject &program_in, std::shared_ptr<const KernelInfo> info_in)
    : program(&program_in), info(std::move(info_in)), arguments(info->count) {
    ++program->kernels;
}

KernelObject::~KernelObject() {
    --program->kernels;
    for (Native &native : natives_)
        program->idle_kernels.push_back({native.space, info->name, std::move(native.kernel)});
}

bool KernelObject::reads_only(cl_uint index, const MemObject &memory) const {
    if ((memory.flags & CL_MEM_READ_ONLY) != 0) return true;
    if (info->arguments.empty()) return false;
    const ArgumentInfo &known = info->arguments[index];
    if (memory.is_image()) return known.access == CL_KERNEL_ARG_ACCESS_READ_ONLY;
    return known.address == CL_KERNEL_ARG_ADDRESS_CONSTANT ||
           (known.type_qualifier & CL_KERNEL_ARG_TYPE_CONST) != 0;
}

Access KernelObject::access(cl_uint index, MemObject &memory) const {
    // A kernel that writes may leave some bytes unchanged.
    return memory.whole(reads_only(index, memory) ? AccessMode::read : AccessMode::read_write);
}

void KernelObject::set_argument(cl_uint index, Argument argument) {
    argument.set = true;
    argument.version = arguments[index].version + 1;
    arguments[index] = std::move(argument);
    homes_ = 0;
}

// Programs often set the same values before each launch.
void KernelObject::set_value(cl_uint index, std::span<const std::byte> value) {
    Argument &argument = arguments[index];
    if (std::ranges::equal(argument.value, value)) return;
    if (argument.value.size() != value.size())
        return set_argument(index, {.value{value.begin(), value.end()}, .size = value.size()});
    std::ranges::copy(value, argument.value.begin());
    ++argument.version;
}

void KernelObject::set_memory(cl_uint index, MemObject *memory) {
    if (memory == nullptr || arguments[index].memory.get() != memory)
        set_argument(
            index, {.size = sizeof(cl_mem), .memory = Weak<MemObject>(memory), .is_memory = true});
}

Homes KernelObject::find_homes() {
    const Locked lock;
    const auto of = [this](const Argument &argument) -> std::optional<Homes> {
        // The release of a sampler does not change version_of_homes.
        const bool is_sampler = argument.sampler.get() != nullptr || argument.sampler.gone();
        if (!argument.set || argument.memory.gone() || is_sampler) return Homes{};
        MemObject *const memory = argument.memory.get();
        if (memory == nullptr) return {};
        return memory->context.get() == program->context.get() ? memory->homes() : Homes{};
    };
    std::optional<Homes> all;
    for (const Argument &argument : arguments)
        if (const auto homes = of(argument)) all = all ? homes_of_both(*all, *homes) : *homes;
    Homes homes = all.value_or(Homes{});
    if (homes.only > most_devices) homes = {};
    homes_.store(version_of_homes << version_shift | std::uint64_t{homes.only} << 2U |
                     static_cast<std::uint64_t>(homes.home),
                 std::memory_order_relaxed);
    return homes;
}

KernelObject::Native &KernelObject::native_entry(Space &space) {
    for (Native &native : natives_)
        if (native.space == &space) return native;
    Kernel kernel;
    auto &idle = program->idle_kernels;
    const auto at = std::ranges::find_if(
        idle, [&](const auto &each) { return each.space == &space && each.name == info->name; });
    if (at != idle.end()) {
        kernel = std::move(at->kernel);
        idle.erase(at);
    } else {
        kernel =
            create("clCreateKernel", clCreateKernel, program->native(space), info->name.c_str());
    }
    natives_.push_back({&space, std::move(kernel), std::vector<std::uint64_t>(arguments.size())});
    return natives_.back();
}

cl_kernel KernelObject::native(Space &space) {
    Native &native = native_entry(space);
    for (cl_uint i = 0; i < arguments.size(); ++i)
        if (native.versions[i] != arguments[i].version) {
            arguments[i].set_in(native.kernel.get(), i, space);
            native.versions[i] = arguments[i].version;
        }
    return native.kernel.get();
}

void KernelObject::Argument::set_in(cl_kernel native, cl_uint index, Space &space) const {
    cl_int code = CL_SUCCESS;
    if (is_memory) {
        MemObject *const object = memory.get();
        const cl_mem own = object != nullptr ? object->native(space) : nullptr;
        code = clSetKernelArg(native, index, sizeof own, &own);
    } else if (SamplerObject *const object = sampler.get(); object != nullptr) {
        const cl_sampler own = native_sampler(*object, space);
        code = clSetKernelArg(native, index, sizeof own, &own);
    } else {
        code = clSetKernelArg(native, index, size, is_local ? nullptr : value.data());
    }
    check(code, "clSetKernelArg");
}

}  // namespace cldist::cluster
