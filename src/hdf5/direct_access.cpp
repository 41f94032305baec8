#include "hdf5/direct_access.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "pipeline/file_endpoint.hpp"
#include "stdio/descriptor_access.hpp"

namespace cldist {
namespace {

// HDF5 reads contiguous data with one call and without an intermediate copy. Only several threads
// can be faster. Two threads are not faster, and small transfers are not worth several threads.
constexpr unsigned least_threads = 3;
constexpr std::size_t least_size = std::size_t{8} << 20U;

// Returns true if the file stores elements contiguously with the same bytes as in memory.
bool stored_as_they_are(const LibraryUse &hdf5, const DatasetTransfer &transfer) {
    const hid_t dataset = transfer.objects.dataset.get();
    const Hid plist(
        hdf5.check(H5Dget_create_plist(dataset), "querying how the dataset was created"));
    const Hid type(hdf5.check(H5Dget_type(dataset), "querying the type of the dataset"));
    return H5Pget_layout(plist.get()) == H5D_CONTIGUOUS &&
           H5Pget_external_count(plist.get()) == 0 &&
           H5Tequal(type.get(), transfer.objects.mem_type.get()) > 0;
}

// Returns HDF5's descriptor if HDF5 makes plain calls at the offsets that it reports.
std::optional<int> descriptor_of(hid_t file) {
    const Hid plist(H5Fget_access_plist(file));
    void *handle = nullptr;
    if (!plist.valid() || H5Pget_driver(plist.get()) != H5FD_SEC2 ||
        H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0)
        return std::nullopt;
    return *static_cast<int *>(handle);
}

}  // namespace

std::shared_ptr<DirectAccess> DirectAccess::make(const LibraryUse &hdf5,
                                                 DatasetTransfer &transfer) {
    if (transfer.direction != Direction::from_file || transfer.size() < least_size ||
        io_thread_count() < least_threads || !transfer.hyperslab ||
        transfer.objects.xfer_plist.valid() || !stored_as_they_are(hdf5, transfer))
        return nullptr;
    const std::optional<std::uint64_t> run = transfer.hyperslab->run_start();
    // Undefined before the first write.
    const haddr_t data = H5Dget_offset(transfer.objects.dataset.get());
    if (!run || data == HADDR_UNDEF) return nullptr;
    const std::optional<int> descriptor = descriptor_of(transfer.objects.file.get());
    if (!descriptor) return nullptr;
    const int own = fcntl(*descriptor, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return nullptr;
    return std::make_shared<DirectAccess>(std::move(transfer.objects), std::move(transfer.name),
                                          own,
                                          static_cast<off_t>(data + *run * transfer.element_size));
}

DirectAccess::DirectAccess(DatasetObjects objects, std::string name, int descriptor, off_t start)
    : DatasetAccess(std::move(objects), std::move(name)),
      descriptor_(descriptor),
      start_(start),
      file_(make_descriptor_access(descriptor, start)) {}

DirectAccess::~DirectAccess() { close(descriptor_); }

Status DirectAccess::begin() {
    const LibraryUse hdf5;
    if (H5Fflush(objects().file.get(), H5F_SCOPE_LOCAL) >= 0) return {};
    Status failed = hdf5.failure("flushing the file before reading");
    end();  // the caller does not call it after a failed begin()
    return failed;
}

FileResult DirectAccess::read(std::size_t offset, std::byte *to, std::size_t size) {
    FileResult result = file_->read(offset, to, size);
    if (result.status.ok()) return result;
    const auto end = static_cast<std::uint64_t>(start_) + offset + result.bytes;
    return {result.bytes,
            Status::failure(
                CL_HDF5_ERROR,
                result.status.code == CL_END_OF_FILE
                    ? fmt::format("the file ends at byte {}, before the end of {}", end, name())
                    : fmt::format("{}: {}", name(), result.status.message))};
}

FileResult DirectAccess::write(std::size_t /*offset*/, const std::byte * /*from*/,
                               std::size_t /*size*/) {
    return {0, Status::failure(CL_INVALID_OPERATION, "datasets are written by HDF5")};
}

}  // namespace cldist
