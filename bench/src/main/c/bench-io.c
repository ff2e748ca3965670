/*
 * bench-io: processes that write, or read, one file each by plain write(2) or read(2), as a checkpointer or a restart
 * does.
 *
 *   bench-io write|read --processes N --bytes BYTES --block BYTES --path TEMPLATE [--unlink] [--fsync]
 *
 * TEMPLATE contains one %d, which is replaced by the number of the process. Every process opens its file, and then all
 * begin at once. A reader waits until the file is opened, and a writer creates it. --unlink deletes the name after the
 * file is opened. --fsync waits until the bytes are on the disk. Prints one line with the bytes, the time when all
 * began and the time when the last one ended, by CLOCK_MONOTONIC. Exit status: 0 if every process moved all its bytes.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
    bool writes;
    bool unlinks;
    bool syncs;
    long long bytes;
    size_t block;
    const char *path;
};

static void fill(unsigned char *block, size_t length, unsigned seed)
{
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (size_t i = 0; i + 8 <= length; i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(block + i, &state, 8);
    }
}

static void move(const struct job *job, const char *path, int file, unsigned char *block)
{
    for (long long done = 0; done < job->bytes;) {
        size_t wanted = job->bytes - done < (long long)job->block ? (size_t)(job->bytes - done) : job->block;
        ssize_t moved = job->writes ? write(file, block, wanted) : read(file, block, wanted);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            die("%s at %lld: %s", path, done, strerror(errno));
        if (moved == 0)
            die("%s ended at %lld of %lld bytes", path, done, job->bytes);
        done += moved;
    }
    if (job->syncs && fsync(file) != 0)
        die("fsync of %s: %s", path, strerror(errno));
    if (close(file) != 0)
        die("close of %s: %s", path, strerror(errno));
}

static void run(const struct job *job, int number, int ready, int go, long long *end)
{
    char path[4096];
    char nothing;
    /* The template is from the benchmark. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path, sizeof path, job->path, number);
#pragma GCC diagnostic pop
    unsigned char *block = mmap(NULL, job->block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        die("no memory for a block of %zu bytes", job->block);
    fill(block, job->block, (unsigned)number + 1);
    int file = open(path, job->writes ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0600);
    if (file < 0)
        die("%s: %s", path, strerror(errno));
    if (job->unlinks && unlink(path) != 0)
        die("unlink of %s: %s", path, strerror(errno));
    if (write(ready, "r", 1) != 1 || read(go, &nothing, 1) < 0)
        die("%s: the other processes are gone", path);
    move(job, path, file, block);
    *end = now_ns();
    exit(0);
}

static struct job parse(int count, char **words, int *processes)
{
    static const struct option options[] = {{"processes", required_argument, NULL, 'p'},
                                            {"bytes", required_argument, NULL, 'b'},
                                            {"block", required_argument, NULL, 'k'},
                                            {"path", required_argument, NULL, 'f'},
                                            {"unlink", no_argument, NULL, 'u'},
                                            {"fsync", no_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    struct job job = {.bytes = 1 << 20, .block = 131072};
    if (count < 2 || (strcmp(words[1], "write") != 0 && strcmp(words[1], "read") != 0))
        die("usage: bench-io write|read --processes N --bytes BYTES --block BYTES --path TEMPLATE");
    job.writes = strcmp(words[1], "write") == 0;
    int option;
    while ((option = getopt_long(count - 1, words + 1, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': *processes = (int)number(optarg, "--processes"); break;
        case 'b': job.bytes = number(optarg, "--bytes"); break;
        case 'k': job.block = (size_t)number(optarg, "--block"); break;
        case 'f': job.path = optarg; break;
        case 'u': job.unlinks = true; break;
        case 's': job.syncs = true; break;
        default: exit(2);
        }
    }
    if (job.path == NULL || *processes < 1 || job.block < 1)
        die("--path, --processes and --block are needed");
    return job;
}

int main(int count, char **words)
{
    int processes = 1;
    struct job job = parse(count, words, &processes);
    int ready[2], go[2];
    long long *ends = mmap(NULL, (size_t)processes * sizeof *ends, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ends == MAP_FAILED || pipe(ready) != 0 || pipe(go) != 0)
        die("no memory or no pipes: %s", strerror(errno));
    for (int i = 0; i < processes; i++) {
        pid_t child = fork();
        if (child < 0)
            die("fork: %s", strerror(errno));
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(go[1]);
            close(ready[0]);
            run(&job, i, ready[1], go[0], &ends[i]);
        }
    }
    close(ready[1]);
    char byte;
    for (int i = 0; i < processes; i++)
        if (read(ready[0], &byte, 1) != 1)
            die("a process ended before it had opened its file");
    long long start = now_ns(), end = start;
    close(go[1]);
    int failed = 0;
    for (int i = 0; i < processes; i++) {
        int status;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            failed = 1;
    }
    for (int i = 0; i < processes; i++)
        end = ends[i] > end ? ends[i] : end;
    printf("bytes=%lld startNs=%lld endNs=%lld\n", job.bytes * processes, start, end);
    return failed;
}
