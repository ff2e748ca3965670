/* See target.h. */
#define _GNU_SOURCE
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../namespace-record.h"
#include "../userfaultfd.h"
#include "batches.h"
#include "filling.h"
#include "holder.h"
#include "page-maps.h"
#include "store.h"

enum {
    MOST_FILLERS = 2,
    /* ENOENT of UFFDIO_COPY: the process has not registered its memory yet. */
    REGISTRATION_PAUSE_NS = 300000,
    MESSAGE_LIMIT_S = 10,
    LIST_LIMIT_S = 20,
    LIST_PAUSE_NS = 1000000,
    /* Descriptors of this program, beside those of the copies. */
    OTHER_DESCRIPTORS = 64,
    RECORD_TRIES = 100,
    RECORD_PAUSE_NS = 1000000,
    MOST_EVENTS = 16
};

/* Tests end the programs when all pages are there: a pause before they end of their own. */
#ifndef DISMISSAL_PAUSE_NS
#define DISMISSAL_PAUSE_NS 0
#endif

/* criu/include/uffd.h, criu/uffd.c */
#define SOCKET_NAME "lazy-pages.socket"
#define RESTORE_FINISHED 0x52535446

/* A process of the copy. */
struct arriving {
    struct pages pages;
    /* Its userfaultfd; -1 until the restored process has sent it. */
    int descriptor;
    /* A bit for each lazy page that was copied, by its place. */
    uint8_t *copied;
    /* Where its pages come out of the store: how it is filled. */
    struct filling *filling;
};

static struct arriving *arriving;
static size_t arriving_count;

/* The pages that are on their way. The fillers read the stream one after the other, and copy side by side. */
static struct {
    pthread_mutex_t lock;
    struct order order;
    int images;
    int stream;
    /* Of all processes; the last copy ends the wait of the main thread. */
    uint64_t left;
    bool word;
    bool restore_ended;
    bool holder_ended;
    bool whole;
    /* The pages come out of the store, when all of them are there. */
    bool stores;
    bool stored;
    /* The copies may run before all pages are there. */
    bool behind;
    bool ready;
    /* The PID namespace of the copies, and whether it is another one than this program's. */
    uint64_t copies;
    bool apart;
    int records;
    char record[64];
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

/* The last page is there. */
static void note_last_page(void)
{
    note_whole();
    wake_main();
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
        bool is_whole = __atomic_load_n(&fill.whole, __ATOMIC_ACQUIRE);
        if (ended == holder_pid() && !well && !is_whole && __atomic_load_n(&fill.ready, __ATOMIC_ACQUIRE)
            && restart_holder()) {
            left++;
        } else if (ended == holder_pid()) {
            if (!__atomic_load_n(&fill.whole, __ATOMIC_ACQUIRE)) {
                lose_holder();
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

/* Marks pages as copied; each of them once. */
static void mark_copied(struct arriving *of, const struct piece *piece, uint64_t done, uint64_t pages)
{
    for (uint64_t place = piece->place + done; place < piece->place + done + pages; place++) {
        uint8_t bit = (uint8_t)(1U << (place % 8));
        if ((__atomic_fetch_or(&of->copied[place / 8], bit, __ATOMIC_RELEASE) & bit) != 0) {
            fail("page %" PRIu64 " of PID %d was copied a second time", place, of->pages.pid);
        }
    }
    if (__atomic_sub_fetch(&fill.left, pages, __ATOMIC_ACQ_REL) == 0) {
        wake_main();
    }
}

static bool is_copied(struct arriving *of, uint64_t place)
{
    return (__atomic_load_n(&of->copied[place / 8], __ATOMIC_ACQUIRE) & (1U << (place % 8))) != 0;
}

/*
 * Copies adjacent pages into a process. It waits until the process has registered its memory: CRIU reads other memory out of
 * the images before, which may take long. The service limits the time of the whole restore (restart_deadline).
 */
static void copy_piece(struct arriving *to, const struct piece *piece, const uint8_t *from)
{
    for (uint64_t done = 0; done < piece->pages;) {
        bool registered = __atomic_load_n(&fill.word, __ATOMIC_ACQUIRE);
        int descriptor = __atomic_load_n(&to->descriptor, __ATOMIC_ACQUIRE);
        if (descriptor < 0) {
            sleep_ns(REGISTRATION_PAUSE_NS);
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
            sleep_ns(REGISTRATION_PAUSE_NS);
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

/* Copies one block; false if there is none. */
static bool fill_block(struct block *block, uint8_t *memory)
{
    pthread_mutex_lock(&fill.lock);
    bool more = next_block(&fill.order, block);
    if (more) {
        read_stream(memory, block);
    }
    pthread_mutex_unlock(&fill.lock);
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
    if (ioctl(of->descriptor, UFFD_ZERO, &zero) == 0) {
        return;
    }
    if (errno != EEXIST && errno != EAGAIN) {
        die("page %" PRIx64 " of PID %d cannot be made", address, of->pages.pid);
    }
    /* It is there; or a mapping changes, which this thread must read first, and the other one faults again. */
    wake_page(of, address);
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
    if (fill.stores) {
        one->filling = make_filling(&one->pages, note_last_page);
    } else {
        one->copied = allocate(listed / 8 + 1, 1);
        fill.left += listed;
    }
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
    int named = 1;
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_PASSCRED, &named, sizeof named) != 0 || (unlinkat(work, SOCKET_NAME, 0) != 0 && errno != ENOENT)
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
    if (!is_userfaultfd(descriptor)) {
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
    note_registered();
}

static uint64_t namespace_of(const char *process)
{
    struct stat space;
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/pid", process);
    return stat(path, &space) == 0 ? space.st_ino : 0;
}

/*
 * Notes the PID namespace of a process of a copy, which has sent the message. Copies of pods have one of their own. If
 * this program dies, all processes of that namespace are killed: so it must not be this program's.
 */
static void note_namespace(const struct ucred *sender)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)sender->pid);
    uint64_t found = namespace_of(number);
    if (found == 0 || found == namespace_of("self") || (fill.copies != 0 && fill.copies != found)) {
        fail("a process of the copy, PID %d, is not in a PID namespace of the copy's own", (int)sender->pid);
    }
    if (fill.copies == 0) {
        /* Its number is not used again as long as it is open. */
        char path[64];
        snprintf(path, sizeof path, "/proc/%s/ns/pid", number);
        if (open(path, O_RDONLY | O_CLOEXEC) < 0) {
            die("the PID namespace of the copy cannot be held");
        }
    }
    fill.copies = found;
}

/* Takes a byte with the descriptor that comes with it, or with none. */
static ssize_t receive_descriptor(int socket, int *descriptor)
{
    uint8_t byte = 0;
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    *descriptor = -1;
    ssize_t got;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    /* The sender's credentials may be there, too. */
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    for (; head != NULL; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int))) {
            memcpy(descriptor, CMSG_DATA(head), sizeof(int));
        }
    }
    return got;
}

/* Receives a number. Process IDs come from the processes of the copy themselves. */
static ssize_t receive_number(int connection, int32_t *number)
{
    struct iovec data = {number, sizeof *number};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    ssize_t got;
    do {
        got = recvmsg(connection, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    struct cmsghdr *head = got == (ssize_t)sizeof *number ? CMSG_FIRSTHDR(&message) : NULL;
    if (fill.apart && head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS && *number > 0
        && *number != RESTORE_FINISHED) {
        struct ucred sender;
        memcpy(&sender, CMSG_DATA(head), sizeof sender);
        note_namespace(&sender);
    }
    return got;
}

/* Takes what a process of the restore sends: its PID and its userfaultfd. False when nothing more comes. */
static bool take_message(int connection)
{
    int32_t pid;
    ssize_t got = receive_number(connection, &pid);
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
    int descriptor;
    if (receive_descriptor(connection, &descriptor) <= 0) {
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
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
        die("the userfaultfd of PID %d cannot be used", pid);
    }
    __atomic_store_n(&of->descriptor, descriptor, __ATOMIC_RELEASE);
    if (of->filling != NULL) {
        give_descriptor(of->filling, descriptor);
    }
    return true;
}

static bool has_ended(void)
{
    return __atomic_load_n(&fill.restore_ended, __ATOMIC_ACQUIRE);
}

static bool is_done(void)
{
    uint64_t left = fill.stores ? pages_left() : __atomic_load_n(&fill.left, __ATOMIC_ACQUIRE);
    return has_ended() && fill.word && left == 0;
}

/* The descriptors that are polled, with the process of each. */
struct polled {
    struct pollfd *all;
    struct arriving **streamed;
    struct filling **filled;
    nfds_t count;
    size_t room;
};

static void add_polled(struct polled *polled, int descriptor, struct arriving *streamed, struct filling *filled)
{
    if (polled->count == polled->room) {
        polled->room = polled->room == 0 ? 64 : 2 * polled->room;
        polled->all = enlarge(polled->all, polled->room, sizeof *polled->all);
        polled->streamed = enlarge(polled->streamed, polled->room, sizeof(struct arriving *));
        polled->filled = enlarge(polled->filled, polled->room, sizeof(struct filling *));
    }
    polled->all[polled->count] = (struct pollfd){descriptor, POLLIN, 0};
    polled->streamed[polled->count] = streamed;
    polled->filled[polled->count++] = filled;
}

static void add_copies(struct polled *polled)
{
    for (size_t i = 0; !fill.stores && i < arriving_count; i++) {
        if (arriving[i].descriptor >= 0) {
            add_polled(polled, arriving[i].descriptor, &arriving[i], NULL);
        }
    }
    struct filling *filled = fill.stores ? next_filling(NULL) : NULL;
    for (; filled != NULL; filled = next_filling(filled)) {
        if (descriptor_of(filled) >= 0) {
            add_polled(polled, descriptor_of(filled), NULL, filled);
        }
    }
}

/*
 * Holds a lock as long as the copies are filled, by which other programs recognize that. Records of ended programs are
 * removed by the next namespace's init, which looks for the other lock. flock(2), fcntl(2).
 */
static void record_filling(void)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(fill.record, sizeof fill.record, "%" PRIu64 ".filling", fill.copies);
    fill.records = open_records(true);
    for (int tries = 0; fill.records >= 0 && tries < RECORD_TRIES; tries++) {
        struct stat named;
        struct stat locked;
        int file = openat(fill.records, fill.record, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 || flock(file, LOCK_EX) != 0 || fstat(file, &locked) != 0) {
            break;
        }
        if (fcntl(file, F_SETLK, &whole) != 0) {
            /* A service looks at it in this moment. */
            close(file);
            sleep_ns(RECORD_PAUSE_NS);
            continue;
        }
        if (fstatat(fill.records, fill.record, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == locked.st_ino) {
            /* The memory that the copies and the store may need until all pages are there. */
            if (ftruncate(file, 0) != 0 || dprintf(file, "%" PRIu64 "\n", pages_left() * PAGE) < 0) {
                break;
            }
            return;
        }
        /* It was taken for one of an ended program, and removed. */
        close(file);
    }
    die("%s/%s cannot be locked", RECORD_FOLDER, fill.record);
}

/* Reports to the front that the copies may run. */
static void report_ready(int front)
{
    record_filling();
    /* From now on nothing ties this program to the image filesystem. */
    close_rounds();
    close(fill.images);
    if (chdir("/") != 0) {
        die("cannot leave the image directory");
    }
    fill_wiped();
    ignore_signals();
    guard_copies(fill.copies, !fill.apart);
    if (pages_left() == 0) {
        note_whole();
    }
    let_run();
    __atomic_store_n(&fill.ready, true, __ATOMIC_RELEASE);
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* Errors still go where the restore's go, a file. */
    for (int standard = 0; standard < 2; standard++) {
        if (none >= 0) {
            dup2(none, standard);
        }
    }
    if (prctl(PR_SET_PDEATHSIG, 0) != 0 || write(front, "r", 1) != 1) {
        die("the start of the copies cannot be reported");
    }
    close(front);
}

/* Answers faults, and takes descriptors, until all pages are there and the restore ended. */
static void serve(int listener, int front)
{
    struct polled polled = {0};
    bool connected = false;
    bool answered = false;
    int peer = listener;
    while (!is_done()) {
        if (!answered && __atomic_load_n(&fill.stored, __ATOMIC_ACQUIRE)) {
            answer_asked();
            answered = true;
        }
        if (fill.behind && !fill.ready && has_ended() && fill.word && __atomic_load_n(&fill.stored, __ATOMIC_ACQUIRE)
            && fill.copies != 0) {
            report_ready(front);
        }
        polled.count = 0;
        add_polled(&polled, fill.wake[0], NULL, NULL);
        add_polled(&polled, peer, NULL, NULL);
        add_copies(&polled);
        /* Everything that a restore sent before it ended is there by now. */
        bool mute = has_ended() && !fill.word;
        int found = poll(polled.all, polled.count, mute ? 0 : -1);
        if (found < 0) {
            if (errno != EINTR) {
                die("cannot wait for the restore");
            }
            continue;
        }
        if (mute && (polled.all[1].revents & POLLIN) == 0) {
            fail("the restore ended without its final word");
        }
        char bytes[64];
        if ((polled.all[0].revents & POLLIN) != 0 && read(fill.wake[0], bytes, sizeof bytes) < 0 && errno != EAGAIN) {
            die("cannot wait for the restore");
        }
        if ((polled.all[1].revents & (POLLIN | POLLHUP)) != 0) {
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
        for (nfds_t i = 2; i < polled.count; i++) {
            if ((polled.all[i].revents & POLLIN) == 0) {
                continue;
            }
            if (polled.filled[i] != NULL) {
                take_reports(polled.filled[i]);
            } else {
                take_events(polled.streamed[i]);
            }
        }
    }
    free(polled.all);
    free(polled.streamed);
    free(polled.filled);
}

/* Ends the holder, which has nothing more to hold. */
static void end_holder(void)
{
    __atomic_store_n(&fill.whole, true, __ATOMIC_RELEASE);
    if (DISMISSAL_PAUSE_NS > 0) {
        sleep_ns(DISMISSAL_PAUSE_NS);
    }
    dismiss_holder();
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
    /* A copy that runs forks processes of its own. */
    rlim_t useful = fill.behind ? limit.rlim_max : wanted;
    if (limit.rlim_cur < useful) {
        limit.rlim_cur = useful < limit.rlim_max ? useful : limit.rlim_max;
        if (limit.rlim_cur < wanted || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            fail("%zu descriptors are needed, and only %" PRIu64 " may be open. Remedy: raise the service's LimitNOFILE",
                 wanted, (uint64_t)limit.rlim_max);
        }
    }
}

/* The list's name comes by another way than the stream. */
static void await_list(int images)
{
    await_listed();
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
    await_whole();
    require_stored();
    begin_filling();
    __atomic_store_n(&fill.stored, true, __ATOMIC_RELEASE);
    wake_main();
    return NULL;
}

/* The numbers of the programs that fill the copies, which belong to no rank. */
static void write_fillers(const char *path)
{
    int number = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (number < 0 || dprintf(number, "%d\n%d\n", (int)getpid(), (int)holder_pid()) < 0 || close(number) != 0) {
        die("cannot write %s", path);
    }
}

static int fill_copies(const struct target_orders *orders, int front, char **restore)
{
    before_leaving = replace_holder;
    int images = open_directory(orders->images);
    fill.images = images;
    fill.stores = orders->store_bytes > 0;
    fill.behind = front >= 0;
    fill.apart = fill.behind && orders->apart;
    fill.copies = fill.behind && !orders->apart ? namespace_of("self") : 0;
    if (pipe2(fill.wake, O_CLOEXEC | O_NONBLOCK) != 0) {
        die("no pipe can be made");
    }
    if (fill.stores) {
        open_store(images, orders->store_bytes, orders->account);
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
    write_pids(orders->pids);
    require_descriptors(arriving_count + OTHER_DESCRIPTORS);
    start_holder();
    if (fill.behind) {
        write_fillers(orders->fillers);
    }
    int listener = listen_in(orders->work);
    restore_pid = start(restore, -1, -1, true);
    start_thread(watch_children);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < MOST_FILLERS && (i == 0 || i < processors); i++) {
        start_thread(fill.stores ? run_filling : run_filler);
    }
    serve(listener, front);
    end_holder();
    if (fill.ready) {
        /* A source looks at the copies' memory as soon as the record is gone. */
        close_copies();
        unlinkat(fill.records, fill.record, 0);
    }
    return 0;
}

/* Waits until the copies may run, and ends. The other program continues to fill them. */
static int await_ready(int report, pid_t filler)
{
    char byte;
    ssize_t got;
    do {
        got = read(report, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got == 1) {
        return 0;
    }
    int status = wait_for(filler);
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    char text[64];
    fail("the program that fills the copies %s", describe(status, text, sizeof text));
}

int run_target(const struct target_orders *orders, char **restore)
{
    if (orders->fillers == NULL) {
        return fill_copies(orders, -1, restore);
    }
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        die("no pipe can be made");
    }
    pid_t parent = getpid();
    pid_t filler = fork();
    if (filler < 0) {
        die("the program that fills the copies cannot be started");
    }
    if (filler > 0) {
        close(report[1]);
        return await_ready(report[0], filler);
    }
    close(report[0]);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        die("the program that fills the copies cannot be tied to its parent");
    }
    return fill_copies(orders, report[1], restore);
}
