// Programs. Each process builds for its own devices. All agree whether the builds succeeded.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>

#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/api/kernel_splitting.hpp"
#include "cluster/api/program_infos.hpp"
#include "cluster/api/record.hpp"
#include "cluster/split/adapted_source.hpp"
#include "cluster/split/source_binary.hpp"
#include "cluster/split/source_text.hpp"
#include "ocl/build_log.hpp"
#include "ocl/query.hpp"
#include "splitting/build_options.hpp"

namespace cldist::cluster {
namespace {

using BuildCallback = void(CL_CALLBACK *)(cl_program, void *);

DeviceList checked_devices(const DeviceList &all, cl_uint count, const cl_device_id *devices) {
    require((count == 0) == (devices == nullptr), CL_INVALID_VALUE,
            "num_devices is {}, but device_list is {}NULL", count,
            devices == nullptr ? "" : "not ");
    if (count == 0) return all;
    DeviceList list;
    const auto add = [&](DeviceObject &device) {
        require(all.contains(device), CL_INVALID_DEVICE,
                "a device of device_list does not belong to the context or the program");
        list.add(device);
    };
    for (cl_uint i = 0; i < count; ++i) {
        DeviceObject &device = device_of(devices[i]);
        if (!device.is_aggregate()) add(device);
        for (const auto &member : device.members) add(*member);
    }
    return list;
}

void check_callback(BuildCallback notify, const void *user_data) {
    require(notify != nullptr || user_data == nullptr, CL_INVALID_VALUE,
            "user_data is not NULL, but pfn_notify is NULL");
}

void call_back(BuildCallback notify, ProgramObject &program, void *user_data) {
    if (notify != nullptr)
        call_later([notify, handle = program.handle(), user_data] { notify(handle, user_data); });
}

bool asks_for_arguments(const std::string &options) {
    return options.find("-cl-kernel-arg-info") != std::string::npos;
}
// The platform needs to know which arguments are only read.
std::string asking_for_arguments(const std::string &options) {
    return asks_for_arguments(options) ? options : options + " -cl-kernel-arg-info";
}

cl_int build_native(cl_program program, const std::vector<cl_device_id> &devices,
                    const std::string &options) {
    return clBuildProgram(program, static_cast<cl_uint>(devices.size()), devices.data(),
                          options.c_str(), nullptr, nullptr);
}

// Calls `make` in all processes at once and returns the lowest code of the processes that have one
// of the devices. If only some processes fail, these try again, one after another, because a driver
// may fail while another process puts the same result into a shared cache.
cl_int made_by_all(const Exchange &exchange, const DeviceList &devices,
                   const std::function<cl_int()> &make) {
    const auto processes = processes_of(devices);
    std::vector<Process> failed;
    cl_int least = CL_SUCCESS;
    const Blob mine = Packer().put(make()).take();
    host_mode().note_build();
    const auto told = exchange.of(processes, [&](Process) { return mine; });
    for (std::size_t i = 0; i < told.size(); ++i) {
        const auto code = Unpacker(told[i]).get<cl_int>();
        if (code != CL_SUCCESS) failed.push_back(processes[i]);
        least = std::min(least, code);
    }
    if (failed.empty() || failed.size() == processes.size()) return least;
    return exchange.in_turn(failed, CL_SUCCESS,
                            [&](int before) { return std::min(before, make()); });
}

/// A hash of how a program was made: with these options, and from `others`.
std::uint64_t hash_of_making(const char *options, std::span<const cl_program> others = {},
                             const DeviceObject *device = nullptr) {
    std::uint64_t hash = hash_of(options != nullptr ? options : "");
    for (const cl_program handle : others) {
        const ProgramObject &other = program_of(handle);
        hash = mixed(hash + other.number);
        if (const auto made = other.made_of.find(device); made != other.made_of.end())
            hash = mixed(hash + made->second);
    }
    return hash;
}

ProgramObject *make_program(ContextObject &context, DeviceList devices) {
    return make<ProgramObject>(context, std::move(devices));
}

Program program_of_source(const Space &space, const std::string &source) {
    const char *text = source.c_str();
    const std::size_t length = source.size();
    return create("clCreateProgramWithSource", clCreateProgramWithSource, space.context.get(), 1U,
                  &text, &length);
}

ProgramObject *make_program_of_source(ContextObject &context, DeviceList devices,
                                      std::string source) {
    ProgramObject *const program = make_program(context, std::move(devices));
    program->source = std::move(source);
    for (const auto &space : context.spaces)
        program->natives.emplace_back(space.get(), program_of_source(*space, *program->source));
    return program;
}

/// Gives the native programs the source of the user's program if they have the adapted one.
void restore_source(ProgramObject &program) {
    if (!std::exchange(program.is_adapted, false)) return;
    for (auto &[space, native] : program.natives)
        native = program_of_source(*space, *program.source);
}

/// Returns the source adapted so that kernels which run parts of a launch see the whole launch;
/// empty if it needs no change. Sets `program.facts`.
std::string adapted_source_of(ProgramObject &program, const std::string &options) {
    if (!program.context->aggregate || program.context->devices.size() == 1 || !program.source)
        return {};
    std::string source = whole_source(program, options);
    program.facts = std::make_shared<SourceFacts>(facts_of(source, options));
    program.facts->source = std::move(source);
    program.facts->options = options;
    return program.facts->asks_for_launch
               ? adapted_source(program.facts->source, program.facts->hides_names)
               : std::string();
}

/// The first error line of this process's native compilers ("file:3:5: error: …"), or empty.
std::string first_error_of(const ProgramObject &program) {
    for (const auto &[space, native] : program.natives)
        for (const cl_device_id device : space->devices) {
            std::istringstream lines(build_log(native.get(), device));
            for (std::string line; std::getline(lines, line);)
                if (line.find("error:") != std::string::npos) return line;
        }
    return {};
}

/// Returns the source in binaries that the cluster platform wrote; nothing for drivers' binaries.
/// Throws an Error if the binaries differ or were changed.
std::optional<SourceBinary> source_of_all(std::span<const std::span<const std::byte>> binaries) {
    const auto is_own = [](std::span<const std::byte> binary) { return is_source_binary(binary); };
    if (std::ranges::none_of(binaries, is_own)) return std::nullopt;
    auto source = source_of(binaries.front());
    const auto is_same = [&](std::span<const std::byte> binary) {
        return std::ranges::equal(binary, binaries.front());
    };
    require(source && std::ranges::all_of(binaries, is_same), CL_INVALID_BINARY,
            "a binary that the cluster platform wrote was changed, or the binaries are from "
            "different programs");
    return source;
}

/// Returns the native programs of `programs` in a space; null for a program without one. Throws an
/// Error if a handle is not valid.
std::vector<cl_program> natives_of(std::span<const cl_program> programs, const Space &space) {
    std::vector<cl_program> natives;
    for (const cl_program handle : programs) natives.push_back(program_of(handle).native(space));
    return natives;
}

cl_int link_native(ProgramObject &program, Space &space, const std::vector<cl_device_id> &devices,
                   const char *options, std::span<const cl_program> programs) {
    const auto inputs = natives_of(programs, space);
    if (std::ranges::find(inputs, nullptr) != inputs.end()) return CL_INVALID_OPERATION;
    cl_int code = CL_SUCCESS;
    Program native = Program::adopt(clLinkProgram(
        space.context.get(), static_cast<cl_uint>(devices.size()), devices.data(), options,
        static_cast<cl_uint>(inputs.size()), inputs.data(), nullptr, nullptr, &code));
    if (native) program.natives.emplace_back(&space, std::move(native));
    return code;
}

}  // namespace

std::vector<cl_device_id> natives_in(const Space &space, const DeviceList &devices) {
    std::vector<cl_device_id> natives;
    for (const auto &device : devices)
        if (device->answering != nullptr && device->answering_memory == space.memory)
            add_once(natives, device->answering);
    return natives;
}

std::string whole_source(const ProgramObject &program, const std::string &options) {
    auto folders = splitting::include_folders(options);
    folders.emplace_back(".");
    return with_includes(*program.source,
                         [&](const std::string &name) -> std::optional<std::string> {
                             for (const std::string &folder : folders)
                                 if (std::ifstream file(std::filesystem::path(folder) / name); file)
                                     return std::string(std::istreambuf_iterator<char>(file), {});
                             return std::nullopt;
                         });
}

cl_program create_program_with_source(cl_context context, cl_uint count, const char **strings,
                                      const size_t *lengths, cl_int *) {
    ContextObject &object = context_of(context);
    require(count > 0 && strings != nullptr, CL_INVALID_VALUE,
            "count is {} or strings is NULL; expected at least one string", count);
    std::string source;
    for (cl_uint i = 0; i < count; ++i) {
        require(strings[i] != nullptr, CL_INVALID_VALUE, "strings[{}] is NULL", i);
        if (lengths != nullptr && lengths[i] != 0)
            source.append(strings[i], lengths[i]);
        else
            source.append(strings[i]);
    }
    return make_program_of_source(object, object.devices, std::move(source))->handle();
}

cl_program create_program_with_binary(cl_context context, cl_uint num_devices,
                                      const cl_device_id *device_list, const size_t *lengths,
                                      const unsigned char **binaries, cl_int *binary_status,
                                      cl_int *) {
    ContextObject &object = context_of(context);
    require(num_devices > 0 && device_list != nullptr && lengths != nullptr && binaries != nullptr,
            CL_INVALID_VALUE, "num_devices is {}, or device_list, lengths or binaries is NULL",
            num_devices);
    auto devices = checked_devices(object.devices, num_devices, device_list);
    for (cl_uint i = 0; i < num_devices; ++i)
        require(lengths[i] != 0 && binaries[i] != nullptr, CL_INVALID_VALUE,
                "binaries[{}] is NULL or has the length 0", i);
    std::vector<std::span<const std::byte>> all;
    for (cl_uint i = 0; i < num_devices; ++i)
        all.push_back(std::as_bytes(std::span(binaries[i], lengths[i])));
    if (auto source = source_of_all(all)) {
        ProgramObject *const program =
            make_program_of_source(object, std::move(devices), std::move(source->source));
        program->options_of_source = std::move(source->options);
        program->compiled = true;
        if (binary_status != nullptr) std::fill_n(binary_status, num_devices, CL_SUCCESS);
        return program->handle();
    }
    // All members of an aggregate device get the same binary.
    const auto given = [&](std::size_t i) { return object.aggregate ? 0 : i; };
    std::unique_ptr<ProgramObject, void (*)(ProgramObject *)> program(
        make_program(object, devices), [](ProgramObject *p) { p->release(); });
    for (std::size_t i = 0; i < devices.size(); ++i)
        program->made_of[devices[i].get()] =
            hash_of({reinterpret_cast<const char *>(binaries[given(i)]), lengths[given(i)]});
    const Exchange exchange;
    std::vector<cl_int> statuses(devices.size(), CL_SUCCESS);
    cl_int result = CL_SUCCESS;
    for (const auto &space : object.spaces) {
        std::vector<std::size_t> places;
        std::vector<cl_device_id> natives;
        std::vector<std::size_t> native_lengths;
        std::vector<const unsigned char *> native_binaries;
        for (std::size_t i = 0; i < devices.size(); ++i) {
            if (devices[i]->answering == nullptr || devices[i]->answering_memory != space->memory)
                continue;
            const auto count = natives.size();
            add_once(natives, devices[i]->answering);
            if (natives.size() == count) continue;
            places.push_back(i);
            native_lengths.push_back(lengths[given(i)]);
            native_binaries.push_back(binaries[given(i)]);
        }
        if (natives.empty()) continue;
        std::vector<cl_int> native_statuses(natives.size(), CL_SUCCESS);
        cl_int code = CL_SUCCESS;
        Program native = Program::adopt(clCreateProgramWithBinary(
            space->context.get(), static_cast<cl_uint>(natives.size()), natives.data(),
            native_lengths.data(), native_binaries.data(), native_statuses.data(), &code));
        for (std::size_t i = 0; i < places.size(); ++i) statuses[places[i]] = native_statuses[i];
        result = std::min(result, code);
        if (code == CL_SUCCESS) program->natives.emplace_back(space.get(), std::move(native));
    }
    const auto say = [&](Process process) {
        Packer packer;
        packer.put(result);
        for (std::size_t i = 0; i < devices.size(); ++i)
            if (devices[i]->process == process) packer.put(i).put(statuses[i]);
        return packer.take();
    };
    for (const Blob &blob : exchange.of(processes_of(devices), say)) {
        Unpacker unpacker(blob);
        for (result = std::min(result, unpacker.get<cl_int>()); !unpacker.empty();) {
            const auto place = unpacker.get<std::size_t>();
            told_place(statuses, place) = unpacker.get<cl_int>();
        }
    }
    if (object.aggregate) statuses = {*std::ranges::min_element(statuses)};
    if (binary_status != nullptr) std::copy(statuses.begin(), statuses.end(), binary_status);
    check(result, "clCreateProgramWithBinary");
    program->compiled = true;
    return program.release()->handle();
}

// CL_DEVICE_BUILT_IN_KERNELS is empty.
cl_program create_program_with_built_in_kernels(cl_context context, cl_uint, const cl_device_id *,
                                                const char *, cl_int *) {
    context_of(context);
    fail(CL_INVALID_VALUE, "built-in kernels are not supported");
}

// CL_DEVICE_IL_VERSION is empty.
cl_program create_program_with_il(cl_context context, const void *, size_t, cl_int *) {
    context_of(context);
    fail(CL_INVALID_OPERATION,
         "intermediate languages (SPIR-V) are not supported; create the program from source");
}

CLDIST_REFERENCES(program, cl_program, program_of)

void build_program(cl_program program, cl_uint num_devices, const cl_device_id *device_list,
                   const char *options, BuildCallback notify, void *user_data) {
    ProgramObject &object = program_of(program);
    const auto devices = checked_devices(object.devices, num_devices, device_list);
    check_callback(notify, user_data);
    require(object.kernels == 0, CL_INVALID_OPERATION,
            "the program has kernels; release them before you build it again");
    object.idle_kernels.clear();
    restore_source(object);
    const std::string asked = options != nullptr ? options : "";
    // A binary keeps the options that it was built with.
    const std::string given = object.options_of_source.value_or(asked);
    const Exchange exchange;
    const Ref<ProgramObject> held(&object);
    cl_int code = CL_BUILD_PROGRAM_FAILURE;
    const auto build_as_given = [&] {
        return made_by_all(exchange, devices, [&] {
            cl_int code = CL_SUCCESS;
            for (const auto &[space, native] : object.natives) {
                const auto natives = natives_in(*space, devices);
                if (natives.empty()) continue;
                cl_int native_code =
                    build_native(native.get(), natives, asking_for_arguments(given));
                if (native_code == CL_BUILD_PROGRAM_FAILURE && !space->always_tells_of_arguments())
                    native_code = build_native(native.get(), natives, given);
                code = std::min(code, native_code);
            }
            return code;
        });
    };
    const std::string adapted = adapted_source_of(object, given);
    // A program that the analysis can't compile probably has an error. It is built as given first,
    // because drivers print a line for each build that fails.
    const bool is_doubtful = !adapted.empty() && !agree_on_accesses(exchange, object);
    if (is_doubtful) code = build_as_given();
    const bool has_failed = is_doubtful && code != CL_SUCCESS;
    if (!adapted.empty() && !has_failed) {
        object.is_adapted = true;
        code = made_by_all(exchange, devices, [&] {
            cl_int code = CL_SUCCESS;
            for (auto &[space, native] : object.natives) {
                native = program_of_source(*space, adapted);
                const auto natives = natives_in(*space, devices);
                if (!natives.empty())
                    code = std::min(
                        code, build_native(native.get(), natives, asking_for_arguments(given)));
            }
            return code;
        });
        if (code != CL_SUCCESS) {
            object.facts->why_not_adapted = first_error_of(object);
            restore_source(object);
        }
    }
    if (!object.is_adapted && !has_failed) code = build_as_given();
    for (const auto &device : devices) object.build_options[device.get()] = asked;
    object.built_for(devices, code == CL_SUCCESS, hash_of_making(given.c_str()));
    object.tells_of_arguments = object.source && asks_for_arguments(given);
    call_back(notify, object, user_data);
    check(code, "clBuildProgram");
}

void compile_program(cl_program program, cl_uint num_devices, const cl_device_id *device_list,
                     const char *options, cl_uint num_headers, const cl_program *headers,
                     const char **header_names, BuildCallback notify, void *user_data) {
    ProgramObject &object = program_of(program);
    const auto devices = checked_devices(object.devices, num_devices, device_list);
    require((num_headers == 0) == (headers == nullptr) &&
                (num_headers == 0) == (header_names == nullptr),
            CL_INVALID_VALUE,
            "num_input_headers is {}, which does not match input_headers and header_include_names "
            "(NULL if and only if it is 0)",
            num_headers);
    check_callback(notify, user_data);
    require(object.kernels == 0, CL_INVALID_OPERATION,
            "the program has kernels; release them before you build it again");
    object.idle_kernels.clear();
    require(object.source.has_value(), CL_INVALID_OPERATION,
            "the program was not created from source");
    for (cl_uint i = 0; i < num_headers; ++i)
        require(program_of(headers[i]).context.get() == object.context.get(), CL_INVALID_PROGRAM,
                "input_headers[{}] belongs to another context", i);
    restore_source(object);
    const std::string given = options != nullptr ? options : "";
    const Exchange exchange;
    const Ref<ProgramObject> held(&object);
    const cl_int code = made_by_all(exchange, devices, [&] {
        cl_int code = CL_SUCCESS;
        for (const auto &[space, native] : object.natives) {
            const auto natives = natives_in(*space, devices);
            auto native_headers = natives_of({headers, num_headers}, *space);
            if (natives.empty()) continue;
            std::vector<Program> unadapted;
            for (cl_uint i = 0; i < num_headers; ++i) {
                const ProgramObject &header = program_of(headers[i]);
                if (!header.is_adapted) continue;
                unadapted.push_back(program_of_source(*space, *header.source));
                native_headers[i] = unadapted.back().get();
            }
            const std::string all =
                space->always_tells_of_arguments() ? asking_for_arguments(given) : given;
            code =
                std::min(code, clCompileProgram(native.get(), static_cast<cl_uint>(natives.size()),
                                                natives.data(), all.c_str(), num_headers,
                                                num_headers != 0 ? native_headers.data() : nullptr,
                                                header_names, nullptr, nullptr));
        }
        return code;
    });
    for (const auto &device : devices) object.build_options[device.get()] = given;
    object.compiled_for(devices, code == CL_SUCCESS,
                        hash_of_making(options, {headers, num_headers}));
    object.tells_of_arguments = asks_for_arguments(given);
    call_back(notify, object, user_data);
    check(code, "clCompileProgram");
}

cl_program link_program(cl_context context, cl_uint num_devices, const cl_device_id *device_list,
                        const char *options, cl_uint num_programs, const cl_program *programs,
                        BuildCallback notify, void *user_data, cl_int *errcode_ret) {
    ContextObject &object = context_of(context);
    auto devices = checked_devices(object.devices, num_devices, device_list);
    require(num_programs > 0 && programs != nullptr, CL_INVALID_VALUE,
            "num_input_programs is {} or input_programs is NULL; expected at least one program",
            num_programs);
    check_callback(notify, user_data);
    for (cl_uint i = 0; i < num_programs; ++i)
        require(program_of(programs[i]).context.get() == &object, CL_INVALID_PROGRAM,
                "input_programs[{}] belongs to another context", i);
    bool tells_of_arguments = false;
    for (cl_uint i = 0; i < num_programs; ++i) {
        const ProgramObject &input = program_of(programs[i]);
        require(input.compiled || !input.executables.empty(), CL_INVALID_OPERATION,
                "input_programs[{}] has not been compiled; call clCompileProgram first", i);
        tells_of_arguments |= input.tells_of_arguments;
    }
    Ref<ProgramObject> program(make_program(object, devices));
    program->release();
    const Exchange exchange;
    const cl_int failure = made_by_all(exchange, devices, [&] {
        cl_int code = CL_SUCCESS;
        program->natives.clear();
        for (const auto &space : object.spaces) {
            const auto natives = natives_in(*space, devices);
            if (!natives.empty())
                code = std::min(code, link_native(*program, *space, natives, options,
                                                  {programs, num_programs}));
        }
        return code;
    });
    for (const auto &device : devices)
        program->build_options[device.get()] = options != nullptr ? options : "";
    // Some drivers create a program with a log of the error, others create none.
    const int some_made = program->natives.empty() ? 0 : -1;
    if (failure != CL_SUCCESS && exchange.least(some_made) == 0)
        fail(failure, "the driver failed to link the programs");
    for (const auto &device : devices)
        program->made_of[device.get()] =
            hash_of_making(options, {programs, num_programs}, device.get());
    program->built_for(devices, failure == CL_SUCCESS, 0);
    program->compiled = failure == CL_SUCCESS;
    program->tells_of_arguments = tells_of_arguments;
    program->retain();
    call_back(notify, *program, user_data);
    // A program whose linking failed is returned for its log.
    *errcode_ret = failure;
    return program->handle();
}

}  // namespace cldist::cluster
