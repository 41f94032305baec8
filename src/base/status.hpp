#pragma once

#include <exception>
#include <string>
#include <utility>

#include <CL/cl_ext_file.h>

namespace cldist {

/// The result of an operation: an OpenCL code (CL_SUCCESS or negative), the errors of MPI and the
/// system, and the cause in words.
struct Status {
    cl_int code = CL_SUCCESS;
    std::string message;
    int mpi_error = 0;     ///< MPI_SUCCESS, or an error code of MPI
    int system_error = 0;  ///< errno

    [[nodiscard]] bool ok() const { return code == CL_SUCCESS; }

    static Status failure(cl_int code, std::string message) { return {code, std::move(message)}; }
};

/// Carries a failed Status. It never leaves the library: entry points return its code, and
/// operations keep it as their result.
class Error : public std::exception {
public:
    explicit Error(Status status) : status_(std::move(status)) {}
    Error(cl_int code, std::string message) : status_(Status::failure(code, std::move(message))) {}

    [[nodiscard]] const Status &status() const { return status_; }
    [[nodiscard]] const char *what() const noexcept override { return status_.message.c_str(); }

private:
    Status status_;
};

}  // namespace cldist
