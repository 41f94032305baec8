// Like library.hpp.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CL/cl.h>
#include <doctest/doctest.h>
#include <mpi.h>
