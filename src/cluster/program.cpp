#include "cluster/program.hpp"

#include "ocl/query.hpp"

namespace cldist::cluster {

cl_program ProgramObject::native(const Space &space) const {
    for (const auto &[of, program] : natives)
        if (of == &space) return program.get();
    return nullptr;
}

bool ProgramObject::has(const DeviceObject &device) const { return contains(devices, device); }

bool ProgramObject::has_executable_for(const DeviceObject &device) const { return contains(executables, device); }

void ProgramObject::built_for(const std::vector<Ref<DeviceObject>> &built, bool well) {
    std::erase_if(executables, [&](const auto &device) { return contains(built, *device); });
    if (well) executables.insert(executables.end(), built.begin(), built.end());
}

KernelObject::KernelObject(ProgramObject &program_in, std::shared_ptr<const KernelInfo> info_in)
    : program(&program_in), info(std::move(info_in)), arguments(info->count) {
    ++program->kernels;
}

KernelObject::~KernelObject() { --program->kernels; }

bool KernelObject::reads_only(cl_uint index, const MemObject &memory) const {
    if ((memory.flags & CL_MEM_READ_ONLY) != 0) return true;
    if (info->arguments.empty()) return false;
    const ArgumentInfo &known = info->arguments[index];
    if (memory.is_image()) return known.access == CL_KERNEL_ARG_ACCESS_READ_ONLY;
    return known.address == CL_KERNEL_ARG_ADDRESS_CONSTANT || (known.type_qualifier & CL_KERNEL_ARG_TYPE_CONST) != 0;
}

void KernelObject::add_accesses(std::vector<Access> &accesses) const {
    for (cl_uint i = 0; i < arguments.size(); ++i) {
        MemObject *const memory = arguments[i].memory.get();
        if (memory == nullptr) continue;
        // It may leave some bytes as they were.
        accesses.push_back(memory->whole(reads_only(i, *memory) ? AccessMode::read : AccessMode::read_write));
    }
}

KernelObject::Native &KernelObject::native_entry(Space &space) {
    for (Native &native : natives_)
        if (native.space == &space) return native;
    cl_int code = CL_SUCCESS;
    Kernel kernel = Kernel::adopt(clCreateKernel(program->native(space), info->name.c_str(), &code));
    check(code, "clCreateKernel");
    natives_.push_back({&space, std::move(kernel), std::vector<std::uint64_t>(arguments.size())});
    return natives_.back();
}

cl_kernel KernelObject::native(Space &space) {
    Native &native = native_entry(space);
    for (cl_uint i = 0; i < arguments.size(); ++i)
        if (native.versions[i] != arguments[i].version) set_native(native, i);
    return native.kernel.get();
}

void KernelObject::set_native(Native &native, cl_uint index) {
    Argument &argument = arguments[index];
    cl_int code = CL_SUCCESS;
    if (argument.is_memory) {
        MemObject *const object = argument.memory.get();
        const cl_mem memory = object != nullptr ? object->native(*native.space) : nullptr;
        code = clSetKernelArg(native.kernel.get(), index, sizeof memory, &memory);
    } else if (SamplerObject *const object = argument.sampler.get(); object != nullptr) {
        const cl_sampler sampler = native_sampler(*object, *native.space);
        code = clSetKernelArg(native.kernel.get(), index, sizeof sampler, &sampler);
    } else {
        code = clSetKernelArg(native.kernel.get(), index, argument.size,
                              argument.is_local ? nullptr : argument.value.data());
    }
    check(code, "clSetKernelArg");
    native.versions[index] = argument.version;
}

cl_sampler native_sampler(SamplerObject &sampler, Space &space) {
    for (const auto &[of, native] : sampler.natives)
        if (of == &space) return native;
    cl_int code = CL_SUCCESS;
    // The call of OpenCL 1: every platform has it.
    const cl_sampler native =
        clCreateSampler(space.context.get(), sampler.normalized, sampler.addressing, sampler.filter, &code);
    check(code, "clCreateSampler");
    sampler.natives.emplace_back(&space, native);
    return native;
}

}  // namespace cldist::cluster
