// One step of Smoluchowski's equation for some of the bins.
//
// BINS is the number of bins, SLICES that of the work-items of a work-group; the host defines them. A work-group computes
// a block of 8 bins, and its work-items share the sums out. Every bin is summed in the same order on whatever device it is
// computed, and nothing may be contracted: the result does not depend on the number of processes, to the last bit.
#pragma OPENCL FP_CONTRACT OFF

// `now` begins with 8 zeros, then come the bins. `next` gets this process's blocks, one after another: block `rank`, block
// `rank + ranks` and so on. `outgrown`, for the same bins, is the mass that they lost to particles larger than the last bin.
kernel __attribute__((reqd_work_group_size(SLICES, 1, 1)))
void coagulate(global const float *restrict collisions, global const float *restrict now, global float *restrict next,
               global float *restrict outgrown, uint rank, uint ranks)
{
    local float8 gains[SLICES], losses[SLICES], leaving[SLICES];
    const size_t slice = get_local_id(0), first = (get_group_id(0) * ranks + rank) * 8;
    const int8 size = (int8)(first) + (int8)(0, 1, 2, 3, 4, 5, 6, 7);
    now += 8;

    // Sizes i and size - i become size. Where that is negative, the zeros before the bins are met.
    float8 gain = 0.0f;
    for (size_t i = slice; i < first + 8; i += SLICES)
        gain += vload8(0, collisions + i * BINS + first - i) * (now[i] * vload8(0, now + first - i));

    // Size and i become something else. The matrix is symmetric: column `size` is read as a piece of row i.
    float8 loss = 0.0f, left = 0.0f;
    for (size_t i = slice; i < BINS; i += SLICES) {
        const float8 rate = vload8(0, collisions + i * BINS + first) * now[i];
        loss += rate;
        left += select((float8)(0.0f), rate, size + (int8)(i) >= (int8)(BINS));
    }

    gains[slice] = gain;
    losses[slice] = loss;
    leaving[slice] = left;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice == 0) {
        for (size_t n = 1; n < SLICES; ++n) {
            gain += gains[n];
            loss += losses[n];
            left += leaving[n];
        }
        const float8 here = vload8(0, now + first);
        vstore8(here + (0.5f * gain - here * loss), get_group_id(0), next);
        vstore8(vload8(get_group_id(0), outgrown) + convert_float8(size) * here * left, get_group_id(0), outgrown);
    }
}
