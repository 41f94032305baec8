// Programs. Each process builds for its own devices; all learn alike whether all went well.
#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "cluster/entry.hpp"
#include "cluster/entry_points.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

using BuildCallback = void(CL_CALLBACK *)(cl_program, void *);

std::vector<Ref<DeviceObject>> checked_devices(const std::vector<Ref<DeviceObject>> &all, cl_uint count,
                                               const cl_device_id *devices) {
    require((count == 0) == (devices == nullptr), CL_INVALID_VALUE, "num_devices and device_list don't go together");
    if (count == 0) return all;
    std::vector<Ref<DeviceObject>> list;
    for (cl_uint i = 0; i < count; ++i) {
        DeviceObject &device = device_of(devices[i]);
        require(contains(all, device), CL_INVALID_DEVICE, "a device is not one of the context or the program");
        list.emplace_back(&device);
    }
    return list;
}

/// Those of them that a space has.
std::vector<cl_device_id> natives_in(const Space &space, const std::vector<Ref<DeviceObject>> &devices) {
    std::vector<cl_device_id> natives;
    for (const auto &device : devices)
        if (device->native != nullptr && device->memory == space.memory) natives.push_back(device->native);
    return natives;
}

void check_callback(BuildCallback notify, const void *user_data) {
    require(notify != nullptr || user_data == nullptr, CL_INVALID_VALUE, "there is user_data, but no pfn_notify");
}

void call_back(BuildCallback notify, ProgramObject &program, void *user_data) {
    if (notify != nullptr) call_later([notify, handle = program.handle(), user_data] { notify(handle, user_data); });
}

bool asks_for_arguments(const std::string &options) { return options.find("-cl-kernel-arg-info") != std::string::npos; }
// The platform asks which arguments are only read.
std::string asking_for_arguments(const std::string &options) {
    return asks_for_arguments(options) ? options : options + " -cl-kernel-arg-info";
}

cl_int build_native(cl_program program, const std::vector<cl_device_id> &devices, const std::string &options) {
    return clBuildProgram(program, static_cast<cl_uint>(devices.size()), devices.data(), options.c_str(), nullptr,
                          nullptr);
}

// The least code that `make` returns in a process. It is called at once in all; PoCL 3.1 then fails if another process puts
// the same result into its cache meanwhile, which hosts may share. So if some failed and others didn't, those that failed
// try once more, one after the other.
cl_int made_by_all(const std::function<cl_int()> &make) {
    Agreement &all = World::get().agreement();
    cl_int code = make();
    cl_int least = all.least(code);
    if (least == CL_SUCCESS || all.least(-code) != CL_SUCCESS) return least;
    for (Process turn = 0; turn < all.processes() && least != CL_SUCCESS; ++turn) {
        if (turn == all.self() && code != CL_SUCCESS) code = make();
        least = all.least(code);
    }
    return least;
}

ProgramObject *make_program(ContextObject &context, std::vector<Ref<DeviceObject>> devices) {
    return make<ProgramObject>(context, std::move(devices));
}

void add_native(ProgramObject &program, Space &space, cl_program native, cl_int code, const char *call) {
    check(code, call);
    program.natives.emplace_back(&space, Program::adopt(native));
}

template <typename T>
std::vector<T> native_list(cl_program program, cl_program_info param) {
    std::size_t size = 0;
    if (clGetProgramInfo(program, param, 0, nullptr, &size) != CL_SUCCESS) return {};
    std::vector<T> list(size / sizeof(T));
    clGetProgramInfo(program, param, size, list.data(), nullptr);
    return list;
}

/// The binaries of this process's devices, each behind its device's place in the program's list.
Blob pack_binaries(const ProgramObject &program) {
    Packer packer;
    for (const auto &[space, native] : program.natives) {
        auto devices = native_list<cl_device_id>(native.get(), CL_PROGRAM_DEVICES);
        const auto sizes = native_list<std::size_t>(native.get(), CL_PROGRAM_BINARY_SIZES);
        // PoCL 3.1 tells of those only that it has built for, and of none before.
        if (sizes.size() != devices.size()) devices = natives_in(*space, program.executables);
        if (sizes.size() != devices.size()) continue;
        std::vector<Blob> binaries;
        std::vector<std::byte *> pointers;
        for (const std::size_t size : sizes) binaries.emplace_back(size);
        for (Blob &binary : binaries) pointers.push_back(binary.data());
        clGetProgramInfo(native.get(), CL_PROGRAM_BINARIES, pointers.size() * sizeof(void *), pointers.data(), nullptr);
        for (std::size_t i = 0; i < program.devices.size(); ++i) {
            const auto at = std::find(devices.begin(), devices.end(), program.devices[i]->native);
            if (at == devices.end() || program.devices[i]->native == nullptr) continue;
            packer.put(i).put_bytes(binaries[static_cast<std::size_t>(at - devices.begin())]);
        }
    }
    return packer.take();
}

std::vector<Blob> binaries_of(const ProgramObject &program) {
    std::vector<Blob> binaries(program.devices.size());
    for (const Blob &blob : World::get().agreement().of_all(pack_binaries(program)))
        for (Unpacker unpacker(blob); !unpacker.empty();) {
            const auto index = unpacker.get<std::size_t>();
            binaries[index] = unpacker.get_bytes();
        }
    return binaries;
}

/// What the first native program answers that can: those of other devices than it was built for can't.
Blob from_any(const ProgramObject &program, cl_program_info param) {
    Blob mine;
    for (const auto &[space, native] : program.natives) {
        if (!natives_in(*space, program.executables).empty()) mine = native_list<std::byte>(native.get(), param);
        if (!mine.empty()) break;
    }
    for (Blob &blob : World::get().agreement().of_all(mine))
        if (!blob.empty()) return std::move(blob);
    return {};
}

void require_built(const ProgramObject &program) {
    require(!program.executables.empty(), CL_INVALID_PROGRAM_EXECUTABLE, "the program has not been built");
}

/// The native programs of `programs` in a space. Throws an Error if one is of another context.
std::vector<cl_program> natives_of(std::span<const cl_program> programs, const Space &space) {
    std::vector<cl_program> natives;
    for (const cl_program handle : programs) natives.push_back(program_of(handle).native(space));
    return natives;
}

cl_int link_native(ProgramObject &program, Space &space, const std::vector<cl_device_id> &devices, const char *options,
                   std::span<const cl_program> programs) {
    const auto inputs = natives_of(programs, space);
    if (std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end()) return CL_INVALID_OPERATION;
    cl_int code = CL_SUCCESS;
    Program native =
        Program::adopt(clLinkProgram(space.context.get(), static_cast<cl_uint>(devices.size()), devices.data(), options,
                                     static_cast<cl_uint>(inputs.size()), inputs.data(), nullptr, nullptr, &code));
    if (native) program.natives.emplace_back(&space, std::move(native));
    return code;
}

}  // namespace

cl_program CL_API_CALL create_program_with_source(cl_context context, cl_uint count, const char **strings,
                                                  const size_t *lengths, cl_int *errcode_ret) {
    return creating_entry("clCreateProgramWithSource", errcode_ret, [&] {
        static constexpr CallSite site{"clCreateProgramWithSource", "context, count"};
        record<site>(context, count);

        ContextObject &object = context_of(context);
        require(count > 0 && strings != nullptr, CL_INVALID_VALUE, "there are no strings");
        std::string source;
        for (cl_uint i = 0; i < count; ++i) {
            require(strings[i] != nullptr, CL_INVALID_VALUE, "a string is NULL");
            if (lengths != nullptr && lengths[i] != 0)
                source.append(strings[i], lengths[i]);
            else
                source.append(strings[i]);
        }
        ProgramObject *const program = make_program(object, object.devices);
        program->source = std::move(source);
        const char *const text = program->source->c_str();
        const std::size_t length = program->source->size();
        for (const auto &space : object.spaces) {
            cl_int code = CL_SUCCESS;
            const cl_program native =
                clCreateProgramWithSource(space->context.get(), 1, const_cast<const char **>(&text), &length, &code);
            add_native(*program, *space, native, code, "clCreateProgramWithSource");
        }
        return program->handle();
    });
}

cl_program CL_API_CALL create_program_with_binary(cl_context context, cl_uint num_devices,
                                                  const cl_device_id *device_list, const size_t *lengths,
                                                  const unsigned char **binaries, cl_int *binary_status,
                                                  cl_int *errcode_ret) {
    return creating_entry("clCreateProgramWithBinary", errcode_ret, [&] {
        static constexpr CallSite site{"clCreateProgramWithBinary", "context, num_devices"};
        record<site>(context, num_devices);

        ContextObject &object = context_of(context);
        require(num_devices > 0 && device_list != nullptr && lengths != nullptr && binaries != nullptr,
                CL_INVALID_VALUE, "device_list, lengths or binaries is missing");
        auto devices = checked_devices(object.devices, num_devices, device_list);
        for (cl_uint i = 0; i < num_devices; ++i)
            require(lengths[i] != 0 && binaries[i] != nullptr, CL_INVALID_VALUE, "a binary is empty");
        std::unique_ptr<ProgramObject, void (*)(ProgramObject *)> program(make_program(object, devices),
                                                                          [](ProgramObject *p) { p->release(); });
        std::vector<cl_int> statuses(num_devices, CL_SUCCESS);
        cl_int result = CL_SUCCESS;
        for (const auto &space : object.spaces) {
            std::vector<cl_uint> places;
            std::vector<cl_device_id> natives;
            std::vector<std::size_t> native_lengths;
            std::vector<const unsigned char *> native_binaries;
            for (cl_uint i = 0; i < num_devices; ++i) {
                if (devices[i]->native == nullptr || devices[i]->memory != space->memory) continue;
                places.push_back(i);
                natives.push_back(devices[i]->native);
                native_lengths.push_back(lengths[i]);
                native_binaries.push_back(binaries[i]);
            }
            if (natives.empty()) continue;
            std::vector<cl_int> native_statuses(natives.size(), CL_SUCCESS);
            cl_int code = CL_SUCCESS;
            Program native = Program::adopt(clCreateProgramWithBinary(
                space->context.get(), static_cast<cl_uint>(natives.size()), natives.data(), native_lengths.data(),
                native_binaries.data(), native_statuses.data(), &code));
            for (std::size_t i = 0; i < places.size(); ++i) statuses[places[i]] = native_statuses[i];
            result = std::min(result, code);
            if (code == CL_SUCCESS) program->natives.emplace_back(space.get(), std::move(native));
        }
        Packer packer;
        packer.put(result);
        for (const cl_int status : statuses) packer.put(status);
        for (const Blob &blob : World::get().agreement().of_all(packer.take())) {
            Unpacker unpacker(blob);
            result = std::min(result, unpacker.get<cl_int>());
            for (cl_int &status : statuses) status = std::min(status, unpacker.get<cl_int>());
        }
        if (binary_status != nullptr) std::copy(statuses.begin(), statuses.end(), binary_status);
        check(result, "clCreateProgramWithBinary");
        program->compiled = true;
        return program.release()->handle();
    });
}

// CL_DEVICE_BUILT_IN_KERNELS is empty.
cl_program CL_API_CALL create_program_with_built_in_kernels(cl_context context, cl_uint, const cl_device_id *,
                                                            const char *, cl_int *errcode_ret) {
    return creating_entry("clCreateProgramWithBuiltInKernels", errcode_ret, [&]() -> cl_program {
        context_of(context);
        fail(CL_INVALID_VALUE, "no device has built-in kernels");
    });
}

// CL_DEVICE_IL_VERSION is empty.
cl_program CL_API_CALL create_program_with_il(cl_context context, const void *, size_t, cl_int *errcode_ret) {
    return creating_entry("clCreateProgramWithIL", errcode_ret, [&]() -> cl_program {
        context_of(context);
        fail(CL_INVALID_OPERATION, "no device takes an intermediate language");
    });
}

cl_int CL_API_CALL retain_program(cl_program program) {
    return entry("clRetainProgram", [&] { program_of(program).retain(); });
}

cl_int CL_API_CALL release_program(cl_program program) {
    return entry("clReleaseProgram", [&] { program_of(program).release(); });
}

cl_int CL_API_CALL build_program(cl_program program, cl_uint num_devices, const cl_device_id *device_list,
                                 const char *options, BuildCallback notify, void *user_data) {
    return entry("clBuildProgram", [&] {
        static constexpr CallSite site{"clBuildProgram", "program, num_devices, options"};
        record<site>(program, num_devices, text(options));

        ProgramObject &object = program_of(program);
        const auto devices = checked_devices(object.devices, num_devices, device_list);
        check_callback(notify, user_data);
        require(object.kernels == 0, CL_INVALID_OPERATION, "the program has kernels");
        const std::string given = options != nullptr ? options : "";
        const cl_int code = made_by_all([&] {
            cl_int code = CL_SUCCESS;
            for (const auto &[space, native] : object.natives) {
                const auto natives = natives_in(*space, devices);
                if (natives.empty()) continue;
                cl_int native_code = build_native(native.get(), natives, asking_for_arguments(given));
                if (native_code == CL_BUILD_PROGRAM_FAILURE && !space->always_tells_of_arguments())
                    native_code = build_native(native.get(), natives, given);
                code = std::min(code, native_code);
            }
            return code;
        });
        for (const auto &device : devices) object.build_options[device.get()] = given;
        object.built_for(devices, code == CL_SUCCESS);
        object.tells_of_arguments = object.source && asks_for_arguments(given);
        call_back(notify, object, user_data);
        check(code, "clBuildProgram");
    });
}

cl_int CL_API_CALL compile_program(cl_program program, cl_uint num_devices, const cl_device_id *device_list,
                                   const char *options, cl_uint num_headers, const cl_program *headers,
                                   const char **header_names, BuildCallback notify, void *user_data) {
    return entry("clCompileProgram", [&] {
        static constexpr CallSite site{"clCompileProgram", "program, num_devices, options"};
        record<site>(program, num_devices, text(options));

        ProgramObject &object = program_of(program);
        const auto devices = checked_devices(object.devices, num_devices, device_list);
        require((num_headers == 0) == (headers == nullptr) && (num_headers == 0) == (header_names == nullptr),
                CL_INVALID_VALUE, "num_input_headers, input_headers and header_include_names don't go together");
        check_callback(notify, user_data);
        require(object.kernels == 0, CL_INVALID_OPERATION, "the program has kernels");
        require(object.source.has_value(), CL_INVALID_OPERATION, "the program has no source");
        for (cl_uint i = 0; i < num_headers; ++i)
            require(program_of(headers[i]).context.get() == object.context.get(), CL_INVALID_PROGRAM,
                    "a header is of another context");
        const std::string given = options != nullptr ? options : "";
        const cl_int code = made_by_all([&] {
            cl_int code = CL_SUCCESS;
            for (const auto &[space, native] : object.natives) {
                const auto natives = natives_in(*space, devices);
                const auto native_headers = natives_of({headers, num_headers}, *space);
                if (natives.empty()) continue;
                const std::string all = space->always_tells_of_arguments() ? asking_for_arguments(given) : given;
                code = std::min(
                    code, clCompileProgram(native.get(), static_cast<cl_uint>(natives.size()), natives.data(),
                                           all.c_str(), num_headers, num_headers != 0 ? native_headers.data() : nullptr,
                                           header_names, nullptr, nullptr));
            }
            return code;
        });
        for (const auto &device : devices) object.build_options[device.get()] = given;
        object.compiled = code == CL_SUCCESS;
        object.tells_of_arguments = asks_for_arguments(given);
        call_back(notify, object, user_data);
        check(code, "clCompileProgram");
    });
}

cl_program CL_API_CALL link_program(cl_context context, cl_uint num_devices, const cl_device_id *device_list,
                                    const char *options, cl_uint num_programs, const cl_program *programs,
                                    BuildCallback notify, void *user_data, cl_int *errcode_ret) {
    cl_int failure = CL_SUCCESS;
    const cl_program linked = creating_entry("clLinkProgram", errcode_ret, [&] {
        static constexpr CallSite site{"clLinkProgram", "context, num_devices, options, num_programs"};
        record<site>(context, num_devices, text(options), num_programs);

        ContextObject &object = context_of(context);
        auto devices = checked_devices(object.devices, num_devices, device_list);
        require(num_programs > 0 && programs != nullptr, CL_INVALID_VALUE, "there are no input programs");
        check_callback(notify, user_data);
        for (cl_uint i = 0; i < num_programs; ++i)
            require(program_of(programs[i]).context.get() == &object, CL_INVALID_PROGRAM,
                    "a program is of another context");
        bool tells_of_arguments = false;
        for (cl_uint i = 0; i < num_programs; ++i) {
            const ProgramObject &input = program_of(programs[i]);
            require(input.compiled || !input.executables.empty(), CL_INVALID_OPERATION,
                    "a program has not been compiled");
            tells_of_arguments |= input.tells_of_arguments;
        }
        Ref<ProgramObject> program(make_program(object, devices));
        program->release();
        failure = made_by_all([&] {
            cl_int code = CL_SUCCESS;
            program->natives.clear();
            for (const auto &space : object.spaces) {
                const auto natives = natives_in(*space, devices);
                if (!natives.empty())
                    code = std::min(code, link_native(*program, *space, natives, options, {programs, num_programs}));
            }
            return code;
        });
        for (const auto &device : devices) program->build_options[device.get()] = options != nullptr ? options : "";
        // Some drivers make a program that tells what was wrong, some make none.
        const int some_made = program->natives.empty() ? 0 : -1;
        if (failure != CL_SUCCESS && World::get().agreement().least(some_made) == 0)
            fail(failure, "the programs can't be linked");
        program->built_for(devices, failure == CL_SUCCESS);
        program->compiled = failure == CL_SUCCESS;
        program->tells_of_arguments = tells_of_arguments;
        program->retain();
        call_back(notify, *program, user_data);
        return program->handle();
    });
    // A program whose linking failed is there for its log.
    if (failure != CL_SUCCESS && errcode_ret != nullptr) *errcode_ret = failure;
    return linked;
}

cl_int CL_API_CALL get_program_info(cl_program program, cl_program_info param, size_t size, void *value,
                                    size_t *size_ret) {
    return entry("clGetProgramInfo", [&] {
        static constexpr CallSite site{"clGetProgramInfo", "program, param"};
        record<site>(program, param);

        const ProgramObject &object = program_of(program);
        const Answer answer{size, value, size_ret};
        switch (param) {
            case CL_PROGRAM_REFERENCE_COUNT: return answer.give(object.references());
            case CL_PROGRAM_CONTEXT: return answer.give(object.context->handle());
            case CL_PROGRAM_NUM_DEVICES: return answer.give(static_cast<cl_uint>(object.devices.size()));
            case CL_PROGRAM_DEVICES: {
                std::vector<cl_device_id> devices;
                for (const auto &device : object.devices) devices.push_back(device->handle());
                return answer.list(devices);
            }
            case CL_PROGRAM_SOURCE: return answer.text(object.source.value_or(""));
            case CL_PROGRAM_IL: return answer.bytes(nullptr, 0);
            case CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT:
            case CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT: return answer.give(cl_bool{CL_FALSE});
            case CL_PROGRAM_BINARY_SIZES: {
                std::vector<std::size_t> sizes;
                for (const Blob &binary : binaries_of(object)) sizes.push_back(binary.size());
                return answer.list(sizes);
            }
            case CL_PROGRAM_BINARIES: {
                const std::size_t bytes = object.devices.size() * sizeof(unsigned char *);
                require(value == nullptr || size >= bytes, CL_INVALID_VALUE, "param_value_size is too small");
                if (size_ret != nullptr) *size_ret = bytes;
                if (value == nullptr) return;
                const auto binaries = binaries_of(object);
                auto *const pointers = static_cast<unsigned char **>(value);
                for (std::size_t i = 0; i < binaries.size(); ++i)
                    if (pointers[i] != nullptr && !binaries[i].empty())
                        std::memcpy(pointers[i], binaries[i].data(), binaries[i].size());
                return;
            }
            case CL_PROGRAM_NUM_KERNELS:
            case CL_PROGRAM_KERNEL_NAMES: {
                require_built(object);
                const Blob told = from_any(object, param);
                return answer.bytes(told.data(), told.size());
            }
            default: no_such_param(param);
        }
    });
}

cl_int CL_API_CALL get_program_build_info(cl_program program, cl_device_id device, cl_program_build_info param,
                                          size_t size, void *value, size_t *size_ret) {
    return entry("clGetProgramBuildInfo", [&] {
        static constexpr CallSite site{"clGetProgramBuildInfo", "program, device, param"};
        record<site>(program, device, param);

        const ProgramObject &object = program_of(program);
        const DeviceObject &of = device_of(device);
        require(object.has(of), CL_INVALID_DEVICE, "the device is not one of the program");
        const Answer answer{size, value, size_ret};
        if (param == CL_PROGRAM_BUILD_OPTIONS) {
            const auto options = object.build_options.find(&of);
            return answer.text(options != object.build_options.end() ? options->second : "");
        }
        constexpr std::array known = {CL_PROGRAM_BUILD_STATUS, CL_PROGRAM_BUILD_LOG, CL_PROGRAM_BINARY_TYPE,
                                      CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE};
        if (std::find(known.begin(), known.end(), static_cast<int>(param)) == known.end()) no_such_param(param);
        Blob mine;
        const Space *const space = object.context->space(of.memory);
        if (space != nullptr && object.native(*space) != nullptr) {
            std::size_t bytes = 0;
            if (clGetProgramBuildInfo(object.native(*space), of.native, param, 0, nullptr, &bytes) == CL_SUCCESS) {
                mine.resize(bytes);
                clGetProgramBuildInfo(object.native(*space), of.native, param, bytes, mine.data(), nullptr);
                // A size_t; NVIDIA's driver (580) answers with four bytes.
                if (param == CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE) mine.resize(sizeof(std::size_t));
            }
        }
        const Blob told = World::get().agreement().from(of.process, std::move(mine));
        if (!told.empty()) return answer.bytes(told.data(), told.size());
        // The driver made no program for the device, or, as PoCL before the first build, has no log.
        switch (param) {
            case CL_PROGRAM_BUILD_STATUS:
                return answer.give(
                    cl_build_status{object.build_options.contains(&of) ? CL_BUILD_ERROR : CL_BUILD_NONE});
            case CL_PROGRAM_BUILD_LOG: return answer.text("");
            case CL_PROGRAM_BINARY_TYPE: return answer.give(cl_program_binary_type{CL_PROGRAM_BINARY_TYPE_NONE});
            default: return answer.give(std::size_t{0});
        }
    });
}

cl_int CL_API_CALL set_program_release_callback(cl_program, void(CL_CALLBACK *)(cl_program, void *), void *) {
    return CL_INVALID_OPERATION;  // CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT is false
}

cl_int CL_API_CALL set_program_specialization_constant(cl_program, cl_uint, size_t, const void *) {
    return CL_INVALID_OPERATION;  // there are no programs in an intermediate language
}

}  // namespace cldist::cluster
