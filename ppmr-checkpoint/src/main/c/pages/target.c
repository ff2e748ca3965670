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
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../userfaultfd.h"
#include "batches.h"
#include "holder.h"
#include "page-maps.h"
#include "store.h"

enum {
    MOST_FILLERS = 2,
    /* ENOENT of UFFDIO_COPY: the process has not registered its memory yet. */
    REGISTRATION_PAUSE_NS = 300000,
    REGISTRATION_LIMIT_S = 60,
    MESSAGE_LIMIT_S = 10,
    LIST_LIMIT_S = 20,
    LIST_PAUSE_NS = 1000000,
    /* Descriptors of this program, beside those of the copies. */
    OTHER_DESCRIPTORS = 64,
    MOST_EVENTS = 16
};

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
    pthread_cond_t began;
    int wake[2];
} fill = {.lock = PTHREAD_MUTEX_INITIALIZER, .began = PTHREAD_COND_INITIALIZER};

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
        if (ended == holder_pid()) {
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
    pthread_mutex_lock(&fill.lock);
    while (fill.stores && !fill.may_begin) {
        pthread_cond_wait(&fill.began, &fill.lock);
    }
    pthread_mutex_unlock(&fill.lock);
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
    pthread_mutex_lock(&fill.lock);
    fill.may_begin = true;
    pthread_cond_broadcast(&fill.began);
    pthread_mutex_unlock(&fill.lock);
    return NULL;
}

int run_target(const char *images_path, const char *work_path, const char *pids_path, uint64_t store_bytes,
               char **restore)
{
    before_leaving = replace_holder;
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
