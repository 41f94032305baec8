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
    /// Of others' commands, those that it did nothing for.
    std::uint64_t left_out;
    std::vector<Traffic::Peer> peers;  ///< by rank
    /// Since the program's first question about devices.
    double seconds;
    /// Of all of the process's threads since then.
    double cpu_seconds;
    std::vector<std::pair<const char *, ObjectCount>> objects;  ///< by kind
};

/// As a table.
std::string text_of(const Account &account);

}  // namespace cldist::cluster
