// NPB's MG. A grid of a level has n x n x n points, n a power of two, and goes on at its other end. A device has some planes of
// it, between two halo planes, or all of them: `mask` is n - 1 then, else all ones. A work-item has a point.

typedef struct {
    uint x, y, z;
} Point;

Point point_of(size_t i, uint n)
{
    const uint plane = (uint)(i / ((size_t)n * n)), in_plane = (uint)(i % ((size_t)n * n));
    return (Point){in_plane & (n - 1), in_plane / n, plane};
}

// Where a row begins. The first plane that is no halo is 0.
size_t row_at(uint y, uint z, uint n, uint mask)
{
    return ((size_t)((z & mask) + 1) * n + (y & (n - 1))) * n;
}

// The sum of a point, its 6, 12 and 8 neighbours at faces, edges and corners, each with its weight.
double weighted(global const double *u, uint n, uint mask, Point at, double centre, double face, double edge, double corner)
{
    const uint low = (at.x - 1) & (n - 1), high = (at.x + 1) & (n - 1);
    double faces = 0.0, edges = 0.0, corners = 0.0;
    for (int z = -1; z <= 1; ++z)
        for (int y = -1; y <= 1; ++y) {
            global const double *const row = u + row_at(at.y + y, at.z + z, n, mask);
            const double here = row[at.x], beside = row[low] + row[high];
            if (y == 0 && z == 0) {
                centre *= here;
                faces += beside;
            } else if (y == 0 || z == 0) {
                faces += here;
                edges += beside;
            } else {
                edges += here;
                corners += beside;
            }
        }
    return centre + face * faces + edge * edges + corner * corners;
}

// r = v - A u
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void residual(global const double *u, global const double *v, global double *r, uint n, uint mask, ulong points)
{
    const size_t i = get_global_id(0);
    if (i >= points)
        return;
    const Point at = point_of(i, n);
    const size_t own = row_at(at.y, at.z, n, mask) + at.x;
    r[own] = v[own] - weighted(u, n, mask, at, -8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0);
}

// u = S r, or u += S r
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void smooth(global const double *r, global double *u, uint add, uint n, uint mask, ulong points)
{
    const size_t i = get_global_id(0);
    if (i >= points)
        return;
    const Point at = point_of(i, n);
    const size_t own = row_at(at.y, at.z, n, mask) + at.x;
    u[own] = (add ? u[own] : 0.0) + weighted(r, n, mask, at, -3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0);
}

// The next coarser level's r. The device's planes of that begin with `first` of `coarse`.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void coarsen(global const double *fine, global double *coarse, uint fine_mask, uint first, uint n, ulong points)
{
    const size_t i = get_global_id(0);
    if (i >= points)
        return;
    const Point at = point_of(i, n);
    const Point middle = {2 * at.x + 1, 2 * at.y + 1, 2 * at.z + 1};
    coarse[row_at(at.y, first + at.z, n, ~0u) + at.x] =
        weighted(fine, 2 * n, fine_mask, middle, 1.0 / 2.0, 1.0 / 4.0, 1.0 / 8.0, 1.0 / 16.0);
}

// The nearer coarse point below fine point i, -1 for 0; the one above is i / 2.
uint below(uint i)
{
    return (uint)(((int)i - 1) >> 1);
}

// u, or what is added to it, from the next coarser level's: the mean of the two nearest points in each direction, which are
// one for odd ones. The device's planes of that begin with `first` of `coarse`.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void refine(global const double *coarse, global double *u, uint coarse_mask, uint first, uint add, uint n, ulong points)
{
    const size_t i = get_global_id(0);
    if (i >= points)
        return;
    const Point at = point_of(i, n);
    const uint half_n = n / 2;
    const uint left = below(at.x) & (half_n - 1), right = at.x / 2;
    double sum = 0.0;
    for (uint side = 0; side < 4; ++side) {
        const uint y = (side & 1) ? at.y / 2 : below(at.y), z = first + ((side & 2) ? at.z / 2 : below(at.z));
        global const double *const row = coarse + row_at(y, z, half_n, coarse_mask);
        sum += row[left] + row[right];
    }
    const size_t own = row_at(at.y, at.z, n, ~0u) + at.x;
    u[own] = (add ? u[own] : 0.0) + sum / 8.0;
}
