/// Support for tests of the cluster platform. The tests are plain OpenCL and run on any platform.
/// On the cluster platform, every process runs all of them and must make the same calls.
#pragma once

#include <string>

#include "opencl_handles.hpp"

namespace cluster_test {

using namespace cldist_test;

/// Checks that a call returns this error code.
#define CL_FAILS(code, expression) CHECK((expression) == (code))
/// Checks that a call returns null and stores this code in `error`, which the macro declares.
#define CL_FAILS_TO_MAKE(code, expression)    \
    do {                                      \
        cl_int error = CL_SUCCESS;            \
        CHECK_FALSE((expression) != nullptr); \
        CHECK(error == (code));               \
    } while (false)

/// `tested_platform()` and its devices.
cl_platform_id platform();
const std::vector<cl_device_id> &devices();
/// Whether `platform()` is the cluster platform. Only for behaviour that OpenCL does not define,
/// and for deviations of other platforms from the specification.
bool is_cluster();
/// Whether the devices belong to several processes.
bool has_several_processes();

/// A context of all devices, with an in-order queue for each. Creating a context takes seconds with
/// NVIDIA's driver, so on other devices than CPUs all cases share one unless they need their own.
class setup {
public:
    enum class of { any_context, its_own };
    explicit setup(cl_command_queue_properties properties = CL_QUEUE_PROFILING_ENABLE,
                   of wanted = of::any_context);
    explicit setup(of wanted) : setup(CL_QUEUE_PROFILING_ENABLE, wanted) {}

    queue_handle queue(std::size_t device, cl_command_queue_properties properties) const;
    queue_handle out_of_order(std::size_t device) const {
        return queue(device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE);
    }
    buffer_handle buffer(std::size_t size, cl_mem_flags flags = CL_MEM_READ_WRITE,
                         void *host_ptr = nullptr) const;
    buffer_handle sub_buffer(cl_mem parent, std::size_t origin, std::size_t size,
                             cl_mem_flags flags = 0) const;
    event_handle user_event() const;
    /// Builds the program for all devices.
    program_handle program(const std::string &source, const char *options = "") const;
    kernel_handle kernel(cl_program program, const char *name) const;
    /// A kernel of the test program, with one work-item per byte: `add(global uchar *data, uchar
    /// value)`, `copy(global uchar *to, const global uchar *from)`.
    kernel_handle kernel(const char *name);

    [[nodiscard]] std::size_t count() const { return queues.size(); }

    context_handle context;
    std::vector<queue_handle> queues;

private:
    program_handle program_;
};

/// Blocking calls.
void write(cl_command_queue queue, cl_mem buffer, std::size_t offset, const bytes &data);
bytes read(cl_command_queue queue, cl_mem buffer, std::size_t offset, std::size_t size);
/// Checks that all devices read these bytes.
void expect(const setup &cl, cl_mem buffer, const bytes &wanted, std::size_t offset = 0);
/// Checks for equality, and prints the first byte that differs.
void check_equal(const bytes &found, const bytes &wanted);

cl_int status_of(cl_event event);
/// Waits for the event, and checks that its status is CL_COMPLETE.
void complete(cl_event event);

/// The result of clGet…Info(what..., param). Checks the code and the size.
template <typename T, typename Get, typename... What>
T info(Get get, cl_uint param, What... what) {
    T value{};
    std::size_t size = 0;
    CHECK(get(what..., param, sizeof value, &value, &size) == CL_SUCCESS);
    CHECK(size == sizeof value);
    return value;
}
template <typename T, typename Get, typename... What>
std::vector<T> info_list(Get get, cl_uint param, What... what) {
    std::size_t size = 0;
    CHECK(get(what..., param, 0, nullptr, &size) == CL_SUCCESS);
    std::vector<T> values(size / sizeof(T));
    CHECK(get(what..., param, size, values.data(), nullptr) == CL_SUCCESS);
    return values;
}
template <typename Get, typename... What>
std::string info_text(Get get, cl_uint param, What... what) {
    const auto characters = info_list<char>(get, param, what...);
    REQUIRE_FALSE(characters.empty());
    CHECK(characters.back() == '\0');
    return characters.data();
}
/// Checks how a clGet…Info treats its last three arguments, for a query that has a result.
template <typename Get, typename... What>
void check_info_arguments(Get get, cl_uint param, What... what) {
    std::size_t size = 0;
    CHECK(get(what..., param, 0, nullptr, nullptr) == CL_SUCCESS);
    CHECK(get(what..., param, 0, nullptr, &size) == CL_SUCCESS);
    REQUIRE(size > 0);
    bytes value(size);
    CHECK(get(what..., param, size - 1, value.data(), nullptr) == CL_INVALID_VALUE);
    CHECK(get(what..., param, size, value.data(), nullptr) == CL_SUCCESS);
    CHECK(get(what..., 0xffff, size, value.data(), nullptr) == CL_INVALID_VALUE);
}

}  // namespace cluster_test
