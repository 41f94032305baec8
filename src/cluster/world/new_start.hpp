#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/calls/call_log.hpp"

namespace cldist::cluster {

/// This process's part when `cldist run` starts the job again with a central host
/// (docs/dev/decisions/0043).
namespace new_start {

/// Returns true if `cldist run` has started the job and may start it again.
[[nodiscard]] bool is_wanted();
/// Returns a function that returns true if OpenCL calls of two of the program's threads run at the
/// same time. Null without libcldist-host.
[[nodiscard]] bool (*overlap_question())();
/// Returns a function that returns a number of the calling thread, the same in all processes; 0 if
/// the program did not start the thread. Null without libcldist-host.
[[nodiscard]] std::uint32_t (*thread_question())();
/// Returns an empty string if the program has had no effect outside its process, otherwise the
/// reason why the job can't start again, which continues "the program ...". With libcldist-host,
/// calls that would have an effect wait until go_on(), unless the program uses MPI itself.
[[nodiscard]] std::string hold(Start start);
void go_on();
/// Announces the new start to `cldist run` and kills this process. `why` is the reason to print;
/// empty except in rank 0.
[[noreturn]] void stop(std::string_view why);

}  // namespace new_start
}  // namespace cldist::cluster
