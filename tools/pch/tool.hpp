// Like library.hpp.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <CL/cl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <nlohmann/json.hpp>
