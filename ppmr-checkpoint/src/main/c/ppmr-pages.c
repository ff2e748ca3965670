/* ppmr-pages: passes CRIU's memory pages through an image directory as streams, from the held original to the held
 * copy.
 *
 *   ppmr-pages source --frame-bytes N --images DIR --scratch DIR --pid PID [--pid PID]... -- CRIU dump ARGUMENT...
 *   ppmr-pages target --frame-bytes N --images DIR --pids-file FILE -- CRIU lazy-pages ARGUMENT... -- RESTORE...
 *
 * `criu dump --lazy-pages` writes everything except the lazy pages into its images. It reports that by a byte on its
 * status descriptor, and then serves the pages over a socket. `criu lazy-pages` requests over such a socket the
 * pages of a restored process and inserts them. Both sockets are pairs that end here. No process listens on a
 * network.
 *
 * At the source the lazy pages of all processes are written to one file, pages.stream, one behind the other. The
 * target reads it while it is written. Their order follows from the pagemaps: a piece of each process in turn, as
 * the daemon requests them. So no process waits for another one's pages. pages.list names the processes that
 * have any. It gets its name by a rename when all other images are complete, which the target waits for. The kernel
 * writes into a restored thread's rseq area before the thread stops. Therefore the pages with such areas come first
 * ("first" in the list), because a restore requests them out of turn.
 *
 * ppmr-pages reads the pagemaps and the core images, but files in the image directory cannot be read back. Therefore
 * CRIU writes those into the scratch folder, by links of their names, and they are copied.
 *
 * The target succeeds under three conditions. The daemon and the restore have ended with 0, the daemon has closed
 * its connection, and each lazy page of the pagemaps was delivered. Pages that arrive before their request are kept
 * here, up to a limit. A request is answered with the available part of one piece, because the daemon requests the
 * rest again.
 *
 * CRIU's frames have 24 bytes before 4.2 (32 bits for a number of pages) and 32 since.
 *
 * The caller has stopped the original's processes (SIGSTOP), so that they stay stopped if CRIU fails.
 *
 * Exit status: 0, or 1 with a message on standard error. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    /* One FUSE request, and the default chunk. */
    SLOT_PAGES = 32,
    RING_PAGES = 16 * SLOT_PAGES,
    /* Maximum part of a process in one piece, if its run is long enough. */
    MOST_PIECE_PAGES = 64,
    MAX_PROCESSES = 1024,
    MAX_FIRST = 65536,
    /* Maximum number of pages that were read before their request: 64 MiB, and two pieces of each process. */
    MAX_KEPT = 16384,
    /* Number of pages that are read before the daemon's requests: 4 MiB. */
    AHEAD_PAGES = 16 * MOST_PIECE_PAGES,
    /* A stopped daemon continues when this many pages wait for it, or no more follow. */
    BATCH_PAGES = AHEAD_PAGES / 2,
    MAX_ASKED = 1 << 20,
    /* Pending requests to CRIU's page server. Many more would fill the socket from which it reads them. */
    MOST_QUESTIONS = 128,
    /* Unanswered requests of CRIU's daemon: one for each process, and for each thread at the beginning. */
    MOST_OPEN = 1 << 16,
    IMAGE_HEAD_BYTES = 8,
    DIGITS_MAX = 20
};

/* images/pagemap.proto, criu/include/image.h */
#define PAGEMAP_LAZY 2U
#define PAGE_PRESENT 4U
/* criu/page-xfer.c */
#define COMMAND_MASK 0xffffU
#define FLAGS_SHIFT 16
#define COMMAND_ADD 6U
#define COMMAND_GET 7U
#define COMMAND_CLOSE 0x1023U
#define COMMAND_FORCE_CLOSE 0x1024U
/* images/core.proto: core_entry.thread_core.rseq_entry.rseq_abi_pointer */
#define FIELD_THREAD_CORE 5U
#define FIELD_RSEQ 15U
#define FIELD_RSEQ_POINTER 1U

#define LIST_NAME "pages.list"
/* Change this with the order of the pages or the size of a piece, because both nodes must have the same version. */
#define LIST_HEAD "ppmr pages 2, pieces of 64"
_Static_assert(MOST_PIECE_PAGES == 64, "the list's head has the length of a piece");
#define STREAM_NAME "pages.stream"

static const char *mode = "ppmr-pages";

static void say(const char *format, va_list arguments, int error)
{
    fprintf(stderr, "ppmr-pages %s: ", mode);
    vfprintf(stderr, format, arguments);
    if (error != 0) {
        fprintf(stderr, ": %s", strerror(error));
    }
    fputc('\n', stderr);
    fflush(stderr);
}

/* The source's CRIU, and its end of the socket; 0 and -1 while there is none. */
static pid_t dump_pid;
static int dump_socket = -1;

enum { DUMP_END_LOOKS = 100, DUMP_END_PAUSE_US = 50000 };

/* Ends all threads at once, because one of them may wait in the image filesystem. PR_SET_PDEATHSIG signals the
 * target's children. The source's CRIU notices that its pages are no longer read, and detaches from the processes.
 * This waits for it, because the caller considers the processes free when this program has ended. */
__attribute__((noreturn)) static void leave(void)
{
    if (dump_pid > 0) {
        shutdown(dump_socket, SHUT_RDWR);
        for (int look = 0; look < DUMP_END_LOOKS && waitpid(dump_pid, NULL, WNOHANG) == 0; look++) {
            usleep(DUMP_END_PAUSE_US);
        }
    }
    _exit(1);
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments, 0);
    va_end(arguments);
    leave();
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments, error);
    va_end(arguments);
    leave();
}

static void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count == 0 ? 1 : count, bytes);
    if (memory == NULL) {
        die("no memory for %zu items of %zu bytes", count, bytes);
    }
    return memory;
}

static void *enlarge(void *memory, size_t count, size_t bytes)
{
    void *more = reallocarray(memory, count, bytes);
    if (more == NULL) {
        die("no memory for %zu items of %zu bytes", count, bytes);
    }
    return more;
}

/* ---- images --------------------------------------------------------------------------------------------------- */

/* The content of a file. */
struct bytes {
    uint8_t *at;
    size_t length;
};

static struct bytes read_file(int directory, const char *name)
{
    int file = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        die("cannot open %s", name);
    }
    struct bytes all = {NULL, 0};
    size_t room = 0;
    for (;;) {
        if (all.length == room) {
            room = room == 0 ? 1 << 16 : 2 * room;
            all.at = enlarge(all.at, room, 1);
        }
        ssize_t got = read(file, all.at + all.length, room - all.length);
        if (got < 0 && errno != EINTR) {
            die("cannot read %s", name);
        }
        if (got == 0) {
            break;
        }
        all.length += got > 0 ? (size_t)got : 0;
    }
    close(file);
    return all;
}

static void write_all(int file, const char *name, const void *data, size_t length)
{
    const uint8_t *at = data;
    while (length > 0) {
        ssize_t written = write(file, at, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            die("cannot write %s", name);
        }
        at += written;
        length -= (size_t)written;
    }
}

/* A part of a protobuf message that is being read. */
struct message {
    const uint8_t *at;
    const uint8_t *end;
    const char *name;
};

static uint64_t varint(struct message *message)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (message->at == message->end) {
            fail("%s ends within a number", message->name);
        }
        uint8_t byte = *message->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    fail("%s holds a number of more than 64 bits", message->name);
}

/* Returns the next field's number, or 0 at the end. A number is in value, a field with a length in part. */
static unsigned next_field(struct message *message, uint64_t *value, struct message *part)
{
    if (message->at == message->end) {
        return 0;
    }
    uint64_t tag = varint(message);
    *value = 0;
    *part = (struct message){message->at, message->at, message->name};
    size_t left = (size_t)(message->end - message->at);
    size_t length;
    switch (tag & 7) {
    case 0:
        *value = varint(message);
        return (unsigned)(tag >> 3);
    case 1:
        length = 8;
        break;
    case 2: {
        uint64_t stated = varint(message);
        left = (size_t)(message->end - message->at);
        length = stated > left ? left + 1 : (size_t)stated;
        break;
    }
    case 5:
        length = 4;
        break;
    default:
        fail("%s holds a field of an unknown kind", message->name);
    }
    if (length > left) {
        fail("%s ends within a field", message->name);
    }
    *part = (struct message){message->at, message->at + length, message->name};
    message->at += length;
    return (unsigned)(tag >> 3);
}

/* Reads the next message of an image file, with 32 bits of length before each. Returns false at the file's end. */
static bool next_message(struct bytes *image, size_t *offset, const char *name, struct message *message)
{
    if (*offset == image->length) {
        return false;
    }
    uint32_t length;
    if (image->length - *offset < sizeof length) {
        fail("%s ends within a message", name);
    }
    memcpy(&length, image->at + *offset, sizeof length);
    *offset += sizeof length;
    if (length > image->length - *offset) {
        fail("%s ends within a message", name);
    }
    *message = (struct message){image->at + *offset, image->at + *offset + length, name};
    *offset += length;
    return true;
}

/* ---- one process's lazy pages ---------------------------------------------------------------------------------- */

/* Adjacent pages, and the place of the first one among the process's pages. */
struct run {
    uint64_t address;
    uint64_t pages;
    uint64_t place;
};

struct pages {
    int pid;
    /* Runs by address, as in the pagemap. After put_in_order they are split at the first pages, and have their
     * places. */
    struct run *runs;
    size_t run_count;
    uint64_t *first;
    size_t first_count;
    uint64_t total;
    /* Number of its pages that are in the order of all pages so far. */
    uint64_t ordered;
    size_t at_run;
    uint64_t in_run;
};

static void read_pagemap(struct pages *pages, struct bytes *image, const char *name)
{
    size_t offset = IMAGE_HEAD_BYTES;
    struct message message;
    if (image->length < IMAGE_HEAD_BYTES || !next_message(image, &offset, name, &message)) {
        fail("%s has no head", name);
    }
    size_t room = 0;
    uint64_t behind = 0;
    while (next_message(image, &offset, name, &message)) {
        uint64_t address = 0;
        uint64_t count = 0;
        uint64_t flags = 0;
        uint64_t value;
        struct message part;
        unsigned field;
        while ((field = next_field(&message, &value, &part)) != 0) {
            switch (field) {
            case 1:
                address = value;
                break;
            case 2: /* of 32 bits, before CRIU 4.2 */
            case 5:
                count = value;
                break;
            case 4:
                flags = value;
                break;
            default:
                break;
            }
        }
        if ((flags & PAGEMAP_LAZY) == 0 || count == 0) {
            continue;
        }
        if (address % PAGE != 0 || address < behind || count > (UINT64_MAX - address) / PAGE) {
            fail("%s: the entry at %" PRIx64 " is not a run of pages behind the one before", name, address);
        }
        behind = address + count * PAGE;
        if (pages->run_count == room) {
            room = room == 0 ? 256 : 2 * room;
            pages->runs = enlarge(pages->runs, room, sizeof *pages->runs);
        }
        pages->runs[pages->run_count++] = (struct run){address, count, 0};
        pages->total += count;
    }
}

/* Returns the page with the rseq area of a thread, or 0. */
static uint64_t rseq_page(struct bytes *image, const char *name)
{
    size_t offset = IMAGE_HEAD_BYTES;
    struct message core;
    if (image->length < IMAGE_HEAD_BYTES || !next_message(image, &offset, name, &core)) {
        fail("%s has no entry", name);
    }
    static const unsigned way[] = {FIELD_THREAD_CORE, FIELD_RSEQ, FIELD_RSEQ_POINTER};
    for (size_t step = 0;; step++) {
        uint64_t value;
        struct message part;
        unsigned field;
        do {
            field = next_field(&core, &value, &part);
        } while (field != 0 && field != way[step]);
        if (field == 0) {
            return 0;
        }
        if (step == sizeof way / sizeof way[0] - 1) {
            return value - value % PAGE;
        }
        core = part;
    }
}

static const struct run *find_run(const struct pages *pages, uint64_t address)
{
    size_t low = 0;
    size_t high = pages->run_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct run *run = &pages->runs[middle];
        if (address < run->address) {
            high = middle;
        } else if (address >= run->address + run->pages * PAGE) {
            low = middle + 1;
        } else {
            return run;
        }
    }
    return NULL;
}

static int by_number(const void *left, const void *right)
{
    uint64_t one = *(const uint64_t *)left;
    uint64_t other = *(const uint64_t *)right;
    return one < other ? -1 : one > other;
}

/* Keeps, of the first pages, those that are lazy, once each, by address. */
static void settle_first(struct pages *pages)
{
    if (pages->first_count == 0) {
        return;
    }
    qsort(pages->first, pages->first_count, sizeof *pages->first, by_number);
    size_t kept = 0;
    for (size_t i = 0; i < pages->first_count; i++) {
        uint64_t address = pages->first[i];
        if ((kept == 0 || pages->first[kept - 1] != address) && find_run(pages, address) != NULL) {
            pages->first[kept++] = address;
        }
    }
    pages->first_count = kept;
}

/* Assigns every page its place among the process's pages: the first ones in front, then the others by address. */
static void put_in_order(struct pages *pages)
{
    struct run *split = allocate(pages->run_count + 2 * pages->first_count, sizeof *split);
    size_t count = 0;
    size_t next = 0;
    uint64_t place = pages->first_count;
    for (size_t i = 0; i < pages->run_count; i++) {
        struct run run = pages->runs[i];
        uint64_t end = run.address + run.pages * PAGE;
        while (next < pages->first_count && pages->first[next] < end) {
            uint64_t before = (pages->first[next] - run.address) / PAGE;
            if (before > 0) {
                split[count++] = (struct run){run.address, before, place};
                place += before;
            }
            split[count++] = (struct run){pages->first[next], 1, next};
            run.address = pages->first[next] + PAGE;
            next++;
        }
        if (run.address < end) {
            uint64_t rest = (end - run.address) / PAGE;
            split[count++] = (struct run){run.address, rest, place};
            place += rest;
        }
    }
    free(pages->runs);
    pages->runs = split;
    pages->run_count = count;
}

static void pagemap_name(char name[NAME_MAX], int pid)
{
    snprintf(name, NAME_MAX, "pagemap-%d.img", pid);
}

/* Adjacent pages of a process, in the order of the stream. */
struct piece {
    size_t process;
    uint64_t address;
    uint64_t pages;
    uint64_t place;
};

/* All pages of all processes: the first ones, then a piece of each process in turn. */
struct order {
    struct pages **all;
    size_t count;
    size_t first_of;
    size_t turn;
};

static bool next_first(struct pages *pages, struct piece *piece)
{
    if (pages->ordered >= pages->first_count) {
        return false;
    }
    piece->address = pages->first[pages->ordered];
    piece->pages = 1;
    return true;
}

static bool next_other(struct pages *pages, struct piece *piece)
{
    while (pages->at_run < pages->run_count
           && (pages->in_run == pages->runs[pages->at_run].pages || pages->runs[pages->at_run].place < pages->first_count)) {
        pages->at_run++;
        pages->in_run = 0;
    }
    if (pages->at_run == pages->run_count) {
        return false;
    }
    const struct run *run = &pages->runs[pages->at_run];
    uint64_t left = run->pages - pages->in_run;
    piece->address = run->address + pages->in_run * PAGE;
    piece->pages = left < MOST_PIECE_PAGES ? left : MOST_PIECE_PAGES;
    pages->in_run += piece->pages;
    return true;
}

/* Returns false when there are no more. */
static bool next_piece(struct order *order, struct piece *piece)
{
    bool found = false;
    while (!found && order->first_of < order->count) {
        piece->process = order->first_of;
        found = next_first(order->all[piece->process], piece);
        order->first_of += found ? 0 : 1;
    }
    for (size_t tries = 0; !found && tries < order->count; tries++) {
        piece->process = order->turn;
        found = next_other(order->all[piece->process], piece);
        order->turn = (order->turn + 1) % order->count;
    }
    if (found) {
        piece->place = order->all[piece->process]->ordered;
        order->all[piece->process]->ordered += piece->pages;
    }
    return found;
}

/* ---- CRIU's frames --------------------------------------------------------------------------------------------- */

static size_t frame_bytes;

struct frame {
    uint32_t command;
    uint64_t pages;
    uint64_t address;
    uint64_t process;
};

enum { MAX_FRAME_BYTES = 32 };

static void encode(const struct frame *frame, uint8_t *at)
{
    memset(at, 0, frame_bytes);
    memcpy(at, &frame->command, 4);
    if (frame_bytes == MAX_FRAME_BYTES) {
        memcpy(at + 8, &frame->pages, 8);
    } else {
        uint32_t pages = (uint32_t)frame->pages;
        memcpy(at + 4, &pages, 4);
    }
    memcpy(at + frame_bytes - 16, &frame->address, 8);
    memcpy(at + frame_bytes - 8, &frame->process, 8);
}

static struct frame decode(const uint8_t *at)
{
    struct frame frame;
    memcpy(&frame.command, at, 4);
    if (frame_bytes == MAX_FRAME_BYTES) {
        memcpy(&frame.pages, at + 8, 8);
    } else {
        uint32_t pages;
        memcpy(&pages, at + 4, 4);
        frame.pages = pages;
    }
    memcpy(&frame.address, at + frame_bytes - 16, 8);
    memcpy(&frame.process, at + frame_bytes - 8, 8);
    return frame;
}

static void send_all(int peer, const char *peer_name, const void *data, size_t length)
{
    const uint8_t *at = data;
    while (length > 0) {
        ssize_t sent = send(peer, at, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            die("cannot send to %s", peer_name);
        }
        at += sent;
        length -= (size_t)sent;
    }
}

/* Returns false if the peer closed before the first byte. */
static bool receive_all(int peer, const char *peer_name, void *data, size_t length)
{
    uint8_t *at = data;
    size_t done = 0;
    while (done < length) {
        ssize_t got = recv(peer, at + done, length - done, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            die("cannot receive from %s", peer_name);
        }
        if (got == 0) {
            if (done == 0) {
                return false;
            }
            fail("%s closed the connection within a message", peer_name);
        }
        done += (size_t)got;
    }
    return true;
}

/* ---- children -------------------------------------------------------------------------------------------------- */

/* Starts a command that keeps the given descriptors. Their numbers replace {socket} and {status}. */
static pid_t start(char **command, int socket, int status, bool ends_with_us)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) {
        die("cannot start %s", command[0]);
    }
    if (child > 0) {
        return child;
    }
    if (ends_with_us && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        die("%s cannot be tied to its parent", command[0]);
    }
    static char numbers[2][DIGITS_MAX];
    snprintf(numbers[0], DIGITS_MAX, "%d", socket);
    snprintf(numbers[1], DIGITS_MAX, "%d", status);
    for (char **word = command; *word != NULL; word++) {
        if (socket >= 0 && strcmp(*word, "{socket}") == 0) {
            *word = numbers[0];
        } else if (status >= 0 && strcmp(*word, "{status}") == 0) {
            *word = numbers[1];
        }
    }
    if ((socket >= 0 && fcntl(socket, F_SETFD, 0) != 0) || (status >= 0 && fcntl(status, F_SETFD, 0) != 0)) {
        die("descriptors cannot be handed to %s", command[0]);
    }
    execvp(command[0], command);
    fprintf(stderr, "ppmr-pages %s: cannot start %s: %s\n", mode, command[0], strerror(errno));
    _exit(1);
}

/* Waits for CRIU's byte. Returns false if CRIU ended without one. */
static bool wait_for_status(int status)
{
    uint8_t byte;
    ssize_t got;
    do {
        got = read(status, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        die("cannot read CRIU's status");
    }
    close(status);
    return got == 1;
}

static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            die("cannot wait for PID %d", child);
        }
    }
    return status;
}

static const char *describe(int status, char *text, size_t room)
{
    if (WIFEXITED(status)) {
        snprintf(text, room, "ended with exit status %d", WEXITSTATUS(status));
    } else {
        snprintf(text, room, "was killed by signal %d", WTERMSIG(status));
    }
    return text;
}

static pthread_t start_thread(void *(*body)(void *))
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, NULL);
    if (error != 0) {
        errno = error;
        die("no thread can be made");
    }
    return thread;
}

static void make_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        die("no pair of sockets can be made");
    }
}

static int open_directory(const char *path)
{
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        die("cannot open the directory %s", path);
    }
    return directory;
}

static int pid_of(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value <= 0 || value > INT_MAX) {
        fail("'%s' is not a PID", text);
    }
    return (int)value;
}

/* ---- source ---------------------------------------------------------------------------------------------------- */

/* The stream while it is written, in pages. The main thread fills the ring, and another thread writes from it. */
static struct {
    int file;
    uint8_t *memory;
    uint64_t total;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t filled;
    uint64_t written;
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint8_t *ring_memory(uint64_t page)
{
    return ring.memory + (page % RING_PAGES) * (size_t)PAGE;
}

static void *write_stream(void *unused)
{
    (void)unused;
    for (uint64_t at = 0; at < ring.total;) {
        uint64_t left = ring.total - at;
        uint64_t pages = left < SLOT_PAGES ? left : SLOT_PAGES;
        pthread_mutex_lock(&ring.lock);
        while (ring.filled - at < pages) {
            pthread_cond_wait(&ring.changed, &ring.lock);
        }
        pthread_mutex_unlock(&ring.lock);
        write_all(ring.file, STREAM_NAME, ring_memory(at), pages * PAGE);
        at += pages;
        pthread_mutex_lock(&ring.lock);
        ring.written = at;
        pthread_cond_broadcast(&ring.changed);
        pthread_mutex_unlock(&ring.lock);
    }
    return NULL;
}

/* Receives pages into the ring, behind the present ones. */
static void receive_pages(int server, uint64_t at, uint64_t pages)
{
    while (pages > 0) {
        uint64_t to_end = RING_PAGES - at % RING_PAGES;
        uint64_t now = pages < to_end ? pages : to_end;
        if (!receive_all(server, "CRIU's page server", ring_memory(at), now * PAGE)) {
            fail("CRIU's page server closed the connection before the pages that it had announced");
        }
        at += now;
        pages -= now;
    }
}

/* Receives the answer to one request. It is complete, because a run of the pagemap is within one buffer of CRIU. */
static void take(int server, int pid, const struct piece *question, uint64_t at)
{
    uint8_t head[MAX_FRAME_BYTES];
    if (!receive_all(server, "CRIU's page server", head, frame_bytes)) {
        fail("CRIU's page server closed the connection before it had sent all pages of PID %d; its log has the reason", pid);
    }
    struct frame frame = decode(head);
    if ((frame.command & COMMAND_MASK) != COMMAND_ADD || frame.pages != question->pages
        || frame.address != question->address || frame.process != (uint64_t)pid) {
        fail("%" PRIu64 " pages were requested from CRIU's page server at %" PRIx64 " of PID %d, and it answers with %" PRIu64
             " pages at %" PRIx64 " of process %" PRIu64 " (command %" PRIx32 ")",
             question->pages, question->address, pid, frame.pages, frame.address, frame.process, frame.command);
    }
    receive_pages(server, at, frame.pages);
}

/* Returns whether the ring has room for this many more pages. If the caller has no other work, this waits for room. */
static bool has_room(uint64_t asked, uint64_t pages, bool wait)
{
    pthread_mutex_lock(&ring.lock);
    /* A writer that cannot write ends this program, so this wait always ends. */
    while (wait && asked - ring.written + pages > RING_PAGES) {
        pthread_cond_wait(&ring.changed, &ring.lock);
    }
    bool room = asked - ring.written + pages <= RING_PAGES;
    pthread_mutex_unlock(&ring.lock);
    return room;
}

/* Requests pages ahead while there is room. CRIU answers one request after the other, in the order of the stream. */
static void send_pages(int server, struct order *order)
{
    struct piece questions[MOST_QUESTIONS];
    uint8_t frames[MOST_QUESTIONS * MAX_FRAME_BYTES];
    size_t first = 0;
    size_t under_way = 0;
    uint64_t asked = 0;
    uint64_t taken = 0;
    struct piece next;
    bool more = next_piece(order, &next);
    while (more || under_way > 0) {
        size_t count = 0;
        while (more && under_way < MOST_QUESTIONS && has_room(asked, next.pages, under_way == 0)) {
            struct frame frame = {COMMAND_GET, next.pages, next.address, (uint64_t)order->all[next.process]->pid};
            encode(&frame, frames + count++ * frame_bytes);
            questions[(first + under_way++) % MOST_QUESTIONS] = next;
            asked += next.pages;
            more = next_piece(order, &next);
        }
        send_all(server, "CRIU's page server", frames, count * frame_bytes);
        const struct piece *question = &questions[first];
        take(server, order->all[question->process]->pid, question, taken);
        taken += question->pages;
        first = (first + 1) % MOST_QUESTIONS;
        under_way--;
        pthread_mutex_lock(&ring.lock);
        ring.filled = taken;
        pthread_cond_broadcast(&ring.changed);
        pthread_mutex_unlock(&ring.lock);
    }
}

static void link_to_scratch(int images, const char *scratch, const char *name)
{
    char target[PATH_MAX];
    if (snprintf(target, sizeof target, "%s/%s", scratch, name) >= (int)sizeof target) {
        fail("the scratch folder's name is too long: %s", scratch);
    }
    if (unlink(target) != 0 && errno != ENOENT) {
        die("cannot remove %s", target);
    }
    if (symlinkat(target, images, name) != 0) {
        die("cannot make a link %s in the image directory", name);
    }
}

/* Replaces a link by the file that CRIU has written through it. Returns false if CRIU has written none. */
static bool take_in(int images, int scratch, const char *name, struct bytes *image)
{
    if (unlinkat(images, name, 0) != 0) {
        die("cannot remove the link %s in the image directory", name);
    }
    if (faccessat(scratch, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    *image = read_file(scratch, name);
    int file = openat(images, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
        die("cannot make %s in the image directory", name);
    }
    write_all(file, name, image->at, image->length);
    if (close(file) != 0) {
        die("cannot close %s", name);
    }
    if (unlinkat(scratch, name, 0) != 0) {
        die("cannot remove %s in the scratch folder", name);
    }
    return true;
}

/* Returns the number of a process or a thread in its own namespace, which CRIU uses in its images' names; proc(5). */
static int inner_pid(const char *status_path)
{
    static const char key[] = "NSpid:";
    char line[256];
    int found = 0;
    FILE *status = fopen(status_path, "re");
    while (status != NULL && found == 0 && fgets(line, sizeof line, status) != NULL) {
        char *last = strrchr(line, '\t');
        if (strncmp(line, key, sizeof key - 1) == 0 && last != NULL) {
            line[strcspn(line, "\n")] = '\0';
            found = pid_of(last + 1);
        }
    }
    if (found == 0) {
        die("%s does not say what the process is called in its namespace", status_path);
    }
    fclose(status);
    return found;
}

static int inner_pid_of_process(int pid)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return inner_pid(path);
}

/* Calls the function for each thread of a process, whose number is in the caller's namespace, that of /proc. */
static void for_each_thread(int pid, void (*call)(const char *name, void *context), void *context)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL) {
        die("cannot list the threads of PID %d", pid);
    }
    struct dirent *entry;
    while ((entry = readdir(tasks)) != NULL) {
        if (entry->d_name[0] != '.') {
            char name[NAME_MAX];
            snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, pid_of(entry->d_name));
            snprintf(name, sizeof name, "core-%d.img", inner_pid(path));
            call(name, context);
        }
    }
    closedir(tasks);
}

struct folders {
    int images;
    int scratch;
    const char *scratch_path;
    struct pages *pages;
};

static void link_core(const char *name, void *context)
{
    struct folders *folders = context;
    link_to_scratch(folders->images, folders->scratch_path, name);
}

static void take_in_core(const char *name, void *context)
{
    struct folders *folders = context;
    struct bytes image;
    if (!take_in(folders->images, folders->scratch, name, &image)) {
        return;
    }
    uint64_t page = rseq_page(&image, name);
    if (page != 0 && folders->pages->first_count < MAX_FIRST) {
        folders->pages->first =
            enlarge(folders->pages->first, folders->pages->first_count + 1, sizeof *folders->pages->first);
        folders->pages->first[folders->pages->first_count++] = page;
    }
    free(image.at);
}

static void write_list(int images, const struct order *order)
{
    static const char temporary[] = LIST_NAME ".new";
    int number = openat(images, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *list = number < 0 ? NULL : fdopen(number, "w");
    if (list == NULL) {
        die("cannot make %s", temporary);
    }
    fprintf(list, "%s\n", LIST_HEAD);
    for (size_t i = 0; i < order->count; i++) {
        const struct pages *pages = order->all[i];
        fprintf(list, "process %d %" PRIu64 "\n", pages->pid, pages->total);
        for (size_t k = 0; k < pages->first_count; k++) {
            fprintf(list, "first %" PRIx64 "\n", pages->first[k]);
        }
    }
    fprintf(list, "end\n");
    if (fflush(list) != 0 || ferror(list) || fclose(list) != 0) {
        die("cannot write %s", temporary);
    }
    if (renameat(images, temporary, images, LIST_NAME) != 0) {
        die("cannot rename %s", temporary);
    }
}

static int run_source(const char *images_path, const char *scratch_path, const int *pids, size_t pid_count, char **dump)
{
    struct folders folders = {open_directory(images_path), open_directory(scratch_path), scratch_path, NULL};
    char name[NAME_MAX];
    for (size_t i = 0; i < pid_count; i++) {
        pagemap_name(name, inner_pid_of_process(pids[i]));
        link_to_scratch(folders.images, scratch_path, name);
        for_each_thread(pids[i], link_core, &folders);
    }
    int pair[2];
    int status[2];
    make_pair(pair);
    if (pipe2(status, O_CLOEXEC) != 0) {
        die("no pipe can be made");
    }
    /* Our end never kills it. It notices that the socket is closed, and undoes its changes to the processes. */
    pid_t criu = start(dump, pair[1], status[1], false);
    dump_socket = pair[0];
    dump_pid = criu;
    close(pair[1]);
    close(status[1]);
    char text[64];
    if (!wait_for_status(status[0])) {
        fail("CRIU has written no image: it %s", describe(wait_for(criu), text, sizeof text));
    }
    struct order order = {allocate(pid_count, sizeof *order.all), 0, 0, 0};
    for (size_t i = 0; i < pid_count; i++) {
        struct pages *pages = allocate(1, sizeof *pages);
        pages->pid = inner_pid_of_process(pids[i]);
        folders.pages = pages;
        for_each_thread(pids[i], take_in_core, &folders);
        struct bytes image;
        pagemap_name(name, pages->pid);
        if (!take_in(folders.images, folders.scratch, name, &image)) {
            free(pages);
            continue; /* a zombie, or a process that shares another one's memory */
        }
        read_pagemap(pages, &image, name);
        free(image.at);
        settle_first(pages);
        put_in_order(pages);
        ring.total += pages->total;
        order.all[order.count++] = pages;
    }
    ring.file = openat(folders.images, STREAM_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (ring.file < 0) {
        die("cannot make %s in the image directory", STREAM_NAME);
    }
    if (posix_memalign((void **)&ring.memory, PAGE, (size_t)RING_PAGES * PAGE) != 0) {
        fail("no memory for the pages");
    }
    write_list(folders.images, &order);
    pthread_t writer = start_thread(write_stream);
    send_pages(pair[0], &order);
    pthread_join(writer, NULL);
    if (close(ring.file) != 0) {
        die("cannot close %s", STREAM_NAME);
    }
    uint8_t head[MAX_FRAME_BYTES];
    struct frame last = {COMMAND_CLOSE, 0, 0, 0};
    encode(&last, head);
    send_all(pair[0], "CRIU's page server", head, frame_bytes);
    int32_t answer;
    if (!receive_all(pair[0], "CRIU's page server", &answer, sizeof answer)) {
        fail("CRIU's page server has not confirmed that all pages were sent");
    }
    close(pair[0]);
    int end = wait_for(criu);
    if (!WIFEXITED(end) || WEXITSTATUS(end) != 0) {
        fail("all pages were sent, but CRIU %s", describe(end, text, sizeof text));
    }
    return 0;
}

/* ---- target ---------------------------------------------------------------------------------------------------- */

/* A piece that was read and is not completely delivered yet. */
struct kept {
    uint64_t place;
    uint64_t pages;
    uint64_t left;
    uint8_t *data;
};

/* A process whose pages arrive. arrivals.lock guards its progress. */
struct arriving {
    struct pages pages;
    /* Number of its pages that were read. */
    uint64_t read;
    uint8_t *handed_out;
    uint64_t left;
    /* By place. */
    struct kept *kept;
    size_t kept_first;
    size_t kept_count;
    size_t kept_room;
};

static struct arriving *arriving;
static size_t arriving_count;
static struct order order;
static int stream;

/* State that the stream's reader and the main thread share. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t kept_pages;
    /* The main thread waits for a page that was not read. */
    bool wanted;
    bool over;
    /* Memory of completely delivered pieces, for reuse. Otherwise the kernel would free and clear it each time. */
    uint8_t *spare[AHEAD_PAGES / MOST_PIECE_PAGES];
    size_t spare_count;
} arrivals = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static pid_t daemon_pid;
static pid_t restore_pid;
static pthread_mutex_t ends_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ends_changed = PTHREAD_COND_INITIALIZER;
static bool daemon_may_end;
static bool daemon_ended;
static bool restore_ended;

/* After the restore has ended, the daemon no longer sleeps. While it waits for pages, it polls (criu/uffd.c,
 * handle_requests), and occupies a processor that the transfer needs. Therefore it is stopped (SIGSTOP) when it has
 * requested pages of every process and none have arrived. It continues when enough pages have arrived. No copy runs,
 * so no other process needs the daemon then. */
static struct {
    pthread_mutex_t lock;
    bool daemon_spins;
    bool daemon_rests;
    /* The main thread waits for pages. */
    bool waiting;
    /* Unanswered requests, and processes with pages that the daemon has not requested. */
    uint64_t open;
    uint64_t unfinished;
} rest = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void signal_daemon(int number)
{
    if (kill(daemon_pid, number) != 0) {
        die("CRIU's daemon for lazy pages cannot be sent signal %d", number);
    }
}

/* Called with rest.lock held, after each change of its inputs. */
static void look_at_daemon(void)
{
    bool stop = rest.daemon_spins && rest.waiting && rest.open >= rest.unfinished;
    if (stop && !rest.daemon_rests) {
        signal_daemon(SIGSTOP);
    } else if (!stop && rest.daemon_rests && rest.daemon_spins) {
        signal_daemon(SIGCONT);
    }
    rest.daemon_rests = stop;
}

/* Called with false before the daemon's PID is released. After that it may belong to another process. */
static void let_daemon(bool spin)
{
    pthread_mutex_lock(&rest.lock);
    rest.daemon_spins = spin;
    look_at_daemon();
    pthread_mutex_unlock(&rest.lock);
}

static void set_waiting(bool waiting)
{
    pthread_mutex_lock(&rest.lock);
    rest.waiting = waiting;
    look_at_daemon();
    pthread_mutex_unlock(&rest.lock);
}

static void question_comes(void)
{
    pthread_mutex_lock(&rest.lock);
    rest.open++;
    look_at_daemon();
    pthread_mutex_unlock(&rest.lock);
}

static void question_goes(bool last_of_process)
{
    pthread_mutex_lock(&rest.lock);
    rest.open--;
    rest.unfinished -= last_of_process ? 1 : 0;
    pthread_mutex_unlock(&rest.lock);
}

static void *watch_children(void *unused)
{
    (void)unused;
    char text[64];
    for (int left = 2; left > 0; left--) {
        siginfo_t child;
        while (waitid(P_ALL, 0, &child, WEXITED | WNOWAIT) != 0) {
            if (errno != EINTR) {
                die("cannot wait for CRIU");
            }
        }
        pid_t ended = child.si_pid;
        let_daemon(ended == restore_pid && !daemon_ended);
        int status = wait_for(ended);
        bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        const char *which = ended == daemon_pid ? "CRIU's daemon for lazy pages" : "the restore";
        if (!well) {
            fail("%s %s", which, describe(status, text, sizeof text));
        }
        pthread_mutex_lock(&ends_lock);
        if (ended == daemon_pid) {
            if (!daemon_may_end) {
                fail("CRIU's daemon for lazy pages has ended before all pages were handed out");
            }
            daemon_ended = true;
        } else {
            restore_ended = true;
        }
        pthread_cond_signal(&ends_changed);
        pthread_mutex_unlock(&ends_lock);
    }
    return NULL;
}

/* Reads the next piece of the stream. Returns false if there is none. */
static bool read_piece(void)
{
    struct piece piece;
    if (!next_piece(&order, &piece)) {
        return false;
    }
    struct arriving *of = &arriving[piece.process];
    uint8_t *data = NULL;
    pthread_mutex_lock(&arrivals.lock);
    uint64_t kept_pages = arrivals.kept_pages;
    if (piece.pages == MOST_PIECE_PAGES && arrivals.spare_count > 0) {
        data = arrivals.spare[--arrivals.spare_count];
    }
    pthread_mutex_unlock(&arrivals.lock);
    if (kept_pages + piece.pages > MAX_KEPT + 2 * MOST_PIECE_PAGES * arriving_count) {
        fail("%" PRIu64 " pages have arrived that CRIU has not requested, and more would have to be kept until it does."
             " It requests none of a process that has ended, and few at a time if memory has many small areas."
             " Remedy: move the job again. If that fails, use pages = \"images\"",
             kept_pages);
    }
    if (data == NULL) {
        data = enlarge(NULL, piece.pages, PAGE);
    }
    size_t wanted = piece.pages * PAGE;
    size_t done = 0;
    while (done < wanted) {
        ssize_t got = read(stream, data + done, wanted - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            die("cannot read %s", STREAM_NAME);
        }
        if (got == 0) {
            fail("%s ends before page %" PRIu64 " of %" PRIu64 " of PID %d", STREAM_NAME, of->read, of->pages.total,
                 of->pages.pid);
        }
        done += (size_t)got;
    }
    pthread_mutex_lock(&arrivals.lock);
    if (of->kept_first + of->kept_count == of->kept_room) {
        if (of->kept_first > of->kept_room / 2) {
            memmove(of->kept, of->kept + of->kept_first, of->kept_count * sizeof *of->kept);
            of->kept_first = 0;
        } else {
            of->kept_room = 2 * of->kept_room + 16;
            of->kept = enlarge(of->kept, of->kept_room, sizeof *of->kept);
        }
    }
    of->kept[of->kept_first + of->kept_count++] = (struct kept){piece.place, piece.pages, piece.pages, data};
    of->read += piece.pages;
    arrivals.kept_pages += piece.pages;
    pthread_cond_broadcast(&arrivals.changed);
    pthread_mutex_unlock(&arrivals.lock);
    return true;
}

/* Reads ahead of the daemon's requests, and reads the page that the main thread waits for. */
static void *read_stream(void *unused)
{
    (void)unused;
    do {
        pthread_mutex_lock(&arrivals.lock);
        while (arrivals.kept_pages >= AHEAD_PAGES && !arrivals.wanted) {
            pthread_cond_wait(&arrivals.changed, &arrivals.lock);
        }
        pthread_mutex_unlock(&arrivals.lock);
    } while (read_piece());
    pthread_mutex_lock(&arrivals.lock);
    arrivals.over = true;
    pthread_cond_broadcast(&arrivals.changed);
    pthread_mutex_unlock(&arrivals.lock);
    return NULL;
}

/* Called with arrivals.lock held. */
static struct kept *find_kept(struct arriving *from, uint64_t place)
{
    size_t low = from->kept_first;
    size_t high = low + from->kept_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct kept *kept = &from->kept[middle];
        if (place < kept->place) {
            high = middle;
        } else if (place >= kept->place + kept->pages) {
            low = middle + 1;
        } else {
            return kept->data == NULL ? NULL : kept;
        }
    }
    return NULL;
}

/* Called with arrivals.lock held. */
static void hand_out(struct arriving *from, uint64_t place, uint64_t pages)
{
    struct kept *kept = find_kept(from, place);
    for (uint64_t page = place; page < place + pages; page++) {
        uint8_t bit = (uint8_t)(1U << (page % 8));
        if ((from->handed_out[page / 8] & bit) == 0) {
            from->handed_out[page / 8] |= bit;
            from->left--;
            kept->left--;
        }
    }
    if (kept->left == 0) {
        arrivals.kept_pages -= kept->pages;
        if (kept->pages == MOST_PIECE_PAGES && arrivals.spare_count < AHEAD_PAGES / MOST_PIECE_PAGES) {
            arrivals.spare[arrivals.spare_count++] = kept->data;
        } else {
            free(kept->data);
        }
        kept->data = NULL;
        pthread_cond_broadcast(&arrivals.changed);
    }
    while (from->kept_count > 0 && from->kept[from->kept_first].data == NULL) {
        from->kept_first++;
        from->kept_count--;
    }
}

/* Waits until a page was read, and enough others for the daemon, or no more follow. Called with arrivals.lock held. */
static void await_page(const struct arriving *from, uint64_t place)
{
    arrivals.wanted = true;
    pthread_cond_broadcast(&arrivals.changed);
    set_waiting(true);
    while ((from->read <= place || arrivals.kept_pages < BATCH_PAGES) && !arrivals.over) {
        pthread_cond_wait(&arrivals.changed, &arrivals.lock);
    }
    set_waiting(false);
    arrivals.wanted = false;
}

/* Answers a request with the available pages in one piece. */
static void answer(int client, struct arriving *from, const struct frame *question)
{
    const struct run *run = find_run(&from->pages, question->address);
    if (run == NULL) {
        fail("CRIU's daemon requests the page %" PRIx64 " of PID %d, which is not lazy", question->address,
             from->pages.pid);
    }
    uint64_t place = run->place + (question->address - run->address) / PAGE;
    pthread_mutex_lock(&arrivals.lock);
    if (from->read <= place) {
        await_page(from, place);
    }
    if (from->read <= place) {
        fail("%s has no page %" PRIx64 " of PID %d", STREAM_NAME, question->address, from->pages.pid);
    }
    const struct kept *kept = find_kept(from, place);
    if (kept == NULL || (from->handed_out[place / 8] & (1U << (place % 8))) != 0) {
        fail("CRIU's daemon requests the page %" PRIx64 " of PID %d a second time", question->address, from->pages.pid);
    }
    uint64_t inside = place - kept->place;
    const uint8_t *data = kept->data + inside * PAGE;
    struct frame frame = *question;
    frame.command = COMMAND_ADD | (PAGE_PRESENT << FLAGS_SHIFT);
    frame.pages = kept->pages - inside < question->pages ? kept->pages - inside : question->pages;
    pthread_mutex_unlock(&arrivals.lock);
    uint8_t head[MAX_FRAME_BYTES];
    encode(&frame, head);
    /* Only the main thread frees memory, so the pages stay while they are sent. */
    send_all(client, "CRIU's daemon for lazy pages", head, frame_bytes);
    send_all(client, "CRIU's daemon for lazy pages", data, frame.pages * PAGE);
    pthread_mutex_lock(&arrivals.lock);
    hand_out(from, place, frame.pages);
    bool last = from->left == 0;
    pthread_mutex_unlock(&arrivals.lock);
    question_goes(last);
}

static void read_list(int images)
{
    struct bytes text = read_file(images, LIST_NAME);
    text.at = enlarge(text.at, text.length + 1, 1);
    text.at[text.length] = '\0';
    arriving = allocate(MAX_PROCESSES, sizeof *arriving);
    struct arriving *current = NULL;
    bool ended = false;
    char *rest = NULL;
    char *line = strtok_r((char *)text.at, "\n", &rest);
    if (line == NULL || strcmp(line, LIST_HEAD) != 0) {
        fail("%s does not begin with '%s'", LIST_NAME, LIST_HEAD);
    }
    while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
        int pid;
        uint64_t number;
        char behind;
        if (ended) {
            fail("%s continues behind its end", LIST_NAME);
        } else if (sscanf(line, "process %d %" SCNu64 "%c", &pid, &number, &behind) == 2 && pid > 0
                   && arriving_count < MAX_PROCESSES) {
            current = &arriving[arriving_count++];
            current->pages.pid = pid;
            current->left = number;
        } else if (current != NULL && sscanf(line, "first %" SCNx64 "%c", &number, &behind) == 1
                   && number % PAGE == 0 && current->pages.first_count < MAX_FIRST) {
            current->pages.first =
                enlarge(current->pages.first, current->pages.first_count + 1, sizeof *current->pages.first);
            current->pages.first[current->pages.first_count++] = number;
        } else if (strcmp(line, "end") == 0) {
            ended = true;
        } else {
            fail("%s has a line that is not understood: %.80s", LIST_NAME, line);
        }
    }
    if (!ended) {
        fail("%s is not whole", LIST_NAME);
    }
    free(text.at);
}

static void prepare(int images, struct arriving *one)
{
    char name[NAME_MAX];
    uint64_t stated = one->left;
    size_t stated_first = one->pages.first_count;
    pagemap_name(name, one->pages.pid);
    struct bytes image = read_file(images, name);
    read_pagemap(&one->pages, &image, name);
    free(image.at);
    settle_first(&one->pages);
    if (one->pages.total != stated || one->pages.first_count != stated_first) {
        fail("%s names %" PRIu64 " lazy pages, %s %" PRIu64, name, one->pages.total, LIST_NAME, stated);
    }
    put_in_order(&one->pages);
    one->handed_out = allocate(stated / 8 + 1, 1);
    rest.unfinished += one->left > 0 ? 1 : 0;
}

static void write_pids(const char *path)
{
    int number = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = number < 0 ? NULL : fdopen(number, "w");
    if (file == NULL) {
        die("cannot make %s", path);
    }
    for (size_t i = 0; i < arriving_count; i++) {
        fprintf(file, "%d\n", arriving[i].pages.pid);
    }
    if (fflush(file) != 0 || ferror(file) || fclose(file) != 0) {
        die("cannot write %s", path);
    }
}

/* The daemon's requests, which another thread receives at once. The daemon ends if its socket is full, and each
 * restored process and thread may have one pending. */
static struct {
    int client;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct frame *frames;
    size_t first;
    size_t count;
    bool over;
} questions = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *take_questions(void *unused)
{
    (void)unused;
    bool last = false;
    while (!last) {
        uint8_t head[MAX_FRAME_BYTES];
        struct frame frame = {0, 0, 0, 0};
        bool there = receive_all(questions.client, "CRIU's daemon for lazy pages", head, frame_bytes);
        if (there) {
            frame = decode(head);
        }
        uint32_t command = frame.command & COMMAND_MASK;
        last = !there || command == COMMAND_CLOSE || command == COMMAND_FORCE_CLOSE;
        pthread_mutex_lock(&questions.lock);
        if (there) {
            if (questions.count == MOST_OPEN) {
                fail("CRIU's daemon for lazy pages has more than %d questions open", (int)MOST_OPEN);
            }
            questions.frames[(questions.first + questions.count++) % MOST_OPEN] = frame;
        }
        questions.over = !there;
        if (there && command == COMMAND_GET) {
            question_comes();
        }
        pthread_cond_signal(&questions.changed);
        pthread_mutex_unlock(&questions.lock);
    }
    return NULL;
}

static struct frame next_question(void)
{
    pthread_mutex_lock(&questions.lock);
    /* A daemon that ends also ends its connection, or this program, so this wait always ends. */
    while (questions.count == 0) {
        if (questions.over) {
            fail("CRIU's daemon for lazy pages ended without an error message");
        }
        pthread_cond_wait(&questions.changed, &questions.lock);
    }
    struct frame frame = questions.frames[questions.first];
    questions.first = (questions.first + 1) % MOST_OPEN;
    questions.count--;
    pthread_mutex_unlock(&questions.lock);
    return frame;
}

/* Returns the process whose pages a request is for. */
static struct arriving *asked_of(const struct frame *question)
{
    struct arriving *from = NULL;
    for (size_t i = 0; i < arriving_count && from == NULL; i++) {
        from = (uint64_t)arriving[i].pages.pid == question->process ? &arriving[i] : NULL;
    }
    if ((question->command & COMMAND_MASK) != COMMAND_GET || from == NULL || question->pages == 0
        || question->pages > MAX_ASKED) {
        fail("CRIU's daemon sends an unknown request: command %" PRIx32 ", %" PRIu64 " pages at %" PRIx64
             " of process %" PRIu64,
             question->command, question->pages, question->address, question->process);
    }
    return from;
}

/* Answers the daemon until it closes. */
static void serve(int client)
{
    questions.client = client;
    questions.frames = allocate(MOST_OPEN, sizeof *questions.frames);
    start_thread(take_questions);
    for (;;) {
        struct frame frame = next_question();
        uint32_t command = frame.command & COMMAND_MASK;
        if (command == COMMAND_CLOSE || command == COMMAND_FORCE_CLOSE) {
            break;
        }
        answer(client, asked_of(&frame), &frame);
    }
    for (size_t i = 0; i < arriving_count; i++) {
        if (arriving[i].left > 0) {
            fail("CRIU's daemon has closed with %" PRIu64 " of %" PRIu64 " pages of PID %d not handed out",
                 arriving[i].left, arriving[i].pages.total, arriving[i].pages.pid);
        }
    }
    pthread_mutex_lock(&ends_lock);
    daemon_may_end = true;
    pthread_mutex_unlock(&ends_lock);
    int32_t well = 0;
    send_all(client, "CRIU's daemon for lazy pages", &well, sizeof well);
}

static int run_target(const char *images_path, const char *pids_path, char **lazy_pages, char **restore)
{
    int images = open_directory(images_path);
    read_list(images);
    order.all = allocate(arriving_count + 1, sizeof *order.all);
    for (; order.count < arriving_count; order.count++) {
        prepare(images, &arriving[order.count]);
        order.all[order.count] = &arriving[order.count].pages;
    }
    stream = openat(images, STREAM_NAME, O_RDONLY | O_CLOEXEC);
    if (stream < 0) {
        die("cannot open %s", STREAM_NAME);
    }
    write_pids(pids_path);
    int pair[2];
    int status[2];
    make_pair(pair);
    if (pipe2(status, O_CLOEXEC) != 0) {
        die("no pipe can be made");
    }
    daemon_pid = start(lazy_pages, pair[1], status[1], true);
    close(pair[1]);
    close(status[1]);
    char text[64];
    if (!wait_for_status(status[0])) {
        fail("CRIU's daemon for lazy pages does not start: it %s", describe(wait_for(daemon_pid), text, sizeof text));
    }
    restore_pid = start(restore, -1, -1, true);
    start_thread(watch_children);
    start_thread(read_stream);
    serve(pair[0]);
    pthread_mutex_lock(&ends_lock);
    while (!daemon_ended || !restore_ended) {
        pthread_cond_wait(&ends_changed, &ends_lock);
    }
    pthread_mutex_unlock(&ends_lock);
    return 0;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static int usage(void)
{
    fputs("usage: ppmr-pages source --frame-bytes 24|32 --images DIR --scratch DIR --pid PID... -- DUMP...\n"
          "       ppmr-pages target --frame-bytes 24|32 --images DIR --pids-file FILE -- LAZY-PAGES... -- RESTORE...\n",
          stderr);
    return 1;
}

int main(int count, char **words)
{
    const char *images = NULL;
    const char *scratch = NULL;
    const char *pids_file = NULL;
    static int pids[MAX_PROCESSES];
    size_t pid_count = 0;
    if (count < 2) {
        return usage();
    }
    mode = words[1];
    int i = 2;
    for (; i + 1 < count && strcmp(words[i], "--") != 0; i += 2) {
        const char *value = words[i + 1];
        if (strcmp(words[i], "--frame-bytes") == 0) {
            frame_bytes = strcmp(value, "32") == 0 ? 32 : 24;
        } else if (strcmp(words[i], "--images") == 0) {
            images = value;
        } else if (strcmp(words[i], "--scratch") == 0) {
            scratch = value;
        } else if (strcmp(words[i], "--pids-file") == 0) {
            pids_file = value;
        } else if (strcmp(words[i], "--pid") == 0 && pid_count < MAX_PROCESSES) {
            pids[pid_count++] = pid_of(value);
        } else {
            return usage();
        }
    }
    if (frame_bytes == 0 || images == NULL || i + 1 >= count) {
        return usage();
    }
    char **first = &words[i + 1];
    if (strcmp(mode, "source") == 0 && scratch != NULL && pid_count > 0) {
        return run_source(images, scratch, pids, pid_count, first);
    }
    char **second = first;
    while (*second != NULL && strcmp(*second, "--") != 0) {
        second++;
    }
    if (strcmp(mode, "target") != 0 || pids_file == NULL || *second == NULL || second[1] == NULL) {
        return usage();
    }
    *second = NULL;
    return run_target(images, pids_file, first, second + 1);
}
