#pragma once

#include <array>
#include <cstdlib>
#include <utility>

#include "base/status.hpp"
#include "cluster/world/job.hpp"
#include "cluster/world/simulated_job.hpp"

namespace cldist::cluster {

/// The job of an MPI process that cannot join the others, such as a child of a process that has
/// joined. The program sees this process's devices, without MPI.
class AloneJob final : public Job {
public:
    AloneJob() : agreement_(0, 1) {}

    Agreement &agreement() override { return agreement_; }
    Transport &transport() override { return transport_; }
    /// The place of the rank, from the launcher's environment: a host's ranks share its GPUs.
    [[nodiscard]] Place place_of(Process) const override {
        constexpr std::array<std::pair<const char *, const char *>, 3> names{
            {{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
             {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
             {"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}}};
        for (const auto &[number_name, count_name] : names) {
            const char *const number = std::getenv(number_name);
            const char *const count = std::getenv(count_name);
            if (number != nullptr && count != nullptr && std::atoi(number) >= 0 &&
                std::atoi(number) < std::atoi(count))
                return {0, static_cast<std::size_t>(std::atoi(number)),
                        static_cast<std::size_t>(std::atoi(count))};
        }
        return {};
    }
    CallStream &call_stream() override {
        throw Error(CL_INVALID_OPERATION, "the job has only one process");
    }

private:
    AbsentOthers agreement_;
    NoTransport transport_;
};

}  // namespace cldist::cluster
