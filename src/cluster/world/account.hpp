#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cluster/execution/executor.hpp"
#include "cluster/execution/traffic.hpp"
#include "cluster/objects/object.hpp"

namespace cldist::cluster {

/// A process's counts from its first query for devices to the end of its program.
struct Account {
    Process self;
    Process processes;
    bool simulated;
    std::uint64_t calls;  ///< OpenCL calls that all processes make
    Commands commands;
    std::uint64_t left_out;            ///< remote commands for which the process did nothing
    std::vector<Traffic::Peer> peers;  ///< by rank
    double seconds;
    double cpu_seconds;                                         ///< of all threads
    std::vector<std::pair<const char *, ObjectCount>> objects;  ///< with the name of their kind
};

/// The account as a table.
std::string text_of(const Account &account);

}  // namespace cldist::cluster
