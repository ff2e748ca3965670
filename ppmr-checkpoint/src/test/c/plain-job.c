/* plain-job: an ordinary process without knowledge of checkpoints, for CRIU.
 *
 *   plain-job --size BYTES --passes N --seed S --threads T --out FILE --progress FILE
 *             [--pace MS [--until FILE]]
 *   plain-job --size BYTES --passes N --seed S --threads T --expect
 *
 * T threads share private memory. A forked child works on a quarter of the size, in memory that it shares with its
 * parent (MAP_SHARED). Two semaphores in it pass the turn. The progress file stays open, and so does a file that was
 * unlinked after it was opened, whose bytes are part of the result. Each pass updates every byte of memory and
 * appends "pass N HASH PID" to the progress file. The result is written to --out by rename. With --until the last
 * pass waits for that file, so that the job outlives its test on a slow machine. --expect prints the result of an
 * undisturbed run and touches only the unlinked file, in /tmp instead of the working directory. */
#define _GNU_SOURCE
#include "mixing.h"
#include "options.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "plain-job"
#define MAX_THREADS 64
#define UNLINKED_BYTES 65536

struct shared {
    sem_t go;
    sem_t done;
    uint64_t salt;
    uint64_t lanes[LANES];
    uint64_t words[];
};

static uint64_t size_bytes, passes, seed, thread_count = 2, pace_ms;
static const char *out_path, *progress_path, *until_path;
static uint64_t *memory;
static uint64_t words_a_thread;
static uint64_t lanes[MAX_THREADS][LANES];
static uint64_t salt;
static pthread_barrier_t start_line, finish_line;

static void die(const char *what)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *work(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument;
    for (uint64_t pass = 0; pass < passes; pass++) {
        pthread_barrier_wait(&start_line);
        mix_words(memory, number * words_a_thread, (number + 1) * words_a_thread, salt, lanes[number]);
        pthread_barrier_wait(&finish_line);
    }
    return NULL;
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
        if (errno != EINTR)
            die("sem_wait");
    }
}

static void run_child(struct shared *shared, uint64_t words)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t pass = 0; pass < passes; pass++) {
        wait_for(&shared->go);
        mix_words(shared->words, 0, words, shared->salt, shared->lanes);
        sem_post(&shared->done);
    }
    exit(0);
}

static int open_unlinked(void)
{
    char path[PATH_MAX];
    static char bytes[UNLINKED_BYTES];
    snprintf(path, sizeof path, "%s.unlinked-%d", progress_path == NULL ? "/tmp/" PROGRAM : progress_path, getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        die(path);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)splitmix(seed + i);
    if (write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes || unlink(path) != 0)
        die(path);
    return fd;
}

static uint64_t fold_file(int fd)
{
    static uint64_t words[UNLINKED_BYTES / sizeof(uint64_t)];
    uint64_t hash[LANES] = {0};
    if (pread(fd, words, sizeof words, 0) != (ssize_t)sizeof words)
        die("the unlinked file");
    fold_words(words, sizeof words / sizeof *words, hash);
    return lanes_hash(hash);
}

static uint64_t combined(const struct shared *shared)
{
    uint64_t hash = lanes_hash(shared->lanes);
    for (uint64_t i = 0; i < thread_count; i++)
        hash = splitmix(hash ^ lanes_hash(lanes[i]));
    return hash;
}

static void report_pass(int progress, uint64_t pass, uint64_t hash)
{
    if (progress >= 0 && dprintf(progress, "pass %llu %016llx %d\n", (unsigned long long)pass, (unsigned long long)hash, getpid()) < 0)
        die(progress_path);
}

static void publish(uint64_t value)
{
    char temporary[PATH_MAX];
    snprintf(temporary, sizeof temporary, "%s.part", out_path);
    FILE *file = fopen(temporary, "we");
    if (file == NULL || fprintf(file, "%016llx\n", (unsigned long long)value) < 0 || fclose(file) != 0
        || rename(temporary, out_path) != 0)
        die(out_path);
}

static bool parse(int argc, char **argv)
{
    bool expect = false;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--expect") == 0) {
            expect = true;
            continue;
        }
        if (++i >= argc)
            option = "";
        if (strcmp(option, "--size") == 0)
            size_bytes = number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--passes") == 0)
            passes = number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--seed") == 0)
            seed = number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--threads") == 0)
            thread_count = number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--pace") == 0)
            pace_ms = number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--out") == 0)
            out_path = argv[i];
        else if (strcmp(option, "--progress") == 0)
            progress_path = argv[i];
        else if (strcmp(option, "--until") == 0)
            until_path = argv[i];
        else
            passes = 0, i = argc;
    }
    if (size_bytes == 0 || passes == 0 || thread_count == 0 || thread_count > MAX_THREADS
        || (!expect && (out_path == NULL || progress_path == NULL)) || (until_path != NULL && pace_ms == 0)) {
        fprintf(stderr, "usage: " PROGRAM " --size BYTES --passes N --seed S [--threads T] (--out FILE --progress FILE [--pace MS [--until FILE]] | --expect)\n");
        exit(2);
    }
    if (expect)
        pace_ms = 0;
    return expect;
}

static void *allocate(uint64_t bytes, int flags)
{
    void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        die("mmap");
    return area;
}

static int run(int argc, char **argv)
{
    bool expect = parse(argc, argv);
    uint64_t shared_words = (size_bytes / 4 / sizeof(uint64_t) + LANES) / LANES * LANES;
    words_a_thread = (size_bytes * 3 / 4 / thread_count / sizeof(uint64_t) + LANES) / LANES * LANES;
    struct shared *shared = allocate(sizeof *shared + shared_words * sizeof(uint64_t), MAP_SHARED);
    memory = allocate(words_a_thread * thread_count * sizeof(uint64_t), MAP_PRIVATE);
    fill_words(memory, words_a_thread * thread_count, seed);
    fill_words(shared->words, shared_words, seed + 1);
    int unlinked = open_unlinked();
    int progress = -1;
    if (!expect && (progress = open(progress_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0)
        die(progress_path);

    sem_init(&shared->go, 1, 0);
    sem_init(&shared->done, 1, 0);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0)
        run_child(shared, shared_words);
    pthread_barrier_init(&start_line, NULL, (unsigned int)thread_count + 1);
    pthread_barrier_init(&finish_line, NULL, (unsigned int)thread_count + 1);
    pthread_t threads[MAX_THREADS];
    for (uint64_t i = 0; i < thread_count; i++) {
        errno = pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i);
        if (errno != 0)
            die("pthread_create");
    }
    struct timespec pause = {(time_t)(pace_ms / 1000), (long)(pace_ms % 1000 * 1000000)};
    for (uint64_t pass = 0; pass < passes; pass++) {
        salt = shared->salt = splitmix(seed ^ pass);
        sem_post(&shared->go);
        pthread_barrier_wait(&start_line);
        pthread_barrier_wait(&finish_line);
        wait_for(&shared->done);
        report_pass(progress, pass, combined(shared));
        nanosleep(&pause, NULL);
        while (pass + 2 == passes && until_path != NULL && access(until_path, F_OK) != 0)
            nanosleep(&pause, NULL);
    }
    for (uint64_t i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    waitpid(child, NULL, 0);
    fold_words(memory, words_a_thread * thread_count, lanes[0]);
    fold_words(shared->words, shared_words, shared->lanes);
    uint64_t value = splitmix(combined(shared) ^ fold_file(unlinked));
    if (expect)
        printf("%016llx\n", (unsigned long long)value);
    else
        publish(value);
    return 0;
}

int main(int argc, char **argv)
{
    return run_mid_page(argc, argv, run);
}
