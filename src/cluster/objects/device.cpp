#include "cluster/objects/device.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <sstream>
#include <utility>

#include <CL/cl_ext.h>

#include "ocl/quirks.hpp"

namespace cldist::cluster {
namespace {

// The device infos of OpenCL 3.0 that are copied from native devices: all except handles and except
// features that the platform lacks (see device_infos()).
constexpr std::array device_params = {
    CL_DEVICE_TYPE,
    CL_DEVICE_VENDOR_ID,
    CL_DEVICE_MAX_COMPUTE_UNITS,
    CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS,
    CL_DEVICE_MAX_WORK_ITEM_SIZES,
    CL_DEVICE_MAX_WORK_GROUP_SIZE,
    CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR,
    CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT,
    CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT,
    CL_DEVICE_PREFERRED_VECTOR_WIDTH_LONG,
    CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT,
    CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE,
    CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_INT,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF,
    CL_DEVICE_MAX_CLOCK_FREQUENCY,
    CL_DEVICE_ADDRESS_BITS,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE,
    CL_DEVICE_IMAGE_SUPPORT,
    CL_DEVICE_MAX_READ_IMAGE_ARGS,
    CL_DEVICE_MAX_WRITE_IMAGE_ARGS,
    CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS,
    CL_DEVICE_IMAGE2D_MAX_WIDTH,
    CL_DEVICE_IMAGE2D_MAX_HEIGHT,
    CL_DEVICE_IMAGE3D_MAX_WIDTH,
    CL_DEVICE_IMAGE3D_MAX_HEIGHT,
    CL_DEVICE_IMAGE3D_MAX_DEPTH,
    CL_DEVICE_IMAGE_MAX_BUFFER_SIZE,
    CL_DEVICE_IMAGE_MAX_ARRAY_SIZE,
    CL_DEVICE_MAX_SAMPLERS,
    CL_DEVICE_IMAGE_PITCH_ALIGNMENT,
    CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT,
    CL_DEVICE_MAX_PARAMETER_SIZE,
    CL_DEVICE_MEM_BASE_ADDR_ALIGN,
    CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE,
    CL_DEVICE_SINGLE_FP_CONFIG,
    CL_DEVICE_DOUBLE_FP_CONFIG,
    CL_DEVICE_HALF_FP_CONFIG,
    CL_DEVICE_GLOBAL_MEM_CACHE_TYPE,
    CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE,
    CL_DEVICE_GLOBAL_MEM_CACHE_SIZE,
    CL_DEVICE_GLOBAL_MEM_SIZE,
    CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE,
    CL_DEVICE_MAX_CONSTANT_ARGS,
    CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE,
    CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE,
    CL_DEVICE_LOCAL_MEM_TYPE,
    CL_DEVICE_LOCAL_MEM_SIZE,
    CL_DEVICE_ERROR_CORRECTION_SUPPORT,
    CL_DEVICE_HOST_UNIFIED_MEMORY,
    CL_DEVICE_PROFILING_TIMER_RESOLUTION,
    CL_DEVICE_ENDIAN_LITTLE,
    CL_DEVICE_AVAILABLE,
    CL_DEVICE_COMPILER_AVAILABLE,
    CL_DEVICE_LINKER_AVAILABLE,
    CL_DEVICE_EXECUTION_CAPABILITIES,
    CL_DEVICE_QUEUE_ON_HOST_PROPERTIES,
    CL_DEVICE_NAME,
    CL_DEVICE_VENDOR,
    CL_DRIVER_VERSION,
    CL_DEVICE_PROFILE,
    CL_DEVICE_VERSION,
    CL_DEVICE_NUMERIC_VERSION,
    CL_DEVICE_OPENCL_C_VERSION,
    CL_DEVICE_OPENCL_C_ALL_VERSIONS,
    CL_DEVICE_OPENCL_C_FEATURES,
    CL_DEVICE_EXTENSIONS,
    CL_DEVICE_PRINTF_BUFFER_SIZE,
    CL_DEVICE_PREFERRED_INTEROP_USER_SYNC,
    CL_DEVICE_PARTITION_MAX_SUB_DEVICES,
    CL_DEVICE_PARTITION_PROPERTIES,
    CL_DEVICE_PARTITION_AFFINITY_DOMAIN,
    CL_DEVICE_PARTITION_TYPE,
    CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES,
    CL_DEVICE_ATOMIC_FENCE_CAPABILITIES,
    CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT,
    CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT,
    CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT,
    CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
    CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED,
    CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT,
    CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT,
    CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT,
    // cl_nv_device_attribute_query
    CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV,
    CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV,
    CL_DEVICE_REGISTERS_PER_BLOCK_NV,
    CL_DEVICE_WARP_SIZE_NV,
    CL_DEVICE_GPU_OVERLAP_NV,
    CL_DEVICE_KERNEL_EXEC_TIMEOUT_NV,
    CL_DEVICE_INTEGRATED_MEMORY_NV,
};

// The extensions that the platform passes on: those of the kernel language, which need no host
// calls, and those of images, whose host calls the platform provides.
constexpr std::array<std::string_view, 16> kept_names = {"cl_khr_byte_addressable_store",
                                                         "cl_khr_global_int32_base_atomics",
                                                         "cl_khr_global_int32_extended_atomics",
                                                         "cl_khr_local_int32_base_atomics",
                                                         "cl_khr_local_int32_extended_atomics",
                                                         "cl_khr_int64_base_atomics",
                                                         "cl_khr_int64_extended_atomics",
                                                         "cl_khr_fp16",
                                                         "cl_khr_fp64",
                                                         "cl_khr_3d_image_writes",
                                                         "cl_khr_depth_images",
                                                         "cl_khr_image2d_from_buffer",
                                                         "cl_nv_pragma_unroll",
                                                         "cl_nv_compiler_options",
                                                         "cl_nv_device_attribute_query",
                                                         "cl_khr_select_fprounding_mode"};

std::string kept_extensions(const Blob &all) {
    std::istringstream stream(std::string(reinterpret_cast<const char *>(all.data())));
    std::string kept;
    for (std::string name; stream >> name;) {
        if (std::ranges::find(kept_names, name) == kept_names.end()) continue;
        kept += (kept.empty() ? "" : " ") + name;
    }
    return kept;
}

template <typename T>
Blob blob_of(const T &value) {
    return Packer().put(value).take();
}
Blob blob_of(const std::string &text) {
    const auto bytes = std::as_bytes(std::span(text.c_str(), text.size() + 1));
    return {bytes.begin(), bytes.end()};
}

void set_extensions(DeviceInfos &infos, const std::string &names) {
    infos[CL_DEVICE_EXTENSIONS] = blob_of(names);
    Packer with_version;
    std::istringstream stream(names);
    for (std::string name; stream >> name;) {
        cl_name_version entry{CL_MAKE_VERSION(1, 0, 0), ""};
        name.copy(entry.name, sizeof entry.name - 1);
        with_version.put(entry);
    }
    infos[CL_DEVICE_EXTENSIONS_WITH_VERSION] = with_version.take();
}

// Returns the entry that all devices with equal infos share. It is never freed.
const std::pair<const DeviceInfos, std::uint32_t> &type_of(DeviceInfos infos) {
    static auto &types = *new std::map<DeviceInfos, std::uint32_t>;
    const auto next = static_cast<std::uint32_t>(types.size());
    return *types.emplace(std::move(infos), next).first;
}

std::vector<std::size_t> list_of_sizes(const DeviceInfos &infos, cl_device_info param) {
    const auto at = infos.find(param);
    if (at == infos.end()) return {};
    std::vector<std::size_t> list(at->second.size() / sizeof(std::size_t));
    std::memcpy(list.data(), at->second.data(), list.size() * sizeof(std::size_t));
    return list;
}

/// Allocates DeviceObject::serial.
class Serials {
public:
    std::uint32_t take() {
        const std::lock_guard lock(mutex_);
        if (free_.empty()) return next_++;
        const std::uint32_t serial = free_.back();
        free_.pop_back();
        return serial;
    }
    void give_back(std::uint32_t serial) {
        const std::lock_guard lock(mutex_);
        free_.push_back(serial);
    }

private:
    std::mutex mutex_;
    std::uint32_t next_ = 0;
    std::vector<std::uint32_t> free_;
};

Serials &serials() {
    static auto &all = *new Serials;  // devices may outlive the program's main
    return all;
}

std::string text_of_info(const DeviceInfos &infos, cl_device_info param) {
    const auto at = infos.find(param);
    if (at == infos.end() || at->second.empty()) return {};
    return {reinterpret_cast<const char *>(at->second.data()), at->second.size() - 1};
}

template <typename T, typename Join>
void join_info(DeviceInfos &all, const DeviceInfos &one, cl_device_info param, Join &&join) {
    const auto at = all.find(param);
    const auto other = one.find(param);
    if (at == all.end() || other == one.end() || at->second.size() != other->second.size()) return;
    for (std::size_t i = 0; i + sizeof(T) <= at->second.size(); i += sizeof(T)) {
        T a{};
        T b{};
        std::memcpy(&a, at->second.data() + i, sizeof a);
        std::memcpy(&b, other->second.data() + i, sizeof b);
        a = static_cast<T>(join(a, b));
        std::memcpy(at->second.data() + i, &a, sizeof a);
    }
}

// The infos of a single virtual device: those of the first member, with limits and features reduced
// to what all members have. Compute units are added up. Memory sizes are not, because each member
// may have a copy of a whole buffer.
DeviceInfos infos_of_all(const std::vector<Ref<DeviceObject>> &members) {
    DeviceInfos all = members.front()->infos;
    const auto least = [](auto a, auto b) { return std::min(a, b); };
    const auto most = [](auto a, auto b) { return std::max(a, b); };
    const auto sum = [](auto a, auto b) { return a + b; };
    const auto common = [](auto a, auto b) { return a & b; };
    bool alike = true;
    for (std::size_t i = 1; i < members.size(); ++i) {
        const DeviceInfos &one = members[i]->infos;
        join_info<cl_uint>(all, one, CL_DEVICE_MAX_COMPUTE_UNITS, sum);
        if (members[i]->type == members.front()->type) continue;
        alike = false;
        for (const cl_device_info param :
             {CL_DEVICE_MAX_WORK_ITEM_SIZES, CL_DEVICE_MAX_WORK_GROUP_SIZE,
              CL_DEVICE_IMAGE2D_MAX_WIDTH, CL_DEVICE_IMAGE2D_MAX_HEIGHT,
              CL_DEVICE_IMAGE3D_MAX_WIDTH, CL_DEVICE_IMAGE3D_MAX_HEIGHT,
              CL_DEVICE_IMAGE3D_MAX_DEPTH, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE,
              CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, CL_DEVICE_MAX_PARAMETER_SIZE,
              CL_DEVICE_PRINTF_BUFFER_SIZE})
            join_info<std::size_t>(all, one, param, least);
        for (const cl_device_info param :
             {CL_DEVICE_MAX_MEM_ALLOC_SIZE, CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_LOCAL_MEM_SIZE,
              CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE})
            join_info<cl_ulong>(all, one, param, least);
        for (const cl_device_info param :
             {CL_DEVICE_MAX_CONSTANT_ARGS, CL_DEVICE_MAX_READ_IMAGE_ARGS,
              CL_DEVICE_MAX_WRITE_IMAGE_ARGS, CL_DEVICE_MAX_SAMPLERS, CL_DEVICE_IMAGE_SUPPORT,
              CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT})
            join_info<cl_uint>(all, one, param, least);
        join_info<cl_uint>(all, one, CL_DEVICE_MEM_BASE_ADDR_ALIGN, most);
        for (const cl_device_info param :
             {CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, CL_DEVICE_SINGLE_FP_CONFIG,
              CL_DEVICE_DOUBLE_FP_CONFIG, CL_DEVICE_HALF_FP_CONFIG})
            join_info<cl_bitfield>(all, one, param, common);
        std::istringstream names(text_of_info(all, CL_DEVICE_EXTENSIONS));
        const std::string theirs = " " + text_of_info(one, CL_DEVICE_EXTENSIONS) + " ";
        std::string kept;
        for (std::string name; names >> name;)
            if (theirs.find(" " + name + " ") != std::string::npos)
                kept += (kept.empty() ? "" : " ") + name;
        set_extensions(all, kept);
    }
    all[CL_DEVICE_NAME] =
        blob_of(std::to_string(members.size()) + (alike ? " x " : " devices, the first: ") +
                text_of_info(members.front()->infos, CL_DEVICE_NAME));
    all[CL_DEVICE_PARTITION_MAX_SUB_DEVICES] = blob_of(cl_uint{1});
    all[CL_DEVICE_PARTITION_PROPERTIES] = blob_of(cl_device_partition_property{0});
    all[CL_DEVICE_PARTITION_AFFINITY_DOMAIN] = blob_of(cl_device_affinity_domain{0});
    return all;
}

}  // namespace

DeviceObject::DeviceObject(Process process_in, MemoryId memory_in, DevicePart as,
                           Ref<DeviceObject> parent_in, std::optional<MemoryId> like)
    : process(process_in),
      memory(memory_in),
      native(like.value_or(memory_in) == memory_in ? as.native : nullptr),
      answering(as.native),
      answering_memory(like.value_or(memory_in)),
      infos(type_of(std::move(as.infos)).first),
      parts(std::move(as.parts)),
      type(type_of(infos).second),
      parent(std::move(parent_in)),
      serial(serials().take()),
      work_item_sizes(list_of_sizes(infos, CL_DEVICE_MAX_WORK_ITEM_SIZES)),
      non_uniform_groups(info<cl_bool>(CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT) == CL_TRUE),
      enforces_limits(!exceeds_its_limits(info<cl_uint>(CL_DEVICE_VENDOR_ID))),
      sub_buffer_alignment(
          enforces_limits ? std::max(info<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 1U) : 1) {}

DeviceObject::DeviceObject(std::vector<Ref<DeviceObject>> members_in)
    : members(std::move(members_in)),
      process(0),
      memory(0),
      native(nullptr),
      answering(nullptr),
      answering_memory(0),
      infos(type_of(infos_of_all(members)).first),
      parts(std::make_shared<DeviceParts>()),
      type(type_of(infos).second),
      serial(serials().take()),
      work_item_sizes(list_of_sizes(infos, CL_DEVICE_MAX_WORK_ITEM_SIZES)),
      non_uniform_groups(info<cl_bool>(CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT) == CL_TRUE),
      enforces_limits(std::ranges::all_of(members, &DeviceObject::enforces_limits)),
      sub_buffer_alignment(
          (*std::ranges::max_element(members, {}, &DeviceObject::sub_buffer_alignment))
              ->sub_buffer_alignment) {}

std::string DeviceObject::text(cl_device_info param) const { return text_of_info(infos, param); }

DeviceObject::~DeviceObject() { serials().give_back(serial); }

void DeviceList::add(DeviceObject &device) {
    if (device.serial >= positions_.size()) positions_.resize(device.serial + 1, nowhere);
    if (positions_[device.serial] == nowhere)
        positions_[device.serial] = static_cast<std::uint32_t>(devices_.size());
    devices_.emplace_back(&device);
}

std::vector<Process> processes_of(const DeviceList &devices) {
    std::vector<Process> all;
    for (const auto &device : devices) all.push_back(device->process);
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

DeviceInfos device_infos(cl_device_id native, bool alone) {
    DeviceInfos infos;
    for (const auto param : device_params) {
        std::size_t size = 0;
        if (clGetDeviceInfo(native, param, 0, nullptr, &size) != CL_SUCCESS) continue;
        Blob value(size);
        if (size > 0 && clGetDeviceInfo(native, param, size, value.data(), nullptr) != CL_SUCCESS)
            continue;
        infos[param] = std::move(value);
    }
    if (const auto all = infos.find(CL_DEVICE_EXTENSIONS);
        all != infos.end() && !all->second.empty()) {
        const std::string kept = kept_extensions(all->second);
        set_extensions(infos, kept);
    }
    // Optional features of OpenCL 3.0 that the platform lacks.
    infos[CL_DEVICE_SVM_CAPABILITIES] = blob_of(cl_device_svm_capabilities{0});
    infos[CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES] =
        blob_of(cl_device_device_enqueue_capabilities{0});
    infos[CL_DEVICE_PIPE_SUPPORT] = blob_of(cl_bool{CL_FALSE});
    infos[CL_DEVICE_IL_VERSION] = blob_of(std::string());
    infos[CL_DEVICE_ILS_WITH_VERSION] = {};
    infos[CL_DEVICE_BUILT_IN_KERNELS] = blob_of(std::string());
    infos[CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION] = {};
    infos[CL_DEVICE_MAX_NUM_SUB_GROUPS] = blob_of(cl_uint{0});
    infos[CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS] = blob_of(cl_bool{CL_FALSE});
    infos[CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES] = blob_of(cl_command_queue_properties{0});
    for (const cl_device_info none :
         {CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE,
          CL_DEVICE_MAX_ON_DEVICE_QUEUES, CL_DEVICE_MAX_ON_DEVICE_EVENTS, CL_DEVICE_MAX_PIPE_ARGS,
          CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS, CL_DEVICE_PIPE_MAX_PACKET_SIZE})
        infos[none] = blob_of(cl_uint{0});
    const cl_device_exec_capabilities kernels_only = CL_EXEC_KERNEL;
    infos[CL_DEVICE_EXECUTION_CAPABILITIES] = blob_of(kernels_only);
    if (!alone) infos[CL_DEVICE_HOST_UNIFIED_MEMORY] = blob_of(cl_bool{CL_FALSE});
    return infos;
}

void pack(Packer &packer, const DeviceInfos &infos) {
    packer.put(infos.size());
    for (const auto &[param, value] : infos) packer.put(param).put_bytes(value);
}

DeviceInfos unpack_device_infos(Unpacker &unpacker) {
    DeviceInfos infos;
    for (auto left = unpacker.get<std::size_t>(); left > 0; --left) {
        const auto param = unpacker.get<cl_device_info>();
        infos[param] = unpacker.get_bytes();
    }
    return infos;
}

}  // namespace cldist::cluster
