/*
 * ppmr-pages: sends the memory pages of held processes through an image directory into their held copies.
 *
 *   ppmr-pages source --images DIR --scratch DIR --root PID --pid PID [--pid PID]... -- CRIU dump ARGUMENT...
 *   ppmr-pages target --images DIR --work DIR --pids-file FILE -- CRIU restore ARGUMENT...
 *
 * The pages are CRIU's lazy pages. `criu dump --lazy-pages` writes everything else into its images, reports that on its
 * status descriptor, and then waits in its page server. The processes stay in ptrace-stop until then, so that even a
 * SIGCONT leaves them stopped. The source reads the pages from the processes' memory during this wait, and then closes
 * the connection to the page server: CRIU ends as after a transfer. CRIU's exit status proves nothing about the pages.
 *
 * The source writes the lazy pages of all processes into one file, pages.stream, which the target reads while it is
 * written. The page maps define the order: a block of each process in turn, and the root's blocks last. pages.list
 * names the processes with their numbers of pages, the root last. It gets its name by a rename when all other images
 * are whole: the target waits for that name.
 *
 * The target takes the place of `criu lazy-pages`. CRIU's restored processes send their userfaultfd descriptors over
 * lazy-pages.socket, and the target copies each page into its process once (UFFDIO_COPY, ioctl_userfaultfd(2)). A fault
 * on a page that is not there yet waits for its turn. The root's pages must be last: the root registers its memory when
 * all other processes are restored, and they can need their own pages for that. Any other order can wait for ever.
 *
 * A second process, the holder, has all descriptors, too. If this program ends early, the memory stays registered until
 * the copies ended: a copy that is continued then waits for its page, and never runs on zeros.
 *
 * The target succeeds when each lazy page was copied once, CRIU has sent its final word, and the restore ended with 0.
 *
 * Images are read here, and what is written into the image directory cannot be read back. So CRIU is led to write the
 * page maps and the memory maps into the scratch directory, by links of their names, and they are copied.
 *
 * The caller has stopped the original's processes (SIGSTOP), so that they stay stopped if CRIU fails.
 *
 * Exit status: 0, or 1 with a message on standard error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "page-set.h"
#include "tree-stop.h"
#include "userfaultfd.h"
#include "write-tracker.h"

enum {
    PAGE = 4096,
    /* One FUSE request. */
    SLOT_PAGES = 32,
    /* A turn of a process: the usual chunk. */
    BLOCK_PAGES = 64,
    RING_PAGES = 1024,
    /* A batch of rounds.stream: a page that describes it, and these pages at most. */
    BATCH_PAGES = 248,
    MAX_PROCESSES = 1024,
    ORDERS_LIMIT_MS = 60000,
    YOUNG_S = 2,
    /* The looks of one stop. */
    LOOK_LIMIT_NS = 1000000000,
    MAX_RUNS = 1 << 24,
    MOST_FILLERS = 2,
    /* ENOENT of UFFDIO_COPY: the process has not registered its memory yet. */
    REGISTRATION_PAUSE_NS = 300000,
    REGISTRATION_LIMIT_S = 60,
    MESSAGE_LIMIT_S = 10,
    HOLDER_LOOK_NS = 20000000,
    /* Any address that every process may have: the holder copies nothing there. */
    PROBED_ADDRESS = 1 << 30,
    /* Descriptors of this program, beside those of the copies. */
    OTHER_DESCRIPTORS = 64,
    MOST_EVENTS = 16,
    IMAGE_HEAD_BYTES = 8,
    DIGITS_MAX = 20
};

/* images/pagemap.proto, criu/include/image.h */
#define PAGEMAP_PARENT 1U
#define PAGEMAP_LAZY 2U
#define PAGEMAP_PRESENT 4U
/* images/mm.proto, images/vma.proto, mmap(2) */
#define FIELD_VMAS 14U
#define MAP_KIND (0x02U | 0x20U | 0x2000U | 0x40000U)
#define MAP_LAZY (0x02U | 0x20U)
/* criu/include/uffd.h, criu/uffd.c */
#define SOCKET_NAME "lazy-pages.socket"
#define RESTORE_FINISHED 0x52535446

#define LIST_NAME "pages.list"
/* Change this with the order of the pages or the size of a block: both sides must have the same version. */
#define LIST_HEAD "ppmr pages 3, blocks of 64, root last"
_Static_assert(BLOCK_PAGES == 64, "the list's head has the length of a block");
#define STREAM_NAME "pages.stream"
#define ROUNDS_NAME "rounds.stream"
#define ORDERS_NAME "orders"
#define ROUNDS_LIST_HEAD "ppmr pages 3, in rounds"

static const char *mode = "ppmr-pages";

static void report(const char *format, va_list arguments, int error)
{
    fprintf(stderr, "ppmr-pages %s: ", mode);
    vfprintf(stderr, format, arguments);
    if (error != 0) {
        fprintf(stderr, ": %s", strerror(error));
    }
    fputc('\n', stderr);
    fflush(stderr);
}

/* The source's CRIU, and our side of its socket; 0 and -1 while there is none. */
static pid_t dump_pid;
static int dump_socket = -1;

enum { DUMP_END_LOOKS = 100, DUMP_END_PAUSE_US = 50000 };

/* Keeps the descriptors of a target whose holder is gone; does nothing otherwise. */
static void replace_holder(void);

/*
 * Ends all threads at once: one of them may wait in the image filesystem. The kernel ends the target's restore then
 * (PR_SET_PDEATHSIG). The source's CRIU notices the end of its connection, and detaches from the processes. That is
 * waited for, since the caller considers the processes free when this program ended.
 */
__attribute__((noreturn)) static void leave(void)
{
    if (dump_pid > 0) {
        shutdown(dump_socket, SHUT_RDWR);
        for (int look = 0; look < DUMP_END_LOOKS && waitpid(dump_pid, NULL, WNOHANG) == 0; look++) {
            usleep(DUMP_END_PAUSE_US);
        }
    }
    replace_holder();
    _exit(1);
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments, 0);
    va_end(arguments);
    leave();
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments, error);
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

/* A file's bytes. */
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

/* The next field's number, or 0 at the end. A number is in value, what has a length in part. */
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
        uint64_t claimed = varint(message);
        left = (size_t)(message->end - message->at);
        length = claimed > left ? left + 1 : (size_t)claimed;
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

/* The next message of an image file: 32 bits of length before each; false at the file's end. */
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

/* Adjacent pages of one mapping, and the number of the first of them among the process's lazy pages. */
struct run {
    uint64_t address;
    uint64_t pages;
    uint64_t place;
};

struct pages {
    int pid;
    /* By address, as the page map has them. */
    struct run *runs;
    size_t run_count;
    size_t run_room;
    uint64_t total;
    /* The position of the order of all pages in this process. */
    size_t at_run;
    uint64_t in_run;
};

static void add_run(struct pages *pages, uint64_t address, uint64_t count, const char *name)
{
    if (pages->run_count == pages->run_room) {
        if (pages->run_count >= MAX_RUNS) {
            fail("%s has more than %d runs of lazy pages", name, (int)MAX_RUNS);
        }
        pages->run_room = pages->run_room == 0 ? 256 : 2 * pages->run_room;
        pages->runs = enlarge(pages->runs, pages->run_room, sizeof *pages->runs);
    }
    pages->runs[pages->run_count++] = (struct run){address, count, pages->total};
    pages->total += count;
}

/* A mapping of the memory map. */
struct mapping {
    uint64_t start;
    uint64_t end;
    bool lazy;
};

/* The mappings of a memory map, one after the other. */
struct mappings {
    struct message message;
    struct mapping now;
    const char *name;
};

static void open_mappings(struct mappings *mappings, struct bytes *image, const char *name)
{
    size_t offset = IMAGE_HEAD_BYTES;
    *mappings = (struct mappings){.name = name};
    if (image->length < IMAGE_HEAD_BYTES || !next_message(image, &offset, name, &mappings->message)) {
        fail("%s has no entry", name);
    }
}

/* Continues with the next mapping; false behind the last one. */
static bool next_mapping(struct mappings *mappings)
{
    uint64_t value;
    struct message vma;
    unsigned field;
    do {
        field = next_field(&mappings->message, &value, &vma);
    } while (field != 0 && field != FIELD_VMAS);
    if (field == 0) {
        return false;
    }
    uint64_t behind = mappings->now.end;
    uint64_t flags = 0;
    mappings->now = (struct mapping){0, 0, false};
    struct message part;
    while ((field = next_field(&vma, &value, &part)) != 0) {
        switch (field) {
        case 1:
            mappings->now.start = value;
            break;
        case 2:
            mappings->now.end = value;
            break;
        case 6:
            flags = value;
            break;
        default:
            break;
        }
    }
    mappings->now.lazy = (flags & MAP_KIND) == MAP_LAZY;
    if (mappings->now.start % PAGE != 0 || mappings->now.end % PAGE != 0 || mappings->now.start >= mappings->now.end
        || mappings->now.start < behind) {
        fail("%s: the mapping at %" PRIx64 " is not behind the one before", mappings->name, mappings->now.start);
    }
    return true;
}

/* Adds a run of lazy pages, a part for each mapping: one UFFDIO_COPY stays within a mapping. */
static void add_lazy(struct pages *pages, struct mappings *mappings, uint64_t address, uint64_t count)
{
    while (count > 0) {
        while (mappings->now.end <= address) {
            if (!next_mapping(mappings)) {
                fail("%s has no mapping at %" PRIx64 ", where PID %d has lazy pages", mappings->name, address,
                     pages->pid);
            }
        }
        if (mappings->now.start > address || !mappings->now.lazy) {
            fail("%s has no private anonymous mapping at %" PRIx64 ", where PID %d has lazy pages", mappings->name,
                 address, pages->pid);
        }
        uint64_t room = (mappings->now.end - address) / PAGE;
        uint64_t part = count < room ? count : room;
        add_run(pages, address, part, mappings->name);
        address += part * PAGE;
        count -= part;
    }
}

/* Reads a process's page map and memory map. */
static void read_maps(struct pages *pages, struct bytes *image, const char *name, struct bytes *memory_map,
                      const char *memory_name)
{
    size_t offset = IMAGE_HEAD_BYTES;
    struct message message;
    if (image->length < IMAGE_HEAD_BYTES || !next_message(image, &offset, name, &message)) {
        fail("%s has no head", name);
    }
    struct mappings mappings;
    open_mappings(&mappings, memory_map, memory_name);
    uint64_t behind = 0;
    while (next_message(image, &offset, name, &message)) {
        uint64_t address = 0;
        uint64_t narrow = 0;
        uint64_t wide = 0;
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
                narrow = value;
                break;
            case 4:
                flags = value;
                break;
            case 5:
                wide = value;
                break;
            default:
                break;
            }
        }
        uint64_t count = wide != 0 ? wide : narrow;
        if (wide != 0 && narrow != 0 && wide != narrow) {
            fail("%s: the entry at %" PRIx64 " has two numbers of pages", name, address);
        }
        if ((flags & ~(PAGEMAP_LAZY | PAGEMAP_PRESENT)) != 0) {
            fail("%s: the entry at %" PRIx64 " has flags that are not known: %" PRIx64, name, address, flags);
        }
        if ((flags & PAGEMAP_LAZY) == 0 || count == 0) {
            continue;
        }
        if (address % PAGE != 0 || address < behind || count > (UINT64_MAX - address) / PAGE) {
            fail("%s: the entry at %" PRIx64 " is not a run of pages behind the one before", name, address);
        }
        behind = address + count * PAGE;
        add_lazy(pages, &mappings, address, count);
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

static void image_name(char name[NAME_MAX], const char *kind, int pid)
{
    snprintf(name, NAME_MAX, "%s-%d.img", kind, pid);
}

/* Adjacent pages of a process. */
struct piece {
    uint64_t address;
    uint64_t pages;
    uint64_t place;
};

/* Up to BLOCK_PAGES pages of one process, in the order of the stream. */
struct block {
    size_t process;
    size_t count;
    uint64_t pages;
    struct piece pieces[BLOCK_PAGES];
};

/* All pages of all processes: a block of each process but the last in turn, and then the blocks of the last one. */
struct order {
    struct pages **all;
    size_t count;
    size_t turn;
};

/* Fills a block with a process's next pages; false when it has no more. */
static bool next_of(struct pages *pages, struct block *block)
{
    block->count = 0;
    block->pages = 0;
    while (pages->at_run < pages->run_count && block->pages < BLOCK_PAGES) {
        const struct run *run = &pages->runs[pages->at_run];
        uint64_t left = run->pages - pages->in_run;
        uint64_t room = BLOCK_PAGES - block->pages;
        uint64_t now = left < room ? left : room;
        block->pieces[block->count++] =
            (struct piece){run->address + pages->in_run * PAGE, now, run->place + pages->in_run};
        block->pages += now;
        pages->in_run += now;
        if (pages->in_run == run->pages) {
            pages->at_run++;
            pages->in_run = 0;
        }
    }
    return block->pages > 0;
}

/* False when there are no more. */
static bool next_block(struct order *order, struct block *block)
{
    size_t others = order->count == 0 ? 0 : order->count - 1;
    for (size_t tries = 0; tries < others; tries++) {
        block->process = order->turn;
        order->turn = (order->turn + 1) % others;
        if (next_of(order->all[block->process], block)) {
            return true;
        }
    }
    block->process = others;
    return order->count > 0 && next_of(order->all[others], block);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

/* What a batch of rounds.stream holds. */
enum batch_kind {
    /* Pages of a process; later ones replace earlier ones. */
    BATCH_PAGES_OF = 1,
    /* A process ended, or has executed another program: its pages are of no use. */
    BATCH_FORGET,
    /* Pages that a process has unmapped. */
    BATCH_UNMAPPED,
    /* The end of a round. */
    BATCH_ROUND_END,
    /* The list of processes is there, and all images. */
    BATCH_LISTED,
    /* All pages of the page maps have been sent. */
    BATCH_LAST
};

/* An address of pages that could not be read, since the process has unmapped them. Their bytes mean nothing. */
#define UNREAD_PAGES UINT64_MAX

/* The first page of a batch. */
struct batch_head {
    uint32_t kind;
    int32_t pid;
    uint32_t pieces;
    uint32_t pages;
    /* The place of this batch among all. */
    uint64_t number;
    /* Of a round's end: the round's number. */
    uint64_t round;
    struct page_range ranges[BATCH_PAGES];
};

_Static_assert(sizeof(struct batch_head) <= PAGE, "a batch's head is a page");

/* ---- children -------------------------------------------------------------------------------------------------- */

/* Starts a command that keeps the given descriptors, whose numbers are put in place of {socket} and {status}. */
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

/* Waits for CRIU's byte; false if it ended without one. */
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

/* The stream while it is written: the main thread fills the ring, its own thread writes what is in it. In pages. */
static struct {
    int file;
    const char *name;
    uint8_t *memory;
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t filled;
    uint64_t written;
    /* Where the written pages are sent on although no chunk is full. */
    uint64_t sync_at;
    bool ended;
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint8_t *ring_memory(uint64_t page)
{
    return ring.memory + (page % RING_PAGES) * (size_t)PAGE;
}

/* The number of pages from a place of the ring that follow each other in memory. */
static uint64_t ring_run(uint64_t page, uint64_t most)
{
    uint64_t left = RING_PAGES - page % RING_PAGES;
    return most < left ? most : left;
}

static void *write_stream(void *unused)
{
    (void)unused;
    for (uint64_t at = 0;;) {
        pthread_mutex_lock(&ring.lock);
        while (ring.filled == at && !ring.ended) {
            pthread_cond_wait(&ring.changed, &ring.lock);
        }
        uint64_t pages = ring_run(at, ring.filled - at);
        pthread_mutex_unlock(&ring.lock);
        if (pages == 0) {
            return NULL;
        }
        pages = pages < SLOT_PAGES ? pages : SLOT_PAGES;
        write_all(ring.file, ring.name, ring_memory(at), pages * PAGE);
        at += pages;
        pthread_mutex_lock(&ring.lock);
        bool syncs = ring.sync_at > 0 && ring.sync_at <= at;
        ring.sync_at = syncs ? 0 : ring.sync_at;
        pthread_mutex_unlock(&ring.lock);
        if (syncs && fsync(ring.file) != 0 && errno != EINVAL) {
            die("cannot send %s", ring.name);
        }
        pthread_mutex_lock(&ring.lock);
        ring.written = at;
        pthread_cond_broadcast(&ring.changed);
        pthread_mutex_unlock(&ring.lock);
    }
}

static void open_stream(int images, const char *name)
{
    ring.name = name;
    ring.file = openat(images, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (ring.file < 0) {
        die("cannot make %s in the image directory", name);
    }
    if (posix_memalign((void **)&ring.memory, PAGE, (size_t)RING_PAGES * PAGE) != 0) {
        fail("no memory for the pages");
    }
    ring.writer = start_thread(write_stream);
}

/* Waits until pages have room in the ring. A writer that cannot write ends this program, so the wait ends. */
static void await_room(uint64_t pages)
{
    pthread_mutex_lock(&ring.lock);
    while (ring.filled + pages - ring.written > RING_PAGES) {
        pthread_cond_wait(&ring.changed, &ring.lock);
    }
    pthread_mutex_unlock(&ring.lock);
}

/* Has the writer write the next pages of the ring, and send them on at once if that is wanted. */
static void publish(uint64_t pages, bool at_once)
{
    pthread_mutex_lock(&ring.lock);
    ring.filled += pages;
    ring.sync_at = at_once ? ring.filled : ring.sync_at;
    pthread_cond_broadcast(&ring.changed);
    pthread_mutex_unlock(&ring.lock);
}

static void end_stream(void)
{
    pthread_mutex_lock(&ring.lock);
    ring.ended = true;
    pthread_cond_broadcast(&ring.changed);
    pthread_mutex_unlock(&ring.lock);
}

static void close_stream(void)
{
    pthread_join(ring.writer, NULL);
    if (close(ring.file) != 0) {
        die("cannot close %s", ring.name);
    }
}

/* An original, whose memory is read while CRIU keeps it stopped. */
struct original {
    struct pages pages;
    int outer_pid;
    /* /proc/PID/mem, opened before the dump: it stays the same memory. -1 for a zombie. */
    int memory;
};

/* Reads what process_vm_readv(2) refuses, such as pages without any rights (mprotect(2)). */
static void read_by_file(const struct original *of, uint64_t address, uint8_t *to, size_t length)
{
    while (length > 0) {
        ssize_t got = pread(of->memory, to, length, (off_t)address);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            die("cannot read the memory of PID %d at %" PRIx64, of->outer_pid, address);
        }
        to += got;
        address += (uint64_t)got;
        length -= (size_t)got;
    }
}

/* Memory for pages that follow each other in the ring, in at most two parts. */
struct room {
    struct iovec parts[2];
    size_t count;
};

static struct room ring_room(uint64_t page, uint64_t pages)
{
    uint64_t first = ring_run(page, pages);
    struct room room = {{{ring_memory(page), first * PAGE}}, 1};
    if (first < pages) {
        room.parts[room.count++] = (struct iovec){ring_memory(page + first), (pages - first) * PAGE};
    }
    return room;
}

/* The memory of one page of some room. */
static uint8_t *page_of(const struct room *room, uint64_t page)
{
    size_t offset = page * PAGE;
    const struct iovec *part = &room->parts[offset < room->parts[0].iov_len ? 0 : 1];
    return (uint8_t *)part->iov_base + (part == &room->parts[0] ? offset : offset - room->parts[0].iov_len);
}

/* Reads pieces of a process's memory; returns the number of pages that were read, up to the first refused one. */
static uint64_t read_pieces(int pid, const struct piece *pieces, size_t count, const struct room *room)
{
    struct iovec remote[BATCH_PAGES];
    for (size_t i = 0; i < count; i++) {
        remote[i] = (struct iovec){(void *)(uintptr_t)pieces[i].address, pieces[i].pages * PAGE};
    }
    ssize_t got = process_vm_readv(pid, room->parts, room->count, remote, count, 0);
    return got < 0 ? 0 : (uint64_t)got / PAGE;
}

static void read_block(const struct original *of, const struct block *block, const struct room *room)
{
    uint64_t done = read_pieces(of->outer_pid, block->pieces, block->count, room);
    uint64_t before = 0;
    for (size_t i = 0; i < block->count; i++) {
        const struct piece *piece = &block->pieces[i];
        for (uint64_t page = done > before ? done - before : 0; page < piece->pages; page++) {
            read_by_file(of, piece->address + page * PAGE, page_of(room, before + page), PAGE);
        }
        before += piece->pages;
    }
}

static void read_pages(struct order *order, const struct original *originals)
{
    struct block block;
    while (next_block(order, &block)) {
        await_room(block.pages);
        struct room room = ring_room(ring.filled, block.pages);
        read_block(&originals[block.process], &block, &room);
        publish(block.pages, false);
    }
    end_stream();
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

/* Replaces a link by the file that CRIU has written through it; false if it has written none. */
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

/* The number that a process or a thread has in its own namespace, by which CRIU names its images; proc(5). */
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
        die("%s does not contain the process's number in its namespace", status_path);
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

static void write_list(int images, const struct order *order, const char *head)
{
    static const char temporary[] = LIST_NAME ".new";
    int number = openat(images, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *list = number < 0 ? NULL : fdopen(number, "w");
    if (list == NULL) {
        die("cannot make %s", temporary);
    }
    fprintf(list, "%s\n", head);
    for (size_t i = 0; i < order->count; i++) {
        const struct pages *pages = order->all[i];
        fprintf(list, "process %d %" PRIu64 "\n", pages->pid, pages->total);
    }
    fprintf(list, "end\n");
    if (fflush(list) != 0 || ferror(list) || fclose(list) != 0) {
        die("cannot write %s", temporary);
    }
    if (renameat(images, temporary, images, LIST_NAME) != 0) {
        die("cannot rename %s", temporary);
    }
}

static int open_memory(int pid)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void link_image(int images, const char *scratch_path, const char *kind, int pid)
{
    char name[NAME_MAX];
    image_name(name, kind, pid);
    link_to_scratch(images, scratch_path, name);
}

/* Reads both maps of a process; false for a zombie, and for a process that shares the memory of another one. */
static bool take_in_maps(int images, int scratch, struct pages *pages)
{
    char name[NAME_MAX];
    char memory_name[NAME_MAX];
    struct bytes image = {NULL, 0};
    struct bytes memory_map = {NULL, 0};
    image_name(name, "pagemap", pages->pid);
    image_name(memory_name, "mm", pages->pid);
    bool has_pages = take_in(images, scratch, name, &image);
    bool has_memory = take_in(images, scratch, memory_name, &memory_map);
    if (has_pages) {
        if (!has_memory) {
            fail("CRIU has written %s and no %s", name, memory_name);
        }
        read_maps(pages, &image, name, &memory_map, memory_name);
    }
    free(image.at);
    free(memory_map.at);
    return has_pages;
}

/* The processes in the order of the stream: the root is the last one. */
static size_t root_last(const int *pids, size_t count, int root, struct original *originals)
{
    size_t next = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < count; i++) {
            if ((pids[i] == root) == (turn == 1)) {
                originals[next++].outer_pid = pids[i];
            }
        }
    }
    if (next == 0 || originals[next - 1].outer_pid != root) {
        fail("PID %d is the root, and is not among the processes", root);
    }
    return next;
}

/* ---- source: rounds before the pause ---------------------------------------------------------------------------- */

/* The processes of the rank while it runs, and the batch that is being filled. */
static struct {
    int root;
    uint64_t root_start;
    struct tracked *all;
    size_t count;
    size_t room;
    uint64_t batches;
    uint64_t number;
    uint64_t sent;
    /* Pieces of the next batch, of one process. */
    struct piece pieces[BATCH_PAGES];
    size_t piece_count;
    uint64_t pages;
} rounds;

/* Publishes a batch whose pages are in the ring behind its head. */
static void publish_batch(struct batch_head *head)
{
    struct batch_head *place = (struct batch_head *)(void *)ring_memory(ring.filled);
    head->number = rounds.batches++;
    head->round = rounds.number;
    memset(place, 0, PAGE);
    memcpy(place, head, sizeof *head);
    publish(1 + head->pages, head->kind == BATCH_LISTED);
}

static void send_mark(enum batch_kind kind, int pid)
{
    struct batch_head head = {.kind = kind, .pid = pid};
    await_room(1);
    publish_batch(&head);
}

/*
 * Reads and sends the collected pieces of a process. Pages that it has unmapped in the meantime are left out; while it is held
 * there are none. Only pages that were read count as sent.
 */
static void flush_batch(struct tracked *of, int memory, bool is_held)
{
    if (rounds.pages == 0) {
        return;
    }
    await_room(1 + rounds.pages);
    struct room room = ring_room(ring.filled + 1, rounds.pages);
    uint64_t done = read_pieces(of->pid, rounds.pieces, rounds.piece_count, &room);
    struct batch_head head = {.kind = BATCH_PAGES_OF, .pid = of->inner, .pages = (uint32_t)rounds.pages};
    uint64_t before = 0;
    for (size_t i = 0; i < rounds.piece_count; i++) {
        const struct piece *piece = &rounds.pieces[i];
        for (uint64_t page = 0; page < piece->pages; page++) {
            uint64_t address = piece->address + page * PAGE;
            bool read = before + page < done
                || pread(memory, page_of(&room, before + page), PAGE, (off_t)address) == PAGE;
            if (!read && is_held) {
                die("cannot read the memory of PID %d at %" PRIx64, of->pid, address);
            }
            if (!read) {
                memset(page_of(&room, before + page), 0, PAGE);
            }
            struct page_range *last = head.pieces > 0 ? &head.ranges[head.pieces - 1] : NULL;
            uint64_t behind = last == NULL ? 0 : last->address + last->pages * PAGE;
            if (last != NULL && (read ? last->address != UNREAD_PAGES && behind == address : last->address == UNREAD_PAGES)) {
                last->pages++;
            } else {
                head.ranges[head.pieces++] = (struct page_range){read ? address : UNREAD_PAGES, 1};
            }
            if (read && (!set_add(&of->sent, address, 1) || !set_add(&of->stored, address, 1))) {
                fail("no memory for the list of sent pages");
            }
        }
        before += piece->pages;
    }
    rounds.sent += rounds.pages;
    publish_batch(&head);
    rounds.pages = 0;
    rounds.piece_count = 0;
}

/* Sends pages of a process. */
static void send_range(struct tracked *of, int memory, uint64_t address, uint64_t pages, bool is_held)
{
    while (pages > 0) {
        uint64_t room = BATCH_PAGES - rounds.pages;
        uint64_t now = pages < room ? pages : room;
        rounds.pieces[rounds.piece_count++] = (struct piece){address, now, 0};
        rounds.pages += now;
        address += now * PAGE;
        pages -= now;
        if (rounds.pages == BATCH_PAGES) {
            flush_batch(of, memory, is_held);
        }
    }
}

static void send_forgotten(struct batch_head *head)
{
    if (head->pieces > 0) {
        await_room(1);
        publish_batch(head);
        head->pieces = 0;
    }
}

static void forget_range(void *context, uint64_t address, uint64_t pages)
{
    struct batch_head *head = context;
    head->ranges[head->pieces++] = (struct page_range){address, pages};
    if (head->pieces == BATCH_PAGES) {
        send_forgotten(head);
    }
}

/* Has the target give back what the process has unmapped, so that its store is no larger than the job. */
static void forget_unmapped(struct tracked *of)
{
    struct batch_head head = {.kind = BATCH_UNMAPPED, .pid = of->inner};
    set_each_outside(&of->stored, of->mapped.all, of->mapped.count, forget_range, &head);
    send_forgotten(&head);
    set_keep(&of->stored, of->mapped.all, of->mapped.count);
}

static void end_process(size_t place)
{
    send_mark(BATCH_FORGET, rounds.all[place].inner);
    end_tracking(&rounds.all[place]);
    rounds.all[place] = rounds.all[--rounds.count];
}

static struct tracked *find_tracked(int pid)
{
    for (size_t i = 0; i < rounds.count; i++) {
        if (rounds.all[i].pid == pid) {
            return &rounds.all[i];
        }
    }
    return NULL;
}

static struct tracked *add_tracked(const struct stopped_process *process)
{
    if (rounds.count == rounds.room) {
        rounds.room = rounds.room == 0 ? 16 : 2 * rounds.room;
        rounds.all = enlarge(rounds.all, rounds.room, sizeof *rounds.all);
    }
    struct tracked *added = &rounds.all[rounds.count++];
    *added = (struct tracked){.pid = process->pid, .inner = process->inner, .start = process->start,
                              .userfaultfd = -1, .pagemap = -1, .memory = -1};
    return added;
}

/* Whether a process was started a short time ago, so that it may end soon. */
static bool is_young(const struct tracked *of)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    return (uint64_t)now.tv_sec * ticks + (uint64_t)now.tv_nsec * ticks / 1000000000U < of->start + YOUNG_S * ticks;
}

/* Begins to track a process. The pages of a young one are found only in the next round. */
static void begin_with(struct tree_stop *stop, struct tracked *of)
{
    int made = make_userfaultfd(stop, of->pid, of->why);
    if (made < 0 || !begin_tracking(of, made)) {
        return;
    }
    if (is_young(of) ? register_mappings(of) : look_and_protect(of)) {
        of->why[0] = '\0';
    } else {
        end_tracking(of);
    }
}

/*
 * Finds what a stopped process has written. If it executed another program its memory is another one, and tracking
 * begins again. A process that cannot be tracked is sent when the job is held.
 */
static void look_at(struct tree_stop *stop, struct tracked *of)
{
    if (of->userfaultfd >= 0) {
        if (look_and_protect(of)) {
            return;
        }
        send_mark(BATCH_FORGET, of->inner);
        end_tracking(of);
        begin_with(stop, of);
    } else if (of->why[0] == '\0') {
        begin_with(stop, of);
    }
}

static void forget_ended(const struct stopped_process *now, size_t count)
{
    for (size_t i = rounds.count; i > 0; i--) {
        bool found = false;
        for (size_t k = 0; k < count && !found; k++) {
            found = now[k].pid == rounds.all[i - 1].pid && now[k].start == rounds.all[i - 1].start;
        }
        if (!found) {
            end_process(i - 1);
        }
    }
}

/* One round: what was written since the last one is found in a stop of all threads, and sent while they run. */
static void run_round(void)
{
    struct tree_stop stop;
    struct stopped_process *processes;
    size_t count;
    char why[STOP_REASON_BYTES];
    uint64_t sent_before = rounds.sent;
    /* The marks that a look sends have room then. Otherwise the job would be stopped as long as the network stalls. */
    await_room(RING_PAGES);
    if (!stop_tree(&stop, rounds.root, rounds.root_start, &processes, &count, why)) {
        printf("none %s\n", why);
        return;
    }
    uint64_t since = now_ns();
    rounds.number++;
    forget_ended(processes, count);
    const char *untracked = "";
    size_t untracked_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct tracked *of = find_tracked(processes[i].pid);
        of = of == NULL ? add_tracked(&processes[i]) : of;
        if (now_ns() - since < LOOK_LIMIT_NS) {
            look_at(&stop, of);
        } else {
            /* Its marks stay, for the next round. */
            of->written.count = 0;
        }
    }
    uint64_t stopped = now_ns() - since;
    bool held = continue_tree(&stop);
    free(processes);
    if (!held) {
        char last[STOP_REASON_BYTES + 2] = "";
        /* Pages may have been written between the look and the end of the stop, unnoticed. */
        while (rounds.count > 0) {
            if (rounds.all[rounds.count - 1].why[0] != '\0') {
                snprintf(last, sizeof last, ": %s", rounds.all[rounds.count - 1].why);
            }
            end_process(rounds.count - 1);
        }
        send_mark(BATCH_ROUND_END, 0);
        printf("none the helper that stops the processes ended%s\n", last);
        return;
    }
    uint64_t dirty = 0;
    for (size_t i = 0; i < rounds.count; i++) {
        struct tracked *of = &rounds.all[i];
        forget_unmapped(of);
        for (size_t k = 0; k < of->written.count; k++) {
            send_range(of, of->memory, of->written.all[k].address, of->written.all[k].pages, false);
        }
        flush_batch(of, of->memory, false);
        if (of->userfaultfd < 0) {
            untracked = of->why;
            untracked_count++;
        }
    }
    send_mark(BATCH_ROUND_END, 0);
    for (size_t i = 0; i < rounds.count; i++) {
        dirty += count_written(&rounds.all[i]);
    }
    printf("round %" PRIu64 " sent %" PRIu64 " written %" PRIu64 " stopped-us %" PRIu64 " processes %zu untracked %zu %s\n",
           rounds.number, rounds.sent - sent_before, dirty, stopped / 1000, rounds.count, untracked_count, untracked);
}

/* The FIFO by which the service sends its orders. It is at its end when the service ends. */
static FILE *open_orders(int scratch)
{
    if (mkfifoat(scratch, ORDERS_NAME, 0600) != 0) {
        die("cannot make %s in the scratch folder", ORDERS_NAME);
    }
    struct pollfd polled = {openat(scratch, ORDERS_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC), POLLIN, 0};
    FILE *orders = polled.fd < 0 ? NULL : fdopen(polled.fd, "r");
    if (orders == NULL) {
        die("cannot open %s", ORDERS_NAME);
    }
    if (poll(&polled, 1, ORDERS_LIMIT_MS) != 1 || fcntl(polled.fd, F_SETFL, 0) != 0) {
        fail("no order came within %d ms", (int)ORDERS_LIMIT_MS);
    }
    return orders;
}

/* Makes rounds until the order to dump comes, with the processes that are held by then. */
static size_t run_rounds(int scratch, int *pids)
{
    FILE *orders = open_orders(scratch);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, orders) > 0) {
        if (strcmp(line, "round\n") == 0) {
            run_round();
            fflush(stdout);
            continue;
        }
        char *rest = NULL;
        char *word = strtok_r(line, " \n", &rest);
        if (word == NULL || strcmp(word, "dump") != 0) {
            fail("a line is not understood: %s", line);
        }
        size_t count = 0;
        while ((word = strtok_r(NULL, " \n", &rest)) != NULL && count < MAX_PROCESSES) {
            pids[count++] = pid_of(word);
        }
        free(line);
        return count;
    }
    fail("the order to dump has not come");
}

/* Sends the pages of a process's page map that were not sent, or were written since. */
static void send_rest(struct original *of)
{
    struct tracked *tracked = find_tracked(of->outer_pid);
    struct tracked unknown = {.pid = of->outer_pid, .inner = of->pages.pid, .userfaultfd = -1};
    if (tracked == NULL || tracked->inner != of->pages.pid) {
        tracked = &unknown;
    }
    look_last(tracked);
    for (size_t i = 0; i < of->pages.run_count; i++) {
        const struct run *run = &of->pages.runs[i];
        for (uint64_t done = 0; done < run->pages;) {
            bool present;
            uint64_t address = run->address + done * PAGE;
            uint64_t pages = set_run(&tracked->sent, address, run->pages - done, &present);
            if (!present) {
                send_range(tracked, of->memory, address, pages, true);
            }
            done += pages;
        }
    }
    flush_batch(tracked, of->memory, true);
    set_free(&unknown.sent);
}

/* ---- source: the dump -------------------------------------------------------------------------------------------- */

/* Sends all pages in their order. */
static void send_in_order(int images, struct order *order, struct original *originals)
{
    open_stream(images, STREAM_NAME);
    write_list(images, order, LIST_HEAD);
    read_pages(order, originals);
}

/* Sends what the rounds have left. */
static void send_after_rounds(int images, struct order *order, struct original *originals)
{
    uint64_t before = rounds.sent;
    write_list(images, order, ROUNDS_LIST_HEAD);
    send_mark(BATCH_LISTED, 0);
    for (size_t i = 0; i < order->count; i++) {
        send_rest(&originals[i]);
    }
    send_mark(BATCH_LAST, 0);
    end_stream();
    printf("last sent %" PRIu64 " of %" PRIu64 "\n", rounds.sent - before, rounds.sent);
    fflush(stdout);
}

static int run_source(const char *images_path, const char *scratch_path, int root, uint64_t root_start, int *pids,
                      size_t pid_count, char **dump)
{
    int images = open_directory(images_path);
    int scratch = open_directory(scratch_path);
    bool in_rounds = root_start > 0;
    if (in_rounds) {
        rounds.root = root;
        rounds.root_start = root_start;
        open_stream(images, ROUNDS_NAME);
        pid_count = run_rounds(scratch, pids);
    }
    struct original *originals = allocate(pid_count, sizeof *originals);
    pid_count = root_last(pids, pid_count, root, originals);
    for (size_t i = 0; i < pid_count; i++) {
        originals[i].pages.pid = inner_pid_of_process(originals[i].outer_pid);
        originals[i].memory = open_memory(originals[i].outer_pid);
        link_image(images, scratch_path, "pagemap", originals[i].pages.pid);
        link_image(images, scratch_path, "mm", originals[i].pages.pid);
    }
    int pair[2];
    int status[2];
    make_pair(pair);
    if (pipe2(status, O_CLOEXEC) != 0) {
        die("no pipe can be made");
    }
    /* Never killed by our end: it notices that the socket is closed, and undoes what it has done to the processes. */
    pid_t criu = start(dump, pair[1], status[1], false);
    dump_socket = pair[0];
    dump_pid = criu;
    close(pair[1]);
    close(status[1]);
    char text[64];
    if (!wait_for_status(status[0])) {
        fail("CRIU has written no image: it %s", describe(wait_for(criu), text, sizeof text));
    }
    struct order order = {allocate(pid_count, sizeof *order.all), 0, 0};
    for (size_t i = 0; i < pid_count; i++) {
        if (take_in_maps(images, scratch, &originals[i].pages)) {
            struct original one = originals[i];
            originals[order.count] = one;
            order.all[order.count] = &originals[order.count].pages;
            order.count++;
        } else if (originals[i].outer_pid == root) {
            fail("CRIU has written no page map of the root, PID %d", root);
        }
    }
    (in_rounds ? send_after_rounds : send_in_order)(images, &order, originals);
    /* While CRIU waits in its page server no signal continues the processes; afterwards one could. */
    if (waitpid(criu, NULL, WNOHANG) != 0) {
        dump_pid = 0;
        fail("CRIU ended before all pages were read, so the processes may have run before that");
    }
    shutdown(pair[0], SHUT_RDWR);
    int end = wait_for(criu);
    dump_pid = 0;
    if (!WIFEXITED(end) || WEXITSTATUS(end) != 0) {
        fail("all pages were read, but CRIU %s", describe(end, text, sizeof text));
    }
    close_stream();
    return 0;
}

/* ---- the holder ------------------------------------------------------------------------------------------------ */

/*
 * The descriptors of the copies' memory. As long as one process has them the memory stays registered, so a thread of a
 * copy that needs a missing page blocks, also if it is continued (SIGCONT).
 */
static struct {
    pthread_mutex_t lock;
    /* The holder's end of the channel is in the holder; -1 while there is no holder. */
    int channel;
    pid_t pid;
    bool lost;
    int count;
    int descriptors[MAX_PROCESSES];
} held = {.lock = PTHREAD_MUTEX_INITIALIZER, .channel = -1};

static void sleep_ns(long ns)
{
    struct timespec pause = {0, ns};
    nanosleep(&pause, NULL);
}

/* Whether the memory behind a descriptor is gone. The copy itself fails in any case: its source cannot be read. */
static bool is_over(int descriptor, const void *unreadable)
{
    struct uffd_copy copy = {.to = PROBED_ADDRESS, .from = (uint64_t)(uintptr_t)unreadable, .length = PAGE};
    return ioctl(descriptor, UFFD_COPY, &copy) != 0 && errno == ESRCH;
}

/* Ends when all copies ended. */
__attribute__((noreturn)) static void hold(void)
{
    void *unreadable = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (held.count > 0) {
        if (unreadable != MAP_FAILED && is_over(held.descriptors[held.count - 1], unreadable)) {
            close(held.descriptors[--held.count]);
        } else {
            sleep_ns(HOLDER_LOOK_NS);
        }
    }
    _exit(0);
}

static bool is_held(int descriptor)
{
    for (int i = 0; i < held.count; i++) {
        if (held.descriptors[i] == descriptor) {
            return true;
        }
    }
    return false;
}

/* Leaves a forked child nothing but the descriptors that it holds, and one more. Safe in a child of a process of threads. */
static void keep_only(int channel)
{
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int standard = 0; standard <= 2; standard++) {
        if (none >= 0) {
            dup2(none, standard);
        }
    }
    long most = sysconf(_SC_OPEN_MAX);
    for (int descriptor = 3; descriptor < most && descriptor < (1 << 16); descriptor++) {
        if (descriptor != channel && !is_held(descriptor)) {
            close(descriptor);
        }
    }
    prctl(PR_SET_NAME, "ppmr-holder");
}

/* Takes a descriptor, if there is one, with the byte before it; the byte alone; or neither at the end. */
static ssize_t receive_descriptor(int socket, uint8_t *byte, int *descriptor)
{
    struct iovec data = {byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    *descriptor = -1;
    ssize_t got;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS
        && head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(descriptor, CMSG_DATA(head), sizeof(int));
    }
    return got;
}

/* The holder collects descriptors until all pages are there, or the other process ended. */
__attribute__((noreturn)) static void run_holder(int channel)
{
    keep_only(channel);
    for (;;) {
        uint8_t byte = 0;
        int descriptor;
        ssize_t got = receive_descriptor(channel, &byte, &descriptor);
        if (got > 0 && descriptor >= 0 && held.count < MAX_PROCESSES) {
            held.descriptors[held.count++] = descriptor;
        } else if (got > 0) {
            _exit(byte == 'w' ? 0 : 1);
        } else {
            close(channel);
            hold();
        }
    }
}

static void start_holder(void)
{
    int pair[2];
    make_pair(pair);
    held.pid = fork();
    if (held.pid < 0) {
        die("cannot start the holder of the copies' memory");
    }
    if (held.pid == 0) {
        close(pair[0]);
        run_holder(pair[1]);
    }
    close(pair[1]);
    held.channel = pair[0];
}

static void replace_holder(void)
{
    if (held.lost && held.count > 0 && fork() == 0) {
        keep_only(-1);
        hold();
    }
}

/* Gives a descriptor to the holder before it is used. */
static void share_with_holder(int descriptor)
{
    uint8_t byte = 'd';
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
    pthread_mutex_lock(&held.lock);
    held.descriptors[held.count++] = descriptor;
    pthread_mutex_unlock(&held.lock);
    ssize_t sent;
    do {
        sent = sendmsg(held.channel, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent != 1) {
        pthread_mutex_lock(&held.lock);
        held.lost = true;
        pthread_mutex_unlock(&held.lock);
        die("the holder of the copies' memory ended");
    }
}

/* ---- target: the store -------------------------------------------------------------------------------------------- */

enum {
    SLOT_BYTES = SET_BLOCK_PAGES * PAGE,
    /* Of addresses, of which only the stored pages have memory. */
    SLOTS_A_LIMIT = 32,
    DENSE_PAGES = 240,
    LIST_LIMIT_S = 20,
    LIST_PAUSE_NS = 1000000
};

/* The pages of one process that have arrived, the newest of each. */
struct stored {
    int pid;
    struct page_set pages;
};

/* What has arrived before the copy's processes exist. One thread fills it, until everything is there. */
static struct {
    int stream;
    uint8_t *memory;
    uint32_t slots;
    uint32_t used;
    /* Slots below `used` that are free again. */
    uint32_t *free_slots;
    size_t free_count;
    uint64_t most_pages;
    uint64_t page_count;
    struct stored *all;
    size_t count;
    size_t room;
    uint64_t batches;
    uint64_t round;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool listed;
    bool whole;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct stored *stored_of(int pid)
{
    for (size_t i = 0; i < store.count; i++) {
        if (store.all[i].pid == pid) {
            return &store.all[i];
        }
    }
    return NULL;
}

static uint8_t *slot_memory(const struct page_block *block, uint64_t address)
{
    return store.memory + (size_t)block->slot * SLOT_BYTES + address / PAGE % SET_BLOCK_PAGES * PAGE;
}

static void open_store(int images, uint64_t most_bytes)
{
    store.most_pages = most_bytes / PAGE;
    uint64_t slots = (most_bytes / SLOT_BYTES + 1) * SLOTS_A_LIMIT;
    store.slots = slots > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)slots;
    size_t bytes = (size_t)store.slots * SLOT_BYTES;
    /* Aligned to a slot, for huge pages. */
    uint8_t *memory = mmap(NULL, bytes + SLOT_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        die("no addresses for arriving pages");
    }
    store.memory = memory + (SLOT_BYTES - (uintptr_t)memory % SLOT_BYTES) % SLOT_BYTES;
    madvise(store.memory, bytes, MADV_NOHUGEPAGE);
    store.stream = openat(images, ROUNDS_NAME, O_RDONLY | O_CLOEXEC);
    if (store.stream < 0) {
        die("cannot open %s", ROUNDS_NAME);
    }
}

/* Reads all of something out of the stream. */
static void read_rounds(const struct iovec *into, int count, size_t length)
{
    struct iovec left[BATCH_PAGES + 1];
    struct iovec *at = left;
    memcpy(left, into, (size_t)count * sizeof *into);
    while (length > 0) {
        ssize_t got = readv(store.stream, at, count);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            die("cannot read %s", ROUNDS_NAME);
        }
        if (got == 0) {
            fail("%s ends after %" PRIu64 " batches, before its last one", ROUNDS_NAME, store.batches);
        }
        length -= (size_t)got;
        while (got > 0) {
            size_t part = (size_t)got < at->iov_len ? (size_t)got : at->iov_len;
            at->iov_base = (uint8_t *)at->iov_base + part;
            at->iov_len -= part;
            got -= (ssize_t)part;
            if (at->iov_len == 0) {
                at++;
                count--;
            }
        }
    }
}

static struct stored *make_stored(int pid)
{
    struct stored *found = stored_of(pid);
    if (found != NULL) {
        return found;
    }
    if (store.count == MAX_PROCESSES) {
        fail("%s has pages of more than %d processes", ROUNDS_NAME, (int)MAX_PROCESSES);
    }
    if (store.count == store.room) {
        store.room = store.room == 0 ? 16 : 2 * store.room;
        store.all = enlarge(store.all, store.room, sizeof *store.all);
    }
    store.all[store.count] = (struct stored){.pid = pid};
    return &store.all[store.count++];
}

/* Adds pages of one block to the store; returns their memory. */
static uint8_t *place_pages(struct stored *of, uint64_t address, uint64_t pages)
{
    struct page_block *block = set_block(&of->pages, address);
    if (block == NULL) {
        fail("no memory for the list of arriving pages");
    }
    if (block->slot == SET_NO_SLOT) {
        if (store.free_count == 0 && store.used == store.slots) {
            fail("the pages of the job lie in more than %u parts of 2 MiB", store.slots);
        }
        block->slot = store.free_count > 0 ? store.free_slots[--store.free_count] : store.used++;
        /* A dense block is read back by far fewer faults from a huge page. It counts as a whole. */
        block->dense = pages >= DENSE_PAGES;
        madvise(store.memory + (size_t)block->slot * SLOT_BYTES, SLOT_BYTES,
                block->dense ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        store.page_count += block->dense ? SET_BLOCK_PAGES : 0;
    }
    uint64_t added = set_mark(&of->pages, block, address, pages, true);
    store.page_count += block->dense ? 0 : added;
    if (store.page_count > store.most_pages) {
        fail("more than %" PRIu64 " MiB of the job's memory have arrived, and staging has no room for more",
             store.most_pages / (1024 * 1024 / PAGE));
    }
    return slot_memory(block, address);
}

static void take_pages(const struct batch_head *head)
{
    static uint8_t unread[BATCH_PAGES * PAGE];
    struct iovec into[BATCH_PAGES];
    int count = 0;
    uint64_t pages = 0;
    struct stored *of = make_stored(head->pid);
    for (uint32_t i = 0; i < head->pieces; i++) {
        uint64_t address = head->ranges[i].address;
        uint64_t left = head->ranges[i].pages;
        if (left == 0 || left > BATCH_PAGES - pages
            || (address != UNREAD_PAGES && (address % PAGE != 0 || address > UINT64_MAX / 2))) {
            fail("batch %" PRIu64 " of %s is invalid", head->number, ROUNDS_NAME);
        }
        pages += left;
        while (left > 0) {
            uint64_t part = address == UNREAD_PAGES ? left : set_part(address, left);
            if (count == BATCH_PAGES) {
                fail("batch %" PRIu64 " of %s is invalid", head->number, ROUNDS_NAME);
            }
            into[count++] = (struct iovec){
                address == UNREAD_PAGES ? unread : place_pages(of, address, part), part * PAGE};
            address += address == UNREAD_PAGES ? 0 : part * PAGE;
            left -= part;
        }
    }
    if (pages != head->pages) {
        fail("batch %" PRIu64 " of %s is invalid", head->number, ROUNDS_NAME);
    }
    read_rounds(into, count, pages * PAGE);
}

static void give_back(const struct page_block *block)
{
    if (block->slot != SET_NO_SLOT
        && madvise(store.memory + (size_t)block->slot * SLOT_BYTES, SLOT_BYTES, MADV_DONTNEED) != 0) {
        die("memory of arriving pages cannot be given back");
    }
}

static void forget_stored(int pid)
{
    struct stored *of = stored_of(pid);
    if (of == NULL) {
        return;
    }
    store.free_slots = enlarge(store.free_slots, store.free_count + of->pages.count + 1, sizeof *store.free_slots);
    for (size_t i = 0; i < of->pages.count; i++) {
        struct page_block *block = of->pages.blocks[i];
        uint64_t start = block->number * SET_BLOCK_PAGES * PAGE;
        give_back(block);
        uint64_t pages = set_mark(&of->pages, block, start, SET_BLOCK_PAGES, false);
        store.page_count -= block->dense ? SET_BLOCK_PAGES : pages;
        if (block->slot != SET_NO_SLOT) {
            store.free_slots[store.free_count++] = block->slot;
        }
    }
    set_free(&of->pages);
    *of = store.all[--store.count];
}

static void forget_ranges(const struct batch_head *head)
{
    struct stored *of = make_stored(head->pid);
    for (uint32_t i = 0; i < head->pieces; i++) {
        uint64_t address = head->ranges[i].address;
        uint64_t pages = head->ranges[i].pages;
        if (address % PAGE != 0 || address > UINT64_MAX / 2 || pages > SET_BLOCK_PAGES
            || set_part(address, pages) != pages) {
            fail("batch %" PRIu64 " of %s is invalid", head->number, ROUNDS_NAME);
        }
        struct page_block *block = set_find(&of->pages, address);
        if (block == NULL) {
            continue;
        }
        uint64_t removed = set_mark(&of->pages, block, address, pages, false);
        store.page_count -= block->dense ? 0 : removed;
        if (block->slot != SET_NO_SLOT
            && madvise(slot_memory(block, address), pages * PAGE, MADV_DONTNEED) != 0) {
            die("memory of arriving pages cannot be given back");
        }
    }
}

static void set_flag(bool *flag)
{
    pthread_mutex_lock(&store.lock);
    *flag = true;
    pthread_cond_broadcast(&store.changed);
    pthread_mutex_unlock(&store.lock);
}

static void await_flag(const bool *flag)
{
    pthread_mutex_lock(&store.lock);
    while (!*flag) {
        pthread_cond_wait(&store.changed, &store.lock);
    }
    pthread_mutex_unlock(&store.lock);
}

/* Takes batches until the last one. */
static void *run_store(void *unused)
{
    (void)unused;
    struct batch_head *head = NULL;
    if (posix_memalign((void **)&head, PAGE, PAGE) != 0) {
        fail("no memory for the pages");
    }
    while (!store.whole) {
        read_rounds(&(struct iovec){head, PAGE}, 1, PAGE);
        bool ends_round = head->kind == BATCH_ROUND_END;
        if (head->number != store.batches || head->pieces > BATCH_PAGES || head->pages > BATCH_PAGES
            || head->round != store.round + (head->round > store.round && !store.listed ? 1 : 0)
            || (ends_round && head->round != store.round + 1)) {
            fail("batch %" PRIu64 " of %s is missing or invalid", store.batches, ROUNDS_NAME);
        }
        store.batches++;
        switch (head->kind) {
        case BATCH_PAGES_OF:
            take_pages(head);
            break;
        case BATCH_FORGET:
            forget_stored(head->pid);
            break;
        case BATCH_UNMAPPED:
            forget_ranges(head);
            break;
        case BATCH_ROUND_END:
            store.round = head->round;
            break;
        case BATCH_LISTED:
            set_flag(&store.listed);
            break;
        case BATCH_LAST:
            set_flag(&store.whole);
            break;
        default:
            fail("batch %" PRIu64 " of %s is of an unknown kind", head->number, ROUNDS_NAME);
        }
    }
    free(head);
    return NULL;
}

/* ---- target ---------------------------------------------------------------------------------------------------- */

/* A process of the copy. */
struct arriving {
    struct pages pages;
    /* Its userfaultfd; -1 until the restored process has sent it. */
    int descriptor;
    /* A bit for each lazy page that was copied, by its place. */
    uint8_t *copied;
    /* What the rounds have sent of it. */
    struct stored *stored;
};

static struct arriving *arriving;
static size_t arriving_count;

/* The pages that are on their way. The fillers read the stream one after the other, and copy side by side. */
static struct {
    pthread_mutex_t lock;
    struct order order;
    int stream;
    /* Of all processes; the last copy ends the wait of the main thread. */
    uint64_t left;
    /* Of the monotonic clock: when a page was copied last. */
    uint64_t progress_ns;
    bool word;
    bool restore_ended;
    bool holder_ended;
    bool whole;
    /* The pages come out of the store, when all of them are there. */
    bool stores;
    bool may_begin;
    int wake[2];
} fill = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pid_t restore_pid;

static void wake_main(void)
{
    ssize_t written;
    do {
        written = write(fill.wake[1], "", 1);
    } while (written < 0 && errno == EINTR);
}

static void *watch_children(void *unused)
{
    (void)unused;
    char text[64];
    for (int left = 2; left > 0; left--) {
        int status;
        pid_t ended;
        while ((ended = waitpid(-1, &status, 0)) < 0) {
            if (errno != EINTR) {
                die("cannot wait for CRIU");
            }
        }
        bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (ended == held.pid) {
            if (!__atomic_load_n(&fill.whole, __ATOMIC_ACQUIRE)) {
                pthread_mutex_lock(&held.lock);
                held.lost = true;
                pthread_mutex_unlock(&held.lock);
                fail("the holder of the copies' memory %s", describe(status, text, sizeof text));
            }
            __atomic_store_n(&fill.holder_ended, true, __ATOMIC_RELEASE);
        } else {
            if (!well) {
                fail("the restore %s", describe(status, text, sizeof text));
            }
            __atomic_store_n(&fill.restore_ended, true, __ATOMIC_RELEASE);
        }
        wake_main();
    }
    return NULL;
}

/* Waits until a process may have registered its memory. */
static void await_registration(const struct arriving *of, uint64_t since)
{
    uint64_t progress = __atomic_load_n(&fill.progress_ns, __ATOMIC_ACQUIRE);
    uint64_t from = progress > since ? progress : since;
    uint64_t now = now_ns();
    if (now > from && now - from > REGISTRATION_LIMIT_S * UINT64_C(1000000000)) {
        fail("PID %d of the copy has not registered its memory for %d s, and no page was copied", of->pages.pid,
             (int)REGISTRATION_LIMIT_S);
    }
    sleep_ns(REGISTRATION_PAUSE_NS);
}

/* Marks pages as copied; each of them once. */
static void mark_copied(struct arriving *of, const struct piece *piece, uint64_t done, uint64_t pages)
{
    for (uint64_t place = piece->place + done; place < piece->place + done + pages; place++) {
        uint8_t bit = (uint8_t)(1U << (place % 8));
        if ((__atomic_fetch_or(&of->copied[place / 8], bit, __ATOMIC_RELEASE) & bit) != 0) {
            fail("page %" PRIu64 " of PID %d was copied a second time", place, of->pages.pid);
        }
    }
    __atomic_store_n(&fill.progress_ns, now_ns(), __ATOMIC_RELEASE);
    if (__atomic_sub_fetch(&fill.left, pages, __ATOMIC_ACQ_REL) == 0) {
        wake_main();
    }
}

static bool is_copied(struct arriving *of, uint64_t place)
{
    return (__atomic_load_n(&of->copied[place / 8], __ATOMIC_ACQUIRE) & (1U << (place % 8))) != 0;
}

/* Copies adjacent pages into a process. */
static void copy_piece(struct arriving *to, const struct piece *piece, const uint8_t *from)
{
    uint64_t since = now_ns();
    for (uint64_t done = 0; done < piece->pages;) {
        bool registered = __atomic_load_n(&fill.word, __ATOMIC_ACQUIRE);
        int descriptor = __atomic_load_n(&to->descriptor, __ATOMIC_ACQUIRE);
        if (descriptor < 0) {
            await_registration(to, since);
            continue;
        }
        struct uffd_copy copy = {.to = piece->address + done * PAGE,
                                 .from = (uint64_t)(uintptr_t)(from + done * PAGE),
                                 .length = (piece->pages - done) * PAGE};
        int failed = ioctl(descriptor, UFFD_COPY, &copy);
        if (failed == 0 || (errno == EAGAIN && copy.copied > 0)) {
            uint64_t pages = failed == 0 ? piece->pages - done : (uint64_t)copy.copied / PAGE;
            mark_copied(to, piece, done, pages);
            done += pages;
        } else if (errno == ENOENT && !registered) {
            await_registration(to, since);
        } else if (errno == EAGAIN) {
            sched_yield();
        } else if (errno == EEXIST) {
            fail("page %" PRIx64 " of PID %d is there before it was copied", piece->address + done * PAGE,
                 to->pages.pid);
        } else {
            die("page %" PRIx64 " of PID %d cannot be copied", piece->address + done * PAGE, to->pages.pid);
        }
    }
}

static void read_stream(uint8_t *to, const struct block *block)
{
    const struct pages *of = fill.order.all[block->process];
    size_t wanted = block->pages * PAGE;
    for (size_t done = 0; done < wanted;) {
        ssize_t got = read(fill.stream, to + done, wanted - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            die("cannot read %s", STREAM_NAME);
        }
        if (got == 0) {
            fail("%s ends before page %" PRIu64 " of %" PRIu64 " of PID %d", STREAM_NAME,
                 block->pieces[0].place + done / PAGE, of->total, of->pid);
        }
        done += (size_t)got;
    }
}

/* Copies a block out of the store, whose memory it gives back. */
static void fill_from_store(const struct block *block)
{
    struct arriving *to = &arriving[block->process];
    for (size_t i = 0; i < block->count; i++) {
        struct piece part = block->pieces[i];
        for (uint64_t left = part.pages; left > 0; left -= part.pages) {
            part.pages = set_part(part.address, left);
            struct page_block *from = set_known(&to->stored->pages, part.address);
            copy_piece(to, &part, slot_memory(from, part.address));
            if (__atomic_sub_fetch(&from->left, (uint32_t)part.pages, __ATOMIC_ACQ_REL) == 0) {
                give_back(from);
            }
            part.address += part.pages * PAGE;
            part.place += part.pages;
        }
    }
}

/* Every page of the page maps must be in the store: a hole in it would read as zeros. */
static void require_stored(void)
{
    for (size_t i = 0; i < arriving_count; i++) {
        struct arriving *of = &arriving[i];
        of->stored = stored_of(of->pages.pid);
        for (size_t k = 0; k < of->pages.run_count; k++) {
            const struct run *run = &of->pages.runs[k];
            for (uint64_t done = 0; done < run->pages;) {
                uint64_t address = run->address + done * PAGE;
                bool present = false;
                done += of->stored == NULL ? 0 : set_run(&of->stored->pages, address, run->pages - done, &present);
                if (!present) {
                    fail("page %" PRIx64 " of PID %d has not arrived", address, of->pages.pid);
                }
                set_find(&of->stored->pages, address)->left += (uint32_t)(run->address + done * PAGE - address) / PAGE;
            }
        }
    }
}

/* Copies one block; false if there is none. */
static bool fill_block(struct block *block, uint8_t *memory)
{
    pthread_mutex_lock(&fill.lock);
    bool more = next_block(&fill.order, block);
    if (more && !fill.stores) {
        read_stream(memory, block);
    }
    pthread_mutex_unlock(&fill.lock);
    if (more && fill.stores) {
        fill_from_store(block);
        return true;
    }
    const uint8_t *from = memory;
    for (size_t i = 0; more && i < block->count; i++) {
        copy_piece(&arriving[block->process], &block->pieces[i], from);
        from += block->pieces[i].pages * PAGE;
    }
    return more;
}

static void *run_filler(void *unused)
{
    (void)unused;
    struct block block;
    uint8_t *memory = NULL;
    if (posix_memalign((void **)&memory, PAGE, (size_t)BLOCK_PAGES * PAGE) != 0) {
        fail("no memory for the pages");
    }
    if (fill.stores) {
        await_flag(&fill.may_begin);
    }
    while (fill_block(&block, memory)) {
        continue;
    }
    free(memory);
    return NULL;
}

static void wake_page(const struct arriving *of, uint64_t address)
{
    struct uffd_range range = {address, PAGE};
    if (ioctl(of->descriptor, UFFD_WAKE, &range) != 0) {
        die("PID %d cannot be woken for page %" PRIx64, of->pages.pid, address);
    }
}

/* A page that is not there yet arrives later, and wakes the threads that wait for it. */
static void answer_fault(struct arriving *of, uint64_t address)
{
    address -= address % PAGE;
    const struct run *run = find_run(&of->pages, address);
    if (run != NULL) {
        if (is_copied(of, run->place + (address - run->address) / PAGE)) {
            wake_page(of, address);
        }
        return;
    }
    struct uffd_zero zero = {.range = {address, PAGE}};
    while (ioctl(of->descriptor, UFFD_ZERO, &zero) != 0) {
        if (errno == EEXIST) {
            wake_page(of, address);
            return;
        }
        if (errno != EAGAIN) {
            die("page %" PRIx64 " of PID %d cannot be made", address, of->pages.pid);
        }
        sched_yield();
    }
}

/* Whether a range of a process has lazy pages. */
static bool has_lazy(const struct pages *pages, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < pages->run_count; i++) {
        const struct run *run = &pages->runs[i];
        if (run->address < end && start < run->address + run->pages * PAGE) {
            return true;
        }
    }
    return false;
}

/* A copy is held, so it changes none of its mappings; its restore changes none that has lazy pages. */
static void take_event(struct arriving *of, const struct uffd_event *event)
{
    switch (event->kind) {
    case UFFD_FAULT:
        answer_fault(of, event->fault.address);
        break;
    case UFFD_REMOVE:
    case UFFD_UNMAP:
        if (has_lazy(&of->pages, event->removed.start, event->removed.end)) {
            fail("PID %d of the copy has given back memory at %" PRIx64 " while its pages were on their way",
                 of->pages.pid, event->removed.start);
        }
        break;
    default:
        fail("PID %d of the copy has moved or doubled its memory while its pages were on their way (event %x)",
             of->pages.pid, event->kind);
    }
}

static void take_events(struct arriving *of)
{
    struct uffd_event events[MOST_EVENTS];
    ssize_t got = read(of->descriptor, events, sizeof events);
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
        die("the faults of PID %d cannot be read", of->pages.pid);
    }
    for (ssize_t i = 0; i < got / (ssize_t)sizeof events[0]; i++) {
        take_event(of, &events[i]);
    }
}

static void read_list(int images, const char *head)
{
    struct bytes text = read_file(images, LIST_NAME);
    text.at = enlarge(text.at, text.length + 1, 1);
    text.at[text.length] = '\0';
    arriving = allocate(MAX_PROCESSES, sizeof *arriving);
    bool ended = false;
    char *rest = NULL;
    char *line = strtok_r((char *)text.at, "\n", &rest);
    if (line == NULL || strcmp(line, head) != 0) {
        fail("%s does not begin with '%s'", LIST_NAME, head);
    }
    while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
        int pid;
        uint64_t number;
        char behind;
        if (ended) {
            fail("%s continues behind its end", LIST_NAME);
        } else if (sscanf(line, "process %d %" SCNu64 "%c", &pid, &number, &behind) == 2 && pid > 0
                   && arriving_count < MAX_PROCESSES) {
            for (size_t i = 0; i < arriving_count; i++) {
                if (arriving[i].pages.pid == pid) {
                    fail("%s names PID %d twice", LIST_NAME, pid);
                }
            }
            arriving[arriving_count].descriptor = -1;
            arriving[arriving_count].pages.pid = pid;
            arriving[arriving_count++].pages.total = number;
        } else if (strcmp(line, "end") == 0) {
            ended = true;
        } else {
            fail("%s has a line that is not understood: %.80s", LIST_NAME, line);
        }
    }
    if (!ended || arriving_count == 0) {
        fail("%s is not whole", LIST_NAME);
    }
    free(text.at);
}

static void prepare(int images, struct arriving *one)
{
    char name[NAME_MAX];
    char memory_name[NAME_MAX];
    uint64_t listed = one->pages.total;
    one->pages.total = 0;
    image_name(name, "pagemap", one->pages.pid);
    image_name(memory_name, "mm", one->pages.pid);
    struct bytes image = read_file(images, name);
    struct bytes memory_map = read_file(images, memory_name);
    read_maps(&one->pages, &image, name, &memory_map, memory_name);
    free(image.at);
    free(memory_map.at);
    if (one->pages.total != listed) {
        fail("%s names %" PRIu64 " lazy pages, %s %" PRIu64, name, one->pages.total, LIST_NAME, listed);
    }
    one->copied = allocate(listed / 8 + 1, 1);
    fill.left += listed;
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

/* Listens at the name by which CRIU's processes connect. The directory is root's own, so no other user can. */
static int listen_in(const char *work_path)
{
    int work = open_directory(work_path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* The path of a socket is short, and that of a directory need not be. */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", work, SOCKET_NAME);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || (unlinkat(work, SOCKET_NAME, 0) != 0 && errno != ENOENT)
        || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0) {
        die("cannot listen at %s in %s", SOCKET_NAME, work_path);
    }
    close(work);
    return listener;
}

static int accept_restore(int listener)
{
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) {
        die("the restore cannot be accepted");
    }
    struct ucred peer;
    socklen_t length = sizeof peer;
    struct timeval limit = {MESSAGE_LIMIT_S, 0};
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0
        || setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
        die("the restore cannot be recognized");
    }
    if (peer.uid != geteuid()) {
        fail("user %u has connected to %s, and only the restore may", (unsigned)peer.uid, SOCKET_NAME);
    }
    return connection;
}

static void require_userfaultfd(int descriptor, int pid)
{
    char path[64];
    char kind[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    ssize_t length = descriptor < 0 ? -1 : readlink(path, kind, sizeof kind - 1);
    if (length < 0 || strcmp(kind, "anon_inode:[userfaultfd]") != 0) {
        fail("PID %d of the copy has sent no userfaultfd", pid);
    }
}

static void take_word(void)
{
    for (size_t i = 0; i < arriving_count; i++) {
        if (arriving[i].descriptor < 0 && arriving[i].pages.total > 0) {
            fail("the restore ended its part, and PID %d of the copy has not registered its memory",
                 arriving[i].pages.pid);
        }
    }
    __atomic_store_n(&fill.word, true, __ATOMIC_RELEASE);
}

/* Takes what a process of the restore sends: its PID and its userfaultfd. False when nothing more comes. */
static bool take_message(int connection)
{
    int32_t pid;
    ssize_t got = recv(connection, &pid, sizeof pid, MSG_WAITALL);
    if (got == 0) {
        return false;
    }
    if (got != (ssize_t)sizeof pid) {
        die("the restore has sent half of a message");
    }
    if (pid == RESTORE_FINISHED) {
        take_word();
        return false;
    }
    /* A zombie has no memory. */
    if (pid < 0) {
        return true;
    }
    uint8_t byte;
    int descriptor;
    if (receive_descriptor(connection, &byte, &descriptor) <= 0) {
        die("PID %d of the copy has sent no descriptor", pid);
    }
    require_userfaultfd(descriptor, pid);
    struct arriving *of = NULL;
    for (size_t i = 0; i < arriving_count && of == NULL; i++) {
        of = arriving[i].pages.pid == pid ? &arriving[i] : NULL;
    }
    if (of == NULL || of->descriptor >= 0) {
        fail("PID %d of the copy %s", pid,
             of == NULL ? "is not in " LIST_NAME : "has registered its memory a second time");
    }
    share_with_holder(descriptor);
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
        die("the userfaultfd of PID %d cannot be used", pid);
    }
    __atomic_store_n(&of->descriptor, descriptor, __ATOMIC_RELEASE);
    return true;
}

static bool has_ended(void)
{
    return __atomic_load_n(&fill.restore_ended, __ATOMIC_ACQUIRE);
}

static bool is_done(void)
{
    return has_ended() && fill.word && __atomic_load_n(&fill.left, __ATOMIC_ACQUIRE) == 0;
}

/* Answers faults, and takes descriptors, until all pages are there and the restore ended. */
static void serve(int listener)
{
    struct pollfd *polled = allocate(arriving_count + 2, sizeof *polled);
    struct arriving **of = allocate(arriving_count + 2, sizeof *of);
    bool connected = false;
    int peer = listener;
    while (!is_done()) {
        polled[0] = (struct pollfd){fill.wake[0], POLLIN, 0};
        polled[1] = (struct pollfd){peer, POLLIN, 0};
        nfds_t count = 2;
        for (size_t i = 0; i < arriving_count; i++) {
            if (arriving[i].descriptor >= 0) {
                of[count] = &arriving[i];
                polled[count++] = (struct pollfd){arriving[i].descriptor, POLLIN, 0};
            }
        }
        /* Everything that a restore sent before it ended is there by now. */
        bool mute = has_ended() && !fill.word;
        int found = poll(polled, count, mute ? 0 : -1);
        if (found < 0) {
            if (errno != EINTR) {
                die("cannot wait for the restore");
            }
            continue;
        }
        if (mute && (polled[1].revents & POLLIN) == 0) {
            fail("the restore ended without its final word");
        }
        char bytes[64];
        if ((polled[0].revents & POLLIN) != 0 && read(fill.wake[0], bytes, sizeof bytes) < 0 && errno != EAGAIN) {
            die("cannot wait for the restore");
        }
        if ((polled[1].revents & (POLLIN | POLLHUP)) != 0) {
            bool more = true;
            if (connected) {
                more = take_message(peer);
            }
            int next = !more ? -1 : connected ? peer : accept_restore(listener);
            if (next != peer) {
                close(peer);
            }
            connected = true;
            peer = next;
        }
        for (nfds_t i = 2; i < count; i++) {
            if ((polled[i].revents & POLLIN) != 0) {
                take_events(of[i]);
            }
        }
    }
    free(polled);
    free(of);
}

/* Ends the holder, which has nothing more to hold. */
static void end_holder(void)
{
    __atomic_store_n(&fill.whole, true, __ATOMIC_RELEASE);
    if (send(held.channel, "w", 1, MSG_NOSIGNAL) != 1) {
        die("the holder of the copies' memory cannot be ended");
    }
    struct pollfd woken = {fill.wake[0], POLLIN, 0};
    char bytes[64];
    while (!__atomic_load_n(&fill.holder_ended, __ATOMIC_ACQUIRE)) {
        if ((poll(&woken, 1, MESSAGE_LIMIT_S * 1000) == 0) || (read(fill.wake[0], bytes, sizeof bytes) < 0 && errno != EAGAIN)) {
            fail("the holder of the copies' memory has not ended within %d s", (int)MESSAGE_LIMIT_S);
        }
    }
}

/* Each process of the copy needs a descriptor here, and one in the holder. */
static void require_descriptors(size_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        die("the limit of descriptors cannot be read");
    }
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        if (limit.rlim_cur < wanted || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            fail("%zu descriptors are needed, and only %" PRIu64 " may be open. Remedy: raise the service's LimitNOFILE",
                 wanted, (uint64_t)limit.rlim_max);
        }
    }
}

/* The list's name comes by another way than the stream. */
static void await_list(int images)
{
    await_flag(&store.listed);
    for (uint64_t since = now_ns(); faccessat(images, LIST_NAME, F_OK, 0) != 0; sleep_ns(LIST_PAUSE_NS)) {
        if (now_ns() - since > LIST_LIMIT_S * UINT64_C(1000000000)) {
            die("%s is not there", LIST_NAME);
        }
    }
}

/* Lets the fillers begin when everything is in the store. */
static void *await_store(void *unused)
{
    (void)unused;
    await_flag(&store.whole);
    require_stored();
    set_flag(&fill.may_begin);
    return NULL;
}

static int run_target(const char *images_path, const char *work_path, const char *pids_path, uint64_t store_bytes,
                      char **restore)
{
    int images = open_directory(images_path);
    fill.stores = store_bytes > 0;
    if (fill.stores) {
        open_store(images, store_bytes);
        start_thread(run_store);
        await_list(images);
    }
    read_list(images, fill.stores ? ROUNDS_LIST_HEAD : LIST_HEAD);
    fill.order.all = allocate(arriving_count, sizeof *fill.order.all);
    for (; fill.order.count < arriving_count; fill.order.count++) {
        prepare(images, &arriving[fill.order.count]);
        fill.order.all[fill.order.count] = &arriving[fill.order.count].pages;
    }
    if (fill.stores) {
        start_thread(await_store);
    } else {
        fill.stream = openat(images, STREAM_NAME, O_RDONLY | O_CLOEXEC);
        if (fill.stream < 0) {
            die("cannot open %s", STREAM_NAME);
        }
    }
    write_pids(pids_path);
    require_descriptors(arriving_count + OTHER_DESCRIPTORS);
    if (pipe2(fill.wake, O_CLOEXEC | O_NONBLOCK) != 0) {
        die("no pipe can be made");
    }
    start_holder();
    int listener = listen_in(work_path);
    restore_pid = start(restore, -1, -1, true);
    start_thread(watch_children);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < MOST_FILLERS && (i == 0 || i < processors); i++) {
        start_thread(run_filler);
    }
    serve(listener);
    end_holder();
    return 0;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static int usage(void)
{
    fputs("usage: ppmr-pages source --images DIR --scratch DIR --root PID --pid PID... -- DUMP...\n"
          "       ppmr-pages source --images DIR --scratch DIR --root PID --rounds START -- DUMP...\n"
          "       ppmr-pages target --images DIR --work DIR --pids-file FILE [--store BYTES] -- RESTORE...\n",
          stderr);
    return 1;
}

static uint64_t number_of(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number == 0) {
        fail("'%s' is no number above 0", text);
    }
    return number;
}

int main(int count, char **words)
{
    const char *images = NULL;
    const char *scratch = NULL;
    const char *work = NULL;
    const char *pids_file = NULL;
    static int pids[MAX_PROCESSES];
    size_t pid_count = 0;
    int root = 0;
    uint64_t root_start = 0;
    uint64_t store_bytes = 0;
    if (count < 2) {
        return usage();
    }
    mode = words[1];
    /* The helper that this program starts itself. */
    if (strcmp(mode, "stop") == 0 && count == 5) {
        return run_stop(pid_of(words[2]), pid_of(words[3]), number_of(words[4]));
    }
    int i = 2;
    for (; i + 1 < count && strcmp(words[i], "--") != 0; i += 2) {
        const char *value = words[i + 1];
        if (strcmp(words[i], "--images") == 0) {
            images = value;
        } else if (strcmp(words[i], "--scratch") == 0) {
            scratch = value;
        } else if (strcmp(words[i], "--work") == 0) {
            work = value;
        } else if (strcmp(words[i], "--pids-file") == 0) {
            pids_file = value;
        } else if (strcmp(words[i], "--root") == 0) {
            root = pid_of(value);
        } else if (strcmp(words[i], "--rounds") == 0) {
            root_start = number_of(value);
        } else if (strcmp(words[i], "--store") == 0) {
            store_bytes = number_of(value);
        } else if (strcmp(words[i], "--pid") == 0 && pid_count < MAX_PROCESSES) {
            pids[pid_count++] = pid_of(value);
        } else {
            return usage();
        }
    }
    if (images == NULL || i + 1 >= count) {
        return usage();
    }
    char **command = &words[i + 1];
    if (strcmp(mode, "source") == 0 && scratch != NULL && root > 0 && (pid_count > 0) != (root_start > 0)) {
        return run_source(images, scratch, root, root_start, pids, pid_count, command);
    }
    if (strcmp(mode, "target") == 0 && work != NULL && pids_file != NULL) {
        return run_target(images, work, pids_file, store_bytes, command);
    }
    return usage();
}
