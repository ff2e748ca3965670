/* crowd-job: a job with many threads and many descriptors.
 *
 *   crowd-job THREADS DESCRIPTORS shared|own|apart|named|mapped|deep [PROCESSES]
 *
 *   shared  the threads have one table of descriptors, all of them of /dev/null
 *   own     each thread has a table of its own
 *   apart   as shared, and each thread has a UTS namespace of its own; root's only
 *   named   as shared, and each descriptor is of a file with a long name of its own
 *   mapped  mappings of memory instead of descriptors, none of which joins another one
 *   deep    mappings of one file, whose name has 3,500 bytes; it is made below the working directory
 *
 * With PROCESSES it has that many, each with its threads and descriptors. All except the first are its children.
 *
 * Prints "ready" and stays until it is killed. Exit status: 2 for wrong arguments, 1 if the node does not allow that
 * many. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name that the kernel returns in one piece has at most 4,096 bytes. */
enum { PART_BYTES = 250, PARTS = 14 };

static bool own;
static bool apart;
static bool mapped;
static bool deep;
static pthread_barrier_t all;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void *stay(void *unused)
{
    (void)unused;
    if (own && unshare(CLONE_FILES) < 0)
        fail("crowd-job: unshare");
    if (apart && unshare(CLONE_NEWUTS) < 0)
        fail("crowd-job: unshare");
    pthread_barrier_wait(&all);
    for (;;)
        pause();
    return NULL;
}

/* Opens a file of two pages whose name is long. */
static int open_deep(void)
{
    char part[PART_BYTES + 1];
    memset(part, 'd', PART_BYTES);
    part[PART_BYTES] = 0;
    for (int i = 0; i < PARTS; i++) {
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            fail("crowd-job: mkdir");
        if (chdir(part) < 0)
            fail("crowd-job: chdir");
    }
    int file = open("file", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 2 * sysconf(_SC_PAGESIZE)) < 0 || chdir("/") < 0)
        fail("crowd-job: file");
    return file;
}

/* Maps pages whose neighbours have different rights, or different places in their file. */
static void map(int mappings)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file = deep ? open_deep() : -1;
    for (int i = 0; i < mappings; i++) {
        int rights = i % 2 == 0 ? PROT_READ : PROT_READ | PROT_WRITE;
        int flags = MAP_PRIVATE | (deep ? 0 : MAP_ANONYMOUS);
        if (mmap(NULL, page, rights, flags, file, 0) == MAP_FAILED)
            fail("crowd-job: mmap");
    }
    if (file >= 0)
        close(file);
}

static void fill(int threads, int descriptors, bool named, int process)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        fail("crowd-job: getrlimit");
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        fail("crowd-job: setrlimit");
    if (mapped || deep)
        map(descriptors);
    for (int i = 0; i < descriptors && !mapped && !deep; i++) {
        char name[240];
        memset(name, 'n', sizeof name - 1);
        name[sizeof name - 1] = 0;
        // The end of the name identifies the descriptor.
        snprintf(name + sizeof name - 24, 24, "%d-%d", process, i);
        if ((named ? memfd_create(name, 0) : open("/dev/null", O_RDONLY)) < 0)
            fail("crowd-job: open");
    }
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, stay, NULL) != 0)
            fail("crowd-job: pthread_create");
    }
    pthread_barrier_wait(&all);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: crowd-job THREADS DESCRIPTORS shared|own|apart|named|mapped|deep [PROCESSES]\n");
        return 2;
    }
    int threads = atoi(argv[1]);
    int descriptors = atoi(argv[2]);
    bool named = strcmp(argv[3], "named") == 0;
    own = strcmp(argv[3], "own") == 0;
    apart = strcmp(argv[3], "apart") == 0;
    mapped = strcmp(argv[3], "mapped") == 0;
    deep = strcmp(argv[3], "deep") == 0;
    int processes = argc == 5 ? atoi(argv[4]) : 1;
    int filled[2];
    if (pipe2(filled, O_CLOEXEC) < 0)
        fail("crowd-job: pipe2");
    for (int i = 1; i < processes; i++) {
        pid_t child = fork();
        if (child < 0)
            fail("crowd-job: fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            fill(threads, descriptors, named, i);
            if (write(filled[1], "f", 1) != 1)
                fail("crowd-job: write");
            for (;;)
                pause();
        }
    }
    fill(threads, descriptors, named, 0);
    close(filled[1]);
    for (int i = 1; i < processes; i++) {
        char byte;
        if (read(filled[0], &byte, 1) != 1) {
            fprintf(stderr, "crowd-job: a child has ended\n");
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
