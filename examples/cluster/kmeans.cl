// k-means in whole numbers, so that sums don't depend on who adds up what. A tally has, for each cluster, the sums of its
// points' coordinates and their number.
#define TALLY (CLUSTERS * (DIMENSIONS + 1))

// Each work-item tallies some of the device's points, at the nearest centroid; at the first of several.
kernel void tally_points(global const int *points, uint count, global const int *centroids, global long *tallies)
{
    global long *const tally = tallies + get_global_id(0) * TALLY;
    for (uint i = 0; i < TALLY; ++i)
        tally[i] = 0;
    for (size_t point = get_global_id(0); point < count; point += get_global_size(0)) {
        uint nearest = 0;
        long least = LONG_MAX;
        for (uint cluster = 0; cluster < CLUSTERS; ++cluster) {
            long square = 0;
            for (uint axis = 0; axis < DIMENSIONS; ++axis) {
                const long way = points[point * DIMENSIONS + axis] - centroids[cluster * DIMENSIONS + axis];
                square += way * way;
            }
            if (square < least) {
                least = square;
                nearest = cluster;
            }
        }
        for (uint axis = 0; axis < DIMENSIONS; ++axis)
            tally[nearest * (DIMENSIONS + 1) + axis] += points[point * DIMENSIONS + axis];
        ++tally[nearest * (DIMENSIONS + 1) + DIMENSIONS];
    }
}

// A work-item for each number of a tally.
kernel void add_up(global const long *tallies, uint count, global long *sum)
{
    long own = 0;
    for (uint i = 0; i < count; ++i)
        own += tallies[i * TALLY + get_global_id(0)];
    sum[get_global_id(0)] = own;
}

// A work-item for each coordinate. A centroid without points stays.
kernel void move_centroids(global const long *sum, global int *centroids)
{
    const size_t i = get_global_id(0), cluster = i / DIMENSIONS, axis = i % DIMENSIONS;
    const long count = sum[cluster * (DIMENSIONS + 1) + DIMENSIONS];
    if (count != 0)
        centroids[i] = (int)(sum[cluster * (DIMENSIONS + 1) + axis] / count);
}
