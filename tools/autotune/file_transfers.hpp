#pragma once

#include <string>

#include "device_end.hpp"
#include "measure.hpp"

namespace cldist::tool {

/// Reads and writes an unnamed temporary file, which is deleted when the process ends.
class FileTransfers final : public Transfers {
public:
    /// Creates the file in `directory` with the pattern. Throws a TuneError on failure.
    FileTransfers(const DeviceEnd &end, const std::string &directory);
    ~FileTransfers() override;

    void take_route(Route route) { route_ = route; }
    double seconds(const Way &way, std::size_t size, unsigned count) override;
    bool arrives(const Way &way, std::size_t size) override;

    /// The times of copies between file and host memory.
    [[nodiscard]] std::vector<Curve::Point> plain(Route route) const;

private:
    void once(std::size_t size) const;
    void fill() const;

    const DeviceEnd &end_;
    int descriptor_ = -1;
    Route route_ = Route::from_file;
};

}  // namespace cldist::tool
