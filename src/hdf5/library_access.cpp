#include "hdf5/library_access.hpp"

#include <utility>

namespace cldist {
namespace {

using Extent = std::vector<std::uint64_t>;

Extent chunk_of(const LibraryUse &hdf5, hid_t dataset, std::size_t rank) {
    const Hid plist(
        hdf5.check(H5Dget_create_plist(dataset), "querying how the dataset was created"));
    if (H5Pget_layout(plist.get()) != H5D_CHUNKED) return {};
    std::vector<hsize_t> chunk(rank);
    hdf5.check(H5Pget_chunk(plist.get(), static_cast<int>(rank), chunk.data()),
               "querying the extent of chunks");
    return {chunk.begin(), chunk.end()};
}

Cuts blocks_of(const LibraryUse &hdf5, hid_t dataset, const DatasetTransfer &transfer) {
    constexpr Cuts none{0, 0};
    if (transfer.collective || !transfer.hyperslab) return none;
    const Extent chunk = chunk_of(hdf5, dataset, transfer.extent.size());
    const Cuts cuts = chunk.empty() ? Cuts{0, transfer.hyperslab->cut_elements()}
                                    : transfer.hyperslab->cuts(chunk);
    const std::uint64_t first_part = cuts.first != 0 ? cuts.first : cuts.elements;
    return first_part < transfer.elements ? cuts : none;
}

Hid simple_space(const LibraryUse &hdf5, const Extent &extent) {
    const std::vector<hsize_t> dimensions(extent.begin(), extent.end());
    return Hid(
        hdf5.check(H5Screate_simple(static_cast<int>(extent.size()), dimensions.data(), nullptr),
                   "making a dataspace"));
}

void select(const LibraryUse &hdf5, hid_t space, const Hyperslab &hyperslab) {
    std::vector<hsize_t> start;
    std::vector<hsize_t> stride;
    std::vector<hsize_t> count;
    std::vector<hsize_t> block;
    for (const Indices &indices : hyperslab.dimensions()) {
        start.push_back(indices.start);
        stride.push_back(indices.stride);
        count.push_back(indices.count);
        block.push_back(indices.block);
    }
    hdf5.check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), stride.data(), count.data(),
                                   block.data()),
               "selecting a part");
}

}  // namespace

LibraryAccess::LibraryAccess(const LibraryUse &hdf5, DatasetTransfer transfer)
    : DatasetAccess(std::move(transfer.objects), std::move(transfer.name)),
      lane_(library_lane()),
      collective_(transfer.collective),
      elements_(transfer.elements),
      element_size_(transfer.element_size),
      extent_(transfer.extent),
      hyperslab_(transfer.hyperslab),
      blocks_(blocks_of(hdf5, objects().dataset.get(), transfer)) {}

Hid LibraryAccess::selection(const LibraryUse &hdf5, std::uint64_t first,
                             std::uint64_t elements) const {
    if (elements == elements_)
        return Hid(hdf5.check(H5Scopy(objects().file_space.get()), "copying the selection"));
    Hid space = simple_space(hdf5, extent_);
    if (elements == 0)
        hdf5.check(H5Sselect_none(space.get()), "selecting nothing");
    else
        select(hdf5, space.get(), hyperslab_->part({first, elements}));
    return space;
}

template <typename Call>
FileResult LibraryAccess::move(std::size_t offset, std::size_t size, const char *what,
                               Call &&call) {
    const LibraryUse hdf5;
    try {
        const std::uint64_t elements = size / element_size_;
        const Hid in_file = selection(hdf5, offset / element_size_, elements);
        const Hid in_memory = simple_space(hdf5, {elements});
        hdf5.check(call(in_memory.get(), in_file.get()), what);
    } catch (const Error &error) {
        return {0, error.status()};
    }
    return {size, {}};
}

FileResult LibraryAccess::read(std::size_t offset, std::byte *to, std::size_t size) {
    return move(offset, size, "reading", [&](hid_t in_memory, hid_t in_file) {
        const DatasetObjects &of = objects();
        return H5Dread(of.dataset.get(), of.mem_type.get(), in_memory, in_file, of.transfer_list(),
                       to);
    });
}

FileResult LibraryAccess::write(std::size_t offset, const std::byte *from, std::size_t size) {
    return move(offset, size, "writing", [&](hid_t in_memory, hid_t in_file) {
        const DatasetObjects &of = objects();
        return H5Dwrite(of.dataset.get(), of.mem_type.get(), in_memory, in_file, of.transfer_list(),
                        from);
    });
}

}  // namespace cldist
