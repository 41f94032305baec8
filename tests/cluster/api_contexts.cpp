// Contexts and samplers.
#include <array>

#include "fixture.hpp"

using namespace cluster_test;

namespace {

cl_context make_context(const cl_context_properties *properties, cl_uint count,
                        const cl_device_id *list, cl_int *error) {
    return clCreateContext(properties, count, list, nullptr, nullptr, error);
}

std::vector<std::pair<cl_context, int>> &destroyed() {
    static std::vector<std::pair<cl_context, int>> list;
    return list;
}
template <int number>
void CL_CALLBACK note_destroyed(cl_context context, void *) {
    destroyed().emplace_back(context, number);
}

}  // namespace

TEST_CASE("a context reports its devices, properties and references") {
    const std::array<cl_context_properties, 3> properties = {
        CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform()), 0};
    for (std::size_t count = 1; count <= devices().size(); ++count) {
        cl_int error = CL_INVALID_VALUE;
        const context_handle context(
            make_context(properties.data(), static_cast<cl_uint>(count), devices().data(), &error));
        CL_OK(error);
        CHECK(info<cl_uint>(clGetContextInfo, CL_CONTEXT_NUM_DEVICES, context.get()) == count);
        CHECK(info_list<cl_device_id>(clGetContextInfo, CL_CONTEXT_DEVICES, context.get()) ==
              std::vector<cl_device_id>(devices().begin(),
                                        devices().begin() + static_cast<std::ptrdiff_t>(count)));
        CHECK(info_list<cl_context_properties>(clGetContextInfo, CL_CONTEXT_PROPERTIES,
                                               context.get()) ==
              std::vector<cl_context_properties>(properties.begin(), properties.end()));
        CHECK(info<cl_uint>(clGetContextInfo, CL_CONTEXT_REFERENCE_COUNT, context.get()) == 1);
        CL_OK(clRetainContext(context));
        CHECK(info<cl_uint>(clGetContextInfo, CL_CONTEXT_REFERENCE_COUNT, context.get()) == 2);
        CL_OK(clReleaseContext(context));
        CHECK(info<cl_uint>(clGetContextInfo, CL_CONTEXT_REFERENCE_COUNT, context.get()) == 1);
        check_info_arguments(clGetContextInfo, CL_CONTEXT_DEVICES, context.get());
    }
    cl_int error = CL_SUCCESS;
    const context_handle plain(make_context(nullptr, 1, devices().data(), &error));
    CL_OK(error);
    // PoCL 3.1 crashes here.
    if (is_cluster())
        CHECK(info_list<cl_context_properties>(clGetContextInfo, CL_CONTEXT_PROPERTIES, plain.get())
                  .size() <= 1);
}

TEST_CASE("a device that is listed twice is in the context once") {
    const std::array<cl_device_id, 3> twice = {devices().back(), devices().front(),
                                               devices().back()};
    cl_int error = CL_SUCCESS;
    const context_handle context(make_context(nullptr, 3, twice.data(), &error));
    CL_OK(error);
    CHECK(info<cl_uint>(clGetContextInfo, CL_CONTEXT_NUM_DEVICES, context.get()) ==
          (devices().size() > 1 ? 2 : 1));
}

TEST_CASE("clCreateContext refuses invalid arguments") {
    const auto *list = devices().data();
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, make_context(nullptr, 0, list, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, make_context(nullptr, 1, nullptr, &error));
    int data = 0;
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE, clCreateContext(nullptr, 1, list, nullptr, &data, &error));
    const std::array<cl_context_properties, 3> unknown = {0x7777, 1, 0};
    CL_FAILS_TO_MAKE(CL_INVALID_PROPERTY, make_context(unknown.data(), 1, list, &error));
    const auto self = reinterpret_cast<cl_context_properties>(platform());
    const std::array<cl_context_properties, 5> twice = {CL_CONTEXT_PLATFORM, self,
                                                        CL_CONTEXT_PLATFORM, self, 0};
    const std::array<cl_context_properties, 3> no_boolean = {CL_CONTEXT_INTEROP_USER_SYNC, 2, 0};
    if (is_cluster()) {  // PoCL 3.1 accepts them
        CL_FAILS_TO_MAKE(CL_INVALID_PROPERTY, make_context(twice.data(), 1, list, &error));
        CL_FAILS_TO_MAKE(CL_INVALID_PROPERTY, make_context(no_boolean.data(), 1, list, &error));
    }
    CHECK(make_context(nullptr, 0, list, nullptr) == nullptr);
    CL_FAILS(CL_INVALID_CONTEXT, clRetainContext(nullptr));
    CL_FAILS(CL_INVALID_CONTEXT, clReleaseContext(nullptr));
    CL_FAILS(CL_INVALID_CONTEXT,
             clGetContextInfo(nullptr, CL_CONTEXT_DEVICES, 0, nullptr, nullptr));
}

TEST_CASE("a context is created from a type of devices") {
    const std::array<cl_context_properties, 3> properties = {
        CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform()), 0};
    cl_int error = CL_INVALID_VALUE;
    const context_handle all(
        clCreateContextFromType(properties.data(), CL_DEVICE_TYPE_ALL, nullptr, nullptr, &error));
    CL_OK(error);
    CHECK(info<cl_uint>(clGetContextInfo, CL_CONTEXT_NUM_DEVICES, all.get()) == devices().size());
    const context_handle usual(clCreateContextFromType(properties.data(), CL_DEVICE_TYPE_DEFAULT,
                                                       nullptr, nullptr, &error));
    CL_OK(error);
    CHECK(info<cl_uint>(clGetContextInfo, CL_CONTEXT_NUM_DEVICES, usual.get()) >= 1);
    if (!is_cluster()) return;  // PoCL 3.1 creates one anyway
    CL_FAILS_TO_MAKE(CL_INVALID_DEVICE_TYPE,
                     clCreateContextFromType(properties.data(), 0, nullptr, nullptr, &error));
    CL_FAILS_TO_MAKE(CL_DEVICE_NOT_FOUND,
                     clCreateContextFromType(properties.data(), CL_DEVICE_TYPE_CUSTOM, nullptr,
                                             nullptr, &error));
}

TEST_CASE(
    "destructor callbacks of a context are called in reverse order after the release of all its "
    "objects") {
    destroyed().clear();
    cl_int error = CL_SUCCESS;
    const cl_context context = make_context(nullptr, 1, devices().data(), &error);
    CL_OK(error);
    CL_OK(clSetContextDestructorCallback(context, note_destroyed<1>, nullptr));
    CL_OK(clSetContextDestructorCallback(context, note_destroyed<2>, nullptr));
    CL_FAILS(CL_INVALID_VALUE, clSetContextDestructorCallback(context, nullptr, nullptr));
    const cl_mem buffer = clCreateBuffer(context, 0, 100, nullptr, &error);
    CL_OK(error);
    CL_OK(clReleaseContext(context));
    CHECK(destroyed().empty());
    CL_OK(clReleaseMemObject(buffer));
    CHECK(destroyed() == std::vector<std::pair<cl_context, int>>{{context, 2}, {context, 1}});
}

TEST_CASE("a sampler's information matches its arguments") {
    const setup cl;
    cl_int error = CL_SUCCESS;
    const sampler_handle sampler(
        clCreateSampler(cl.context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_LINEAR, &error));
    CL_OK(error);
    CHECK(info<cl_bool>(clGetSamplerInfo, CL_SAMPLER_NORMALIZED_COORDS, sampler.get()) == CL_FALSE);
    CHECK(info<cl_addressing_mode>(clGetSamplerInfo, CL_SAMPLER_ADDRESSING_MODE, sampler.get()) ==
          CL_ADDRESS_CLAMP);
    CHECK(info<cl_filter_mode>(clGetSamplerInfo, CL_SAMPLER_FILTER_MODE, sampler.get()) ==
          CL_FILTER_LINEAR);
    CHECK(info<cl_context>(clGetSamplerInfo, CL_SAMPLER_CONTEXT, sampler.get()) == cl.context);
    CHECK(info<cl_uint>(clGetSamplerInfo, CL_SAMPLER_REFERENCE_COUNT, sampler.get()) == 1);
    check_info_arguments(clGetSamplerInfo, CL_SAMPLER_FILTER_MODE, sampler.get());
    CL_OK(clRetainSampler(sampler));
    CL_OK(clReleaseSampler(sampler));
    CL_FAILS_TO_MAKE(CL_INVALID_CONTEXT,
                     clCreateSampler(nullptr, CL_TRUE, CL_ADDRESS_CLAMP, CL_FILTER_LINEAR, &error));
    CL_FAILS(CL_INVALID_SAMPLER,
             clGetSamplerInfo(nullptr, CL_SAMPLER_FILTER_MODE, 0, nullptr, nullptr));
    CL_FAILS(CL_INVALID_SAMPLER, clRetainSampler(nullptr));
    CL_FAILS(CL_INVALID_SAMPLER, clReleaseSampler(nullptr));
    if (!is_cluster()) return;  // PoCL 3.1 creates them
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateSampler(cl.context, CL_TRUE, 1, CL_FILTER_LINEAR, &error));
    CL_FAILS_TO_MAKE(CL_INVALID_VALUE,
                     clCreateSampler(cl.context, CL_TRUE, CL_ADDRESS_CLAMP, 1, &error));
}
