#pragma once

#include <functional>
#include <memory>

#include "events/operation.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/file_access.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

/// The threads for calls on files that need no order, and how many they are at most.
IoThreads &io_threads();
unsigned io_thread_count();

/// Who drives a transfer that has a file at one end.
struct FileDriver {
    /// Has the transfer polled again; may be called by any thread, also when the transfer is gone.
    Waker wake;
    /// The driving thread does the calls itself, unless several threads shall.
    bool calls_itself;
};

/// The file's end of a transfer in blocks. Its calls are done by other threads, or, where the driver does them itself, in
/// start(). It stands in the file's lane from its construction until its last call.
class FileEndpoint final : public Endpoint {
public:
    /// `size`: bytes of the transfer.
    FileEndpoint(std::shared_ptr<FileAccess> access, Direction direction, std::size_t size, const Plan &plan,
                 FileDriver driver, std::shared_ptr<Record> record);
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
