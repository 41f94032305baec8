#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cluster/execution/executor.hpp"
#include "cluster/execution/traffic.hpp"
#include "cluster/objects/object.hpp"

namespace cldist::cluster {

/// A process's counts until its program's end.
struct Account {
    Process self;
    Process processes;
    bool simulated;
    std::uint64_t calls;  ///< of OpenCL's functions, that all processes make
    Commands commands;
    std::uint64_t left_out;                                     ///< of others' commands, those that it did nothing for
    std::vector<Traffic::Peer> peers;                           ///< by rank
    double seconds;                                             ///< since the program's first question about devices
    double cpu_seconds;                                         ///< of all of the process's threads since then
    std::vector<std::pair<const char *, ObjectCount>> objects;  ///< by kind
};

/// As a table.
std::string text_of(const Account &account);

}  // namespace cldist::cluster
