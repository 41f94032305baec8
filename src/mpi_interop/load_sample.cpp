#include "mpi_interop/load_sample.hpp"

#include "base/clock.hpp"

namespace cldist {

void LoadSample::measure(cl_event before) {
    using Time = std::shared_ptr<std::atomic<std::uint64_t>>;
    may_run_ns_ = std::make_shared<std::atomic<std::uint64_t>>(0);
    auto *const time = new Time(may_run_ns_);
    const auto note = [](cl_event, cl_int, void *data) {
        const std::unique_ptr<const Time> owned(static_cast<const Time *>(data));
        **owned = now_ns();
    };
    if (clSetEventCallback(before, CL_COMPLETE, note, time) != CL_SUCCESS) delete time;
}

void LoadSample::runs(DeviceLoad &load, std::size_t bytes) const {
    const std::uint64_t now = now_ns();
    load.ran_after(now - enqueued_ns_);
    if (may_run_ns_ == nullptr) return;
    const std::uint64_t since = *may_run_ns_;
    load.took(round_, since != 0 && since < now ? now - since : 0, bytes);
}

void LoadSample::ended(DeviceLoad &load, std::size_t bytes) const {
    load.took(round_, now_ns() - released_ns_, bytes);
}

}  // namespace cldist
