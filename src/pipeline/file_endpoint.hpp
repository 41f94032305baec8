#pragma once

#include <memory>

#include "events/operation.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/file_access.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

/// The threads that make calls on files without a lane, and the largest number of these threads.
IoThreads &io_threads();
unsigned io_thread_count();

/// The driver of a transfer with a file.
struct FileDriver {
    /// Requests another poll of the transfer. Any thread may call it, even after the transfer was
    /// destroyed.
    Waker wake;
    /// The driving thread makes the calls itself, except calls that several threads make in
    /// parallel.
    bool calls_itself;
};

/// The file's end of a transfer in blocks. Its calls run on other threads, or on the driving thread
/// if the driver makes its calls itself. It is in the file's lane from its construction until its
/// last call.
class FileEndpoint final : public Endpoint {
public:
    /// `size` is the size of the transfer in bytes.
    FileEndpoint(std::shared_ptr<FileAccess> access, Direction direction, std::size_t size,
                 const Plan &plan, FileDriver driver, std::shared_ptr<Record> record);
    ~FileEndpoint() override;

    Outcome open() override;
    void start(const Block &block) override;
    void skip(const Block &block) override;
    Outcome ended(const Block &block) override;
    [[nodiscard]] std::size_t moved_of_failed(const Block &block) const override;
    Outcome close() override;

private:
    class Calls;
    const std::shared_ptr<Calls> calls_;
};

}  // namespace cldist
