/* shaped-job: a plain process whose memory has a shape, for the benchmarks of CRIU.
 *
 *   shaped-job --shape SHAPE --size BYTES --passes N --seed S --out FILE --progress FILE [--pace MS] [--writes BYTES]
 *
 *   contiguous  one area
 *   fragmented  every other page of twice the size is used
 *   shared      memory of MAP_SHARED
 *   forked      a child has the same pages
 *
 * It fills its memory, and then only writes down passes. With --writes it writes that many bytes a second, each time one
 * word of a random page, which counts as a page. */
#define _GNU_SOURCE
#include "mixing.h"
#include "options.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "shaped-job"
#define PAGE 4096

enum { WRITE_MS = 5 };

static uint64_t size_bytes, passes, seed, pace_ms, written_bytes;
static const char *shape, *out_path, *progress_path;

static void die(const char *what)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what, strerror(errno));
    exit(1);
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *option = argv[i];
        const char *value = argv[i + 1];
        if (strcmp(option, "--shape") == 0)
            shape = value;
        else if (strcmp(option, "--size") == 0)
            size_bytes = number_option(PROGRAM, option, value);
        else if (strcmp(option, "--passes") == 0)
            passes = number_option(PROGRAM, option, value);
        else if (strcmp(option, "--seed") == 0)
            seed = number_option(PROGRAM, option, value);
        else if (strcmp(option, "--pace") == 0)
            pace_ms = number_option(PROGRAM, option, value);
        else if (strcmp(option, "--writes") == 0)
            written_bytes = number_option(PROGRAM, option, value);
        else if (strcmp(option, "--out") == 0)
            out_path = value;
        else if (strcmp(option, "--progress") == 0)
            progress_path = value;
    }
    static const char *const shapes[] = {"contiguous", "fragmented", "shared", "forked"};
    bool known = false;
    for (size_t i = 0; shape != NULL && i < sizeof shapes / sizeof *shapes; i++)
        known |= strcmp(shape, shapes[i]) == 0;
    if (!known || argc % 2 == 0 || size_bytes < PAGE || passes == 0 || out_path == NULL || progress_path == NULL) {
        fprintf(stderr, "usage: " PROGRAM " --shape contiguous|fragmented|shared|forked --size BYTES --passes N --seed S"
                        " --out FILE --progress FILE [--pace MS] [--writes BYTES]\n");
        exit(2);
    }
}

/* Writes to random pages for the time of a pass. */
static void write_pages(uint8_t *memory, uint64_t pages, uint64_t stride)
{
    static uint64_t state;
    const struct timespec pause = {0, WRITE_MS * 1000000};
    for (uint64_t ms = 0; ms < pace_ms; ms += WRITE_MS) {
        nanosleep(&pause, NULL);
        for (uint64_t count = written_bytes / (1000 / WRITE_MS) / PAGE; count > 0; count--) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            (*(uint64_t *)(memory + (state >> 20) % pages * stride))++;
        }
    }
}

static int run(int argc, char **argv)
{
    parse(argc, argv);
    bool fragmented = strcmp(shape, "fragmented") == 0;
    uint64_t stride = fragmented ? 2 * PAGE : PAGE;
    uint64_t pages = size_bytes / PAGE;
    int flags = strcmp(shape, "shared") == 0 ? MAP_SHARED : MAP_PRIVATE;
    uint8_t *memory = mmap(NULL, pages * stride, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || (fragmented && madvise(memory, pages * stride, MADV_NOHUGEPAGE) != 0))
        die("memory");
    for (uint64_t page = 0; page < pages; page++)
        fill_words((uint64_t *)(memory + page * stride), PAGE / sizeof(uint64_t), seed + page);
    if (strcmp(shape, "forked") == 0) {
        pid_t child = fork();
        if (child < 0)
            die("fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
    }
    int progress = open(progress_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (progress < 0)
        die(progress_path);
    const struct timespec pace = {(time_t)(pace_ms / 1000), (long)(pace_ms % 1000) * 1000000};
    for (uint64_t pass = 0; pass < passes; pass++) {
        if (dprintf(progress, "pass %llu\n", (unsigned long long)pass) < 0)
            die(progress_path);
        if (written_bytes > 0)
            write_pages(memory, pages, stride);
        else
            nanosleep(&pace, NULL);
    }
    return 0;
}

int main(int argc, char **argv)
{
    return run_mid_page(argc, argv, run);
}
