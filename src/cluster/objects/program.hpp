#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/objects/context.hpp"
#include "cluster/objects/memory.hpp"

namespace cldist::cluster {

/// What is known of a kernel's argument.
struct ArgumentInfo {
    cl_kernel_arg_address_qualifier address = 0;
    cl_kernel_arg_access_qualifier access = 0;
    cl_kernel_arg_type_qualifier type_qualifier = 0;
    std::string type;
    std::string name;
};

/// What is known of a kernel on a device.
struct OnDevice {
    std::size_t work_group_size = 0;
    std::array<std::size_t, 3> compile_work_group_size{};
    std::size_t preferred_multiple = 0;
    cl_ulong local_size = 0;  ///< without that of arguments
    cl_ulong private_size = 0;
};

class Splitting;
struct SourceFacts;

/// The same in all processes.
struct KernelInfo {
    std::string name;
    std::string attributes;
    cl_uint count = 0;                    ///< of arguments
    std::vector<ArgumentInfo> arguments;  ///< empty if the platform doesn't tell
    std::vector<OnDevice> devices;        ///< in the order of the program's devices
    /// Behind the program's arguments, which `count` says, it gets the whole launch's sizes.
    bool gets_launch = false;
};

class ProgramObject final : public Object<ProgramObject, cl_program, Kind::program> {
public:
    ProgramObject(ContextObject &context_in, DeviceList devices_in)
        : context(&context_in), devices(std::move(devices_in)) {}

    ~ProgramObject();

    /// The native program of a space; null if it has none there.
    [[nodiscard]] cl_program native(const Space &space) const;
    /// The devices that the program knows that it is for.
    [[nodiscard]] std::vector<cl_device_id> shown_devices() const {
        return context->shown(devices);
    }
    /// Whether it is for this device.
    [[nodiscard]] bool has(const DeviceObject &device) const;
    /// A sub-device has its parent's, too.
    [[nodiscard]] bool has_executable_for(const DeviceObject &device) const;
    /// Builds for these devices have ended, `well` or not. `how` identifies the input: equal
    /// numbers mean equal builds of the same program. After a failure every device has a separate
    /// log.
    void built_for(const DeviceList &built, bool well, std::uint64_t how);
    /// The same where they have been compiled for: there is something to link.
    void compiled_for(const DeviceList &built, bool well, std::uint64_t how);
    /// For each device, the place of the first device that answers alike: it has the same type and
    /// an equal build.
    [[nodiscard]] const std::vector<std::size_t> &alike() const;
    /// The processes of devices that answer for other devices.
    [[nodiscard]] std::vector<Process> answerers() const;

    const Ref<ContextObject> context;
    const DeviceList devices;
    /// Of what clCreateProgramWithSource made, or a binary that has it.
    std::optional<std::string> source;
    /// For a binary with the source: the options of its build, whatever options the program passes.
    std::optional<std::string> options_of_source;
    std::vector<std::pair<Space *, Program>> natives;
    /// Native kernels that no kernel object uses, for the next one of that name. NVIDIA's driver
    /// (580) reads a kernel after its release if a command with it still waits for a user event, so
    /// they are kept until the program is built again or ends.
    struct IdleKernel {
        const Space *space;
        std::string name;
        Kernel kernel;
    };
    std::vector<IdleKernel> idle_kernels;
    std::map<const DeviceObject *, std::string> build_options;  ///< as they were given
    /// The devices that have one, in the order built.
    DeviceList executables;
    /// What stands for how it was made for a device.
    std::map<const DeviceObject *, std::uint64_t> made_of;
    bool compiled = false;  ///< there is something to link
    /// Of an aggregate device, once it has been built from source.
    std::shared_ptr<SourceFacts> facts;
    /// Built from a source in which parts of launches see the whole (decision 32)
    bool is_adapted = false;
    /// With clGetKernelArgInfo: it was built to.
    bool tells_of_arguments = false;
    unsigned kernels = 0;  ///< attached to it

    /// Data that the processes have exchanged since the last build.
    struct Answers {
        std::map<std::string, std::shared_ptr<const KernelInfo>> kernels;
        /// Of these, on an aggregate device.
        std::map<std::string, std::shared_ptr<Splitting>> splittings;
        std::map<cl_program_info, Blob> infos;
        /// By place and parameter.
        std::map<std::pair<std::size_t, cl_program_build_info>, Blob> build_infos;
        /// By device; empty if not told yet.
        std::vector<std::size_t> binary_sizes;
        std::vector<std::size_t> alike;  ///< empty if not yet found
    };
    mutable Answers answers;

private:
    void made_for(const DeviceList &built, bool well, std::uint64_t how);
};

class KernelObject final : public Object<KernelObject, cl_kernel, Kind::kernel> {
public:
    KernelObject(ProgramObject &program_in, std::shared_ptr<const KernelInfo> info_in);
    ~KernelObject();

    struct Argument {
        bool set = false;
        /// If it is neither a memory object, a sampler nor local memory.
        std::vector<std::byte> value;
        std::size_t size = 0;
        // Not held, because a program could not make the kernel release it (OpenCL 3.0,
        // clSetKernelArg).
        /// May be null for a memory object: then the kernel gets a null pointer.
        Weak<MemObject> memory;
        Weak<SamplerObject> sampler;
        bool is_memory = false;
        bool is_local = false;
        std::uint64_t version = 0;
    };

    /// The native kernel with all arguments set. Throws an Error if the native platform refuses
    /// one.
    cl_kernel native(Space &space);
    [[nodiscard]] bool reads_only(cl_uint index, const MemObject &memory) const;
    /// The kernel's access to the memory object in an argument.
    [[nodiscard]] Access access(cl_uint index, MemObject &memory) const;
    /// The homes of its arguments' memory. None unless all arguments are set and exist. Any thread.
    [[nodiscard]] Homes homes() {
        const std::uint64_t version = version_of_homes.load(std::memory_order_acquire);
        const std::uint64_t known = homes_.load(std::memory_order_relaxed);
        return known >> version_shift == version
                   ? Homes{static_cast<Home>(known & 3U),
                           static_cast<MemoryId>(known >> 2U & most_devices)}
                   : find_homes();
    }
    void set_argument(cl_uint index, Argument argument);

    const Ref<ProgramObject> program;
    const std::shared_ptr<const KernelInfo> info;
    std::vector<Argument> arguments;
    /// How it is split; null unless its device is an aggregate.
    std::shared_ptr<Splitting> splitting;

private:
    struct Native {
        Space *space;
        Kernel kernel;
        std::vector<std::uint64_t> versions;  ///< of the arguments that it has
    };

    [[nodiscard]] Homes find_homes();
    Native &native_entry(Space &space);
    void set_native(Native &native, cl_uint index);

    std::vector<Native> natives_;
    // The version, and behind it 24 and two bits: what homes() was then.
    static constexpr unsigned version_shift = 26;
    static constexpr MemoryId most_devices = (MemoryId{1} << (version_shift - 2)) - 1;
    std::atomic<std::uint64_t> homes_ = 0;
};

/// The native sampler of a space. Throws an Error.
cl_sampler native_sampler(SamplerObject &sampler, Space &space);

}  // namespace cldist::cluster
