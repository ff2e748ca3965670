/*
 * bench-limits: what this machine can do at most, without a filesystem.
 *
 *   bench-limits copy --threads N --bytes BYTES --pool BYTES --chunk BYTES
 *   bench-limits net  --threads N --bytes BYTES --pool BYTES --chunk BYTES [--crc]
 *   bench-limits disk --bytes BYTES --chunk BYTES --path FILE
 *
 * copy: N threads copy a chunk of their own into the chunks of a pool in turn. net: two processes have N TCP
 * connections over loopback. One sends the chunks of a pool in turn, and the other receives into the chunks of a pool
 * of the same size in turn. --crc computes the CRC32C of each chunk at both ends. disk: writes a file past the page
 * cache (O_DIRECT) and syncs it. BYTES is the sum. Prints one line with the bytes, the start time and the end time, by
 * CLOCK_MONOTONIC.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "crc32c.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

struct header {
    uint64_t order;
    uint32_t crc;
    uint32_t length;
};

static int threads = 4;
static long long total = 1 << 30;
static long long pool_bytes = 8 << 20;
static size_t chunk_bytes = 128 << 10;
static bool with_crc;
static const char *path;

static unsigned char *memory;
static int chunks;
static int next_chunk;

static void *allocate(size_t bytes)
{
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        die("no memory for %zu bytes", bytes);
    memset(made, 1, bytes);
    return made;
}

/* Returns the chunk whose turn it is. With more chunks than threads, no two threads have the same chunk. */
static unsigned char *turn(void)
{
    unsigned at = (unsigned)__atomic_fetch_add(&next_chunk, 1, __ATOMIC_RELAXED);
    return memory + (size_t)(at % (unsigned)chunks) * chunk_bytes;
}

static long long share(int thread)
{
    long long all = total / (long long)chunk_bytes;
    return all / threads + (thread < all % threads);
}

static void *copy(void *argument)
{
    unsigned char *from = allocate(chunk_bytes);
    for (long long left = share(*(int *)argument); left > 0; left--) {
        memcpy(turn(), from, chunk_bytes);
        __asm__ volatile("" ::: "memory");
    }
    return NULL;
}

static void *send_all(void *argument)
{
    int *connection = argument;
    for (long long left = share(connection[1]); left > 0; left--) {
        unsigned char *chunk = turn();
        struct header header = {.order = (uint64_t)left, .length = (uint32_t)chunk_bytes};
        if (with_crc)
            header.crc = crc32c(chunk, chunk_bytes);
        struct iovec parts[2] = {{&header, sizeof header}, {chunk, chunk_bytes}};
        int part = 0;
        while (part < 2) {
            ssize_t sent = writev(connection[0], parts + part, 2 - part);
            if (sent < 0)
                die("send: %s", strerror(errno));
            while (part < 2 && (size_t)sent >= parts[part].iov_len)
                sent -= (ssize_t)parts[part++].iov_len;
            if (part < 2) {
                parts[part].iov_base = (char *)parts[part].iov_base + sent;
                parts[part].iov_len -= (size_t)sent;
            }
        }
    }
    return NULL;
}

static void receive_fully(int connection, void *into, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = recv(connection, (char *)into + done, length - done, 0);
        if (got <= 0)
            die("receive: %s", got == 0 ? "closed" : strerror(errno));
        done += (size_t)got;
    }
}

static void *receive_all(void *argument)
{
    int *connection = argument;
    for (long long left = share(connection[1]); left > 0; left--) {
        struct header header;
        receive_fully(connection[0], &header, sizeof header);
        unsigned char *chunk = turn();
        receive_fully(connection[0], chunk, chunk_bytes);
        if (with_crc && crc32c(chunk, chunk_bytes) != header.crc)
            die("a chunk arrived changed");
    }
    return NULL;
}

/* Runs the work on N threads, each with its two numbers, and returns when all threads ended. */
static void on_threads(void *(*work)(void *), int (*numbers)[2])
{
    pthread_t started[THREADS_MAX];
    for (int i = 0; i < threads; i++)
        if (pthread_create(&started[i], NULL, work, numbers[i]) != 0)
            die("a thread cannot be started");
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
}

static void report(long long start)
{
    printf("bytes=%lld startNs=%lld endNs=%lld\n", total, start, now_ns());
}

static void run_copy(void)
{
    int numbers[THREADS_MAX][2];
    for (int i = 0; i < threads; i++)
        numbers[i][0] = i;
    long long start = now_ns();
    on_threads(copy, numbers);
    report(start);
}

static int make_socket(void)
{
    int made = socket(AF_INET, SOCK_STREAM, 0);
    if (made < 0)
        die("socket: %s", strerror(errno));
    return made;
}

static void run_net(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = make_socket(), go[2], numbers[THREADS_MAX][2], on = 1;
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, THREADS_MAX) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0 || pipe(go) != 0)
        die("listen: %s", strerror(errno));
    pid_t sender = fork();
    if (sender < 0)
        die("fork: %s", strerror(errno));
    for (int i = 0; i < threads; i++) {
        numbers[i][0] = sender == 0 ? make_socket() : accept(listener, NULL, NULL);
        numbers[i][1] = i;
        if (sender == 0 && connect(numbers[i][0], (struct sockaddr *)&address, sizeof address) != 0)
            die("connect: %s", strerror(errno));
        setsockopt(numbers[i][0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (sender == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        if (read(go[0], &byte, 1) < 0)
            die("the receiver is gone");
        on_threads(send_all, numbers);
        exit(0);
    }
    long long start = now_ns();
    close(go[1]);
    on_threads(receive_all, numbers);
    report(start);
    waitpid(sender, NULL, 0);
}

static void run_disk(void)
{
    if (path == NULL)
        die("disk needs --path");
    unsigned char *block = allocate(chunk_bytes);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (file < 0)
        die("%s: %s", path, strerror(errno));
    long long start = now_ns();
    for (long long done = 0; done < total; done += (long long)chunk_bytes)
        if (write(file, block, chunk_bytes) != (ssize_t)chunk_bytes)
            die("%s: %s", path, strerror(errno));
    if (fdatasync(file) != 0)
        die("%s: %s", path, strerror(errno));
    report(start);
    unlink(path);
}

int main(int count, char **words)
{
    static const struct option options[] = {{"threads", required_argument, NULL, 't'},
                                            {"bytes", required_argument, NULL, 'b'},
                                            {"pool", required_argument, NULL, 'p'},
                                            {"chunk", required_argument, NULL, 'c'},
                                            {"path", required_argument, NULL, 'f'},
                                            {"crc", no_argument, NULL, 'r'},
                                            {NULL, 0, NULL, 0}};
    if (count < 2)
        die("usage: bench-limits copy|net|disk [options]");
    int option;
    while ((option = getopt_long(count - 1, words + 1, "", options, NULL)) != -1) {
        switch (option) {
        case 't': threads = (int)number(optarg, "--threads"); break;
        case 'b': total = number(optarg, "--bytes"); break;
        case 'p': pool_bytes = number(optarg, "--pool"); break;
        case 'c': chunk_bytes = (size_t)number(optarg, "--chunk"); break;
        case 'f': path = optarg; break;
        case 'r': with_crc = true; break;
        default: return 2;
        }
    }
    if (threads < 1 || threads > THREADS_MAX || chunk_bytes < 1)
        die("--threads must be 1 to %d and --chunk above 0", THREADS_MAX);
    crc32c_init();
    chunks = (int)(pool_bytes / (long long)chunk_bytes);
    if (chunks < threads)
        die("the pool has fewer chunks than there are threads");
    memory = allocate((size_t)pool_bytes);
    if (strcmp(words[1], "copy") == 0)
        run_copy();
    else if (strcmp(words[1], "net") == 0)
        run_net();
    else if (strcmp(words[1], "disk") == 0)
        run_disk();
    else
        die("'%s' is none of copy, net, disk", words[1]);
    return 0;
}
