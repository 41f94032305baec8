// k-means: each device has some of the points, and all centroids. An all-reduce adds the sums and
// sizes of the clusters on all devices, and each device computes the new centroids. So points never
// move, and the host waits only for the last iteration.

#include "collective.hpp"
#include "kmeans_cl.hpp"

#include <limits>

using namespace cluster;

namespace {

constexpr std::size_t clusters = 16, dimensions = 4, tally = clusters * (dimensions + 1);
constexpr std::size_t items = 1024;  ///< work-items per device

/// Generates points around one centre per cluster.
std::vector<cl_int> make_points(std::size_t count) {
    std::vector<cl_int> points(count * dimensions);
    for (std::size_t i = 0; i < points.size(); ++i) {
        const std::size_t place = i / dimensions % clusters;
        const float middle = noise(cl_uint(place * dimensions + i % dimensions));
        points[i] = cl_int(1e6f * middle + 2e5f * noise(cl_uint(clusters * dimensions + i)));
    }
    return points;
}

/// Computes the centroids on the host. The first points are the initial centroids.
std::vector<cl_int> reference(const std::vector<cl_int> &points, int iterations) {
    std::vector<cl_int> centroids(points.begin(), points.begin() + clusters * dimensions);
    for (int iteration = 0; iteration < iterations; ++iteration) {
        std::vector<cl_long> sums(clusters * dimensions), sizes(clusters);
        for (std::size_t point = 0; point < points.size(); point += dimensions) {
            std::size_t nearest = 0;
            cl_long least = std::numeric_limits<cl_long>::max();
            for (std::size_t cluster = 0; cluster < clusters; ++cluster) {
                cl_long square = 0;
                for (std::size_t axis = 0; axis < dimensions; ++axis) {
                    const cl_long way =
                        points[point + axis] - centroids[cluster * dimensions + axis];
                    square += way * way;
                }
                if (square < least) {
                    least = square;
                    nearest = cluster;
                }
            }
            for (std::size_t axis = 0; axis < dimensions; ++axis)
                sums[nearest * dimensions + axis] += points[point + axis];
            ++sizes[nearest];
        }
        for (std::size_t i = 0; i < centroids.size(); ++i)
            if (sizes[i / dimensions] != 0) centroids[i] = cl_int(sums[i] / sizes[i / dimensions]);
    }
    return centroids;
}

Result find_clusters(const Options &options) {
    const auto count = std::size_t(number(options.size.c_str(), int(clusters)));
    const std::vector<cl_int> points = make_points(count);
    const std::span start = std::span(points).first(clusters * dimensions);
    const Devices devices(options.devices, count);
    const Program program = devices.build(
        kmeans_source, fmt::format("-DCLUSTERS={} -DDIMENSIONS={}", clusters, dimensions));
    const Kernel tally_points = make_kernel(program, "tally_points"),
                 add_up = make_kernel(program, "add_up"),
                 move_centroids = make_kernel(program, "move_centroids");
    struct Part {
        Range range;
        Buffer points, centroids, tallies, own, all;
    };
    std::vector<Part> parts;
    for (int device = 0; device < devices.count(); ++device) {
        const Range range = devices.share(count, device);
        parts.push_back(
            {range, devices.buffer(range.count * dimensions * sizeof(cl_int), CL_MEM_READ_ONLY),
             devices.buffer(start.size_bytes()), devices.buffer(items * tally * sizeof(cl_long)),
             devices.buffer(tally * sizeof(cl_long)), devices.buffer(tally * sizeof(cl_long))});
        write(devices.queue(device), parts.back().points,
              std::span(points).subspan(range.first * dimensions, range.count * dimensions));
    }

    const std::size_t group = devices.group_size(64);
    const std::vector<cl_command_queue> all_queues = queues(devices);
    std::vector<cl_int> centroids(start.size());
    const auto prepare = [&] {
        for (std::size_t i = 0; i < parts.size(); ++i)
            write(all_queues[i], parts[i].centroids, start);
    };
    const double seconds = measure(devices, options.repeat, prepare, [&] {
        for (int iteration = 0; iteration < options.iterations; ++iteration) {
            for (std::size_t i = 0; i < parts.size(); ++i) {
                const Part &part = parts[i];
                set_arguments(tally_points, part.points, cl_uint(part.range.count), part.centroids,
                              part.tallies);
                launch(all_queues[i], tally_points, {items}, {group});
                set_arguments(add_up, part.tallies, cl_uint(items), part.own);
                launch(all_queues[i], add_up, {tally});
                flush(all_queues[i]);
            }
            check(clEnqueueAllReduceBuffer(
                      all_queues.data(), cl_uint(parts.size()), buffers(parts, &Part::own).data(),
                      buffers(parts, &Part::all).data(), nullptr, nullptr, tally * sizeof(cl_long),
                      CL_SIGNED_INT64_DIST, 0, nullptr, nullptr),
                  "clEnqueueAllReduceBuffer");
            for (std::size_t i = 0; i < parts.size(); ++i) {
                set_arguments(move_centroids, parts[i].all, parts[i].centroids);
                launch(all_queues[i], move_centroids, {start.size()});
            }
        }
        read(all_queues.back(), parts.back().centroids, CL_TRUE, std::span(centroids));
    });

    if (options.check) {
        const std::vector<cl_int> expected = reference(points, options.iterations);
        for (std::size_t i = 0; i < centroids.size(); ++i)
            expect_near("centroid", i, centroids[i], expected[i], 0);
    }
    // Counts 3 integer operations per coordinate of each point and centroid.
    return {fmt::format("{} points, {} iterations", count, options.iterations), devices.count(),
            seconds, 3.0 * double(count * clusters * dimensions) * options.iterations};
}

}  // namespace

int main(int argc, char **argv) {
    return run({"kmeans",
                "Finds 16 clusters of points in four dimensions.",
                "points",
                "iterations",
                {.size = "100000", .iterations = 20}},
               argc, argv, find_clusters);
}
