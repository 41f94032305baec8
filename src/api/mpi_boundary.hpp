#pragma once

#include <new>

#include <mpi.h>

#include "api/boundary.hpp"

#define CLDIST_COLD [[gnu::cold, gnu::noinline]]

namespace cldist {

/// Calls the error handler that MPI would call. Returns MPI's code of the status.
int call_error_handler(const char *call, MPI_Comm comm, const Status &status);

/// Runs the body of an MPI call. Its errors become codes only here.
template <typename Body>
int at_mpi_boundary(const char *call, MPI_Comm comm, Body &&body) noexcept {
    try {
        refuse_forked_child();
        body();
        return MPI_SUCCESS;
    } catch (const Error &error) {
        return call_error_handler(call, comm, error.status());
    } catch (const std::bad_alloc &) {
        return call_error_handler(call, comm, Status::failure(CL_OUT_OF_HOST_MEMORY, "no memory"));
    } catch (...) {
        return call_error_handler(call, comm, Status::failure(CL_OUT_OF_RESOURCES, "no resources"));
    }
}

}  // namespace cldist
