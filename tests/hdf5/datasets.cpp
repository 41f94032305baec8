#include "datasets.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace cldist_test {

namespace {

std::string new_path() {
    static std::atomic<int> count{0};
    const char *folder = std::getenv("TMPDIR");
    return std::string(folder != nullptr ? folder : "/tmp") + "/cldist-hdf5-" +
           std::to_string(::getpid()) + "-" + std::to_string(++count) + ".h5";
}

hid whole_of(hid_t dataset) { return hid(H5Dget_space(dataset)); }

}  // namespace

temporary_file::temporary_file() : path(new_path()) {}
temporary_file::~temporary_file() { ::unlink(name()); }

bytes selected(hid_t dataset, hid_t type, hid_t selection) {
    const hid whole = whole_of(dataset);
    const hid_t in_file = selection == H5S_ALL ? static_cast<hid_t>(whole) : selection;
    const hsize_t points = points_of(in_file);
    const hid in_memory = space({points});
    bytes data(points * H5Tget_size(type));
    H5_OK(H5Dread(dataset, type, in_memory, in_file, H5P_DEFAULT, data.data()));
    return data;
}

void write_selected(hid_t dataset, hid_t type, hid_t selection, const bytes &data) {
    const hid whole = whole_of(dataset);
    const hid_t in_file = selection == H5S_ALL ? static_cast<hid_t>(whole) : selection;
    const hid in_memory = space({points_of(in_file)});
    REQUIRE(data.size() == points_of(in_file) * H5Tget_size(type));
    H5_OK(H5Dwrite(dataset, type, in_memory, in_file, H5P_DEFAULT, data.data()));
}

bytes content(hid_t dataset) {
    const hid type(H5Dget_type(dataset));
    return selected(dataset, type, H5S_ALL);
}

}  // namespace cldist_test
