#include "mpi_interop/failure.hpp"

#include <cstdlib>

#include "base/log.hpp"
#include "base/status.hpp"
#include "events/failure_probe.hpp"

namespace cldist {

void failure_policy(cl_device_id device, const std::string &account) {
    const OnError wanted = config().on_error;
    if (wanted == OnError::event) {
        log_info("a command failed: {}", account);
        return;
    }
    if (wanted == OnError::automatic && survives_failed_events(device)) {
        log_info("a command failed: {}", account);
        return;
    }
    log_error("a command failed: {}\n{}", account,
              wanted == OnError::abort
                  ? "ending the job, as CLDIST_ON_ERROR=abort asks"
                  : "ending the job: this OpenCL platform aborts when commands wait for a failed event "
                    "(CLDIST_ON_ERROR=event tries it all the same)");
    int initialized = 0;
    int finalized = 0;
    PMPI_Initialized(&initialized);
    PMPI_Finalized(&finalized);
    if (initialized != 0 && finalized == 0) PMPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
}

}  // namespace cldist
