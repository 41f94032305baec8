// Computes scores of local alignments between a query and the proteins of a chunk, after Smith and
// Waterman, with affine gaps.
//
// The host defines these macros:
// - LANES: the number of proteins that a work-item computes at once, in the lanes of a vector.
// - CELL, CELLS: the types of one score and of LANES scores.
// - GROUP: the number of work-items per work-group.
// - OPEN, EXTEND: the cost of the first residue of a gap, and of each further one.
//
// The residues of a protein are the columns of its matrix, and those of the query are the rows. A
// column passes two numbers per row to the next one, through memory. Some columns are computed
// together to reduce accesses to this memory. If the end of a chunk cuts a protein, the next chunk
// gets its last column.

#define COLUMNS 4  // computed together
#define LETTERS 24
#define NOTHING LETTERS  // padding before or after the residues of a lane; it improves no alignment
#define PITCH 36  // bytes per row of scores, so that rows begin in different banks of local memory

// Inlining makes the width of `advance` constant. Also, PoCL 3.1 reads zeros from local memory in
// functions that are not inlined.
#define INLINED static inline __attribute__((always_inline))

// The scores of one column: a row of the matrix if LANES is 1, otherwise a vector for each letter.
#if LANES == 1
typedef uint Scores;
#define SCORE(scores, letter) ((CELL)matrix[(scores) + (letter)])
#define MATRIX local const char *matrix
#else
typedef struct { CELLS of[LETTERS]; } Scores;
#define SCORE(scores, letter) ((scores).of[letter])
#define MATRIX global const char *matrix
#endif

// Returns the scores of a column whose lanes have these residues.
INLINED void fill_scores(MATRIX, Scores *scores, const uint *residue)
{
#if LANES == 1
    *scores = residue[0] * PITCH;
#else
    for (int letter = 0; letter < LETTERS; ++letter) {
        CELL row[LANES];
        for (int lane = 0; lane < LANES; ++lane) row[lane] = matrix[letter * PITCH + residue[lane]];
        scores->of[letter] = vload16(0, row);
    }
#endif
}

// Computes `width` columns from top to bottom, and returns the highest score so far. Element i *
// stride of `best` is the best alignment that ends in row i of the previous column. The same
// element of `gap` is the best alignment that continues from there with a gap.
INLINED CELLS advance(const int width, const Scores *scores, MATRIX, constant const uchar *query, uint rows,
                     global CELLS *best, global CELLS *gap, size_t stride, CELLS highest)
{
    CELLS above[COLUMNS], gap_above[COLUMNS], corner = 0;
    for (int c = 0; c < width; ++c) above[c] = gap_above[c] = 0;
    for (uint i = 0; i < rows; ++i) {
        const uint letter = query[i];
        const CELLS left = best[i * stride];
        CELLS across = gap[i * stride], diagonal = corner;
        corner = left;
#pragma unroll
        for (int c = 0; c < width; ++c) {
            const CELLS here = max(max(diagonal + SCORE(scores[c], letter), (CELLS)(0)), max(across, gap_above[c]));
            diagonal = above[c];
            above[c] = here;
            highest = max(highest, here);
            across = max(across - (CELL)EXTEND, here - (CELL)OPEN);
            gap_above[c] = max(gap_above[c] - (CELL)EXTEND, here - (CELL)OPEN);
        }
        best[i * stride] = above[width - 1];
        gap[i * stride] = across;
    }
    return highest;
}

// `residues` are those from `begin` to `end` of the database. They belong to `count` proteins from
// `first` on. Protein n begins at starts[n], and its score so far is scores[n]. `carried_in` is the
// last column of a protein that began in the previous chunk. `carried_out` is that of a protein
// that continues in the next one. `best` and `gap` hold a column for each lane of each work-item.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void smith_waterman(global const uchar *restrict residues, global const ulong *restrict starts,
                    global int *restrict scores, constant uchar *query, uint rows,
                    global const char *restrict blosum, global CELLS *restrict best, global CELLS *restrict gap,
                    global const CELL *restrict carried_in, global CELL *restrict carried_out, ulong begin, ulong end,
                    uint first, uint count)
{
    const size_t item = get_global_id(0), items = get_global_size(0);
#if LANES == 1
    // The columns of neighbours are adjacent, because they are read together.
    const size_t stride = items;
    best += item;
    gap += item;
    local char matrix[(LETTERS + 1) * PITCH];
    for (size_t n = get_local_id(0); n < (LETTERS + 1) * PITCH; n += GROUP) matrix[n] = blosum[n];
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    const size_t stride = 1;
    best += item * rows;
    gap += item * rows;
    global const char *matrix = blosum;
#endif

    starts += first;
    scores += first;
    const bool carries_in = starts[0] < begin, carries_out = starts[count] > end;

    for (size_t group = item; group * LANES < count; group += items) {
        const uint protein = group * LANES;
        uint from[LANES];
        int length[LANES], columns = 0;
        for (int lane = 0; lane < LANES; ++lane) {
            length[lane] = 0;
            if (protein + lane >= count) continue;
            from[lane] = max(starts[protein + lane], begin) - begin;
            length[lane] = (int)(min(starts[protein + lane + 1], end) - begin) - (int)from[lane];
            columns = max(columns, length[lane]);
        }

        for (uint i = 0; i < rows; ++i) best[i * stride] = gap[i * stride] = 0;
        CELLS highest = 0;
        if (protein == 0 && carries_in) {
            ((CELL *)&highest)[0] = scores[0];
            for (uint i = 0; i < rows; ++i) {
                ((global CELL *)&best[i * stride])[0] = carried_in[2 * i];
                ((global CELL *)&gap[i * stride])[0] = carried_in[2 * i + 1];
            }
        }

        // All lanes begin together, except for a protein that continues: it must end with the last
        // column.
        const int last = carries_out ? (int)(count - 1 - protein) : LANES;
        Scores column[COLUMNS];
        for (int j = 0; j < columns;) {
            const int width = columns - j < COLUMNS ? 1 : COLUMNS;
            for (int c = 0; c < width; ++c, ++j) {
                uint residue[LANES];
                for (int lane = 0; lane < LANES; ++lane) {
                    const int k = lane == last ? j - (columns - length[lane]) : j;
                    residue[lane] = k >= 0 && k < length[lane] ? residues[from[lane] + k] : NOTHING;
                }
                fill_scores(matrix, &column[c], residue);
            }
            highest = width == 1 ? advance(1, column, matrix, query, rows, best, gap, stride, highest)
                                 : advance(COLUMNS, column, matrix, query, rows, best, gap, stride, highest);
        }

        for (int lane = 0; lane < LANES; ++lane)
            if (protein + lane < count) scores[protein + lane] = ((CELL *)&highest)[lane];
        if (last >= 0 && last < LANES)
            for (uint i = 0; i < rows; ++i) {
                carried_out[2 * i] = ((global CELL *)&best[i * stride])[last];
                carried_out[2 * i + 1] = ((global CELL *)&gap[i * stride])[last];
            }
    }
}
