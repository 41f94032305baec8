#include "base/job.hpp"

namespace cldist {

std::atomic<const Job *> job = nullptr;

}  // namespace cldist
