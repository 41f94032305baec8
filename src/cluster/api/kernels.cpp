// Kernels and their commands. All processes know the same about a kernel, whatever devices they have.
#include <CL/cl_ext_dist.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include <fmt/ranges.h>

#include "base/config.hpp"
#include "base/per_thread.hpp"
#include "base/trace.hpp"
#include "cluster/api/answers.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/kernel_splitting.hpp"
#include "cluster/api/program_infos.hpp"
#include "cluster/api/record.hpp"
#include "cluster/split/check_access.hpp"
#include "cluster/split/splitting.hpp"
#include "ocl/query.hpp"
#include "splitting/functions.hpp"

namespace cldist::cluster {
namespace {

template <typename T>
T argument_value(cl_kernel kernel, cl_uint index, cl_kernel_arg_info param) {
    T value{};
    check(clGetKernelArgInfo(kernel, index, param, sizeof value, &value, nullptr), "clGetKernelArgInfo");
    return value;
}
std::string argument_text(cl_kernel kernel, cl_uint index, cl_kernel_arg_info param) {
    std::size_t size = 0;
    check(clGetKernelArgInfo(kernel, index, param, 0, nullptr, &size), "clGetKernelArgInfo");
    std::string text(size, '\0');
    check(clGetKernelArgInfo(kernel, index, param, size, text.data(), nullptr), "clGetKernelArgInfo");
    text.resize(std::strlen(text.c_str()));
    return text;
}

void pack_arguments(Packer &packer, cl_kernel kernel) {
    cl_uint count = 0;
    clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr);
    std::array<char, 4096> attributes{};
    clGetKernelInfo(kernel, CL_KERNEL_ATTRIBUTES, attributes.size(), attributes.data(), nullptr);
    packer.put(count).put_text(attributes.data());
    Packer arguments;
    try {
        for (cl_uint i = 0; i < count; ++i) {
            arguments.put(argument_value<cl_kernel_arg_address_qualifier>(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER))
                .put(argument_value<cl_kernel_arg_access_qualifier>(kernel, i, CL_KERNEL_ARG_ACCESS_QUALIFIER))
                .put(argument_value<cl_kernel_arg_type_qualifier>(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER))
                .put_text(argument_text(kernel, i, CL_KERNEL_ARG_TYPE_NAME))
                .put_text(argument_text(kernel, i, CL_KERNEL_ARG_NAME));
        }
        packer.put(true).put_bytes(arguments.take());
    } catch (const Error &) {
        packer.put(false);  // a program from a binary may not know
    }
}

template <typename T>
T on_device(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info param) {
    T value{};
    clGetKernelWorkGroupInfo(kernel, device, param, sizeof value, &value, nullptr);
    return value;
}

/// A process's data about its devices that answer for other devices. First there is a code. If it
/// has the kernel, there follow the properties that are the same for all devices, and each device's
/// place and answers.
Blob pack_kernel(const ProgramObject &program, const char *name, Process process) {
    cl_int result = CL_SUCCESS;
    std::map<MemoryId, Kernel> kernels;  // by memory
    Packer devices;
    for (std::size_t i = 0; i < program.devices.size(); ++i) {
        const DeviceObject &device = *program.devices[i];
        if (program.alike()[i] != i || device.process != process || !program.has_executable_for(device)) continue;
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
        devices.put(i)
            .put(on_device<std::size_t>(native, device.answering, CL_KERNEL_WORK_GROUP_SIZE))
            .put(on_device<std::array<std::size_t, 3>>(native, device.answering, CL_KERNEL_COMPILE_WORK_GROUP_SIZE))
            .put(on_device<std::size_t>(native, device.answering, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE))
            .put(on_device<cl_ulong>(native, device.answering, CL_KERNEL_LOCAL_MEM_SIZE))
            .put(on_device<cl_ulong>(native, device.answering, CL_KERNEL_PRIVATE_MEM_SIZE));
    }
    Packer packer;
    const bool known = result == CL_SUCCESS && !kernels.empty();
    packer.put(result).put(known);
    if (!known) return packer.take();
    pack_arguments(packer, kernels.begin()->second.get());
    return packer.put_bytes(devices.take()).take();
}

std::shared_ptr<const KernelInfo> agree_on_kernel(const Exchange &exchange, const ProgramObject &program,
                                                  const char *name) {
    if (const auto known = program.answers.kernels.find(name); known != program.answers.kernels.end())
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
                arguments.push_back(std::move(argument));
            }
        }
        const Blob devices = unpacker.get_bytes();
        for (Unpacker each(devices); !each.empty();) {
            OnDevice &device = told_place(info->devices, each.get<std::size_t>());
            device.work_group_size = each.get<std::size_t>();
            device.compile_work_group_size = each.get<std::array<std::size_t, 3>>();
            device.preferred_multiple = each.get<std::size_t>();
            device.local_size = each.get<cl_ulong>();
            device.private_size = each.get<cl_ulong>();
        }
        if (std::exchange(known, true)) continue;  // the first one's
        info->count = count;
        info->attributes = attributes;
        info->arguments = std::move(arguments);
        if (program.is_adapted && !info->arguments.empty() && info->arguments.back().name == whole_launch_name) {
            info->gets_launch = true;
            info->arguments.pop_back();
            --info->count;
        }
    }
    check(code, "clCreateKernel");
    require(known, CL_INVALID_PROGRAM_EXECUTABLE,
            "the program has not been built for any device; call clBuildProgram first");
    for (std::size_t i = 0; i < info->devices.size(); ++i) info->devices[i] = info->devices[program.alike()[i]];
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

OnDevice of_device(const KernelObject &kernel, const DeviceObject &device) {
    if (device.is_aggregate()) {
        require(kernel.program->context->has(device), CL_INVALID_DEVICE,
                "the device does not belong to the kernel's program");
        return of_all(*kernel.info);
    }
    const std::size_t position = kernel.program->devices.position(device);
    require(position != DeviceList::nowhere, CL_INVALID_DEVICE, "the device does not belong to the kernel's program");
    const OnDevice &on = kernel.info->devices[position];
    const bool is_parents = on.work_group_size == 0 && device.parent && kernel.program->has(*device.parent);
    return is_parents ? of_device(kernel, *device.parent) : on;
}

// ---- Arguments -----------------------------------------------------------------------------------------------------

enum class ArgumentKind { value, memory, sampler, local };

bool starts_with(const std::string &text, std::string_view with) { return text.compare(0, with.size(), with) == 0; }

ArgumentKind kind_of(const KernelInfo &info, cl_uint index, std::size_t size, const void *value) {
    if (!info.arguments.empty()) {
        const ArgumentInfo &argument = info.arguments[index];
        if (argument.address == CL_KERNEL_ARG_ADDRESS_LOCAL) return ArgumentKind::local;
        if (argument.address != CL_KERNEL_ARG_ADDRESS_PRIVATE || argument.access != CL_KERNEL_ARG_ACCESS_NONE)
            return ArgumentKind::memory;
        return argument.type == "sampler_t" ? ArgumentKind::sampler : ArgumentKind::value;
    }
    // Only the value itself can show this.
    if (value == nullptr) return ArgumentKind::local;
    if (size != sizeof(void *)) return ArgumentKind::value;
    void *pointer = nullptr;
    std::memcpy(&pointer, value, sizeof pointer);
    const auto object = argument_objects().find(pointer);
    if (object == argument_objects().end()) return ArgumentKind::value;
    return object->second == Kind::memory ? ArgumentKind::memory : ArgumentKind::sampler;
}

// Bytes of a value of OpenCL C's own types; 0 for others.
std::size_t size_of_type(std::string type) {
    if (starts_with(type, "unsigned ")) type = "u" + type.substr(9);
    constexpr std::array<std::pair<std::string_view, std::size_t>, 11> scalars = {{{"char", 1},
                                                                                   {"uchar", 1},
                                                                                   {"short", 2},
                                                                                   {"ushort", 2},
                                                                                   {"half", 2},
                                                                                   {"int", 4},
                                                                                   {"uint", 4},
                                                                                   {"float", 4},
                                                                                   {"long", 8},
                                                                                   {"ulong", 8},
                                                                                   {"double", 8}}};
    const std::size_t digits = type.find_first_of("0123456789");
    for (const auto &[name, size] : scalars) {
        if (type.substr(0, digits) != name) continue;
        if (digits == std::string::npos) return size;
        const std::string width = type.substr(digits);
        if (width == "3") return 4 * size;
        if (width == "2" || width == "4" || width == "8" || width == "16") return std::stoul(width) * size;
    }
    return 0;
}

void check_image_argument(const ArgumentInfo &argument, const MemObject *memory) {
    const bool wants_image = argument.access != CL_KERNEL_ARG_ACCESS_NONE;
    require(wants_image == (memory != nullptr && memory->is_image()) || (!wants_image && memory == nullptr),
            CL_INVALID_MEM_OBJECT, "the argument is {}, but the memory object is {}",
            wants_image ? "an image" : "not an image", wants_image ? "not an image" : "an image");
    const bool reads = argument.access != CL_KERNEL_ARG_ACCESS_WRITE_ONLY;
    const bool writes = argument.access != CL_KERNEL_ARG_ACCESS_READ_ONLY;
    require(!wants_image || ((!reads || (memory->flags & CL_MEM_WRITE_ONLY) == 0) &&
                             (!writes || (memory->flags & CL_MEM_READ_ONLY) == 0)),
            CL_INVALID_ARG_VALUE, "the image's flags forbid what the kernel does with it");
}

KernelObject::Argument checked_argument(const KernelObject &kernel, cl_uint index, std::size_t size,
                                        const void *value) {
    const KernelInfo &info = *kernel.info;
    KernelObject::Argument argument;
    argument.set = true;
    argument.size = size;
    switch (kind_of(info, index, size, value)) {
        case ArgumentKind::local:
            require(value == nullptr, CL_INVALID_ARG_VALUE,
                    "arg_value is not NULL; expected NULL for an argument in local memory");
            require(size != 0, CL_INVALID_ARG_SIZE, "arg_size is 0; expected the number of bytes of local memory");
            argument.is_local = true;
            return argument;
        case ArgumentKind::memory: {
            require(size == sizeof(cl_mem), CL_INVALID_ARG_SIZE, "arg_size is {}; expected {}, the size of a cl_mem",
                    size, sizeof(cl_mem));
            cl_mem memory = nullptr;
            if (value != nullptr) std::memcpy(&memory, value, sizeof memory);
            argument.is_memory = true;
            if (memory != nullptr) argument.memory = Weak<MemObject>(&memory_of(memory));
            if (!info.arguments.empty()) check_image_argument(info.arguments[index], argument.memory.get());
            return argument;
        }
        case ArgumentKind::sampler: {
            require(size == sizeof(cl_sampler), CL_INVALID_ARG_SIZE,
                    "arg_size is {}; expected {}, the size of a cl_sampler", size, sizeof(cl_sampler));
            require(value != nullptr, CL_INVALID_SAMPLER, "arg_value is NULL; expected the address of a cl_sampler");
            cl_sampler sampler = nullptr;
            std::memcpy(&sampler, value, sizeof sampler);
            argument.sampler = Weak<SamplerObject>(&sampler_of(sampler));
            return argument;
        }
        default: break;
    }
    require(value != nullptr, CL_INVALID_ARG_VALUE, "arg_value is NULL; expected the address of the argument's value");
    const std::size_t known = info.arguments.empty() ? 0 : size_of_type(info.arguments[index].type);
    if (size == 0 || (known != 0 && known != size))
        fail(CL_INVALID_ARG_SIZE, "arg_size is {}, but argument {} has {} bytes", size, index, known);
    argument.value.assign(at(value, 0), at(value, size));
    return argument;
}

// ---- Ranges --------------------------------------------------------------------------------------------------------

bool divides_evenly(cl_uint dimensions, const size_t *global, const size_t *local) {
    for (cl_uint i = 0; i < dimensions; ++i)
        if (global[i] % local[i] != 0) return false;
    return true;
}

constexpr cl_uint most_dimensions = 3;  // CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS of any device

// In the order of the specification.
void check_range(const KernelObject &kernel, const DeviceObject &device, cl_uint dimensions, const size_t *offset,
                 const size_t *global, const size_t *local) {
    if (dimensions < 1 || dimensions > std::min<std::size_t>(most_dimensions, device.work_item_sizes.size()))
        fail(CL_INVALID_WORK_DIMENSION, "work_dim is {}; expected 1 to {}", dimensions,
             std::min<std::size_t>(most_dimensions, device.work_item_sizes.size()), dimensions);
    for (cl_uint i = 0; offset != nullptr && i < dimensions; ++i)
        require(offset[i] <= ~std::size_t{0} - global[i], CL_INVALID_GLOBAL_OFFSET,
                "global_work_offset[{0}] is {1} and global_work_size[{0}] is {2}; their sum exceeds size_t", i,
                offset[i], global[i]);
    const OnDevice on = of_device(kernel, device);
    require(on.work_group_size != 0, CL_INVALID_PROGRAM_EXECUTABLE,
            "the kernel's program was not built for the queue's device");
    const auto &required = on.compile_work_group_size;
    if (local == nullptr) {
        require(required[0] == 0, CL_INVALID_WORK_GROUP_SIZE,
                "local_work_size is NULL, but the kernel requires a work-group size of {} x {} x {}", required[0],
                required[1], required[2]);
        return;
    }
    std::size_t items = 1;
    for (cl_uint i = 0; i < dimensions; ++i) {
        const std::size_t most = device.work_item_sizes[i];
        require(local[i] != 0, CL_INVALID_WORK_GROUP_SIZE, "local_work_size[{}] is 0; expected at least 1", i);
        if (local[i] > most)
            fail(CL_INVALID_WORK_ITEM_SIZE, "local_work_size[{}] is {}, but the device has at most {}", i, local[i],
                 most);
        items *= local[i];
    }
    for (cl_uint i = 0; required[0] != 0 && i < required.size(); ++i) {
        const std::size_t given = i < dimensions ? local[i] : 1;
        if (given != required[i])
            fail(CL_INVALID_WORK_GROUP_SIZE, "local_work_size[{}] is {}, but the kernel requires {}", i, given,
                 required[i]);
    }
    if (items > on.work_group_size &&
        (device.enforces_limits || items > device.info<std::size_t>(CL_DEVICE_MAX_WORK_GROUP_SIZE)))
        fail(CL_INVALID_WORK_GROUP_SIZE,
             "local_work_size requests {} work-items, but the kernel allows at most {} on the device", items,
             on.work_group_size);
    require(
        divides_evenly(dimensions, global, local) || device.non_uniform_groups, CL_INVALID_WORK_GROUP_SIZE,
        "local_work_size does not divide global_work_size, and the device does not support non-uniform work-groups");
}

// ---- Launches on an aggregate device -----------------------------------------------------------------------------------

splitting::Launch launch_of(const QueueObject &queue, const KernelObject &kernel, cl_uint dimensions,
                            const size_t *offset, const size_t *global, const size_t *local) {
    splitting::Launch launch;
    launch.dimensions = dimensions;
    for (cl_uint i = 0; i < dimensions; ++i) {
        launch.offset.at(i) = offset != nullptr ? offset[i] : 0;
        launch.global.at(i) = global[i];
        if (local != nullptr) launch.local.at(i) = local[i];
    }
    if (local != nullptr) return launch;
    const std::size_t most = of_device(kernel, *queue.device).work_group_size;
    return kernel.splitting->with_local(launch, most);
}

/// Enqueues natively what a lane has of a launch.
cl_int launch_natively(QueueObject &lane, KernelObject &kernel, const SplitLaunch &split,
                       const splitting::SubRange &range, bool with_local, const Waits &waits) {
    const splitting::Launch &launch = split.launch;
    const cl_kernel native = kernel.native(*lane.space);
    std::array<std::size_t, most_dimensions> offset{};
    std::array<std::size_t, most_dimensions> size{};
    for (unsigned i = 0; i < launch.dimensions; ++i) {
        offset.at(i) = launch.offset.at(i) + range.begin.at(i);
        size.at(i) = range.end.at(i) - range.begin.at(i);
    }
    if (kernel.info->gets_launch) {
        const WholeLaunch whole = split.whole(range);
        check(clSetKernelArg(native, kernel.info->count, sizeof whole, &whole), "clSetKernelArg");
    }
    return clEnqueueNDRangeKernel(lane.native.get(), native, launch.dimensions, offset.data(), size.data(),
                                  with_local ? launch.local.data() : nullptr, waits.count, waits.events, waits.event);
}

double work_items_of(const splitting::SubRange &range) {
    double items = 1;
    for (unsigned i = 0; i < most_dimensions; ++i) items *= static_cast<double>(range.end.at(i) - range.begin.at(i));
    return items;
}

/// The reads among the accesses.
std::vector<Access> reads_of(std::span<const Access> accesses) {
    std::vector<Access> reads;
    for (const Access &access : accesses)
        if (access.mode != AccessMode::write)
            reads.push_back({access.buffer, access.begin, access.end, AccessMode::read});
    return reads;
}

/// A part of a launch, on a lane of this process.
struct OwnPart {
    QueueObject *lane;
    const SplitLaunch::PartOfLaunch *part;
};

/// Before a launch: runs its parts on copies of what they read, once that is there. Leaves the lock.
void try_parts(Joint &joint, const KernelObject &kernel, const SplitLaunch &split, std::span<const OwnPart> parts,
               const OpenUserEvents &behind, bool with_local) {
    for (const auto &[lane, part] : parts) check_contents(kernel, split, *part, executor().schedule());
    std::vector<std::vector<Access>> reads;
    std::vector<CommandPart> all;
    for (const CommandPart &part : split.all) {
        reads.push_back(reads_of(part.accesses));
        all.push_back({part.memory, reads.back()});
    }
    KnownParts of_this_launch;
    const std::vector<MemoryId> lacking = executor().begin_parts(all, split.buffers, of_this_launch, behind);
    std::vector<Event> ready(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        QueueObject &lane = *parts[i].lane;
        const std::vector<Access> accesses = reads_of(parts[i].part->accesses);
        Enqueued command{lane, CL_COMMAND_MARKER, accesses, {}};
        command.is_part = true;
        command.lacks_input = std::find(lacking.begin(), lacking.end(), lane.device->memory) != lacking.end();
        joint.run(std::move(command), [&](Enqueued &, const Waits &w) {
            const cl_int code = enqueue_marker_behind(lane, {w.count, w.events, ready[i].out()});
            if (code == CL_SUCCESS && w.event != nullptr) *w.event = Event::share(ready[i].get()).give();
            return code;
        });
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (ready[i]) {
            const Unlocked unlocked;
            wait_for(ready[i].get());
        }
        check_part(*parts[i].lane, kernel, split, *parts[i].part, with_local);
    }
}

/// After a launch, when the program has its event. Waits without the lock for processes that have
/// not made the call yet, but for no command.
void adapt_shares(const Exchange &exchange, const Ref<ContextObject> &in_context) {
    const Ref<ContextObject> context = in_context;
    Adaptation &adaptation = *context->adaptation;
    const DeviceList &devices = context->devices;
    const Process self = World::get().self();
    const std::size_t kinds = adaptation.shares.kinds();
    Packer rates_here;
    for (auto &times : adaptation.times)
        for (std::size_t i = 0; i < devices.size(); ++i)
            if (devices[i]->process == self) rates_here.put(times[i].take_rate());
    const Blob mine = rates_here.take();
    const std::vector<Process> processes = processes_of(devices);
    const std::vector<Blob> told = exchange.of(processes, [&](Process) { return mine; });
    std::vector<Unpacker> of_processes(told.begin(), told.end());
    std::vector<double> rates;
    for (std::size_t kind = 0; kind < kinds; ++kind)
        for (const auto &device : devices) {
            const auto at = std::lower_bound(processes.begin(), processes.end(), device->process);
            rates.push_back(of_processes[static_cast<std::size_t>(at - processes.begin())].get<double>());
        }
    if (adaptation.shares.adapt(rates) && self == 0 && config().explain == Switch::on)
        std::fputs(fmt::format("cldist: the work distribution over the devices is now {:.3f}, from measured speeds\n",
                               fmt::join(adaptation.shares.shares(), ", "))
                       .c_str(),
                   stderr);
}

// In the trace that CLDIST_TRACE asks for, kernels are shown beside the messages.
template <typename Launch>
cl_int traced(const KernelObject &kernel, const Waits &waits, Launch &&launch) {
    if (!trace::enabled()) return launch(waits);
    Event unwanted;
    cl_event *const event = waits.event != nullptr ? waits.event : unwanted.out();
    const cl_int code = launch(Waits{waits.count, waits.events, event});
    if (code == CL_SUCCESS) clTraceEvent(*event, kernel.info->name.c_str());
    return code;
}

/// `whole` is the command as it would be on one device, which it is where it can't be split.
void enqueue_parts(Enqueued &&whole, KernelObject &kernel, const splitting::Launch &launch, bool has_local,
                   cl_event *event) {
    QueueObject &queue = whole.queue;
    const CallHash call{};
    const Exchange exchange;
    SplitLaunch &split = kernel.splitting->split(kernel, launch);
    const bool with_local = has_local || kernel.splitting->asks_for_groups();
    if (split.parts.empty()) {
        QueueObject &lane = *queue.lanes.front();
        Enqueued command{lane, whole.type, whole.accesses, whole.wait_list};
        return conclude(run_whole(std::move(command), event != nullptr,
                                  [&](Enqueued &, const Waits &w) {
                                      return traced(kernel, w, [&](const Waits &waits) {
                                          return launch_natively(lane, kernel, split, splitting::whole(launch),
                                                                 with_local, waits);
                                      });
                                  }),
                        event, false, call);
    }
    Joint joint(queue, whole.type, whole.wait_list, event != nullptr);
    Adaptation *const adaptation = queue.context->adaptation.get();
    std::vector<OwnPart> own;
    for (QueueObject *const lane : queue.own_lanes) {
        const auto part = std::lower_bound(split.parts.begin(), split.parts.end(), lane->lane,
                                           [](const auto &each, std::size_t wanted) { return each.lane < wanted; });
        if (part != split.parts.end() && part->lane == lane->lane) own.push_back({lane, &*part});
    }
    const OpenUserEvents behind =
        user_events_before(queue, queue.place_of(whole.type, !whole.wait_list.empty()), whole.wait_list);
    // The trial waits for what the parts read. So there is none while the program has user events to set.
    if (config().check_access == Switch::on && queue.context->open_user_events == 0 &&
        !std::exchange(split.checked, true))
        try_parts(joint, kernel, split, own, behind, with_local);
    // From here on the lock is kept: the schedule must know of all parts before it decides another thread's command.
    KnownParts of_this_launch;
    const std::vector<MemoryId> lacking =
        executor().begin_parts(split.all, split.buffers, behind.any() ? of_this_launch : split.known, behind);
    for (const OwnPart &each : own) {
        QueueObject &lane = *each.lane;
        const SplitLaunch::PartOfLaunch &part = *each.part;
        Enqueued command{lane, whole.type, part.accesses, {}};
        command.is_part = true;
        command.lacks_input = std::find(lacking.begin(), lacking.end(), lane.device->memory) != lacking.end();
        joint.run(std::move(command), [&](Enqueued &, const Waits &w) {
            const auto launch_part = [&](const Waits &own_waits) {
                return traced(kernel, own_waits, [&](const Waits &waits) {
                    return launch_natively(lane, kernel, split, part.range, with_local, waits);
                });
            };
            if (adaptation == nullptr) return launch_part(w);
            return adaptation->times[split.kind][part.lane].measure(work_items_of(part.range), w, launch_part);
        });
    }
    executor().count_others(split.parts.size() - own.size());
    conclude(joint.end(), event, false, call);
    if (adaptation != nullptr &&
        adaptation->shares.count_launch(split.kind, work_items_of(splitting::whole(split.launch))))
        adapt_shares(exchange, queue.context);
}

void enqueue_kernel(Handling handling, cl_command_queue queue_handle, cl_kernel kernel_handle, cl_command_type type,
                    cl_uint dimensions, const size_t *offset, const size_t *global, const size_t *local,
                    const WaitList &list) {
    QueueObject &queue = queue_of(queue_handle);
    KernelObject &kernel = kernel_of(kernel_handle);
    require(kernel.program->context.get() == queue.context.get(), CL_INVALID_CONTEXT,
            "the queue and the kernel belong to different contexts");
    require(kernel.program->has_executable_for(*queue.device), CL_INVALID_PROGRAM_EXECUTABLE,
            "the kernel's program was not built for the queue's device");
    if (handling == Handling::leave_out) {  // then its arguments have been looked at
        check_range(kernel, *queue.device, dimensions, offset, global, local);
        return leave_out(queue, type, list.event);
    }
    // Kept for its memory; the thread's own, since enqueueing may leave the lock.
    auto &accesses = per_thread<std::vector<Access>>();
    accesses.clear();
    bool of_one_context = true;
    for (cl_uint i = 0; i < kernel.arguments.size(); ++i) {
        const KernelObject::Argument &argument = kernel.arguments[i];
        if (!argument.set) fail(CL_INVALID_KERNEL_ARGS, "argument {} is not set; call clSetKernelArg first", i);
        MemObject *const memory = argument.memory.get();
        if ((memory == nullptr && argument.memory.gone()) || argument.sampler.gone())
            fail(CL_INVALID_KERNEL_ARGS, "the memory object or sampler of argument {} has been released", i);
        if (memory == nullptr) continue;
        of_one_context = of_one_context && memory->context.get() == queue.context.get();
        accesses.push_back(kernel.access(i, *memory));
    }
    check_range(kernel, *queue.device, dimensions, offset, global, local);
    const auto waits = wait_list_of(list, *queue.context);
    require(of_one_context, CL_INVALID_CONTEXT,
            "a memory object among the arguments and the queue belong to different contexts");
    if (queue.is_aggregate())
        return enqueue_parts({queue, type, accesses, waits}, kernel,
                             launch_of(queue, kernel, dimensions, offset, global, local), local != nullptr, list.event);
    enqueue({queue, type, accesses, waits}, list.event, [&](Enqueued &, const Waits &w) {
        return traced(kernel, w, [&](const Waits &waits) {
            return clEnqueueNDRangeKernel(queue.native.get(), kernel.native(*queue.space), dimensions, offset, global,
                                          local, waits.count, waits.events, waits.event);
        });
    });
}

}  // namespace

RecordedValue recorded_value(cl_kernel kernel, cl_uint index, std::size_t size, const void *value) {
    using Form = RecordedValue::Form;
    if (value == nullptr) return {Form::null, 0};
    const KernelObject *const object = KernelObject::from(kernel);
    if (object == nullptr || index >= object->arguments.size()) return {Form::wrong_size, 0};
    const KernelInfo &info = *object->info;
    const ArgumentKind kind = kind_of(info, index, size, value);
    if (kind == ArgumentKind::memory || kind == ArgumentKind::sampler) {
        if (size != sizeof(void *)) return {Form::wrong_size, 0};
        void *handle = nullptr;
        std::memcpy(&handle, value, sizeof handle);
        const std::uint64_t number = kind == ArgumentKind::memory ? number_of(static_cast<cl_mem>(handle))
                                                                  : number_of(static_cast<cl_sampler>(handle));
        return {handle != nullptr && number == 0 ? Form::no_object : Form::object, number};
    }
    const std::size_t known = info.arguments.empty() ? 0 : size_of_type(info.arguments[index].type);
    if (kind == ArgumentKind::local || size == 0 || (known != 0 && known != size)) return {Form::wrong_size, 0};
    return {Form::bytes, 0};
}

// The hash of a scalar's value, or of the object's number if it is an object. Other values may have
// meaningless bytes, which differ between processes: the padding of structures, or components of
// vectors that the program hasn't set.
std::uint64_t argument_hash(cl_kernel kernel, cl_uint index, std::size_t size, const void *value) {
    const RecordedValue recorded = recorded_value(kernel, index, size, value);
    if (recorded.form == RecordedValue::Form::object) return recorded.number;
    if (recorded.form != RecordedValue::Form::bytes) return 0;
    const KernelInfo &info = *KernelObject::from(kernel)->info;
    if (info.arguments.empty()) return 0;
    const std::string &type = info.arguments[index].type;
    const bool vector = type.find_first_of("0123456789") != std::string::npos;
    if (vector || size_of_type(type) != size) return 0;
    return hash_of({static_cast<const char *>(value), size});
}

cl_kernel create_kernel(cl_program program, const char *name, cl_int *) {
    ProgramObject &object = program_of(program);
    require(!object.executables.empty(), CL_INVALID_PROGRAM_EXECUTABLE,
            "the program has not been built; call clBuildProgram first");
    require(name != nullptr, CL_INVALID_VALUE, "kernel_name is NULL");
    return make_kernel(Exchange(), object, name)->handle();
}

void create_kernels_in_program(cl_program program, cl_uint num_kernels, cl_kernel *kernels, cl_uint *num_kernels_ret) {
    const Exchange exchange;
    const Ref<ProgramObject> held(&program_of(program));
    require(!held->executables.empty(), CL_INVALID_PROGRAM_EXECUTABLE,
            "the program has not been built; call clBuildProgram first");
    const Blob told = info_of(exchange, *held, CL_PROGRAM_KERNEL_NAMES);
    std::istringstream names(
        std::string(reinterpret_cast<const char *>(told.data()), told.empty() ? 0 : told.size() - 1));
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

void retain_kernel(cl_kernel kernel) { kernel_of(kernel).retain(); }

void release_kernel(cl_kernel kernel) { kernel_of(kernel).release(); }

void set_kernel_arg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    KernelObject &object = kernel_of(kernel);
    if (index >= object.arguments.size())
        fail(CL_INVALID_ARG_INDEX, "arg_index is {}, but {} has {} arguments", index, object.info->name,
             object.arguments.size());
    object.set_argument(index, checked_argument(object, index, size, value));
}

void set_kernel_access_functions(cl_kernel kernel, cl_access_function is_read, cl_access_function is_written) {
    KernelObject &object = kernel_of(kernel);
    require((is_read == nullptr) == (is_written == nullptr), CL_INVALID_VALUE,
            "exactly one of the functions is NULL; set both, or pass NULL for both");
    if (object.splitting == nullptr) return;
    if (is_read == nullptr) {
        object.splitting = object.program->answers.splittings.at(object.info->name);
        return;
    }
    object.splitting = splitting_by_functions(object, splitting::model_from_functions(is_read, is_written));
}

void get_kernel_info(cl_kernel kernel, cl_kernel_info param, size_t size, void *value, size_t *size_ret) {
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

void get_kernel_arg_info(cl_kernel kernel, cl_uint index, cl_kernel_arg_info param, size_t size, void *value,
                         size_t *size_ret) {
    const KernelObject &object = kernel_of(kernel);
    require(index < object.info->count, CL_INVALID_ARG_INDEX, "arg_index is {}, but the kernel has {} arguments", index,
            object.info->count);
    require(object.program->tells_of_arguments && !object.info->arguments.empty(), CL_KERNEL_ARG_INFO_NOT_AVAILABLE,
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

void get_kernel_work_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info param, size_t size,
                                void *value, size_t *size_ret) {
    const KernelObject &object = kernel_of(kernel);
    require(device != nullptr || object.program->shown_devices().size() == 1, CL_INVALID_DEVICE,
            "device is NULL, but the program has several devices; pass one of them");
    const cl_device_id of = device != nullptr ? device : object.program->shown_devices().front();
    const OnDevice on = of_device(object, device_of(of));
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_KERNEL_WORK_GROUP_SIZE: return answer.give(on.work_group_size);
        case CL_KERNEL_COMPILE_WORK_GROUP_SIZE: return answer.give(on.compile_work_group_size);
        case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: return answer.give(on.preferred_multiple);
        case CL_KERNEL_PRIVATE_MEM_SIZE: return answer.give(on.private_size);
        case CL_KERNEL_LOCAL_MEM_SIZE: {
            cl_ulong bytes = on.local_size;
            for (const auto &argument : object.arguments)
                if (argument.is_local) bytes += argument.size;
            return answer.give(bytes);
        }
        default: no_such_param(param);  // CL_KERNEL_GLOBAL_WORK_SIZE is for built-in kernels and custom devices
    }
}

void enqueue_nd_range_kernel(Handling handling, cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                             const size_t *offset, const size_t *global, const size_t *local, cl_uint num_events,
                             const cl_event *wait_list, cl_event *event) {
    // Since OpenCL 2.1 no sizes are sizes of 0: the command does nothing.
    static constexpr std::array<std::size_t, most_dimensions> nothing{};
    enqueue_kernel(handling, queue, kernel, CL_COMMAND_NDRANGE_KERNEL, dimensions, offset,
                   global != nullptr ? global : nothing.data(), local, {num_events, wait_list, event});
}

void enqueue_task(Handling handling, cl_command_queue queue, cl_kernel kernel, cl_uint num_events,
                  const cl_event *wait_list, cl_event *event) {
    const std::size_t one = 1;
    enqueue_kernel(handling, queue, kernel, CL_COMMAND_TASK, 1, nullptr, &one, &one, {num_events, wait_list, event});
}

// CL_DEVICE_EXECUTION_CAPABILITIES has no CL_EXEC_NATIVE_KERNEL.
void enqueue_native_kernel(cl_command_queue queue, void(CL_CALLBACK *)(void *), void *, size_t, cl_uint, const cl_mem *,
                           const void **, cl_uint, const cl_event *, cl_event *) {
    queue_of(queue);
    fail(CL_INVALID_OPERATION, "native kernels are not supported");
}

}  // namespace cldist::cluster
