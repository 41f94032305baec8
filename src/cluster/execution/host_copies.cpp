#include "cluster/execution/host_copies.hpp"

#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "base/io_threads.hpp"
#include "base/log.hpp"
#include "ocl/query.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist::cluster {
namespace {

constexpr std::size_t largest_whole_by_default = std::size_t{16} << 20U;

}  // namespace

void copy_with_threads(std::byte *to, const std::byte *from, std::size_t size) {
    io_threads().run_in_pieces(size, [to, from](std::size_t begin, std::size_t end) {
        std::memcpy(to + begin, from + begin, end - begin);
    });
}

bool HostCopies::wanted(QueueObject &queue) { return possible(!queue.resources()->host_memory()); }

bool HostCopies::possible(bool discrete) {
    using Choice = cldist::HostCopies;
    return config().host_copies == Choice::staged ||
           (config().host_copies == Choice::automatic && discrete);
}

std::size_t HostCopies::largest_whole() {
    return config().staged_max.value != 0 ? config().staged_max.value : largest_whole_by_default;
}

std::shared_ptr<std::byte[]> HostCopies::memory(QueueObject &queue, std::size_t size) {
    const StagingPool &pool = queue.resources()->staging();
    const auto fits = [&] { return pool.bytes_lent() + size <= config().staging_keep.value; };
    let_go(!fits());
    return fits() ? page_locked(*queue.resources(), size) : nullptr;
}

std::shared_ptr<std::byte[]> HostCopies::page_locked(const DeviceResources &resources,
                                                     std::size_t size) {
    try {
        std::shared_ptr<std::byte> lease = resources.staging().lease(size);
        std::byte *const data = lease.get();
        return {std::move(lease), data};
    } catch (const Error &error) {
        log_info("{}", error.status().message);
        return nullptr;
    }
}

// Frees the memory of copies that have ended; without `all`, only up to the first open copy.
// Queries the events, because each callback would wake a thread of the driver.
void HostCopies::let_go(bool all) {
    const auto over = [](const auto &kept) {
        return execution_status(kept.first.get()) <= CL_COMPLETE;
    };
    while (!kept_.empty() && over(kept_.front())) kept_.pop_front();
    if (all) std::erase_if(kept_, over);
}

void HostCopies::add_page_locked(const void *begin, std::size_t size) {
    const auto *const first = static_cast<const std::byte *>(begin);
    auto &[end, times] = page_locked_[first];
    end = std::max(end, first + size);
    ++times;
}

void HostCopies::remove_page_locked(const void *begin) {
    const auto at = page_locked_.find(static_cast<const std::byte *>(begin));
    if (at != page_locked_.end() && --at->second.second == 0) page_locked_.erase(at);
}

bool HostCopies::is_page_locked(const void *begin, std::size_t size) const {
    const auto *const first = static_cast<const std::byte *>(begin);
    const auto behind = page_locked_.upper_bound(first);
    return behind != page_locked_.begin() && std::prev(behind)->second.first >= first + size;
}

}  // namespace cldist::cluster
