#pragma once

#include <cstddef>
#include <memory>

#include <CL/cl_ext_collective.h>

#include "ocl/handle.hpp"

namespace cldist::collectives {

/// Bytes of an element. Throws an Error if `datatype` is invalid.
[[nodiscard]] std::size_t element_size(cl_channel_type datatype);

/// A kernel of the library that combines elements, with the arguments that the header requires of
/// user-provided kernels. The object has exclusive use of the kernel.
class Operator {
public:
    /// Throws an Error if the datatype does not support the operator, or if a device of the context
    /// does not support it. The programs and kernels of the last few contexts are kept.
    /// Thread-safe.
    Operator(cl_context context, cl_channel_type datatype, cl_reduction_op op);
    Operator(const Operator &) = delete;
    Operator &operator=(const Operator &) = delete;
    ~Operator();

    [[nodiscard]] cl_kernel kernel() const { return kernel_.get(); }

private:
    struct Built;
    const cl_reduction_op op_;
    std::shared_ptr<Built> built_;
    Kernel kernel_;
};

}  // namespace cldist::collectives
