#include "cluster/world/account.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace cldist::cluster {
namespace {

// The line for one kind of messages in one direction. The mean is over all other processes.
std::string row(const Account &account, const char *direction, Traffic::Sums Traffic::Peer::*sums,
                std::size_t kind) {
    Traffic::Sum all;
    std::size_t with_some = 0;
    std::size_t largest = 0;
    std::uint64_t most = 0;
    for (std::size_t peer = 0; peer < account.peers.size(); ++peer) {
        const Traffic::Sum &sum = (account.peers[peer].*sums)[kind];
        all.messages += sum.messages;
        all.bytes += sum.bytes;
        if (sum.messages != 0) ++with_some;
        if (sum.bytes > most) {
            most = sum.bytes;
            largest = peer;
        }
    }
    const double mean = static_cast<double>(all.bytes) /
                        std::max(1.0, static_cast<double>(account.peers.size()) - 1);
    return fmt::format("  {:<12}{:<10}{:>12}{:>18}{:>8}{:>18}{:>18.1f}\n", carries_names.at(kind),
                       direction, all.messages, all.bytes, with_some,
                       most != 0 ? fmt::format("{} ({})", most, largest) : std::string("0"), mean);
}

}  // namespace

std::string text_of(const Account &account) {
    std::string text = fmt::format("cldist: rank {} of {}{}\n", account.self, account.processes,
                                   account.simulated ? ", simulated" : "");
    // The calls of a process alone are not recorded.
    if (account.processes > 1) text += fmt::format("  {} OpenCL calls\n", account.calls);
    text += fmt::format(
        "  {} commands on this process's devices, {} remote commands, {} dropped commands\n",
        account.commands.local, account.commands.remote, account.left_out);
    text += fmt::format("  {:<12}{:<10}{:>12}{:>18}{:>8}{:>18}{:>18}\n", "messages", "", "number",
                        "bytes", "peers", "largest (rank)", "mean per peer");
    for (std::size_t kind = 0; kind < carries_names.size(); ++kind) {
        text += row(account, "sent", &Traffic::Peer::sent, kind);
        text += row(account, "received", &Traffic::Peer::received, kind);
    }
    text += fmt::format("  {:<12}{:>12}{:>18}{:>16}\n", "objects", "made", "most at once",
                        "bytes of each");
    for (const auto &[name, count] : account.objects)
        if (count.made != 0)
            text += fmt::format("  {:<12}{:>12}{:>18}{:>16}\n", name, count.made, count.most,
                                count.bytes());
    text += fmt::format("  {:.3f} s from the first call to the end, {:.3f} s of CPU time\n",
                        account.seconds, account.cpu_seconds);
    return text;
}

}  // namespace cldist::cluster
