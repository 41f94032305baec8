#pragma once

#include <string>

#include "device_end.hpp"
#include "measure.hpp"

namespace cldist::tool {

/// Reads and writes a temporary file, which has no name: it is gone with the process, however that ends.
class FileTransfers final : public Transfers {
public:
    /// The file is in `directory` and holds the pattern. Throws a TuneError if it can't be made.
    FileTransfers(const DeviceEnd &end, const std::string &directory);
    ~FileTransfers() override;

    void take_route(Route route) { route_ = route; }
    double seconds(const Way &way, std::size_t size, unsigned count) override;
    bool arrives(const Way &way, std::size_t size) override;

    /// Between file and host memory.
    [[nodiscard]] std::vector<Curve::Point> plain(Route route) const;

private:
    void once(std::size_t size) const;
    void fill() const;

    const DeviceEnd &end_;
    int descriptor_ = -1;
    Route route_ = Route::from_file;
};

}  // namespace cldist::tool
