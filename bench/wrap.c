/* Measures how much linking with cldist slows down a plain MPI program: a ping-pong of 8 bytes. It
 * is built as wrap and as wrap-without-cldist, and wrap.py runs both alternately.
 *
 *   wrap single|multiple    the thread level that the program requests (cldist raises it)
 *
 * Prints the medians of the one-way time in ns, with MPI_Send and MPI_Recv, and with the PMPI_
 * names, which no library wraps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

enum { rounds = 200, messages = 500, tag = 7 };

/* Both functions differ only in the names of the MPI calls. */
#define PING_PONG(name, send, recv)                                                  \
    static double name(int rank) {                                                   \
        unsigned char out[8] = {0};                                                  \
        unsigned char in[8];                                                         \
        const double start = MPI_Wtime();                                            \
        for (int i = 0; i < messages; ++i) {                                         \
            memcpy(out, &i, sizeof i);                                               \
            if (rank == 0) send(out, 8, MPI_BYTE, 1, tag, MPI_COMM_WORLD);           \
            recv(in, 8, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); \
            if (memcmp(out, in, 8) != 0) MPI_Abort(MPI_COMM_WORLD, 1);               \
            if (rank == 1) send(out, 8, MPI_BYTE, 0, tag, MPI_COMM_WORLD);           \
        }                                                                            \
        return (MPI_Wtime() - start) / (2.0 * messages) * 1e9;                       \
    }
PING_PONG(by_mpi, MPI_Send, MPI_Recv)
PING_PONG(by_pmpi, PMPI_Send, PMPI_Recv)

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, rounds, sizeof *values, ascending);
    return values[rounds / 2];
}

int main(int argc, char **argv) {
    int provided = MPI_THREAD_SINGLE;
    if (argc > 1 && strcmp(argv[1], "multiple") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "wrap: start this program with two processes\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double mpi[rounds];
    double pmpi[rounds];
    for (int i = -10; i < rounds; ++i) { /* ten rounds to warm up */
        const int at = i < 0 ? 0 : i;
        /* Alternately, one or the other is first. */
        if (i % 2 == 0) mpi[at] = by_mpi(rank);
        pmpi[at] = by_pmpi(rank);
        if (i % 2 != 0) mpi[at] = by_mpi(rank);
    }
    MPI_Query_thread(&provided);
    if (rank == 0) {
        const double by_name = median(mpi);
        printf("%.2f %.2f %s\n", by_name, median(pmpi),
               provided == MPI_THREAD_MULTIPLE ? "multiple" : "lower");
    }
    MPI_Finalize();
    return 0;
}
