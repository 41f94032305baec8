// Queries about programs: their properties, binaries and builds.
#include <algorithm>
#include <array>
#include <cstring>

#include "cluster/api/answers.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/program_infos.hpp"
#include "cluster/split/adapted_source.hpp"
#include "cluster/split/source_binary.hpp"

namespace cldist::cluster {
namespace {

/// Packs the places of a process's devices that answer for other devices, the sizes of their
/// binaries and, if wanted, the binaries.
Blob pack_binaries(const ProgramObject &program, bool wanted, Process process) {
    Packer packer;
    for (const auto &[space, native] : program.natives) {
        auto devices = query_list<cl_device_id>(native.get(), CL_PROGRAM_DEVICES);
        const auto sizes = query_list<std::size_t>(native.get(), CL_PROGRAM_BINARY_SIZES);
        // Sizes may be only those of devices with executables.
        if (sizes.size() != devices.size()) devices = natives_in(*space, program.executables);
        if (sizes.size() != devices.size()) continue;
        std::vector<Blob> binaries;
        std::vector<std::byte *> pointers;
        if (wanted) {
            for (const std::size_t size : sizes) binaries.emplace_back(size);
            for (Blob &binary : binaries) pointers.push_back(binary.data());
            clGetProgramInfo(native.get(), CL_PROGRAM_BINARIES, pointers.size() * sizeof(void *),
                             pointers.data(), nullptr);
        }
        for (std::size_t i = 0; i < program.devices.size(); ++i) {
            if (program.alike()[i] != i || program.devices[i]->process != process) continue;
            const auto device = std::ranges::find(devices, program.devices[i]->answering);
            if (device == devices.end()) continue;
            const auto at = static_cast<std::size_t>(device - devices.begin());
            packer.put(i).put(sizes[at]);
            if (wanted) packer.put_bytes(binaries[at]);
        }
    }
    return packer.take();
}

const std::vector<std::size_t> &binary_sizes_of(const Exchange &exchange,
                                                const ProgramObject &program) {
    std::vector<std::size_t> &sizes = program.answers.binary_sizes;
    if (!sizes.empty()) return sizes;
    std::vector<std::size_t> told(program.devices.size());
    const auto say = [&](Process process) { return pack_binaries(program, false, process); };
    for (const Blob &blob : exchange.of(program.answerers(), say))
        for (Unpacker unpacker(blob); !unpacker.empty();) {
            const auto place = unpacker.get<std::size_t>();
            told_place(told, place) = unpacker.get<std::size_t>();
        }
    for (std::size_t i = 0; i < told.size(); ++i) told[i] = told[program.alike()[i]];
    return sizes = std::move(told);
}

/// Indexed by place; only devices that answer for others have binaries.
std::vector<Blob> binaries_of(const Exchange &exchange, const ProgramObject &program) {
    std::vector<Blob> binaries(program.devices.size());
    const auto say = [&](Process process) { return pack_binaries(program, true, process); };
    for (const Blob &blob : exchange.of(program.answerers(), say))
        for (Unpacker unpacker(blob); !unpacker.empty();) {
            const auto place = unpacker.get<std::size_t>();
            unpacker.get<std::size_t>();
            told_place(binaries, place) = unpacker.get_bytes();
        }
    return binaries;
}

/// The program's binary for an aggregate device, with the source; nothing if the drivers' is used.
std::optional<Blob> own_binary_of(const ProgramObject &program) {
    if (!program.context->aggregate || !program.source || program.executables.empty())
        return std::nullopt;
    const std::string &options = program.options_of_source
                                     ? *program.options_of_source
                                     : program.build_options.at(program.devices.front().get());
    return binary_of(
        {program.facts != nullptr ? program.facts->source : whole_source(program, options),
         options});
}

/// The answer of a device's native program; empty if there is none.
const Blob &build_info_of(const Exchange &exchange, const ProgramObject &program, std::size_t place,
                          cl_program_build_info param) {
    const std::pair key(program.alike()[place], param);
    if (const auto known = program.answers.build_infos.find(key);
        known != program.answers.build_infos.end())
        return known->second;
    const DeviceObject &of = *program.devices[key.first];
    Blob mine;
    const Space *const space = program.context->space(of.answering_memory);
    if (space != nullptr && program.native(*space) != nullptr) {
        std::size_t bytes = 0;
        if (clGetProgramBuildInfo(program.native(*space), of.answering, param, 0, nullptr,
                                  &bytes) == CL_SUCCESS) {
            mine.resize(bytes);
            clGetProgramBuildInfo(program.native(*space), of.answering, param, bytes, mine.data(),
                                  nullptr);
            // The value is a size_t, but a driver may return four bytes.
            if (param == CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE)
                mine.resize(sizeof(std::size_t));
        }
    }
    Blob told = exchange.from(of.process, std::move(mine));
    return program.answers.build_infos[key] = std::move(told);
}

}  // namespace

void require_built(const ProgramObject &program) {
    require(!program.executables.empty(), CL_INVALID_PROGRAM_EXECUTABLE,
            "the program has not been built; call clBuildProgram first");
}

const Blob &info_of(const Exchange &exchange, const ProgramObject &program, cl_program_info param) {
    if (const auto known = program.answers.infos.find(param); known != program.answers.infos.end())
        return known->second;
    const DeviceObject &device = *program.executables.front();
    Blob mine;
    if (const Space *const space = program.context->space(device.answering_memory);
        space != nullptr)
        mine = query_list<std::byte>(program.native(*space), param);
    Blob told = exchange.from(device.process, std::move(mine));
    return program.answers.infos[param] = std::move(told);
}

void get_program_info(cl_program program, cl_program_info param, size_t size, void *value,
                      size_t *size_ret) {
    const Exchange exchange;
    const Ref<ProgramObject> held(&program_of(program));
    const ProgramObject &object = *held;
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_PROGRAM_REFERENCE_COUNT: return answer.give(object.references());
        case CL_PROGRAM_CONTEXT: return answer.give(object.context->handle());
        case CL_PROGRAM_NUM_DEVICES:
            return answer.give(static_cast<cl_uint>(object.shown_devices().size()));
        case CL_PROGRAM_DEVICES: return answer.list(object.shown_devices());
        case CL_PROGRAM_SOURCE: return answer.text(object.source.value_or(""));
        case CL_PROGRAM_IL: return answer.bytes(nullptr, 0);
        case CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT:
        case CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT: return answer.give(cl_bool{CL_FALSE});
        case CL_PROGRAM_BINARY_SIZES: {
            if (const auto own = own_binary_of(object))
                return answer.list(std::vector{own->size()});
            std::vector<std::size_t> sizes = binary_sizes_of(exchange, object);
            // The size for an aggregate device is that of its first member.
            sizes.resize(object.shown_devices().size());
            return answer.list(sizes);
        }
        case CL_PROGRAM_BINARIES: {
            const std::size_t shown = object.shown_devices().size();
            const std::size_t bytes = shown * sizeof(unsigned char *);
            require(value == nullptr || size >= bytes, CL_INVALID_VALUE,
                    "param_value_size is {}; expected at least {}", size, bytes);
            if (size_ret != nullptr) *size_ret = bytes;
            if (value == nullptr) return;
            auto *const pointers = static_cast<unsigned char **>(value);
            if (const auto own = own_binary_of(object)) {
                if (pointers[0] != nullptr) std::memcpy(pointers[0], own->data(), own->size());
                return;
            }
            const auto binaries = binaries_of(exchange, object);
            for (std::size_t i = 0; i < shown; ++i) {
                const Blob &binary = binaries[object.alike()[i]];
                if (pointers[i] != nullptr && !binary.empty())
                    std::memcpy(pointers[i], binary.data(), binary.size());
            }
            return;
        }
        case CL_PROGRAM_NUM_KERNELS:
        case CL_PROGRAM_KERNEL_NAMES: {
            require_built(object);
            const Blob &told = info_of(exchange, object, param);
            return answer.bytes(told.data(), told.size());
        }
        default: no_such_param(param);
    }
}

void get_program_build_info(cl_program program, cl_device_id device, cl_program_build_info param,
                            size_t size, void *value, size_t *size_ret) {
    const Exchange exchange;
    const Ref<ProgramObject> held(&program_of(program));
    const ProgramObject &object = *held;
    const DeviceObject &of = device_of(device);
    require(object.has(of), CL_INVALID_DEVICE, "the device does not belong to the program");
    const Answer answer{size, value, size_ret};
    if (param == CL_PROGRAM_BUILD_OPTIONS) {
        const auto options =
            object.build_options.find(of.is_aggregate() ? of.members.front().get() : &of);
        return answer.text(options != object.build_options.end() ? options->second : "");
    }
    constexpr std::array known = {CL_PROGRAM_BUILD_STATUS, CL_PROGRAM_BUILD_LOG,
                                  CL_PROGRAM_BINARY_TYPE,
                                  CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE};
    if (std::ranges::find(known, static_cast<int>(param)) == known.end()) no_such_param(param);
    const std::size_t position = of.is_aggregate() ? 0 : object.devices.position(of);
    const Blob &told = build_info_of(exchange, object, position, param);
    if (!told.empty()) return answer.bytes(told.data(), told.size());
    // The driver created no program for the device or, before a build, may have no log.
    switch (param) {
        case CL_PROGRAM_BUILD_STATUS:
            return answer.give(cl_build_status{
                object.build_options.contains(object.devices[position].get()) ? CL_BUILD_ERROR
                                                                              : CL_BUILD_NONE});
        case CL_PROGRAM_BUILD_LOG: return answer.text("");
        case CL_PROGRAM_BINARY_TYPE:
            return answer.give(cl_program_binary_type{CL_PROGRAM_BINARY_TYPE_NONE});
        default: return answer.give(std::size_t{0});
    }
}

}  // namespace cldist::cluster
