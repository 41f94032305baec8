// Like files.hpp, with MPI.
#include "files.hpp"

#include <mpi.h>
