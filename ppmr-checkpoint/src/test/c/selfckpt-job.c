/* selfckpt-job: a computing process that checkpoints itself in BLCR's pattern and really restarts from the stream.
 *
 *   selfckpt-job --size BYTES --passes N --seed S --out FILE --progress FILE [--pace MS] [--writers N]
 *   selfckpt-job --size BYTES --passes N --seed S --expect
 *   selfckpt-job --restore-fd FD --state-fd FD --ready-fd FD [--stop] [--relocate OLD=NEW]...   (used by cr_restart)
 *
 * Each pass updates every byte of memory from its former state and appends "pass N HASH PID" to the progress file.
 * The result includes all of memory and is written to --out by rename. --expect prints the result of an undisturbed
 * run. --pace sets the minimum time of each pass.
 *
 * It has two threads. One computes, and one listens for cr_checkpoint. The computing thread writes the context file
 * itself, as the job's own user, between two blocks of a pass. So a checkpoint may come at any time. With --writers
 * several threads write each run in pieces of 128 KiB, not in order. The kernel splits BLCR's writes in this way if
 * the filesystem is opened with O_DIRECT and serves several requests at once.
 *
 * The context file has BLCR's shape, with numbers in the machine's order. It begins with a 4-byte length and a small
 * struct of that length, three times (header, state, out and progress path). For each run of up to 64 MiB there is one
 * page of 4 KiB with its place and its length, and then one write of the run. A page of length 0 ends it. It is
 * written at the file position, front to back. It is read in the same way, once, without a seek. A read of 0 bytes
 * is EIO. */
#define _GNU_SOURCE
#include "mixing.h"
#include "options.h"
#include "selfckpt.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "selfckpt-job"
#define PAGE_BYTES 4096U
#define RUN_BYTES (64U << 20)
#define BLOCK_WORDS 8192U
#define PACE_STEPS 16U
#define MAX_RELOCATIONS 16
#define PIECE_BYTES (128U << 10)
#define MAX_WRITERS 16

struct job_paths {
    char out[PATH_MAX];
    char progress[PATH_MAX];
};

struct run_page {
    uint64_t offset;
    uint64_t length;
    char fill[PAGE_BYTES - 16];
};

_Static_assert(SELFCKPT_LANES == LANES, "the lanes of a context file are those of the computation");

static struct job_state state;
static struct job_paths paths;
static uint64_t *memory;
static int progress_fd = -1;

/* The connection of a cr_checkpoint that waits, -1 for none. The listener sets it, and the computing thread takes
 * it. */
static int pending = -1;

static void die(const char *what)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- writing the context file ---------------------------------------------------------------------------------- */

static bool hung_up(int connection)
{
    struct pollfd poll_fd = {.fd = connection, .events = POLLRDHUP};
    return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* A filesystem that needs aligned memory for O_DIRECT gets the write without it. */
static bool leaves_direct(int fd)
{
    int flags = errno == EINVAL ? fcntl(fd, F_GETFL) : -1;
    return flags >= 0 && (flags & O_DIRECT) != 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

/* Writes at an offset, or at the file position for -1. */
static int write_at(int fd, const char *next, size_t length, off_t offset)
{
    while (length > 0) {
        ssize_t written = offset < 0 ? write(fd, next, length) : pwrite(fd, next, length, offset);
        if (written < 0 && (errno == EINTR || leaves_direct(fd)))
            continue;
        if (written < 0)
            return errno;
        if (written == 0)
            return EIO;
        next += written;
        length -= (size_t)written;
        offset += offset < 0 ? 0 : written;
    }
    return 0;
}

static int write_all(int fd, const void *data, size_t length)
{
    return write_at(fd, data, length, -1);
}

/* A run that several threads write at once. */
struct shared_run {
    int fd;
    const char *data;
    size_t length;
    off_t offset;
    size_t next;
    int error;
};

static void *write_pieces(void *argument)
{
    struct shared_run *run = argument;
    size_t pieces = (run->length + PIECE_BYTES - 1) / PIECE_BYTES;
    for (;;) {
        size_t taken = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
        if (taken >= pieces)
            return NULL;
        /* The later one of each two comes first. */
        size_t piece = (taken ^ 1) < pieces ? taken ^ 1 : taken;
        size_t start = piece * PIECE_BYTES;
        size_t length = run->length - start < PIECE_BYTES ? run->length - start : PIECE_BYTES;
        int error = write_at(run->fd, run->data + start, length, run->offset + (off_t)start);
        if (error != 0)
            __atomic_store_n(&run->error, error, __ATOMIC_RELAXED);
    }
}

static int write_run(int fd, const char *data, size_t length)
{
    if (state.writers < 2)
        return write_all(fd, data, length);
    struct shared_run run = {.fd = fd, .data = data, .length = length, .offset = lseek(fd, 0, SEEK_CUR)};
    pthread_t threads[MAX_WRITERS];
    size_t started = 0;
    if (run.offset < 0)
        return errno;
    while (started < state.writers && pthread_create(&threads[started], NULL, write_pieces, &run) == 0)
        started++;
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (started == 0)
        return EAGAIN;
    return run.error != 0 ? run.error : lseek(fd, run.offset + (off_t)length, SEEK_SET) < 0 ? errno : 0;
}

static int write_counted(int fd, const void *data, uint32_t length)
{
    int error = write_all(fd, &length, sizeof length);
    return error != 0 ? error : write_all(fd, data, length);
}

static int write_image(int fd, int connection)
{
    struct image_header header = {
        .version = 2, .page_bytes = PAGE_BYTES, .pid = (uint32_t)getpid(), .orphan = getppid() == 1};
    memcpy(header.magic, SELFCKPT_MAGIC, sizeof header.magic);
    int error = write_counted(fd, &header, sizeof header);
    if (error == 0)
        error = write_counted(fd, &state, sizeof state);
    if (error == 0)
        error = write_counted(fd, &paths, sizeof paths);
    static struct run_page page;
    for (uint64_t offset = 0; error == 0 && offset < state.size_bytes; offset += page.length) {
        if (hung_up(connection))
            return ECANCELED;
        page.offset = offset;
        page.length = state.size_bytes - offset < RUN_BYTES ? state.size_bytes - offset : RUN_BYTES;
        error = write_all(fd, &page, sizeof page);
        if (error == 0)
            error = write_run(fd, (const char *)memory + offset, page.length);
    }
    page.length = 0;
    return error != 0 ? error : write_all(fd, &page, sizeof page);
}

static int save(const struct selfckpt_request *request, int fd, int connection)
{
    int error = write_image(fd, connection);
    if (error == 0 && request->sync)
        error = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

static ssize_t receive_request(int connection, struct selfckpt_request *request, int *passed_fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = request, .iov_len = sizeof *request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *first = length < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (first != NULL && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS)
        memcpy(passed_fd, CMSG_DATA(first), sizeof(int));
    return length;
}

static void checkpoint(int connection)
{
    struct selfckpt_request request;
    struct selfckpt_reply reply = {.error = EPROTO};
    int passed_fd = -1;
    if (receive_request(connection, &request, &passed_fd) == (ssize_t)sizeof request && passed_fd >= 0)
        reply.error = save(&request, passed_fd, connection);
    /* The next request may come while this one's signal stops the job. */
    __atomic_store_n(&pending, -1, __ATOMIC_RELEASE);
    /* A cr_checkpoint that has given up in the meantime lets the job continue. Otherwise its signal comes before it
     * ends. */
    char byte;
    if (send(connection, &reply, sizeof reply, MSG_NOSIGNAL) == (ssize_t)sizeof reply && request.waits) {
        while (recv(connection, &byte, 1, 0) < 0 && errno == EINTR)
            continue;
    }
    close(connection);
}

/* ---- the listener ---------------------------------------------------------------------------------------------- */

static void *listen_for_checkpoints(void *argument)
{
    int listener = *(int *)argument;
    for (;;) {
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0)
            continue;
        struct ucred peer = {0};
        socklen_t length = sizeof peer;
        int none = -1;
        bool allowed = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0
            && (peer.uid == 0 || peer.uid == getuid());
        if (!allowed
            || !__atomic_compare_exchange_n(&pending, &none, connection, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            close(connection);
    }
    return NULL;
}

static void start_listener(void)
{
    static int listener;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, SELFCKPT_SOCKET_FORMAT, getpid());
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener < 0
        || bind(listener, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0
        || listen(listener, 8) != 0)
        die("cannot listen for checkpoint requests");
    pthread_t thread;
    errno = pthread_create(&thread, NULL, listen_for_checkpoints, &listener);
    if (errno != 0)
        die("cannot start the listener");
    pthread_detach(thread);
}

/* ---- the computation ------------------------------------------------------------------------------------------- */

static void allocate(void)
{
    memory = mmap(NULL, state.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("cannot allocate the job's memory");
}

static void report_pass(void)
{
    if (progress_fd < 0)
        return;
    char line[128];
    int length = snprintf(line, sizeof line, "pass %llu %016llx %d\n", (unsigned long long)state.pass,
                          (unsigned long long)lanes_hash(state.lanes), getpid());
    if (write_all(progress_fd, line, (size_t)length) != 0)
        die("cannot write the progress file");
    state.progress_offset += (uint64_t)length;
}

/* Sleeps for a part of the pass's pace, which bounds the wait of a checkpoint request. */
static void pace(uint64_t word, uint64_t words)
{
    uint64_t step = words / PACE_STEPS / BLOCK_WORDS * BLOCK_WORDS;
    if (state.pace_ms == 0 || (step == 0 ? word != 0 : word % step != 0))
        return;
    uint64_t nanoseconds = state.pace_ms * 1000000ULL / (step == 0 ? 1 : PACE_STEPS);
    struct timespec pause = {(time_t)(nanoseconds / 1000000000ULL), (long)(nanoseconds % 1000000000ULL)};
    nanosleep(&pause, NULL);
}

static void compute(void)
{
    uint64_t words = state.size_bytes / sizeof(uint64_t);
    for (; state.pass < state.passes; state.pass++) {
        while (state.word < words) {
            pace(state.word, words);
            uint64_t end = state.word + BLOCK_WORDS < words ? state.word + BLOCK_WORDS : words;
            mix_words(memory, state.word, end, splitmix(state.seed ^ state.pass), state.lanes);
            state.word = end;
            int connection = __atomic_load_n(&pending, __ATOMIC_ACQUIRE);
            if (connection >= 0)
                checkpoint(connection);
        }
        report_pass();
        state.word = 0;
    }
}

static uint64_t result(void)
{
    fold_words(memory, state.size_bytes / sizeof(uint64_t), state.lanes);
    return lanes_hash(state.lanes);
}

static void publish(uint64_t value)
{
    char temporary[PATH_MAX + 8];
    char line[64];
    snprintf(temporary, sizeof temporary, "%s.part", paths.out);
    int length = snprintf(line, sizeof line, "%016llx\n", (unsigned long long)value);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write_all(fd, line, (size_t)length) != 0 || close(fd) != 0 || rename(temporary, paths.out) != 0)
        die(paths.out);
}

/* ---- restart --------------------------------------------------------------------------------------------------- */

struct restore {
    int image_fd;
    int state_fd;
    int ready_fd;
    bool stop;
    const char *relocations[MAX_RELOCATIONS];
    int relocation_count;
};

/* Sends cr_restart the result: 4 bytes of errno, 0 for success. */
static void report_restored(const struct restore *restore, int error)
{
    int32_t code = error;
    if (write(restore->ready_fd, &code, sizeof code) != (ssize_t)sizeof code)
        exit(1);
    close(restore->ready_fd);
    if (error != 0)
        exit(1);
}

static void read_exactly(const struct restore *restore, void *data, size_t length)
{
    char *next = data;
    while (length > 0) {
        ssize_t got = read(restore->image_fd, next, length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            int error = got == 0 ? EIO : errno;
            fprintf(stderr, "- vfs_read returned %d\n- thaw_threads returned error, aborting. -%d\n",
                    got == 0 ? 0 : -error, error);
            report_restored(restore, error);
        }
        next += got;
        length -= (size_t)got;
    }
}

static void read_counted(const struct restore *restore, void *data, uint32_t expected)
{
    uint32_t length;
    read_exactly(restore, &length, sizeof length);
    if (length != expected)
        report_restored(restore, EINVAL);
    read_exactly(restore, data, expected);
}

static void relocate(char *path, const struct restore *restore)
{
    for (int i = 0; i < restore->relocation_count; i++) {
        const char *old = restore->relocations[i];
        const char *separator = strchr(old, '=');
        size_t length = (size_t)(separator - old);
        if (strncmp(path, old, length) == 0 && (path[length] == '/' || path[length] == '\0')) {
            char moved[2 * PATH_MAX];
            snprintf(moved, sizeof moved, "%s%s", separator + 1, path + length);
            snprintf(path, PATH_MAX, "%.*s", PATH_MAX - 1, moved);
            return;
        }
    }
}

static void restore_from_stream(const struct restore *restore)
{
    /* cr_restart has read the head, and with it the state. */
    if (read(restore->state_fd, &state, sizeof state) != (ssize_t)sizeof state)
        report_restored(restore, EPROTO);
    close(restore->state_fd);
    read_counted(restore, &paths, sizeof paths);
    relocate(paths.out, restore);
    relocate(paths.progress, restore);
    allocate();
    static struct run_page page;
    for (;;) {
        read_exactly(restore, &page, sizeof page);
        if (page.length == 0)
            break;
        if (page.offset > state.size_bytes || page.length > state.size_bytes - page.offset)
            report_restored(restore, EINVAL);
        read_exactly(restore, (char *)memory + page.offset, page.length);
    }
    close(restore->image_fd);
    progress_fd = open(paths.progress, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (progress_fd < 0 || lseek(progress_fd, (off_t)state.progress_offset, SEEK_SET) < 0)
        report_restored(restore, errno);
    start_listener();
    report_restored(restore, 0);
    if (restore->stop)
        kill(getpid(), SIGSTOP);
}

/* ---- command line ---------------------------------------------------------------------------------------------- */

static void usage(void)
{
    fprintf(stderr, "usage: " PROGRAM " --size BYTES --passes N --seed S (--out FILE --progress FILE [--pace MS] [--writers N]"
                    " | --expect)\n");
    exit(2);
}

static void absolute_path(char *target, const char *path)
{
    char directory[PATH_MAX / 2];
    if (*path == '/')
        snprintf(target, PATH_MAX, "%s", path);
    else if (getcwd(directory, sizeof directory) != NULL)
        snprintf(target, PATH_MAX, "%s/%.*s", directory, PATH_MAX / 4, path);
    else
        die("cannot find the working directory");
}

static bool parse(int argc, char **argv, struct restore *restore)
{
    bool expect = false;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--expect") == 0) {
            expect = true;
            continue;
        }
        if (strcmp(option, "--stop") == 0) {
            restore->stop = true;
            continue;
        }
        if (++i >= argc)
            usage();
        if (strcmp(option, "--size") == 0)
            state.size_bytes = (number_option(PROGRAM, option, argv[i]) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        else if (strcmp(option, "--passes") == 0)
            state.passes = number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--seed") == 0)
            state.seed = number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--pace") == 0)
            state.pace_ms = number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--writers") == 0) {
            state.writers = number_option(PROGRAM, option, argv[i]);
            if (state.writers > MAX_WRITERS)
                usage();
        } else if (strcmp(option, "--out") == 0)
            absolute_path(paths.out, argv[i]);
        else if (strcmp(option, "--progress") == 0)
            absolute_path(paths.progress, argv[i]);
        else if (strcmp(option, "--restore-fd") == 0)
            restore->image_fd = (int)number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--state-fd") == 0)
            restore->state_fd = (int)number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--ready-fd") == 0)
            restore->ready_fd = (int)number_option(PROGRAM, option, argv[i]);
        else if (strcmp(option, "--relocate") == 0 && strchr(argv[i], '=') != NULL
                 && restore->relocation_count < MAX_RELOCATIONS)
            restore->relocations[restore->relocation_count++] = argv[i];
        else
            usage();
    }
    return expect;
}

static int run(int argc, char **argv)
{
    struct restore restore = {.image_fd = -1, .state_fd = -1, .ready_fd = -1};
    bool expect = parse(argc, argv, &restore);
    if (restore.image_fd >= 0) {
        restore_from_stream(&restore);
    } else {
        if (expect)
            state.pace_ms = 0;
        if (state.size_bytes == 0 || state.passes == 0 || (!expect && (!*paths.out || !*paths.progress)))
            usage();
        allocate();
        fill_words(memory, state.size_bytes / sizeof(uint64_t), state.seed);
        if (!expect) {
            progress_fd = open(paths.progress, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
            if (progress_fd < 0)
                die(paths.progress);
            start_listener();
        }
    }
    compute();
    uint64_t value = result();
    if (expect)
        printf("%016llx\n", (unsigned long long)value);
    else
        publish(value);
    munmap(memory, state.size_bytes);
    return 0;
}

int main(int argc, char **argv)
{
    return run_mid_page(argc, argv, run);
}
