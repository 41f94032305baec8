// Kernels. All processes know the same about a kernel, whatever devices they have.
#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

#include "cluster/api/answers.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/kernel_splitting.hpp"
#include "cluster/api/program_infos.hpp"
#include "cluster/api/record.hpp"
#include "ocl/query.hpp"
#include "splitting/functions.hpp"

namespace cldist::cluster {
namespace {

template <typename T>
T argument_value(cl_kernel kernel, cl_uint index, cl_kernel_arg_info param) {
    T value{};
    check(clGetKernelArgInfo(kernel, index, param, sizeof value, &value, nullptr),
          "clGetKernelArgInfo");
    return value;
}
std::string argument_text(cl_kernel kernel, cl_uint index, cl_kernel_arg_info param) {
    std::size_t size = 0;
    check(clGetKernelArgInfo(kernel, index, param, 0, nullptr, &size), "clGetKernelArgInfo");
    std::string text(size, '\0');
    check(clGetKernelArgInfo(kernel, index, param, size, text.data(), nullptr),
          "clGetKernelArgInfo");
    text.resize(std::strlen(text.c_str()));
    return text;
}

void pack_arguments(Packer &packer, cl_kernel kernel) {
    const cl_uint count = query<cl_uint>(kernel, CL_KERNEL_NUM_ARGS).value_or(0);
    packer.put(count).put_text(query_string(kernel, CL_KERNEL_ATTRIBUTES));
    Packer arguments;
    try {
        for (cl_uint i = 0; i < count; ++i) {
            arguments
                .put(argument_value<cl_kernel_arg_address_qualifier>(
                    kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER))
                .put(argument_value<cl_kernel_arg_access_qualifier>(kernel, i,
                                                                    CL_KERNEL_ARG_ACCESS_QUALIFIER))
                .put(argument_value<cl_kernel_arg_type_qualifier>(kernel, i,
                                                                  CL_KERNEL_ARG_TYPE_QUALIFIER))
                .put_text(argument_text(kernel, i, CL_KERNEL_ARG_TYPE_NAME))
                .put_text(argument_text(kernel, i, CL_KERNEL_ARG_NAME));
        }
        packer.put(true).put_bytes(arguments.take());
    } catch (const Error &) {
        packer.put(false);  // a program from a binary may lack this information
    }
}

OnDevice limits_of(cl_kernel kernel, cl_device_id device) {
    OnDevice on;
    const auto ask = [&](cl_kernel_work_group_info param, auto &value) {
        clGetKernelWorkGroupInfo(kernel, device, param, sizeof value, &value, nullptr);
    };
    ask(CL_KERNEL_WORK_GROUP_SIZE, on.work_group_size);
    ask(CL_KERNEL_COMPILE_WORK_GROUP_SIZE, on.compile_work_group_size);
    ask(CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, on.preferred_multiple);
    ask(CL_KERNEL_LOCAL_MEM_SIZE, on.local_size);
    ask(CL_KERNEL_PRIVATE_MEM_SIZE, on.private_size);
    return on;
}

/// Packs what a process knows of a kernel on its devices that answer for other devices: a code and,
/// if the kernel exists, the properties common to all devices, and each device's place and limits.
Blob pack_kernel(const ProgramObject &program, const char *name, Process process) {
    cl_int result = CL_SUCCESS;
    std::map<MemoryId, Kernel> kernels;
    Packer devices;
    for (std::size_t i = 0; i < program.devices.size(); ++i) {
        const DeviceObject &device = *program.devices[i];
        if (program.alike()[i] != i || device.process != process ||
            !program.has_executable_for(device))
            continue;
        const auto [at, is_new] = kernels.try_emplace(device.answering_memory);
        Kernel &kernel = at->second;
        if (is_new) {
            cl_int code = CL_SUCCESS;
            const Space &space = *program.context->space(device.answering_memory);
            kernel = Kernel::adopt(clCreateKernel(program.native(space), name, &code));
            result = std::min(result, code);
        }
        if (!kernel) continue;
        const cl_kernel native = kernel.get();
        devices.put(i).put(limits_of(native, device.answering));
    }
    Packer packer;
    const bool known = result == CL_SUCCESS && !kernels.empty();
    packer.put(result).put(known);
    if (!known) return packer.take();
    pack_arguments(packer, kernels.begin()->second.get());
    return packer.put_bytes(devices.take()).take();
}

std::shared_ptr<const KernelInfo> agree_on_kernel(const Exchange &exchange,
                                                  const ProgramObject &program, const char *name) {
    if (const auto known = program.answers.kernels.find(name);
        known != program.answers.kernels.end())
        return known->second;
    auto info = std::make_shared<KernelInfo>();
    info->name = name;
    info->devices.resize(program.devices.size());
    cl_int code = CL_SUCCESS;
    bool known = false;
    const auto say = [&](Process process) { return pack_kernel(program, name, process); };
    for (const Blob &blob : exchange.of(program.answerers(), say)) {
        Unpacker unpacker(blob);
        code = std::min(code, unpacker.get<cl_int>());
        if (!unpacker.get<bool>()) continue;
        const auto count = unpacker.get<cl_uint>();
        const std::string attributes = unpacker.get_text();
        std::vector<ArgumentInfo> arguments;
        if (unpacker.get<bool>()) {
            const Blob packed = unpacker.get_bytes();
            Unpacker each(packed);
            for (cl_uint i = 0; i < count; ++i) {
                ArgumentInfo argument;
                argument.address = each.get<cl_kernel_arg_address_qualifier>();
                argument.access = each.get<cl_kernel_arg_access_qualifier>();
                argument.type_qualifier = each.get<cl_kernel_arg_type_qualifier>();
                argument.type = each.get_text();
                argument.name = each.get_text();
                argument.classify();
                arguments.push_back(std::move(argument));
            }
        }
        const Blob devices = unpacker.get_bytes();
        for (Unpacker each(devices); !each.empty();) {
            const auto place = each.get<std::size_t>();
            told_place(info->devices, place) = each.get<OnDevice>();
        }
        if (std::exchange(known, true)) continue;  // the first answer is used
        info->count = count;
        info->attributes = attributes;
        info->arguments = std::move(arguments);
        if (program.is_adapted && !info->arguments.empty() &&
            info->arguments.back().name == whole_launch_name) {
            info->gets_launch = true;
            info->arguments.pop_back();
            --info->count;
        }
    }
    check(code, "clCreateKernel");
    require(known, CL_INVALID_PROGRAM_EXECUTABLE,
            "the program has not been built for any device; call clBuildProgram first");
    for (std::size_t i = 0; i < info->devices.size(); ++i)
        info->devices[i] = info->devices[program.alike()[i]];
    program.answers.kernels[name] = info;
    return info;
}

KernelObject *make_kernel(const Exchange &exchange, ProgramObject &program, const char *name) {
    const Ref<ProgramObject> held(&program);
    auto info = agree_on_kernel(exchange, program, name);
    auto splitting = agree_on_splitting(exchange, program, *info);
    auto *const kernel = make<KernelObject>(program, std::move(info));
    kernel->splitting = std::move(splitting);
    return kernel;
}

/// The limits that all members of an aggregate device support.
OnDevice of_all(const KernelInfo &info) {
    OnDevice least = info.devices.front();
    for (const OnDevice &on : info.devices) {
        least.work_group_size = std::min(least.work_group_size, on.work_group_size);
        least.local_size = std::max(least.local_size, on.local_size);
        least.private_size = std::max(least.private_size, on.private_size);
    }
    return least;
}

}  // namespace

OnDevice limits_on_device(const KernelObject &kernel, const DeviceObject &device) {
    if (device.is_aggregate()) {
        require(kernel.program->context->has(device), CL_INVALID_DEVICE,
                "the device does not belong to the kernel's program");
        return of_all(*kernel.info);
    }
    const std::size_t position = kernel.program->devices.position(device);
    require(position != DeviceList::nowhere, CL_INVALID_DEVICE,
            "the device does not belong to the kernel's program");
    const OnDevice &on = kernel.info->devices[position];
    const bool is_parents =
        on.work_group_size == 0 && device.parent && kernel.program->has(*device.parent);
    return is_parents ? limits_on_device(kernel, *device.parent) : on;
}

cl_kernel create_kernel(cl_program program, const char *name, cl_int *) {
    ProgramObject &object = program_of(program);
    require_built(object);
    require(name != nullptr, CL_INVALID_VALUE, "kernel_name is NULL");
    return make_kernel(Exchange(), object, name)->handle();
}

void create_kernels_in_program(cl_program program, cl_uint num_kernels, cl_kernel *kernels,
                               cl_uint *num_kernels_ret) {
    const Exchange exchange;
    const Ref<ProgramObject> held(&program_of(program));
    require_built(*held);
    const Blob told = info_of(exchange, *held, CL_PROGRAM_KERNEL_NAMES);
    std::istringstream names(std::string(reinterpret_cast<const char *>(told.data()),
                                         told.empty() ? 0 : told.size() - 1));
    std::vector<std::string> list;
    for (std::string name; std::getline(names, name, ';');) list.push_back(name);
    require(kernels == nullptr || num_kernels >= list.size(), CL_INVALID_VALUE,
            "num_kernels is {}, but the program has {} kernels", num_kernels, list.size());
    for (std::size_t i = 0; kernels != nullptr && i < list.size(); ++i)
        kernels[i] = make_kernel(exchange, *held, list[i].c_str())->handle();
    if (num_kernels_ret != nullptr) *num_kernels_ret = static_cast<cl_uint>(list.size());
}

cl_kernel clone_kernel(cl_kernel source, cl_int *) {
    const KernelObject &kernel = kernel_of(source);
    KernelObject *const clone = make<KernelObject>(*kernel.program, kernel.info);
    clone->arguments = kernel.arguments;
    clone->splitting = kernel.splitting;
    return clone->handle();
}

CLDIST_REFERENCES(kernel, cl_kernel, kernel_of)

void set_kernel_access_functions(cl_kernel kernel, cl_access_function is_read,
                                 cl_access_function is_written) {
    KernelObject &object = kernel_of(kernel);
    require((is_read == nullptr) == (is_written == nullptr), CL_INVALID_VALUE,
            "exactly one of the functions is NULL; set both, or pass NULL for both");
    if (object.splitting == nullptr) return;
    if (is_read == nullptr) {
        object.splitting = object.program->answers.splittings.at(object.info->name);
        return;
    }
    object.splitting =
        splitting_by_functions(object, splitting::model_from_functions(is_read, is_written));
}

void get_kernel_info(cl_kernel kernel, cl_kernel_info param, size_t size, void *value,
                     size_t *size_ret) {
    const KernelObject &object = kernel_of(kernel);
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_KERNEL_FUNCTION_NAME: return answer.text(object.info->name);
        case CL_KERNEL_NUM_ARGS: return answer.give(object.info->count);
        case CL_KERNEL_REFERENCE_COUNT: return answer.give(object.references());
        case CL_KERNEL_CONTEXT: return answer.give(object.program->context->handle());
        case CL_KERNEL_PROGRAM: return answer.give(object.program->handle());
        case CL_KERNEL_ATTRIBUTES: return answer.text(object.info->attributes);
        default: no_such_param(param);
    }
}

void get_kernel_arg_info(cl_kernel kernel, cl_uint index, cl_kernel_arg_info param, size_t size,
                         void *value, size_t *size_ret) {
    const KernelObject &object = kernel_of(kernel);
    require(index < object.info->count, CL_INVALID_ARG_INDEX,
            "arg_index is {}, but the kernel has {} arguments", index, object.info->count);
    require(object.program->tells_of_arguments && !object.info->arguments.empty(),
            CL_KERNEL_ARG_INFO_NOT_AVAILABLE,
            "the program was not built from source with the option -cl-kernel-arg-info");
    const ArgumentInfo &argument = object.info->arguments[index];
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_KERNEL_ARG_ADDRESS_QUALIFIER: return answer.give(argument.address);
        case CL_KERNEL_ARG_ACCESS_QUALIFIER: return answer.give(argument.access);
        case CL_KERNEL_ARG_TYPE_QUALIFIER: return answer.give(argument.type_qualifier);
        case CL_KERNEL_ARG_TYPE_NAME: return answer.text(argument.type);
        case CL_KERNEL_ARG_NAME: return answer.text(argument.name);
        default: no_such_param(param);
    }
}

void get_kernel_work_group_info(cl_kernel kernel, cl_device_id device,
                                cl_kernel_work_group_info param, size_t size, void *value,
                                size_t *size_ret) {
    const KernelObject &object = kernel_of(kernel);
    require(device != nullptr || object.program->shown_devices().size() == 1, CL_INVALID_DEVICE,
            "device is NULL, but the program has several devices; pass one of them");
    const cl_device_id of = device != nullptr ? device : object.program->shown_devices().front();
    const OnDevice on = limits_on_device(object, device_of(of));
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_KERNEL_WORK_GROUP_SIZE: return answer.give(on.work_group_size);
        case CL_KERNEL_COMPILE_WORK_GROUP_SIZE: return answer.give(on.compile_work_group_size);
        case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
            return answer.give(on.preferred_multiple);
        case CL_KERNEL_PRIVATE_MEM_SIZE: return answer.give(on.private_size);
        case CL_KERNEL_LOCAL_MEM_SIZE: {
            cl_ulong bytes = on.local_size;
            for (const auto &argument : object.arguments)
                if (argument.is_local) bytes += argument.size;
            return answer.give(bytes);
        }
        // CL_KERNEL_GLOBAL_WORK_SIZE is for built-in kernels and custom devices.
        default: no_such_param(param);
    }
}

}  // namespace cldist::cluster
