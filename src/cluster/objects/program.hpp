#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/objects/context.hpp"
#include "cluster/objects/memory.hpp"

namespace cldist::cluster {

enum class ArgumentKind { value, memory, sampler, local };

/// The answers of clGetKernelArgInfo.
struct ArgumentInfo {
    /// Derives `kind`, `size` and `is_scalar` from the answers.
    void classify();

    cl_kernel_arg_address_qualifier address = 0;
    cl_kernel_arg_access_qualifier access = 0;
    cl_kernel_arg_type_qualifier type_qualifier = 0;
    std::string type;
    std::string name;
    ArgumentKind kind = ArgumentKind::value;
    std::size_t size = 0;  ///< of a built-in type of OpenCL C, in bytes; 0 for other types
    bool is_scalar = false;
};

/// The answers of clGetKernelWorkGroupInfo for one device.
struct OnDevice {
    std::size_t work_group_size = 0;
    std::array<std::size_t, 3> compile_work_group_size{};
    std::size_t preferred_multiple = 0;
    cl_ulong local_size = 0;  ///< bytes, without arguments in local memory
    cl_ulong private_size = 0;
};

class Splitting;
struct SourceFacts;

/// Information about a kernel. The same in all processes.
struct KernelInfo {
    std::string name;
    std::string attributes;
    cl_uint count = 0;                    ///< number of arguments in the program's source
    std::vector<ArgumentInfo> arguments;  ///< empty if the native platform does not report them
    std::vector<OnDevice> devices;        ///< in the order of the program's devices
    /// Whether further arguments follow the first `count`, for the sizes of the whole launch.
    bool gets_launch = false;
};

class ProgramObject final : public Object<ProgramObject, cl_program, Kind::program> {
public:
    ProgramObject(ContextObject &context_in, DeviceList devices_in)
        : context(&context_in), devices(std::move(devices_in)) {}

    ~ProgramObject();

    /// The native program of a space; null if it has none there.
    [[nodiscard]] cl_program native(const Space &space) const;
    /// The handles of `devices` for the user's program (ContextObject::shown()).
    [[nodiscard]] std::vector<cl_device_id> shown_devices() const {
        return context->shown(devices);
    }
    /// Whether the program object was created for this device.
    [[nodiscard]] bool has(const DeviceObject &device) const;
    /// A sub-device can also use its parent's executable.
    [[nodiscard]] bool has_executable_for(const DeviceObject &device) const;
    /// Records that builds for these devices have succeeded (`well`) or failed. `how` is a hash of
    /// the input: equal hashes mean equal builds of the same program. After a failure, the build
    /// log of each device counts as different.
    void built_for(const DeviceList &built, bool well, std::uint64_t how);
    /// The same for clCompileProgram, which leaves no executables. If it has succeeded, the program
    /// can be linked.
    void compiled_for(const DeviceList &built, bool well, std::uint64_t how);
    /// For each device, the index of the device that answers queries for it: the first device with
    /// the same type and an equal build.
    [[nodiscard]] const std::vector<std::size_t> &alike() const;
    /// The processes of the devices that answer queries (see alike()).
    [[nodiscard]] std::vector<Process> answerers() const;

    const Ref<ContextObject> context;
    const DeviceList devices;
    /// The source, if the program was created from source or from a binary that contains it.
    std::optional<std::string> source;
    /// For a binary that contains the source: the options with which it was built. They replace the
    /// options that the user's program passes.
    std::optional<std::string> options_of_source;
    std::vector<std::pair<Space *, Program>> natives;
    /// A native kernel that no kernel object uses. The next kernel object of that name uses it. It
    /// is kept until the program is built again or freed, because waiting commands may use it.
    struct IdleKernel {
        const Space *space;
        std::string name;
        Kernel kernel;
    };
    std::vector<IdleKernel> idle_kernels;
    std::map<const DeviceObject *, std::string> build_options;  ///< as passed
    /// The devices for which there is an executable, in the order of the builds.
    DeviceList executables;
    /// For each device, a hash of the inputs of all builds for it.
    std::map<const DeviceObject *, std::uint64_t> made_of;
    bool compiled = false;  ///< the program can be linked
    /// For the single virtual device, after a build from source.
    std::shared_ptr<SourceFacts> facts;
    /// Whether the program was built from a changed source, in which the work-item functions of a
    /// sub-range return the values of the whole launch (decision 32).
    bool is_adapted = false;
    /// Whether the user's program asked for -cl-kernel-arg-info, so that clGetKernelArgInfo works.
    bool tells_of_arguments = false;
    unsigned kernels = 0;  ///< number of kernel objects

    /// Data that the processes have exchanged since the last build.
    struct Answers {
        std::map<std::string, std::shared_ptr<const KernelInfo>> kernels;
        /// For each kernel of the single virtual device.
        std::map<std::string, std::shared_ptr<Splitting>> splittings;
        std::map<cl_program_info, Blob> infos;
        /// By index of the device and parameter.
        std::map<std::pair<std::size_t, cl_program_build_info>, Blob> build_infos;
        std::vector<std::size_t> binary_sizes;  ///< by device; empty if not yet exchanged
        std::vector<std::size_t> alike;         ///< result of alike(); empty if not yet computed
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
        /// Empty for a memory object, a sampler or local memory.
        std::vector<std::byte> value{};
        std::size_t size = 0;
        // Weak, because the kernel must not keep its arguments alive (OpenCL 3.0, clSetKernelArg).
        /// If `is_memory`, null means that the kernel gets a null pointer.
        Weak<MemObject> memory{};
        Weak<SamplerObject> sampler{};
        bool is_memory = false;
        bool is_local = false;
        std::uint64_t version = 0;

        /// Sets this argument of a native kernel. Throws an Error.
        void set_in(cl_kernel native, cl_uint index, Space &space) const;
    };

    /// The native kernel with all arguments set. Throws an Error if the driver refuses one of them.
    cl_kernel native(Space &space);
    [[nodiscard]] bool reads_only(cl_uint index, const MemObject &memory) const;
    /// The kernel's access to the memory object in an argument.
    [[nodiscard]] Access access(cl_uint index, MemObject &memory) const;
    /// Where the memory of its arguments is bound. Home::none if an argument is not set or no
    /// longer exists, or if it is a sampler. Any thread, not under the lock.
    [[nodiscard]] Homes homes() {
        const std::uint64_t version = version_of_homes.load(std::memory_order_acquire);
        const std::uint64_t known = homes_.load(std::memory_order_relaxed);
        return known >> version_shift == version
                   ? Homes{static_cast<Home>(known & 3U),
                           static_cast<MemoryId>(known >> 2U & most_devices)}
                   : find_homes();
    }
    void set_argument(cl_uint index, Argument argument);
    void set_value(cl_uint index, std::span<const std::byte> value);
    void set_memory(cl_uint index, MemObject *memory);

    const Ref<ProgramObject> program;
    const std::shared_ptr<const KernelInfo> info;
    std::vector<Argument> arguments;
    /// How launches are split. Null unless the device is the single virtual device.
    std::shared_ptr<Splitting> splitting;

private:
    struct Native {
        Space *space;
        Kernel kernel;
        std::vector<std::uint64_t> versions;  ///< of the arguments that are set in `kernel`
    };

    [[nodiscard]] Homes find_homes();
    Native &native_entry(Space &space);

    std::vector<Native> natives_;
    // The result of homes(): version_of_homes, 24 bits of Homes::only, and two bits of Homes::home.
    static constexpr unsigned version_shift = 26;
    static constexpr MemoryId most_devices = (MemoryId{1} << (version_shift - 2)) - 1;
    std::atomic<std::uint64_t> homes_ = 0;
};

}  // namespace cldist::cluster
