#include "figures.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace smith_waterman {
namespace {

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// The baseline of a block size: the series of the host program "serial"; null if there is none.
const Series *serial_of(const std::vector<Series> &all, std::size_t block) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Series &series) {
        return series.block == block && series.host == "serial";
    });
    return found == all.end() ? nullptr : &*found;
}

void print_best(const std::vector<Series> &all) {
    const Series *best = nullptr;
    for (const Series &series : all)
        if (series.host == "event-chained" && (!best || series.total() < best->total()))
            best = &series;
    const Series *serial = best ? serial_of(all, best->block) : nullptr;
    if (!serial) return;
    fmt::print(
        "event-chained is fastest with chunks of {}: {:.2f} ms exposed, {:+.0f} % against serial's "
        "{:.2f} ms; in all {:.2f} ms, {:+.1f} %\n",
        size_name(best->block), best->exposed() * 1e3, -saved(*best, *serial) * 100,
        serial->exposed() * 1e3, best->total() * 1e3,
        (best->total() / serial->total() - 1.0) * 100);
}

}  // namespace

template <typename Figure>
double Series::median(Figure &&figure) const {
    std::vector<double> values;
    for (const Run &run : runs) values.push_back(figure(run));
    return median_of(std::move(values));
}

double Series::total() const {
    return median([](const Run &run) { return run.total; });
}
double Series::kernels() const {
    return median([](const Run &run) { return run.times.kernels; });
}
double Series::exposed() const {
    return median([](const Run &run) { return run.exposed(); });
}
double Series::file() const {
    return median([](const Run &run) { return run.times.file; });
}
double Series::copy() const {
    return median([](const Run &run) { return run.times.copy; });
}

double saved(const Series &series, const Series &by) {
    std::vector<double> ratios;
    for (std::size_t n = 0; n < series.runs.size(); ++n)
        ratios.push_back(1.0 - series.runs[n].exposed() / by.runs[n].exposed());
    return median_of(std::move(ratios));
}

std::string size_name(std::size_t bytes) {
    if (bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
    if (bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
    return fmt::format("{}", bytes);
}

void print(const std::vector<Series> &all, double cells) {
    fmt::print("{:>7} {:>7}  {:<14} {:>11} {:>11} {:>11} {:>11} {:>11} {:>8} {:>7}\n", "block",
               "chunks", "host", "total", "kernels", "exposed", "file", "copy", "GCUPS", "saved");
    for (const Series &series : all) {
        const Series *serial = serial_of(all, series.block);
        const auto ms = [](double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); };
        fmt::print("{:>7} {:>7}  {:<14} {:>11} {:>11} {:>11} {:>11} {:>11} {:>8.3f} {:>7}\n",
                   size_name(series.block), series.chunks, series.host, ms(series.total()),
                   ms(series.kernels()), ms(series.exposed()), ms(series.file()), ms(series.copy()),
                   cells / series.total() * 1e-9,
                   serial && serial != &series
                       ? fmt::format("{:.0f} %", saved(series, *serial) * 100)
                       : "");
    }
    fmt::print(
        "exposed: the data transfer time, in which no kernel ran; file, copy: during which the "
        "file was read, and\n"
        "residues were on their way to the device, hidden or not; saved: exposed time, compared "
        "with serial.\n");
    print_best(all);
}

std::string to_json(const std::string &head, const std::vector<Series> &all, double cells) {
    std::string text = "{" + head + ",\n \"series\": [";
    const char *separator = "";
    for (const Series &series : all) {
        text += fmt::format(
            "{}\n  {{\"host\": \"{}\", \"block\": {}, \"chunks\": {}, \"total\": {:.9f}, "
            "\"kernels\": {:.9f}, \"exposed\": {:.9f}, \"file\": {:.9f}, \"copy\": {:.9f}, "
            "\"gcups\": {:.4f}",
            separator, series.host, series.block, series.chunks, series.total(), series.kernels(),
            series.exposed(), series.file(), series.copy(), cells / series.total() * 1e-9);
        if (const Series *serial = serial_of(all, series.block); serial && serial != &series)
            text += fmt::format(", \"saved\": {:.4f}", saved(series, *serial));
        text += "}";
        separator = ",";
    }
    return text + "\n]}\n";
}

}  // namespace smith_waterman
