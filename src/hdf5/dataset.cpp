#include "hdf5/dataset.hpp"

#include <limits>

#include <fmt/format.h>

// Only parallel HDF5 libraries provide this function.
#ifndef H5_HAVE_PARALLEL
extern "C" herr_t H5Pget_dxpl_mpio(hid_t dxpl_id, H5FD_mpio_xfer_t *xfer_mode);
#endif
#pragma weak H5Pget_dxpl_mpio

namespace cldist {
namespace {

// H5F_ACC_RDWR. That macro would check that the program's HDF5 has exactly these headers' version.
constexpr unsigned opened_for_writing = 1;

[[noreturn]] void refuse(const std::string &why) { throw Error(CL_INVALID_VALUE, why); }

void check_version(const LibraryUse &hdf5) {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    hdf5.check(H5get_libversion(&major, &minor, &release), "querying the version of HDF5");
    if (major != H5_VERS_MAJOR || minor != H5_VERS_MINOR)
        throw Error(
            CL_INVALID_OPERATION,
            fmt::format("the program uses HDF5 {}.{}.{}, but libcldist-hdf5 was built for {}.{}",
                        major, minor, release, H5_VERS_MAJOR, H5_VERS_MINOR));
}

// Returns true if values of the type contain pointers to their bytes.
bool has_pointers(const LibraryUse &hdf5, hid_t type) {
    switch (H5Tget_class(type)) {
        case H5T_VLEN: return true;
        case H5T_STRING: return hdf5.check(H5Tis_variable_str(type), "querying a string type") > 0;
        case H5T_ARRAY: {
            const Hid element(hdf5.check(H5Tget_super(type), "querying an array type"));
            return has_pointers(hdf5, element.get());
        }
        case H5T_COMPOUND:
            for (int i = 0; i < H5Tget_nmembers(type); ++i) {
                const auto n = static_cast<unsigned>(i);
                const Hid member(
                    hdf5.check(H5Tget_member_type(type, n), "querying a compound type"));
                if (has_pointers(hdf5, member.get())) return true;
            }
            return false;
        default: return false;
    }
}

void check_type(const LibraryUse &hdf5, const DatasetArguments &arguments, hid_t file_type) {
    if (has_pointers(hdf5, arguments.mem_type))
        refuse(
            "mem_type has elements of variable length, which are not supported because they are "
            "pointers in memory");
    const bool writes = arguments.direction == Direction::to_file;
    const hid_t from = writes ? arguments.mem_type : file_type;
    const hid_t to = writes ? file_type : arguments.mem_type;
    H5T_cdata_t *unused = nullptr;
    if (H5Tfind(from, to, &unused) == nullptr)
        refuse(fmt::format("HDF5 cannot convert from {} to {}",
                           writes ? "mem_type" : "the dataset's type",
                           writes ? "the dataset's type" : "mem_type"));
}

std::vector<std::uint64_t> extent_of(const LibraryUse &hdf5, hid_t space) {
    const int rank =
        hdf5.check(H5Sget_simple_extent_ndims(space), "querying the rank of a dataspace");
    std::vector<hsize_t> extent(static_cast<std::size_t>(rank));
    hdf5.check(H5Sget_simple_extent_dims(space, extent.data(), nullptr),
               "querying the extent of a dataspace");
    return {extent.begin(), extent.end()};
}

void check_space(const LibraryUse &hdf5, hid_t space,
                 const std::vector<std::uint64_t> &dataset_extent) {
    const std::vector<std::uint64_t> extent = extent_of(hdf5, space);
    if (extent != dataset_extent)
        refuse(fmt::format("file_space has the extent [{}], but the dataset has [{}]",
                           fmt::join(extent, ", "), fmt::join(dataset_extent, ", ")));
    if (H5Sget_select_npoints(space) < 0 || H5Sselect_valid(space) <= 0)
        refuse(fmt::format("the selection of file_space exceeds the dataset's extent, [{}]",
                           fmt::join(dataset_extent, ", ")));
}

// Returns nothing if the selection is irregular or not in the order of the dataset's elements.
std::optional<Hyperslab> hyperslab_of(const LibraryUse &hdf5, hid_t space,
                                      const std::vector<std::uint64_t> &extent) {
    const std::size_t rank = extent.size();
    const H5S_sel_type type = H5Sget_select_type(space);
    std::vector<Indices> dimensions(rank);
    if (type == H5S_SEL_ALL) {
        for (std::size_t d = 0; d < rank; ++d) dimensions[d] = {0, 1, extent[d], 1};
        return Hyperslab(extent, std::move(dimensions));
    }
    if (type != H5S_SEL_HYPERSLABS || H5Sis_regular_hyperslab(space) <= 0) return std::nullopt;
    std::vector<hsize_t> first(rank);
    std::vector<hsize_t> last(rank);
    std::vector<hsize_t> start(rank);
    std::vector<hsize_t> stride(rank);
    std::vector<hsize_t> count(rank);
    std::vector<hsize_t> block(rank);
    hdf5.check(
        H5Sget_regular_hyperslab(space, start.data(), stride.data(), count.data(), block.data()),
        "querying a hyperslab");
    // Unlike `start`, these include the selection's offset (H5Soffset_simple).
    hdf5.check(H5Sget_select_bounds(space, first.data(), last.data()),
               "querying the bounds of a selection");
    for (std::size_t d = 0; d < rank; ++d)
        dimensions[d] = {first[d], stride[d], count[d], block[d]};
    return Hyperslab(extent, std::move(dimensions));
}

bool is_collective(const LibraryUse &hdf5, hid_t xfer_plist) {
    H5FD_mpio_xfer_t mode = H5FD_MPIO_INDEPENDENT;
    if (xfer_plist == H5P_DEFAULT || H5Pget_dxpl_mpio == nullptr) return false;
    hdf5.check(H5Pget_dxpl_mpio(xfer_plist, &mode), "querying xfer_plist");
    return mode == H5FD_MPIO_COLLECTIVE;
}

std::string name_of(const LibraryUse &hdf5, hid_t dataset, hid_t file) {
    const auto text = [&](auto &&ask) {
        std::string name(
            static_cast<std::size_t>(hdf5.check(ask(nullptr, 0), "querying a name")) + 1, '\0');
        ask(name.data(), name.size());
        name.pop_back();  // the terminating zero
        return name;
    };
    return fmt::format(
        "dataset {} of {}",
        text([&](char *to, std::size_t size) { return H5Iget_name(dataset, to, size); }),
        text([&](char *to, std::size_t size) { return H5Fget_name(file, to, size); }));
}

}  // namespace

DatasetTransfer check_dataset(const LibraryUse &hdf5, const DatasetArguments &arguments) {
    check_version(hdf5);
    const hid_t dataset = arguments.dataset;
    if (H5Iget_type(dataset) != H5I_DATASET)
        refuse(fmt::format("dataset, {}, is not the id of a dataset", dataset));
    if (H5Iget_type(arguments.mem_type) != H5I_DATATYPE)
        refuse(fmt::format("mem_type, {}, is not the id of a datatype", arguments.mem_type));
    const Hid file_type(hdf5.check(H5Dget_type(dataset), "querying the type of the dataset"));
    check_type(hdf5, arguments, file_type.get());

    Hid space(hdf5.check(H5Dget_space(dataset), "querying the dataspace of the dataset"));
    const std::vector<std::uint64_t> extent = extent_of(hdf5, space.get());
    if (arguments.file_space != H5S_ALL) {
        if (H5Iget_type(arguments.file_space) != H5I_DATASPACE)
            refuse(fmt::format("file_space, {}, is neither H5S_ALL nor the id of a dataspace",
                               arguments.file_space));
        check_space(hdf5, arguments.file_space, extent);
        space = Hid(hdf5.check(H5Scopy(arguments.file_space), "copying file_space"));
    }

    Hid xfer_plist;
    if (arguments.xfer_plist != H5P_DEFAULT) {
        if (H5Pisa_class(arguments.xfer_plist, H5P_DATASET_XFER) <= 0)
            refuse(
                fmt::format("xfer_plist, {}, is neither H5P_DEFAULT nor the id of a dataset "
                            "transfer property list",
                            arguments.xfer_plist));
        xfer_plist = Hid(hdf5.check(H5Pcopy(arguments.xfer_plist), "copying xfer_plist"));
    }

    Hid file(hdf5.check(H5Iget_file_id(dataset), "querying the file of the dataset"));
    unsigned intent = 0;
    hdf5.check(H5Fget_intent(file.get(), &intent), "querying how the file was opened");
    const std::string name = name_of(hdf5, dataset, file.get());
    if (arguments.direction == Direction::to_file && (intent & opened_for_writing) == 0)
        refuse(name + " cannot be written, because its file was opened for reading");

    const auto elements = static_cast<std::uint64_t>(
        hdf5.check(H5Sget_select_npoints(space.get()), "counting the selected elements"));
    const std::size_t element_size = H5Tget_size(arguments.mem_type);
    if (elements > std::numeric_limits<std::size_t>::max() / element_size)
        refuse(fmt::format("{} elements of {} bytes exceed the address space", elements,
                           element_size));
    std::optional<Hyperslab> hyperslab;
    if (elements != 0) hyperslab = hyperslab_of(hdf5, space.get(), extent);

    hdf5.check(H5Iinc_ref(dataset), "keeping the dataset");
    Hid kept(dataset);
    Hid mem_type(hdf5.check(H5Tcopy(arguments.mem_type), "copying mem_type"));
    return {{std::move(file), std::move(kept), std::move(mem_type), std::move(space),
             std::move(xfer_plist)},
            name,
            arguments.direction,
            is_collective(hdf5, arguments.xfer_plist),
            extent,
            elements,
            element_size,
            std::move(hyperslab)};
}

}  // namespace cldist
