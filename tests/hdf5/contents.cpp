/// Datasets of all kinds: a command moves the same bits as H5Dread and H5Dwrite.

#include <cstring>
#include <functional>

#include "datasets.hpp"

using namespace cldist_test;

namespace {

struct layout {
    const char *name;
    std::function<hid(const extent &dimensions)> creation;
};

extent third_of(const extent &dimensions) {
    extent chunk;
    for (const hsize_t dimension : dimensions) {
        chunk.push_back((dimension + 2) / 3);
    }
    return chunk;
}

hid chunked(const extent &dimensions) {
    hid list(H5Pcreate(H5P_DATASET_CREATE));
    const extent chunk = third_of(dimensions);
    H5_OK(H5Pset_chunk(list, static_cast<int>(chunk.size()), chunk.data()));
    return list;
}

hid of_layout(H5D_layout_t kind) {
    hid list(H5Pcreate(H5P_DATASET_CREATE));
    H5_OK(H5Pset_layout(list, kind));
    return list;
}

const std::vector<layout> layouts = {
    {"contiguous", [](const extent &) { return of_layout(H5D_CONTIGUOUS); }},
    {"compact", [](const extent &) { return of_layout(H5D_COMPACT); }},
    {"chunked", [](const extent &dimensions) { return chunked(dimensions); }},
    {"deflate",
     [](const extent &dimensions) {
         hid list = chunked(dimensions);
         H5_OK(H5Pset_deflate(list, 6));
         return list;
     }},
    {"shuffle, deflate, fletcher32",
     [](const extent &dimensions) {
         hid list = chunked(dimensions);
         H5_OK(H5Pset_shuffle(list));
         H5_OK(H5Pset_deflate(list, 1));
         H5_OK(H5Pset_fletcher32(list));
         return list;
     }},
};

struct selection {
    const char *name;
    std::function<hid(const extent &dimensions)> make;
};

// Blocks of `block` elements in each dimension, at a distance of `stride`. They begin at index 1,
// or at 0 if the dimension is not longer than a block.
hid blocks(const extent &dimensions, hsize_t stride, hsize_t block,
           H5S_seloper_t how = H5S_SELECT_SET, hid_t with = H5S_ALL) {
    hid made(with == H5S_ALL
                 ? H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr)
                 : H5Scopy(with));
    extent start;
    extent strides;
    extent count;
    extent size;
    for (const hsize_t dimension : dimensions) {
        const hsize_t fitting = std::min(block, dimension);
        start.push_back(fitting < dimension ? 1 : 0);
        strides.push_back(std::max(stride, fitting));
        size.push_back(fitting);
        count.push_back((dimension - start.back() - fitting) / strides.back() + 1);
    }
    H5_OK(H5Sselect_hyperslab(made, how, start.data(), strides.data(), count.data(), size.data()));
    return made;
}

const std::vector<selection> selections = {
    {"whole space", [](const extent &dimensions) { return space(dimensions); }},
    {"rows",
     [](const extent &dimensions) {
         hid made = space(dimensions);
         extent start(dimensions.size(), 0);
         extent count = dimensions;
         start.front() = 1;
         count.front() -= 2;
         H5_OK(H5Sselect_hyperslab(made, H5S_SELECT_SET, start.data(), nullptr, count.data(),
                                   nullptr));
         return made;
     }},
    {"box", [](const extent &dimensions) { return blocks(dimensions, 1, 1); }},
    {"strided", [](const extent &dimensions) { return blocks(dimensions, 2, 1); }},
    {"strided blocks", [](const extent &dimensions) { return blocks(dimensions, 3, 2); }},
    {"with an offset",
     [](const extent &dimensions) {
         hid made = space(dimensions);
         const extent start(dimensions.size(), 0);
         const extent count(dimensions.size(), 2);
         const std::vector<hssize_t> offset(dimensions.size(), 1);
         H5_OK(H5Sselect_hyperslab(made, H5S_SELECT_SET, start.data(), nullptr, count.data(),
                                   nullptr));
         H5_OK(H5Soffset_simple(made, offset.data()));
         return made;
     }},
    {"irregular",
     [](const extent &dimensions) {
         return blocks(dimensions, 4, 2, H5S_SELECT_XOR, blocks(dimensions, 3, 1));
     }},
    {"points",
     [](const extent &dimensions) {
         hid made = space(dimensions);
         extent coordinates;
         for (hsize_t i = 0; i < 5; ++i) {  // not in the order of the dataset
             for (const hsize_t dimension : dimensions) {
                 coordinates.push_back((17 - 3 * i) % dimension);
             }
         }
         H5_OK(H5Sselect_elements(made, H5S_SELECT_SET, 5, coordinates.data()));
         return made;
     }},
    {"nothing",
     [](const extent &dimensions) {
         hid made = space(dimensions);
         H5_OK(H5Sselect_none(made));
         return made;
     }},
};

const std::vector<extent> extents = {{61}, {12, 10}, {6, 8, 10}, {3, 4, 5, 6}};

/// A device, and a file with two datasets of the same contents.
struct bench {
    bench() : queue(cl.in_order_queue()), file(kept.create()) {}

    void make(hid_t type, const extent &dimensions, hid_t creation = H5P_DEFAULT) {
        ours = hid();
        theirs = hid();
        const std::string number = std::to_string(++count);
        ours = make_dataset(file, ("ours" + number).c_str(), type, dimensions, creation);
        theirs = make_dataset(file, ("theirs" + number).c_str(), type, dimensions, creation);
        const bytes before = pattern(1, points_of(space(dimensions)) * H5Tget_size(type));
        write_selected(ours, type, H5S_ALL, before);
        write_selected(theirs, type, H5S_ALL, before);
    }

    // Checks a command's data against H5Dread's, and that the bytes around its range do not change.
    void check_reading(hid_t type, hid_t selection) const {
        const bytes wanted = selected(ours, type, selection);
        const buffer_handle buffer = cl.filled(before + wanted.size() + behind, 7);
        const event_handle event = from_dataset(queue, buffer, before, {ours, type, selection});
        expect_complete(event);
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == wanted.size());
        const bool same = cl.read(buffer, before, wanted.size()) == wanted;
        CHECK(same);
        cl.expect(buffer, 0, before, 7);
        cl.expect(buffer, before + wanted.size(), behind, 7, before + wanted.size());
    }

    void check_writing(hid_t type, hid_t selection) const {
        const bytes data = pattern(5, selected(ours, type, selection).size());
        const buffer_handle buffer = cl.buffer(before + data.size() + behind);
        cl.write(buffer, before, data);
        const event_handle event = to_dataset(queue, buffer, before, {ours, type, selection});
        expect_complete(event);
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == data.size());
        write_selected(theirs, type, selection, data);
        const bool same = content(ours) == content(theirs);
        CHECK(same);
    }

    static constexpr std::size_t before = 52;
    static constexpr std::size_t behind = 20;
    opencl cl;
    queue_handle queue;
    temporary_file kept;
    hid file;
    hid ours;
    hid theirs;
    int count = 0;
};

struct full {
    int a;
    double b;
    float c;
};

/// A compound type with the members of `full` whose names are the letters of `names`.
hid compound(const std::string &names) {
    hid type(H5Tcreate(H5T_COMPOUND, sizeof(full)));
    for (const char name : names) {
        const std::string member(1, name);
        if (name == 'a') {
            H5_OK(H5Tinsert(type, "a", HOFFSET(full, a), H5T_NATIVE_INT));
        } else if (name == 'b') {
            H5_OK(H5Tinsert(type, "b", HOFFSET(full, b), H5T_NATIVE_DOUBLE));
        } else {
            H5_OK(H5Tinsert(type, "c", HOFFSET(full, c), H5T_NATIVE_FLOAT));
        }
    }
    return type;
}

}  // namespace

MPI_CASE("every selection of every layout is read and written as by H5Dread and H5Dwrite", 1) {
    bench b;
    for (const layout &kind : layouts) {
        for (const extent &dimensions : extents) {
            b.make(H5T_NATIVE_FLOAT, dimensions, kind.creation(dimensions));
            b.check_reading(H5T_NATIVE_FLOAT, H5S_ALL);
            b.check_writing(H5T_NATIVE_FLOAT, H5S_ALL);
            for (const selection &some : selections) {
                CAPTURE(kind.name);
                CAPTURE(dimensions.size());
                CAPTURE(some.name);
                const hid made = some.make(dimensions);
                b.check_reading(H5T_NATIVE_FLOAT, made);
                b.check_writing(H5T_NATIVE_FLOAT, made);
            }
        }
    }
}

MPI_CASE("elements are converted as by H5Dread and H5Dwrite", 1) {
    bench b;
    const std::vector<std::pair<hid_t, hid_t>> types = {
        {H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE}, {H5T_NATIVE_DOUBLE, H5T_NATIVE_FLOAT},
        {H5T_IEEE_F32BE, H5T_NATIVE_FLOAT},    {H5T_STD_I64BE, H5T_NATIVE_INT},
        {H5T_NATIVE_SHORT, H5T_NATIVE_DOUBLE}, {H5T_NATIVE_DOUBLE, H5T_STD_U16BE}};
    for (const auto &pair : types) {
        const hid_t in_file = pair.first;
        const hid_t in_memory = pair.second;
        CAPTURE(H5Tget_size(in_file));
        CAPTURE(H5Tget_size(in_memory));
        b.make(in_file, {9, 30});
        const hid part = blocks({9, 30}, 3, 2);
        for (const hid_t what : {static_cast<hid_t>(H5S_ALL), static_cast<hid_t>(part)}) {
            b.check_reading(in_memory, what);
            b.check_writing(in_memory, what);
        }
    }
}

MPI_CASE("members of a compound are read and written, other members do not change", 1) {
    bench b;
    const hid all = compound("abc");
    const hid some = compound("ca");
    b.make(all, {40});
    b.check_writing(some, H5S_ALL);
    // The bytes between the members are undefined.
    const bytes wanted = selected(b.ours, some, H5S_ALL);
    const buffer_handle buffer = b.cl.buffer(wanted.size());
    expect_complete(from_dataset(b.queue, buffer, 0, {b.ours, some}));
    const bytes found = b.cl.read(buffer, 0, wanted.size());
    bool same = true;
    for (std::size_t at = 0; at < wanted.size(); at += sizeof(full)) {
        same = same && std::memcmp(&found[at + HOFFSET(full, a)], &wanted[at + HOFFSET(full, a)],
                                   sizeof(int)) == 0;
        same = same && std::memcmp(&found[at + HOFFSET(full, c)], &wanted[at + HOFFSET(full, c)],
                                   sizeof(float)) == 0;
    }
    CHECK(same);
}

MPI_CASE("a scalar dataset and arrays as elements are read and written", 1) {
    bench b;
    b.make(H5T_NATIVE_INT, {});
    b.check_reading(H5T_NATIVE_INT, H5S_ALL);
    b.check_writing(H5T_NATIVE_INT, H5S_ALL);
    const hsize_t three = 3;
    const hid triple(H5Tarray_create2(H5T_NATIVE_FLOAT, 1, &three));
    b.make(triple, {25});
    b.check_reading(triple, H5S_ALL);
    b.check_writing(triple, H5S_ALL);
}

MPI_CASE("an unwritten dataset contains its fill values", 1) {
    bench b;
    const hid creation(H5Pcreate(H5P_DATASET_CREATE));
    const int value = 77;
    H5_OK(H5Pset_fill_value(creation, H5T_NATIVE_INT, &value));
    b.ours = make_dataset(b.file, "filled", H5T_NATIVE_INT, {2 * MiB}, creation);
    b.check_reading(H5T_NATIVE_INT, H5S_ALL);
}

// The library reads such data without HDF5.
MPI_CASE(
    "large contiguous data includes the last bytes written with HDF5, even those still in HDF5's "
    "buffers",
    1) {
    const opencl cl;
    const queue_handle queue = cl.in_order_queue();
    constexpr hsize_t rows = 4096;
    constexpr hsize_t columns = 1024;
    for (const hsize_t user_block : {0, 1024}) {
        CAPTURE(user_block);
        const temporary_file kept;
        const hid creation(H5Pcreate(H5P_FILE_CREATE));
        H5_OK(H5Pset_userblock(creation, user_block));
        const hid file(H5Fcreate(kept.name(), H5F_ACC_TRUNC, creation, H5P_DEFAULT));
        const hid dataset = make_dataset(file, "large", H5T_NATIVE_INT, {rows, columns});
        const std::size_t size = rows * columns * sizeof(int);
        const buffer_handle buffer = cl.filled(size, 3);
        expect_complete(to_dataset(queue, buffer, 0, {dataset, H5T_NATIVE_INT}));
        // HDF5 keeps small pieces in its buffers for a while.
        hid row = space({rows, columns});
        const hsize_t start[] = {2000, 10};
        const hsize_t count[] = {1, 5};
        H5_OK(H5Sselect_hyperslab(row, H5S_SELECT_SET, start, nullptr, count, nullptr));
        write_selected(dataset, H5T_NATIVE_INT, row, pattern(8, 5 * sizeof(int)));

        const buffer_handle target = cl.filled(size, 9);
        expect_complete(from_dataset(queue, target, 0, {dataset, H5T_NATIVE_INT}));
        const bool same = cl.read(target, 0, size) == content(dataset);
        CHECK(same);
        // Reads rows in the middle.
        hid middle = space({rows, columns});
        const hsize_t first[] = {1000, 0};
        const hsize_t some[] = {2000, columns};
        H5_OK(H5Sselect_hyperslab(middle, H5S_SELECT_SET, first, nullptr, some, nullptr));
        const event_handle event =
            from_dataset(queue, target, 0, {dataset, H5T_NATIVE_INT, middle});
        expect_complete(event);
        CHECK(transfer_info<std::size_t>(event, CL_TRANSFER_BYTES) == 2000 * columns * sizeof(int));
        const bool middle_same = cl.read(target, 0, 2000 * columns * sizeof(int)) ==
                                 selected(dataset, H5T_NATIVE_INT, middle);
        CHECK(middle_same);
    }
}

MPI_CASE("external files and virtual datasets are read and written", 1) {
    bench b;
    const temporary_file external;
    hid creation(H5Pcreate(H5P_DATASET_CREATE));
    H5_OK(H5Pset_external(creation, external.name(), 0, 6 * MiB));
    b.ours = make_dataset(b.file, "outside", H5T_NATIVE_INT, {6 * MiB / sizeof(int)}, creation);
    write_selected(b.ours, H5T_NATIVE_INT, H5S_ALL, pattern(4, 6 * MiB));
    b.check_reading(H5T_NATIVE_INT, H5S_ALL);

    const hid halves = space({2, 100});
    const hid row = space({100});
    hid both(H5Pcreate(H5P_DATASET_CREATE));
    for (hsize_t n = 0; n < 2; ++n) {
        const std::string name = "half" + std::to_string(n);
        const hid half = make_dataset(b.file, name.c_str(), H5T_NATIVE_INT, {100});
        write_selected(half, H5T_NATIVE_INT, H5S_ALL, pattern(n, 400));
        const hsize_t start[] = {n, 0};
        const hsize_t count[] = {1, 100};
        H5_OK(H5Sselect_hyperslab(halves, H5S_SELECT_SET, start, nullptr, count, nullptr));
        H5_OK(H5Pset_virtual(both, halves, ".", name.c_str(), row));
    }
    b.ours = make_dataset(b.file, "joined", H5T_NATIVE_INT, {2, 100}, both);
    b.check_reading(H5T_NATIVE_INT, H5S_ALL);
    const buffer_handle buffer = b.cl.filled(800, 11);
    expect_complete(to_dataset(b.queue, buffer, 0, {b.ours, H5T_NATIVE_INT}));
    const bool same = content(b.ours) == pattern(11, 800);
    CHECK(same);
}
