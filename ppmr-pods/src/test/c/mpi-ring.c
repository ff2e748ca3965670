/*
 * An MPI program of checked values. Each rank sends blocks to the next rank, and checks the blocks from the previous
 * rank, byte by byte. At the end rank 0 prints a sum over all received bytes and the number of rounds. It also prints
 * the longest time that any rank received no block. With a FILE it continues until that file exists. It depends on
 * nothing of ppmr.
 *
 * usage: mpi-ring ROUNDS PAUSE_US [FILE]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 8192, REPORT = 100 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    return x;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static uint64_t out[WORDS], in[WORDS];
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: mpi-ring ROUNDS PAUSE_US [FILE]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    long rounds = atol(argv[1]);
    useconds_t pause_us = (useconds_t)atol(argv[2]);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint64_t sum = 0;
    double longest = 0, last = seconds();
    int going = 1;
    long round = 0;
    for (; round < rounds || (argc > 3 && going); round++) {
        for (int i = 0; i < WORDS; i++)
            out[i] = mix((uint64_t)round << 32 ^ (uint64_t)rank << 20 ^ (uint64_t)i);
        MPI_Sendrecv(out, WORDS, MPI_UINT64_T, next, 1, in, WORDS, MPI_UINT64_T, before, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        double now = seconds();
        if (round > 0 && now - last > longest)
            longest = now - last;
        last = now;
        for (int i = 0; i < WORDS; i++) {
            if (in[i] != mix((uint64_t)round << 32 ^ (uint64_t)before << 20 ^ (uint64_t)i)) {
                fprintf(stderr, "rank %d: round %ld, word %d is wrong\n", rank, round, i);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
            sum += in[i];
        }
        if (rank == 0 && round % REPORT == 0) {
            printf("round %ld\n", round);
            fflush(stdout);
        }
        if (argc > 3) {
            going = rank > 0 || access(argv[3], F_OK) != 0;
            MPI_Bcast(&going, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
        if (pause_us > 0)
            usleep(pause_us);
    }
    uint64_t all = 0;
    double longest_of_all = 0;
    MPI_Reduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&longest, &longest_of_all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("result %016llx, %ld rounds, longest gap %.3f s\n", (unsigned long long)all, round, longest_of_all);
        /* Some runs of MPICH hang in MPI_Finalize. */
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
