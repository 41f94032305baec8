#include "mpi_interop/mpi_file_access.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/backoff.hpp"
#include "mpi_interop/byte_type.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"
#include "mpi_interop/runtime.hpp"

namespace cldist {
namespace {

static_assert(std::is_pointer_v<MPI_File>, "a file's handle is where the file is");

// ROMIO, which MPICH uses, makes one file call at a time per process, even while a collective call
// waits for other processes.
#ifdef ROMIO_VERSION
constexpr bool one_call_at_a_time = true;
#else
constexpr bool one_call_at_a_time = false;
#endif

std::string name_of(MPI_File file) { return fmt::format("MPI file {}", fmt::ptr(file)); }

// The units of a file's view.
struct FileView {
    std::size_t etype_size;  ///< bytes
    MPI_Offset etype_end;    ///< bytes in the file from the start of an etype to its end
};

FileView ask_view(MPI_File file) {
    MPI_Offset displacement = 0;
    MPI_Datatype etype = MPI_DATATYPE_NULL;
    MPI_Datatype filetype = MPI_DATATYPE_NULL;
    std::array<char, MPI_MAX_DATAREP_STRING + 1> representation{};
    check_mpi(PMPI_File_get_view(file, &displacement, &etype, &filetype, representation.data()),
              "MPI_File_get_view");
    int size = 0;
    MPI_Aint begin = 0;
    MPI_Aint extent = 0;
    PMPI_Type_size(etype, &size);
    PMPI_Type_get_true_extent(etype, &begin, &extent);
    for (MPI_Datatype type : {etype, filetype})
        if (!is_predefined(type)) PMPI_Type_free(&type);
    // Data moves as bytes, which MPI does not convert to another representation.
    if (std::string_view(representation.data()) != "native")
        throw Error(CL_INVALID_OPERATION,
                    fmt::format("the view of {} has the data representation {}; expected native",
                                name_of(file), representation.data()));
    if (size <= 0)
        throw Error(CL_INVALID_OPERATION,
                    fmt::format("the view of {} has an etype of 0 bytes", name_of(file)));
    return {static_cast<std::size_t>(size), static_cast<MPI_Offset>(begin + extent)};
}

// Caches the views of files that commands use. A query of a view may block in MPI during a
// collective call. A view does not change while a command is in flight.
std::shared_ptr<const FileView> view_of(MPI_File file) {
    static std::mutex mutex;
    // Never destroyed, because commands may be pending at exit.
    static auto &views = *new std::map<MPI_File, std::weak_ptr<const FileView>>;
    const std::lock_guard lock(mutex);
    if (const auto found = views.find(file); found != views.end())
        if (auto view = found->second.lock()) return view;
    auto view = std::make_shared<const FileView>(ask_view(file));
    std::erase_if(views, [](const auto &entry) { return entry.second.expired(); });
    views.insert_or_assign(file, view);
    return view;
}

void check_mode(MPI_File file, Direction direction) {
    int mode = 0;
    check_mpi(PMPI_File_get_amode(file, &mode), "MPI_File_get_amode");
    const char *unfit = nullptr;
    if ((mode & MPI_MODE_SEQUENTIAL) != 0)
        unfit = "MPI_MODE_SEQUENTIAL, so it has no offsets";
    else if (direction == Direction::to_file && (mode & MPI_MODE_RDONLY) != 0)
        unfit = "MPI_MODE_RDONLY, but the command writes it";
    else if (direction == Direction::from_file && (mode & MPI_MODE_WRONLY) != 0)
        unfit = "MPI_MODE_WRONLY, but the command reads it";
    if (unfit != nullptr)
        throw Error(CL_INVALID_OPERATION,
                    fmt::format("{} was opened with {}", name_of(file), unfit));
}

class MpiFileAccess final : public FileAccess {
public:
    MpiFileAccess(MPI_File file, std::shared_ptr<const FileView> view, MPI_Offset start,
                  Direction direction, bool collective)
        : file_(file),
          start_(start),
          writes_(direction == Direction::to_file),
          collective_(collective),
          etype_size_(view->etype_size),
          etype_end_(view->etype_end),
          lane_(FileLane::of(one_call_at_a_time ? static_cast<const void *>(&one_call_at_a_time)
                                                : file)),
          view_(std::move(view)) {}

    [[nodiscard]] std::string name() const override { return name_of(file_); }
    [[nodiscard]] std::shared_ptr<FileLane> lane() const override { return lane_; }
    // Collective: one block, because the other processes do not know the number of blocks.
    [[nodiscard]] std::size_t granularity() const override { return collective_ ? 0 : etype_size_; }
    [[nodiscard]] bool collective() const override { return collective_; }

    void end() override { release_view(); }

    FileResult read(std::size_t offset, std::byte *to, std::size_t size) override {
        const auto call = [&](MPI_Offset at, const ByteType &bytes, MPI_Status &status) {
            return (collective_ ? PMPI_File_read_at_all : PMPI_File_read_at)(
                file_, at, to, bytes.count(), bytes.type(), &status);
        };
        // Some MPI libraries return bytes beyond the file's end, so the read stops there. Before a
        // collective read, other processes may still have to write data of this process, so the end
        // is known only after the call.
        std::size_t there = size;
        int code = collective_ ? MPI_SUCCESS : find_end(offset, size, there);
        const FileResult told = code == MPI_SUCCESS ? move(offset, there, call) : FileResult{};
        if (collective_) code = find_end(offset, size, there);
        if (!told.status.ok()) return told;
        if (code != MPI_SUCCESS) return {0, mpi_failure(code, account(offset).c_str())};
        if (told.bytes < there) return unexplained(offset, told.bytes, size);
        if (there == size) return {size, {}};
        return {there, Status::failure(CL_END_OF_FILE, fmt::format("{} ended after {} bytes",
                                                                   name(), offset + there))};
    }

    FileResult write(std::size_t offset, const std::byte *from, std::size_t size) override {
        const FileResult told =
            move(offset, size, [&](MPI_Offset at, const ByteType &bytes, MPI_Status &status) {
                return (collective_ ? PMPI_File_write_at_all : PMPI_File_write_at)(
                    file_, at, from, bytes.count(), bytes.type(), &status);
            });
        return told.status.ok() && told.bytes < size ? unexplained(offset, told.bytes, size) : told;
    }

private:
    // Makes the call and returns the number of bytes that MPI reports.
    template <typename Call>
    FileResult move(std::size_t offset, std::size_t size, const Call &call) {
        std::optional<ByteType> bytes;
        Status failed;
        try {
            bytes.emplace(size);
        } catch (const Error &error) {
            failed = error.status();
        } catch (const std::bad_alloc &) {
            failed = Status::failure(CL_OUT_OF_HOST_MEMORY,
                                     "cannot allocate memory for the description of the transfer");
        }
        if (!bytes) {
            if (!collective_) return {0, failed};
            bytes.emplace(0);  // other processes wait for the call
        }
        MPI_Status status{};
        int code = collective_ && one_call_at_a_time ? await_others() : MPI_SUCCESS;
        if (code == MPI_SUCCESS) code = call(place_of(offset), *bytes, status);
        if (collective_) release_view();
        if (!failed.ok()) return {0, failed};
        if (code != MPI_SUCCESS) return {0, mpi_failure(code, account(offset).c_str())};
        return {size == 0 ? 0 : std::min(bytes_of(status), size), {}};
    }

    [[nodiscard]] FileResult unexplained(std::size_t offset, std::size_t moved,
                                         std::size_t size) const {
        Status status = Status::failure(
            CL_MPI_ERROR, fmt::format("{} transferred {} of {} bytes and reported no error",
                                      account(offset), moved, size));
        status.mpi_error = MPI_ERR_IO;
        return {moved, status};
    }

    [[nodiscard]] MPI_Offset place_of(std::size_t offset) const {
        return start_ + static_cast<MPI_Offset>(offset / etype_size_);
    }

    // From now on the file may get another view or be closed.
    void release_view() { view_.reset(); }

    // Reduces `there`, which is `size`, to the bytes from `offset` on that the file contains, in
    // whole etypes.
    int find_end(std::size_t offset, std::size_t size, std::size_t &there) const {
        if (size == 0) return MPI_SUCCESS;
        const MPI_Offset at = place_of(offset);
        MPI_Offset file_size = 0;
        if (const int code = PMPI_File_get_size(file_, &file_size); code != MPI_SUCCESS)
            return code;
        int code = MPI_SUCCESS;
        const auto reaches = [&](std::size_t etypes) {
            MPI_Offset place = 0;
            if (code == MPI_SUCCESS)
                code = PMPI_File_get_byte_offset(file_, at + static_cast<MPI_Offset>(etypes) - 1,
                                                 &place);
            return place + etype_end_ <= file_size;
        };
        const std::size_t all = size / etype_size_;
        if (reaches(all)) return code;
        std::size_t within = 0;
        std::size_t beyond = all;
        while (beyond - within > 1) {
            const std::size_t middle = within + (beyond - within) / 2;
            (reaches(middle) ? within : beyond) = middle;
        }
        there = within * etype_size_;
        return code;
    }

    // Waits until all processes have reached this command, without blocking other file calls of
    // this process. ROMIO drops the errors of its non-blocking collective calls, so these calls
    // move no data.
    int await_others() const {
        char nothing = 0;
        MPI_Request request = MPI_REQUEST_NULL;
        int code = writes_ ? PMPI_File_iwrite_at_all(file_, 0, &nothing, 0, MPI_BYTE, &request)
                           : PMPI_File_iread_at_all(file_, 0, &nothing, 0, MPI_BYTE, &request);
        Backoff backoff;
        for (int done = 0; code == MPI_SUCCESS && done == 0;) {
            code = test_without_yield(request, done);
            if (done != 0) break;
            backoff.rest(false);
        }
        return code;
    }

    [[nodiscard]] std::string account(std::size_t offset) const {
        return fmt::format("MPI_File_{}_at{} of {} at offset {}", writes_ ? "write" : "read",
                           collective_ ? "_all" : "", name(), place_of(offset));
    }

    const MPI_File file_;
    const MPI_Offset start_;  ///< in etypes
    const bool writes_;
    const bool collective_;
    const std::size_t etype_size_;
    const MPI_Offset etype_end_;
    const std::shared_ptr<FileLane> lane_;
    /// Keeps the view cached while the transfer is in flight.
    std::shared_ptr<const FileView> view_;
};

}  // namespace

std::shared_ptr<FileAccess> make_mpi_file_access(MPI_File file, MPI_Offset start, std::size_t size,
                                                 Direction direction, bool collective) {
    Runtime::current();
    if (file == MPI_FILE_NULL) throw Error(CL_INVALID_VALUE, "the file is MPI_FILE_NULL");
    if (start < 0)
        throw Error(CL_INVALID_VALUE, fmt::format("the file offset {} is negative", start));
    check_mode(file, direction);
    auto view = view_of(file);
    if (size % view->etype_size != 0)
        throw Error(CL_INVALID_VALUE,
                    fmt::format("the size {} is not a multiple of the {} bytes of the view's etype",
                                size, view->etype_size));
    return std::make_shared<MpiFileAccess>(file, std::move(view), start, direction, collective);
}

}  // namespace cldist
