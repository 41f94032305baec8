/* A PMPI tool like mpiP or Score-P. It counts calls of MPI_Init, MPI_Init_thread, MPI_Isend and
 * MPI_Irecv, and prints the counts in MPI_Finalize. With LOOK_UP it finds PMPI_Init with dlsym, as
 * Darshan does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int inits, sends, receives;

#ifdef LOOK_UP
static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
int MPI_Init(int *argc, char ***argv) {
    int (*init)(int *, char ***);
    void *const found = next("PMPI_Init");
    memcpy(&init, &found, sizeof init);
    ++inits;
    return init(argc, argv);
}
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int (*init)(int *, char ***, int, int *);
    void *const found = next("PMPI_Init_thread");
    memcpy(&init, &found, sizeof init);
    ++inits;
    return init(argc, argv, required, provided);
}
#else
int MPI_Init(int *argc, char ***argv) {
    ++inits;
    return PMPI_Init(argc, argv);
}
#ifndef WITHOUT_INIT_THREAD
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    ++inits;
    return PMPI_Init_thread(argc, argv, required, provided);
}
#endif
#endif

int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request *request) {
    ++sends;
    return PMPI_Isend(buf, count, datatype, dest, tag, comm, request);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Request *request) {
    ++receives;
    return PMPI_Irecv(buf, count, datatype, source, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    return PMPI_Waitall(count, requests, statuses);
}

int MPI_Finalize(void) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        fprintf(stderr, "tool: %d inits, %d sends, %d receives\n", inits, sends, receives);
    return PMPI_Finalize();
}
