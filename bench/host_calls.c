/* Measures calls that libcldist-host wraps: prints the shortest time of each call in ns. Run it
 * alone, and under `cldist run` with and without CLDIST_HOST_WRAP=off. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void) {
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time); /* not wrapped */
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

#define MEASURE(name, count, call)                            \
    do {                                                      \
        double least = 1e18;                                  \
        for (int round = 0; round < 50; ++round) {            \
            const double begin = now_ns();                    \
            for (int i = 0; i < (count); ++i) call;           \
            const double took = (now_ns() - begin) / (count); \
            if (took < least) least = took;                   \
        }                                                     \
        printf("%-14s %8.0f ns\n", name, least);              \
    } while (0)

int main(int argc, char **argv) {
    const char *const path = argc > 1 ? argv[1] : "/tmp/host_calls";
    struct timespec time_now;
    struct stat state;
    unsigned number;
    char byte = 0;
    MEASURE("getpid", 1000, (void)getpid());
    MEASURE("getrandom 4", 1000, if (getrandom(&number, sizeof number, 0) < 0) abort());
    MEASURE("time", 1000, (void)time(NULL));
    MEASURE("clock_gettime", 1000, clock_gettime(CLOCK_MONOTONIC, &time_now));
    MEASURE("clock", 1000, (void)clock());
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MEASURE("write 1", 100, if (write(file, &byte, 1) != 1) abort());
    lseek(file, 0, SEEK_SET);
    MEASURE("read 1", 100, if (read(file, &byte, 1) != 1) abort());
    MEASURE("stat", 100, stat(path, &state));
    MEASURE("open and close", 100, close(open(path, O_RDONLY)));
    MEASURE("open to write", 20, close(open(path, O_WRONLY)));
    close(file);
    unlink(path);
    return 0;
}
