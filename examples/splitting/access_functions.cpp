// A library for CLDIST_ACCESS_FUNCTIONS: hand-written access functions for the kernels of these
// examples. Without it, cldist derives the same accesses.
#include <CL/cl_ext_split.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace {

constexpr std::size_t block = 16;  // of hotspot and of the LU decomposition

using Sizes = std::array<std::size_t, 3>;
using Places = std::array<std::ptrdiff_t, 3>;

struct Answer {
    bool used;
    std::size_t next;
};

struct Query {
    const void **params;
    const std::size_t *global, *part, *local, *first;
    unsigned param;
    std::size_t start;

    std::size_t value(unsigned argument) const {
        return std::size_t(*static_cast<const cl_int *>(params[argument]));
    }
    std::ptrdiff_t begin(unsigned d) const { return std::ptrdiff_t(first[d]); }

    /// A box of `count` elements from `from` on, in an array with this number of dimensions.
    Answer box(unsigned dimensions, Sizes array, Places from, Sizes count,
               std::size_t element = sizeof(cl_float)) const {
        std::size_t next = 0;
        const int used = require_region(dimensions, array.data(), from.data(), count.data(),
                                        element, start, &next);
        return {used != 0, next};
    }
    /// One element per work-item along a dimension.
    Answer items(std::size_t element, unsigned d = 0) const {
        return box(1, {global[d]}, {begin(d)}, {part[d]}, element);
    }
    Answer groups(std::size_t element) const {
        return box(1, {global[0] / local[0]}, {std::ptrdiff_t(first[0] / local[0])},
                   {part[0] / local[0]}, element);
    }
    /// One element per work-item, in an array whose rows have `width` elements.
    Answer elements(std::size_t width) const {
        return box(2, {width, global[1]}, {begin(0), begin(1)}, {part[0], part[1]});
    }
    /// The cells of a part and a border around it. Arguments 3 and 4 of the kernel are the width
    /// and height of the array.
    Answer cells(std::size_t border) const {
        const auto around = std::ptrdiff_t(border);
        return box(2, {value(3), value(4)}, {begin(0) - around, begin(1) - around},
                   {part[0] + 2 * border, part[1] + 2 * border});
    }
    /// `columns` and `rows` from (x, y) on, in a square matrix. Argument 1 is its number of rows.
    Answer square(std::size_t x, std::size_t y, std::size_t columns, std::size_t rows) const {
        return box(2, {value(1), value(1)}, {std::ptrdiff_t(x), std::ptrdiff_t(y)},
                   {columns, rows});
    }
    /// The row or column at which the part of an LU decomposition begins.
    std::size_t behind(unsigned d) const { return value(2) + block + first[d]; }
};

constexpr Answer none{false, SIZE_MAX};
constexpr Answer whole{true, SIZE_MAX};

Answer operator|(Answer a, Answer b) {
    if (a.used != b.used) return a.used ? a : b;
    return {a.used, a.used ? std::max(a.next, b.next) : std::min(a.next, b.next)};
}

Answer read(const Query &q, struct squared_distances *) {
    return q.param == 0 ? q.items(sizeof(cl_float2)) : none;
}
Answer written(const Query &q, struct squared_distances *) {
    return q.param == 1 ? q.items(sizeof(cl_float)) : none;
}

Answer read(const Query &, struct mandelbrot *) { return none; }
Answer written(const Query &q, struct mandelbrot *) {
    return q.param == 0 ? q.elements(q.value(1)) : none;
}

Answer read(const Query &, struct sha256 *) { return none; }
Answer written(const Query &q, struct sha256 *) {
    return q.param == 0 ? q.items(8 * sizeof(cl_uint)) : none;
}

// Two elements per work-item, `distance` apart.
Answer pairs(const Query &q) {
    return q.box(3, {q.value(1), 2, q.global[1]}, {q.begin(0), 0, q.begin(1)},
                 {q.part[0], 2, q.part[1]});
}
Answer read(const Query &q, struct compare *) { return q.param == 0 ? pairs(q) : none; }
Answer written(const Query &q, struct compare *) { return q.param == 0 ? pairs(q) : none; }

Answer read(const Query &q, struct binomial_option *) {
    return q.param == 0 ? q.groups(sizeof(cl_float4)) : none;
}
Answer written(const Query &q, struct binomial_option *) {
    return q.param == 1 ? q.groups(sizeof(cl_float)) : none;
}

Answer read(const Query &q, struct asian_option *) {
    return q.param == 0 ? q.items(sizeof(cl_float4)) : none;
}
Answer written(const Query &q, struct asian_option *) {
    return q.param == 1 ? q.items(sizeof(cl_float)) : none;
}

Answer read(const Query &q, struct move *) {
    return q.param == 0 ? whole : q.param == 1 ? q.items(sizeof(cl_float4)) : none;
}
Answer written(const Query &q, struct move *) {
    return q.param == 2 || q.param == 3 ? q.items(sizeof(cl_float4)) : none;
}

Answer read(const Query &q, struct nearest_centres *) {
    if (q.param == 0) return q.items(q.value(3) * sizeof(cl_float));
    return q.param == 1 ? whole : none;
}
Answer written(const Query &q, struct nearest_centres *) {
    return q.param == 2 ? q.items(sizeof(cl_int)) : none;
}

Answer read(const Query &q, struct forward *) {
    if (q.param == 0) return q.items(sizeof(cl_float), 1);
    return q.param == 1 ? q.elements(q.value(3)) : none;
}
Answer written(const Query &q, struct forward *) {
    if (q.param != 2) return none;
    return q.box(2, {q.value(3), q.global[1] / q.local[1]},
                 {0, std::ptrdiff_t(q.first[1] / q.local[1])},
                 {q.value(3), q.part[1] / q.local[1]});
}

Answer read(const Query &q, struct adjust *) {
    if (q.param < 2) return q.elements(q.value(4));
    return q.param == 2   ? q.items(sizeof(cl_float), 1)
           : q.param == 3 ? q.items(sizeof(cl_float))
                          : none;
}
Answer written(const Query &q, struct adjust *) {
    return q.param < 2 ? q.elements(q.value(4)) : none;
}

Answer read(const Query &q, struct hotspot *) { return q.param < 2 ? q.cells(q.value(5)) : none; }
Answer written(const Query &q, struct hotspot *) { return q.param == 2 ? q.cells(0) : none; }

Answer diagonal(const Query &q) { return q.square(q.value(2), q.value(2), block, block); }
Answer read(const Query &q, struct lu_diagonal *) { return q.param == 0 ? diagonal(q) : none; }
Answer written(const Query &q, struct lu_diagonal *) { return q.param == 0 ? diagonal(q) : none; }

// The first box contains the elements of the diagonal block that are left of the diagonal.
Answer read(const Query &q, struct lu_row *) {
    const std::size_t k = q.value(2);
    if (q.param != 0) return none;
    return q.square(k, k + 1, block - 1, block - 1) | q.square(q.behind(0), k, q.part[0], block);
}
Answer written(const Query &q, struct lu_row *) {
    return q.param == 0 ? q.square(q.behind(0), q.value(2) + 1, q.part[0], block - 1) : none;
}

// The boxes contain the diagonal of the diagonal block, and the elements right of it.
Answer read(const Query &q, struct lu_column *) {
    const std::size_t k = q.value(2);
    const std::size_t last = k + block - 1;
    if (q.param != 0) return none;
    return q.square(k, k, 1, 1) | q.square(k + 1, k, block - 1, block - 1) |
           q.square(last, last, 1, 1) | q.square(k, q.behind(0), block, q.part[0]);
}
Answer written(const Query &q, struct lu_column *) {
    return q.param == 0 ? q.square(q.value(2), q.behind(0), block, q.part[0]) : none;
}

Answer own(const Query &q) { return q.square(q.behind(0), q.behind(1), q.part[0], q.part[1]); }
Answer read(const Query &q, struct lu_inner *) {
    if (q.param != 0) return none;
    return own(q) | q.square(q.value(2), q.behind(1), block, q.part[1]) |
           q.square(q.behind(0), q.value(2), q.part[0], block);
}
Answer written(const Query &q, struct lu_inner *) { return q.param == 0 ? own(q) : none; }

}  // namespace

#define IS_BUFFER_RANGE(how, kernel)                                                               \
    extern "C" int is_buffer_range_##how##_##kernel(                                               \
        const void **params, const size_t *global, const size_t *subrange, const size_t *local,    \
        const size_t *subrange_offset, unsigned int param_num, size_t start, size_t *next_start) { \
        const Answer answer =                                                                      \
            how({params, global, subrange, local, subrange_offset, param_num, start},              \
                static_cast<struct kernel *>(nullptr));                                            \
        *next_start = answer.next;                                                                 \
        return answer.used ? 1 : 0;                                                                \
    }
#define KERNEL(name) IS_BUFFER_RANGE(read, name) IS_BUFFER_RANGE(written, name)
#include "kernels.def"
