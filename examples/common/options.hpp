#pragma once

#include "arguments.hpp"

#include <mpi.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace examples {

inline void write_text(const std::string &path, const std::string &text) {
    std::FILE *file = std::fopen(path.c_str(), "w");
    if (!file || std::fputs(text.c_str(), file) < 0 || std::fclose(file) != 0)
        throw std::runtime_error("cannot write " + path);
}

/// The main function of an MPI program. `body` gets the rank and returns the exit status. After
/// refuse(), rank 0 prints the error and the exit status is 2. Any other exception ends the job.
template <typename Body>
int run_program(const char *name, int argc, char **argv, Body &&body) {
    MPI_Init(&argc, &argv);
    int rank, status = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        status = body(rank);
    } catch (const std::invalid_argument &refusal) {
        // All ranks throw this, so only rank 0 prints it.
        if (rank == 0) fmt::print(stderr, "{}: {}\n", name, refusal.what());
        status = 2;
    } catch (const std::exception &error) {
        fmt::print(stderr, "{}: rank {}: {}\n", name, rank, error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return status;
}

}  // namespace examples
