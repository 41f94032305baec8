#pragma once

#include <string>
#include <string_view>

#include "cluster/calls/call_log.hpp"

namespace cldist::cluster {

/// This process's part when `cldist run` starts the job again with a central host
/// (docs/dev/decisions/0043).
namespace new_start {

/// Whether `cldist run` has started the job and may start it again.
[[nodiscard]] bool is_wanted();
/// Whether calls of two of the program's threads run at the same time. Null: nobody can tell.
[[nodiscard]] bool (*overlap_question())();
/// Empty: the program has done nothing outside its process, and until go_on() its calls that would
/// do so wait. Otherwise the reason why the job can't start again, which continues "the program
/// ...".
[[nodiscard]] std::string hold(Start start);
void go_on();
/// Ends this process at once. The reason is for people; empty in all ranks except for one.
[[noreturn]] void stop(std::string_view why);

}  // namespace new_start
}  // namespace cldist::cluster
