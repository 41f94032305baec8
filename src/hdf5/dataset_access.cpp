#include "hdf5/dataset_access.hpp"

#include <utility>

#include "base/log.hpp"
#include "hdf5/direct_access.hpp"
#include "hdf5/library_access.hpp"

namespace cldist {
namespace {

// Closing an object may write data first, which can fail.
void release_objects(DatasetObjects &objects, const std::string &name) {
    const LibraryUse hdf5;
    for (Hid *object : {&objects.xfer_plist, &objects.file_space, &objects.mem_type,
                        &objects.dataset, &objects.file})
        if (!object->release()) log_warning("{}", hdf5.failure("closing " + name).message);
}

}  // namespace

std::shared_ptr<FileLane> library_lane() {
    static const char key = 0;
    return FileLane::of(&key);
}

DatasetAccess::DatasetAccess(DatasetObjects objects, std::string name)
    : objects_(std::move(objects)), name_(std::move(name)) {}

DatasetAccess::~DatasetAccess() {
    // The command was abandoned. This may be the progress thread, which must not wait for HDF5.
    if (objects_.file.valid())
        library_lane()->thread().run(
            [objects = std::make_shared<DatasetObjects>(std::move(objects_)), name = name_] {
                release_objects(*objects, name);
            });
}

void DatasetAccess::end() {
    if (objects_.file.valid()) release_objects(objects_, name_);
}

std::shared_ptr<DatasetAccess> make_dataset_access(const LibraryUse &hdf5,
                                                   DatasetTransfer transfer) {
    if (auto direct = DirectAccess::make(hdf5, transfer)) return direct;
    return std::make_shared<LibraryAccess>(hdf5, std::move(transfer));
}

}  // namespace cldist
