#pragma once

namespace cldist {

/// OpenCL C functions that copy contiguous bytes and strided regions with several work-groups, for
/// the start of a program.
inline constexpr const char *copy_source = R"(
// The work-groups that move one message, and the position of a thread among their threads.
typedef struct {
    uint group, groups;
    ulong thread, threads;
} Team;
Team team_from(uint first, uint groups) {
    const uint group = get_group_id(0) - first;
    const Team team = {group, groups, (ulong)group * get_local_size(0) + get_local_id(0), (ulong)groups * get_local_size(0)};
    return team;
}

// Copies `count` elements of type T. TO and FROM are macros that return the address of element i.
#define COPY(T, TO, FROM)                                                                                            \
    {                                                                                                                \
        const ulong step = team.threads;                                                                             \
        ulong i = team.thread;                                                                                       \
        for (; i + 3 * step < count; i += 4 * step) {                                                                \
            const T a = *FROM(T, i), b = *FROM(T, i + step), c = *FROM(T, i + 2 * step), d = *FROM(T, i + 3 * step); \
            *TO(T, i) = a; *TO(T, i + step) = b; *TO(T, i + 2 * step) = c; *TO(T, i + 3 * step) = d;                 \
        }                                                                                                            \
        for (; i < count; i += step) *TO(T, i) = *FROM(T, i);                                                        \
    }
#define AT_FROM(T, i) ((__global const T *)from + (i))
#define AT_TO(T, i) ((__global T *)to + (i))

void move(Team team, __global const uchar *from, __global uchar *to, ulong size) {
    const ulong bits = (ulong)from | (ulong)to;
    ulong count = 0, done = 0;
    if ((bits & 15) == 0) {
        count = size / 16;
        COPY(uint4, AT_TO, AT_FROM)
        done = count * 16;
    } else if ((bits & 3) == 0) {
        count = size / 4;
        COPY(uint, AT_TO, AT_FROM)
        done = count * 4;
    }
    for (ulong i = done + team.thread; i < size; i += team.threads) to[i] = from[i];
}

// The layout of a message in a buffer: bytes of a row, rows of a slice, and the bytes from one row
// and from one slice to the next. The width of contiguous bytes is 0.
typedef ulong4 Region;

// The offset of an element, in bytes. Elements count from the first one of row `row` of a slice.
// Divisions of 64-bit numbers are slow on GPUs.
ulong place(uint element, uint width, uint row, Region region, uint size) {
    const uint rows = region.y;
    row += element / width;
    return row / rows * region.w + row % rows * region.z + element % width * size;
}

#define AT_REGION(T, i) ((__global T *)(memory + place((uint)(i) + column, width, start.y, region, sizeof(T))))
#define AT_PACKED(T, i) ((__global T *)packed + (i))
#define MOVE_REGION(T)                                                            \
    {                                                                             \
        const uint width = region.x / sizeof(T), column = start.x / sizeof(T);    \
        const ulong count = size / sizeof(T);                                     \
        if (packs) COPY(T, AT_PACKED, AT_REGION)                                  \
        else COPY(T, AT_REGION, AT_PACKED)                                        \
    }

// Moves `size` bytes between a region and packed memory. They begin `start.x` bytes behind the start of row `start.y`
// of the slice at `memory`. Numbers of elements and rows, also beyond `start`, are less than 2^32.
void move_region(Team team, bool packs, __global uchar *memory, Region region, uint2 start, __global uchar *packed,
                 ulong size) {
    const ulong bits = (ulong)memory | (ulong)packed | region.x | region.z | region.w | start.x | size;
    if ((bits & 15) == 0) MOVE_REGION(uint4)
    else if ((bits & 3) == 0) MOVE_REGION(uint)
    else MOVE_REGION(uchar)
}
)";

}  // namespace cldist
