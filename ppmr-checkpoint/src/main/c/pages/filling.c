/* See filling.h. */
#define _GNU_SOURCE
#include "filling.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../userfaultfd.h"
#include "common.h"
#include "holder.h"
#include "store.h"

enum {
    /* ENOENT of UFFDIO_COPY: the process has not registered its memory yet. */
    REGISTRATION_PAUSE_NS = 300000,
    REGISTRATION_LIMIT_S = 60,
    REPORT_PAUSE_MS = 1,
    REPORT_LIMIT_S = 10,
    MEMORY_PAUSE_NS = 10000000,
    MOST_MOVES = 64,
    FORKS_BEFORE_PRUNED = 32,
    MEMORY_LIMIT_S = 30,
    IDLE_NS = 100000000,
    /* Pages that a fault brings. */
    FAULT_PAGES = 16
};

/* Adjacent pages that have one another's place in the mapping, in the bitmap and in the image. */
struct segment {
    uint64_t address;
    uint64_t pages;
    /* The number of the first page among the lazy pages of the image. */
    uint64_t place;
    /* Its address in the image, by which the store knows it. */
    uint64_t from;
    bool wiped;
};

/* A growing list of reports. */
struct reports {
    struct uffd_event *all;
    size_t count;
    size_t room;
};

struct filling {
    int pid;
    int descriptor;
    struct stored *stored;
    uint64_t total;
    /* A bit for each page of the image: one that a thread copies or has copied, and one that is there. */
    uint8_t *claimed;
    uint8_t *copied;
    /* Shared by copying threads; held alone to read reports. */
    pthread_rwlock_t lock;
    /* By address. */
    struct segment *segments;
    size_t count;
    size_t room;
    pthread_mutex_t turn;
    /* The next page to be claimed: a segment, and a page in it. */
    size_t at;
    uint64_t in;
    bool ended;
    /* Made by fork(2) since the copy runs. */
    bool is_child;
    /* Moves of its memory that were applied since a report was outstanding. */
    struct reports moves;
    /* Pages that threads waited for before the copying threads began. */
    uint64_t *asked;
    size_t asked_count;
    size_t asked_room;
    struct filling *next;
};

/* A part of a segment. */
struct part {
    struct segment of;
    uint64_t address;
    uint64_t pages;
};

enum outcome { COPIED, LATER, ENDED };

/* Tests have copies that run long before they are whole: a pause behind each part. */
#ifndef FILLING_PAUSE_NS
#define FILLING_PAUSE_NS 0
#endif

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct filling *first;
    struct filling *last;
    void (*wake)(void);
    uint64_t left;
    uint64_t progress_ns;
    bool may_begin;
    bool registered;
    bool running;
    const void *unreadable;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool get_bit(const uint8_t *bits, uint64_t place)
{
    return (__atomic_load_n(&bits[place / 8], __ATOMIC_ACQUIRE) & (1U << (place % 8))) != 0;
}

/* Returns whether it was set before. */
static bool set_bit(uint8_t *bits, uint64_t place)
{
    uint8_t bit = (uint8_t)(1U << (place % 8));
    return (__atomic_fetch_or(&bits[place / 8], bit, __ATOMIC_ACQ_REL) & bit) != 0;
}

static void clear_bit(uint8_t *bits, uint64_t place)
{
    __atomic_fetch_and(&bits[place / 8], (uint8_t)~(1U << (place % 8)), __ATOMIC_ACQ_REL);
}

static void signal_change(void)
{
    pthread_mutex_lock(&all.lock);
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
}

uint64_t pages_left(void)
{
    return __atomic_load_n(&all.left, __ATOMIC_ACQUIRE);
}

static void add_filling(struct filling *of)
{
    /* The thread that reads reports must not wait until no thread copies by chance. */
    pthread_rwlockattr_t kind;
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&of->lock, &kind);
    pthread_rwlockattr_destroy(&kind);
    pthread_mutex_init(&of->turn, NULL);
    pthread_mutex_lock(&all.lock);
    if (all.last == NULL) {
        all.first = of;
    } else {
        all.last->next = of;
    }
    all.last = of;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
}

struct filling *next_filling(struct filling *after)
{
    pthread_mutex_lock(&all.lock);
    struct filling *next = after == NULL ? all.first : after->next;
    pthread_mutex_unlock(&all.lock);
    return next;
}

int descriptor_of(struct filling *of)
{
    return __atomic_load_n(&of->ended, __ATOMIC_ACQUIRE) ? -1 : __atomic_load_n(&of->descriptor, __ATOMIC_ACQUIRE);
}

void give_descriptor(struct filling *of, int descriptor)
{
    __atomic_store_n(&of->descriptor, descriptor, __ATOMIC_RELEASE);
}

struct filling *make_filling(const struct pages *pages, void (*wake)(void))
{
    struct filling *of = allocate(1, sizeof *of);
    of->pid = pages->pid;
    of->descriptor = -1;
    of->total = pages->total;
    of->claimed = allocate(pages->total / 8 + 1, 1);
    of->copied = allocate(pages->total / 8 + 1, 1);
    of->count = of->room = pages->run_count;
    of->segments = allocate(of->room, sizeof *of->segments);
    for (size_t i = 0; i < of->count; i++) {
        const struct run *run = &pages->runs[i];
        of->segments[i] = (struct segment){run->address, run->pages, run->place, run->address, run->wiped};
    }
    all.wake = wake;
    all.left += pages->total;
    all.unreadable = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all.unreadable == MAP_FAILED) {
        die("no address that cannot be read");
    }
    add_filling(of);
    return of;
}

/* The block of a page in the store. All processes of one image share its pages. */
static struct page_block *block_of(const struct filling *of, uint64_t from)
{
    return set_known(&of->stored->pages, from);
}

/* Counts pages, which lie in one block, as no longer needed. */
static void use_up(struct filling *of, uint64_t from, uint64_t pages)
{
    if (pages == 0) {
        return;
    }
    struct page_block *block = block_of(of, from);
    if (__atomic_sub_fetch(&block->left, (uint32_t)pages, __ATOMIC_ACQ_REL) == 0) {
        give_back(block);
    }
    __atomic_store_n(&all.progress_ns, now_ns(), __ATOMIC_RELEASE);
    if (__atomic_sub_fetch(&all.left, pages, __ATOMIC_ACQ_REL) == 0) {
        all.wake();
        signal_change();
    }
}

/* The part of a segment's pages from an address on that lies in one block of the store. */
static uint64_t within_block(const struct segment *segment, uint64_t address, uint64_t pages)
{
    return set_part(segment->from + (address - segment->address), pages);
}

/* Marks pages of one block as being there. */
static void mark(struct filling *of, const struct segment *segment, uint64_t address, uint64_t pages)
{
    uint64_t place = segment->place + (address - segment->address) / PAGE;
    uint64_t fresh = 0;
    for (uint64_t i = 0; i < pages; i++) {
        set_bit(of->claimed, place + i);
        fresh += set_bit(of->copied, place + i) ? 0 : 1;
    }
    if (fresh != pages && !__atomic_load_n(&all.running, __ATOMIC_ACQUIRE)) {
        fail("page %" PRIx64 " of PID %d was copied a second time", address, of->pid);
    }
    use_up(of, segment->from + (address - segment->address), fresh);
}

/* Waits for memory for a page: the copy's cgroup may be at its limit. */
static void await_memory(const struct filling *of, uint64_t address, uint64_t since)
{
    if (now_ns() - since > MEMORY_LIMIT_S * UINT64_C(1000000000)) {
        errno = ENOMEM;
        die("page %" PRIx64 " of PID %d cannot be copied for %d s", address, of->pid, (int)MEMORY_LIMIT_S);
    }
    sleep_ns(MEMORY_PAUSE_NS);
}

/* Whether a page lies in memory that is registered: yes, no, or -1 as long as a report is outstanding. */
static int is_registered(int descriptor, uint64_t address)
{
    struct uffd_copy copy = {.to = address, .from = (uint64_t)(uintptr_t)all.unreadable, .length = PAGE};
    if (ioctl(descriptor, UFFD_COPY, &copy) == 0) {
        fail("a page that cannot be read was copied");
    }
    int error = errno;
    if (error == ENOENT && address != 0 && is_registered(descriptor, 0) < 0) {
        return -1;
    }
    return error == EAGAIN ? -1 : error != ENOENT && error != ESRCH;
}

/* Copies pages of one block, which this thread has claimed; *part becomes the rest of them. The caller holds the lock. */
static enum outcome copy_part(struct filling *of, struct part *part)
{
    uint64_t step = part->pages;
    uint64_t since = now_ns();
    while (part->pages > 0) {
        bool registered = __atomic_load_n(&all.registered, __ATOMIC_ACQUIRE);
        uint64_t now = step < part->pages ? step : part->pages;
        uint64_t from = part->of.from + (part->address - part->of.address);
        struct uffd_copy copy = {.to = part->address,
                                 .from = (uint64_t)(uintptr_t)slot_memory(block_of(of, from), from),
                                 .length = now * PAGE};
        int failed = ioctl(of->descriptor, UFFD_COPY, &copy);
        int error = errno;
        bool running = __atomic_load_n(&all.running, __ATOMIC_ACQUIRE);
        uint64_t done = 0;
        /* A mapping that is being moved is not found, before this is reported. */
        bool moves = failed != 0 && error == ENOENT && running && is_registered(of->descriptor, 0) < 0;
        errno = error;
        if (failed == 0) {
            done = now;
        } else if (errno == EAGAIN && copy.copied > 0) {
            done = (uint64_t)copy.copied / PAGE;
        } else if (errno == EAGAIN || moves || (errno == ENOENT && !registered && !running)) {
            return LATER;
        } else if (errno == ESRCH) {
            return ENDED;
        } else if (errno == ENOMEM) {
            await_memory(of, part->address, since);
        } else if (errno == ENOENT && running && step > 1) {
            /* The pages lie in several mappings by now. */
            step = 1;
        } else if (running && (errno == ENOENT || errno == EEXIST)) {
            /* The mapping is gone without a report (shmat(2) over it), or the page was made by the process. */
            done = 1;
        } else if (errno == EEXIST) {
            fail("page %" PRIx64 " of PID %d is there before it was copied", part->address, of->pid);
        } else {
            die("page %" PRIx64 " of PID %d cannot be copied", part->address, of->pid);
        }
        if (done > 0) {
            mark(of, &part->of, part->address, done);
            part->address += done * PAGE;
            part->pages -= done;
        }
    }
    return COPIED;
}

/* Claims the next pages of a process; false if none is left. The caller shares the lock. */
static bool claim_next(struct filling *of, struct part *part)
{
    part->pages = 0;
    pthread_mutex_lock(&of->turn);
    while (part->pages == 0 && of->at < of->count) {
        const struct segment *segment = &of->segments[of->at];
        while (of->in < segment->pages && get_bit(of->claimed, segment->place + of->in)) {
            uint64_t place = segment->place + of->in;
            bool whole = place % 8 == 0 && __atomic_load_n(&of->claimed[place / 8], __ATOMIC_ACQUIRE) == UINT8_MAX;
            of->in += whole && segment->pages - of->in >= 8 ? 8 : 1;
        }
        if (of->in == segment->pages) {
            of->at++;
            of->in = 0;
            continue;
        }
        part->of = *segment;
        part->address = segment->address + of->in * PAGE;
        uint64_t most = segment->pages - of->in;
        most = within_block(segment, part->address, most < BLOCK_PAGES ? most : BLOCK_PAGES);
        while (part->pages < most && !set_bit(of->claimed, segment->place + of->in)) {
            part->pages++;
            of->in++;
        }
    }
    pthread_mutex_unlock(&of->turn);
    return part->pages > 0;
}

static void unclaim(struct filling *of, const struct part *part)
{
    uint64_t place = part->of.place + (part->address - part->of.address) / PAGE;
    pthread_mutex_lock(&of->turn);
    for (uint64_t i = 0; i < part->pages; i++) {
        clear_bit(of->claimed, place + i);
    }
    of->at = 0;
    of->in = 0;
    pthread_mutex_unlock(&of->turn);
}

/* The pages of segments count as being there. The caller holds the lock alone, so none is being copied. */
static void drop(struct filling *of, size_t first, size_t behind)
{
    for (size_t i = first; i < behind; i++) {
        const struct segment *segment = &of->segments[i];
        for (uint64_t done = 0; done < segment->pages;) {
            uint64_t address = segment->address + done * PAGE;
            uint64_t now = within_block(segment, address, segment->pages - done);
            uint64_t fresh = 0;
            for (uint64_t k = 0; k < now; k++) {
                set_bit(of->claimed, segment->place + done + k);
                fresh += set_bit(of->copied, segment->place + done + k) ? 0 : 1;
            }
            use_up(of, segment->from + done * PAGE, fresh);
            done += now;
        }
    }
    memmove(&of->segments[first], &of->segments[behind], (of->count - behind) * sizeof *of->segments);
    of->count -= behind - first;
    of->at = 0;
    of->in = 0;
}

/* Takes a process out that ended, or executes another program. */
static void end_filling(struct filling *of)
{
    pthread_rwlock_wrlock(&of->lock);
    if (!of->ended) {
        drop(of, 0, of->count);
        __atomic_store_n(&of->ended, true, __ATOMIC_RELEASE);
        free(of->segments);
        free(of->claimed);
        free(of->copied);
        of->segments = NULL;
        of->claimed = NULL;
        of->copied = NULL;
        close(of->descriptor);
    }
    pthread_rwlock_unlock(&of->lock);
}

/* Copies the next pages of a process. COPIED if there were some, LATER if it must wait, ENDED if there is nothing to do. */
static enum outcome fill_some(struct filling *of)
{
    struct part part;
    pthread_rwlock_rdlock(&of->lock);
    bool more = descriptor_of(of) >= 0 && claim_next(of, &part);
    enum outcome outcome = more ? copy_part(of, &part) : descriptor_of(of) < 0 && of->count > 0 ? LATER : ENDED;
    if (more && outcome != COPIED) {
        unclaim(of, &part);
    }
    pthread_rwlock_unlock(&of->lock);
    if (FILLING_PAUSE_NS > 0) {
        sleep_ns(FILLING_PAUSE_NS);
    }
    if (more && outcome == ENDED) {
        end_filling(of);
        return COPIED;
    }
    return outcome;
}

/* Waits until a process may have registered its memory, or its reports were read. */
static void await_registration(uint64_t since)
{
    uint64_t progress = __atomic_load_n(&all.progress_ns, __ATOMIC_ACQUIRE);
    uint64_t from = progress > since ? progress : since;
    uint64_t now = now_ns();
    if (!__atomic_load_n(&all.registered, __ATOMIC_ACQUIRE) && now > from
        && now - from > REGISTRATION_LIMIT_S * UINT64_C(1000000000)) {
        fail("a process of the copy has not registered its memory for %d s, and no page was copied",
             (int)REGISTRATION_LIMIT_S);
    }
    sleep_ns(REGISTRATION_PAUSE_NS);
}

void *run_filling(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&all.lock);
    while (!all.may_begin) {
        pthread_cond_wait(&all.changed, &all.lock);
    }
    pthread_mutex_unlock(&all.lock);
    uint64_t since = now_ns();
    while (pages_left() > 0) {
        bool copied = false;
        bool waits = false;
        for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
            /* Children are last: most of them end before, or have what their parents have by then. */
            enum outcome outcome = of->is_child && (copied || waits) ? ENDED : fill_some(of);
            copied = copied || outcome == COPIED;
            waits = waits || outcome == LATER;
        }
        if (!copied && waits) {
            await_registration(since);
        } else if (!copied) {
            /* The other thread has the last pages; or a process forks and adds some. */
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += IDLE_NS;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_mutex_lock(&all.lock);
            pthread_cond_timedwait(&all.changed, &all.lock, &until);
            pthread_mutex_unlock(&all.lock);
        }
    }
    return NULL;
}

void require_stored(void)
{
    for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
        of->stored = stored_of(of->pid);
        for (size_t k = 0; k < of->count; k++) {
            const struct segment *segment = &of->segments[k];
            for (uint64_t done = 0; done < segment->pages;) {
                uint64_t address = segment->address + done * PAGE;
                bool present = false;
                done += of->stored == NULL
                            ? 0
                            : set_run(&of->stored->pages, address, segment->pages - done, &present);
                if (!present) {
                    fail("page %" PRIx64 " of PID %d has not arrived", address, of->pid);
                }
                set_find(&of->stored->pages, address)->left +=
                    (uint32_t)(segment->address + done * PAGE - address) / PAGE;
            }
        }
    }
}

void begin_filling(void)
{
    pthread_mutex_lock(&all.lock);
    __atomic_store_n(&all.may_begin, true, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
}

void note_registered(void)
{
    __atomic_store_n(&all.registered, true, __ATOMIC_RELEASE);
}

void let_run(void)
{
    __atomic_store_n(&all.running, true, __ATOMIC_RELEASE);
}

void fill_wiped(void)
{
    for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
        for (size_t i = 0; i < of->count; i++) {
            const struct segment *segment = &of->segments[i];
            for (uint64_t k = 0; segment->wiped && k < segment->pages; k++) {
                struct part part = {*segment, segment->address + k * PAGE, 1};
                bool mine = !set_bit(of->claimed, segment->place + k);
                for (enum outcome outcome = LATER; mine && outcome == LATER;) {
                    outcome = copy_part(of, &part);
                    if (outcome == ENDED) {
                        fail("PID %d of the copy ended before it could run", of->pid);
                    }
                }
                while (!mine && !get_bit(of->copied, segment->place + k)) {
                    sleep_ns(REGISTRATION_PAUSE_NS);
                }
            }
        }
    }
}

/* The first segment that ends behind an address. */
static size_t find_segment(const struct filling *of, uint64_t address)
{
    size_t low = 0;
    size_t high = of->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (of->segments[middle].address + of->segments[middle].pages * PAGE <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void wake_page(const struct filling *of, uint64_t address)
{
    struct uffd_range range = {address, PAGE};
    if (ioctl(of->descriptor, UFFD_WAKE, &range) != 0) {
        die("PID %d cannot be woken for page %" PRIx64, of->pid, address);
    }
}

/* A page that no image has: it is all zeros. */
static void make_page(const struct filling *of, uint64_t address)
{
    struct uffd_zero zero = {.range = {address, PAGE}};
    if (ioctl(of->descriptor, UFFD_ZERO, &zero) == 0) {
        return;
    }
    bool gone = __atomic_load_n(&all.running, __ATOMIC_ACQUIRE) && (errno == ENOENT || errno == ESRCH);
    if (errno != EEXIST && errno != EAGAIN && !gone) {
        die("page %" PRIx64 " of PID %d cannot be made", address, of->pid);
    }
    /* It is there; or a mapping changes, which this thread must read first, and the other one faults again. */
    wake_page(of, address);
}

/* Copies a page, and those behind it. */
static void answer_fault(struct filling *of, uint64_t address)
{
    address -= address % PAGE;
    size_t place = find_segment(of, address);
    if (place == of->count || of->segments[place].address > address) {
        make_page(of, address);
        return;
    }
    if (!__atomic_load_n(&all.may_begin, __ATOMIC_ACQUIRE)) {
        if (of->asked_count == of->asked_room) {
            of->asked_room = of->asked_room == 0 ? 16 : 2 * of->asked_room;
            of->asked = enlarge(of->asked, of->asked_room, sizeof *of->asked);
        }
        of->asked[of->asked_count++] = address;
        return;
    }
    struct part part = {of->segments[place], address, 0};
    uint64_t in = (address - part.of.address) / PAGE;
    uint64_t most = part.of.pages - in;
    most = within_block(&part.of, address, most < FAULT_PAGES ? most : FAULT_PAGES);
    while (part.pages == 0) {
        if (get_bit(of->copied, part.of.place + in)) {
            wake_page(of, address);
            return;
        }
        pthread_mutex_lock(&of->turn);
        while (part.pages < most && !set_bit(of->claimed, part.of.place + in + part.pages)) {
            part.pages++;
        }
        pthread_mutex_unlock(&of->turn);
        if (part.pages == 0) {
            /* Another thread copies it, or will find that it cannot yet. */
            sched_yield();
        }
    }
    if (copy_part(of, &part) != COPIED) {
        unclaim(of, &part);
        /* A change is outstanding. The thread faults again when it was read. */
        wake_page(of, address);
    }
}

/* A child whose parent had a report outstanding when it forked: the child's segments whose place is not known yet. */
struct unplaced {
    struct filling *child;
    struct segment segment;
};

/* What the thread that reads keeps of one process until its reports are settled. */
static struct {
    struct reports faults;
    /* Changes that wait for another report, in the order of reading. */
    struct reports waiting;
    /* Reports of unmapped memory at places to which memory was moved. */
    struct reports late;
    struct unplaced *unplaced;
    size_t unplaced_count;
    size_t unplaced_room;
    uint64_t forks;
} reading;

static void add_report(struct reports *to, const struct uffd_event *event)
{
    if (to->count == to->room) {
        to->room = to->room == 0 ? 16 : 2 * to->room;
        to->all = enlarge(to->all, to->room, sizeof *to->all);
    }
    to->all[to->count++] = *event;
}

/* Whether a change of the process's memory was begun whose report was not read. */
static bool is_outstanding(const struct filling *of)
{
    return is_registered(of->descriptor, 0) < 0;
}

static void insert_segment(struct filling *of, struct segment segment)
{
    if (of->count == of->room) {
        of->room = of->room == 0 ? 16 : 2 * of->room;
        of->segments = enlarge(of->segments, of->room, sizeof *of->segments);
    }
    size_t place = find_segment(of, segment.address);
    memmove(&of->segments[place + 1], &of->segments[place], (of->count - place) * sizeof *of->segments);
    of->segments[place] = segment;
    of->count++;
    of->at = 0;
    of->in = 0;
}

/* Makes an address a border between segments. Returns the first segment that is not before it. */
static size_t split_at(struct filling *of, uint64_t address)
{
    size_t place = find_segment(of, address);
    if (place == of->count || of->segments[place].address >= address) {
        return place;
    }
    struct segment *first = &of->segments[place];
    uint64_t pages = (address - first->address) / PAGE;
    struct segment second = {address, first->pages - pages, first->place + pages, first->from + pages * PAGE,
                             first->wiped};
    first->pages = pages;
    insert_segment(of, second);
    return place + 1;
}

/* Whether a range has segments. */
static bool has_segments(const struct filling *of, uint64_t start, uint64_t length)
{
    size_t place = find_segment(of, start);
    return place < of->count && of->segments[place].address < start + length;
}

/* Whether segments lie where a move takes others. The reported length may be that before the memory was shortened. */
static bool is_occupied(const struct filling *of, const struct uffd_event *move)
{
    uint64_t end = move->remap.from + move->remap.length;
    for (size_t i = find_segment(of, move->remap.from); i < of->count && of->segments[i].address < end; i++) {
        const struct segment *segment = &of->segments[i];
        uint64_t start = segment->address < move->remap.from ? move->remap.from : segment->address;
        uint64_t behind = segment->address + segment->pages * PAGE;
        uint64_t length = (behind < end ? behind : end) - start;
        if (has_segments(of, start - move->remap.from + move->remap.to, length)) {
            return true;
        }
    }
    return false;
}

/* Moves the segments of a range to a place that has none. */
static void move_range(struct filling *of, uint64_t from, uint64_t to, uint64_t length)
{
    size_t first = split_at(of, from);
    size_t behind = split_at(of, from + length);
    size_t count = behind - first;
    struct segment *moved = allocate(count + 1, sizeof *moved);
    memcpy(moved, &of->segments[first], count * sizeof *moved);
    memmove(&of->segments[first], &of->segments[behind], (of->count - behind) * sizeof *of->segments);
    of->count -= count;
    for (size_t i = 0; i < count; i++) {
        moved[i].address = moved[i].address - from + to;
        insert_segment(of, moved[i]);
    }
    free(moved);
}

static bool overlap(uint64_t start, uint64_t end, uint64_t other_start, uint64_t other_end)
{
    return start < other_end && other_start < end;
}

/* Adds a segment to a child, which needs the store's pages, too. */
static void inherit(struct filling *child, const struct segment *segment)
{
    for (uint64_t done = 0; done < segment->pages;) {
        uint64_t now = within_block(segment, segment->address + done * PAGE, segment->pages - done);
        uint64_t missing = 0;
        for (uint64_t k = 0; k < now; k++) {
            missing += get_bit(child->copied, segment->place + done + k) ? 0 : 1;
        }
        if (missing > 0) {
            __atomic_add_fetch(&block_of(child, segment->from + done * PAGE)->left, (uint32_t)missing, __ATOMIC_ACQ_REL);
            __atomic_add_fetch(&all.left, missing, __ATOMIC_ACQ_REL);
        }
        done += now;
    }
    insert_segment(child, *segment);
}

/*
 * Whether a child has memory at an address, while its parent may have another report outstanding. A child that changes its
 * own memory already cannot be asked: then the order of the reports counts.
 */
static bool has_memory(const struct filling *child, uint64_t address)
{
    return is_registered(child->descriptor, address) != 0;
}

static void keep_unplaced(struct filling *child, const struct segment *segment)
{
    if (reading.unplaced_count == reading.unplaced_room) {
        reading.unplaced_room = reading.unplaced_room == 0 ? 16 : 2 * reading.unplaced_room;
        reading.unplaced = enlarge(reading.unplaced, reading.unplaced_room, sizeof *reading.unplaced);
    }
    reading.unplaced[reading.unplaced_count++] = (struct unplaced){child, *segment};
}

/* A move that was read before the report of the fork may have been made after it: then the child has the old place. */
static void place_before(const struct filling *of, struct filling *child, struct segment *segment)
{
    for (size_t i = of->moves.count; i > 0; i--) {
        const struct uffd_event *move = &of->moves.all[i - 1];
        uint64_t offset = segment->address - move->remap.to;
        if (segment->address >= move->remap.to && offset < move->remap.length
            && is_registered(child->descriptor, move->remap.from + offset) > 0) {
            segment->address = move->remap.from + offset;
            inherit(child, segment);
            return;
        }
    }
    keep_unplaced(child, segment);
}

/* Gives back what ended processes have. The caller holds the lock of one. */
static void end_ended(const struct filling *locked)
{
    for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
        if (of != locked && descriptor_of(of) >= 0 && is_over(of->descriptor, all.unreadable)) {
            end_filling(of);
        }
    }
}

/*
 * A child has the memory that its parent had at fork(2): what is there is shared, and what is missing is missing in both.
 * If another thread of the parent has a report outstanding, its change may have been made before: then the child has no
 * memory at the old place, and that report has the new one.
 */
static void take_child(struct filling *of, int descriptor)
{
    struct filling *child = allocate(1, sizeof *child);
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
        die("the userfaultfd of a child of PID %d cannot be used", of->pid);
    }
    child->pid = of->pid;
    child->is_child = true;
    child->descriptor = descriptor;
    child->stored = of->stored;
    child->total = of->total;
    child->claimed = allocate(of->total / 8 + 1, 1);
    child->copied = allocate(of->total / 8 + 1, 1);
    memcpy(child->copied, of->copied, of->total / 8 + 1);
    memcpy(child->claimed, of->copied, of->total / 8 + 1);
    bool certain = !is_outstanding(of) && reading.waiting.count == 0;
    for (size_t i = 0; i < of->count; i++) {
        struct segment segment = of->segments[i];
        if (!certain && !has_memory(child, segment.address)) {
            place_before(of, child, &segment);
        } else {
            inherit(child, &segment);
        }
    }
    add_filling(child);
    if (++reading.forks % FORKS_BEFORE_PRUNED == 0) {
        end_ended(of);
    }
}

/* The child's segments that a move may have taken to its place before the fork. */
static void place_moved(const struct uffd_event *move)
{
    size_t kept = 0;
    for (size_t i = 0; i < reading.unplaced_count; i++) {
        struct unplaced one = reading.unplaced[i];
        uint64_t moved = one.segment.address - move->remap.from + move->remap.to;
        bool is_moved = one.segment.address >= move->remap.from
                        && one.segment.address < move->remap.from + move->remap.length;
        pthread_rwlock_wrlock(&one.child->lock);
        if (one.child->ended) {
            is_moved = true;
        } else if (is_moved && has_memory(one.child, moved)) {
            one.segment.address = moved;
            inherit(one.child, &one.segment);
        } else {
            is_moved = false;
        }
        pthread_rwlock_unlock(&one.child->lock);
        if (!is_moved) {
            reading.unplaced[kept++] = one;
        }
    }
    reading.unplaced_count = kept;
}

/* Drops the pages of a range, or only of memory that is not registered now. */
static void drop_range(struct filling *of, uint64_t start, uint64_t end, bool unregistered)
{
    size_t first = split_at(of, start);
    size_t behind = split_at(of, end);
    while (behind > first) {
        behind--;
        if (!unregistered || is_registered(of->descriptor, of->segments[behind].address) == 0) {
            drop(of, behind, behind + 1);
        }
    }
}

/* Whether two changes take pages from one place, the first one by a move. */
static bool share_source(const struct uffd_event *move, const struct uffd_event *event)
{
    bool moves = event->kind == UFFD_REMAP;
    uint64_t start = moves ? event->remap.from : event->removed.start;
    uint64_t end = moves ? event->remap.from + event->remap.length : event->removed.end;
    return overlap(start, end, move->remap.from, move->remap.from + move->remap.length);
}

/*
 * Whether a change must wait. A place to which memory is moved becomes free by another report. What is taken from a place
 * waits for an earlier report that moves memory from there, and waits itself.
 */
static bool must_wait(const struct filling *of, const struct uffd_event *event, size_t before)
{
    for (size_t i = 0; i < before; i++) {
        if (reading.waiting.all[i].kind == UFFD_REMAP && share_source(&reading.waiting.all[i], event)) {
            return true;
        }
    }
    return event->kind == UFFD_REMAP && is_occupied(of, event);
}

/* Whether memory was moved into a range since a report was outstanding. */
static bool was_moved_to(const struct filling *of, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < of->moves.count; i++) {
        const struct uffd_event *move = &of->moves.all[i];
        if (overlap(start, end, move->remap.to, move->remap.to + move->remap.length)) {
            return true;
        }
    }
    return false;
}

/* Drops unmapped segments. Of those that were moved there only the kernel knows which change came last. */
static void drop_unmapped(struct filling *of, const struct uffd_event *event)
{
    size_t first = split_at(of, event->removed.start);
    size_t behind = split_at(of, event->removed.end);
    bool late = false;
    while (behind > first) {
        const struct segment *segment = &of->segments[--behind];
        if (was_moved_to(of, segment->address, segment->address + segment->pages * PAGE)) {
            late = true;
        } else {
            drop(of, behind, behind + 1);
        }
    }
    if (late) {
        add_report(&reading.late, event);
    }
}

/* Memory is only moved to a place that is free by then, so late reports of unmapped memory there came before. */
static void free_place(struct filling *of, const struct uffd_event *move)
{
    for (size_t i = 0; i < reading.late.count; i++) {
        const struct uffd_event *late = &reading.late.all[i];
        if (overlap(late->removed.start, late->removed.end, move->remap.to, move->remap.to + move->remap.length)) {
            drop_range(of, late->removed.start, late->removed.end, false);
        }
    }
}

static void apply_change(struct filling *of, const struct uffd_event *event)
{
    if (event->kind == UFFD_REMAP) {
        move_range(of, event->remap.from, event->remap.to, event->remap.length);
        place_moved(event);
        add_report(&of->moves, event);
    } else if (event->kind == UFFD_UNMAP) {
        drop_unmapped(of, event);
    } else {
        drop_range(of, event->removed.start, event->removed.end, false);
    }
}

/* Applies a change, and those that have waited for it. */
static void take_change(struct filling *of, const struct uffd_event *event)
{
    add_report(&reading.waiting, event);
    if (event->kind == UFFD_REMAP) {
        free_place(of, event);
    }
    for (size_t i = 0; i < reading.waiting.count;) {
        struct uffd_event next = reading.waiting.all[i];
        if (must_wait(of, &next, i)) {
            i++;
            continue;
        }
        memmove(&reading.waiting.all[i], &reading.waiting.all[i + 1],
                (reading.waiting.count - i - 1) * sizeof *reading.waiting.all);
        reading.waiting.count--;
        apply_change(of, &next);
        i = 0;
    }
}

/* No report is outstanding: what the kernel shows now holds. */
static void settle(struct filling *of)
{
    if (reading.waiting.count > 0) {
        fail("PID %d has moved memory to a place that was not free", of->pid);
    }
    for (size_t i = 0; i < reading.late.count; i++) {
        drop_range(of, reading.late.all[i].removed.start, reading.late.all[i].removed.end, true);
    }
    /* Memory that a child has nowhere was unmapped before the fork. */
    reading.unplaced_count = 0;
    reading.late.count = 0;
    of->moves.count = 0;
}

/* A held copy changes none of its mappings; its restore changes none that has lazy pages. */
static void require_no_change(struct filling *of, const struct uffd_event *event)
{
    if (event->kind == UFFD_FORK || event->kind == UFFD_REMAP) {
        fail("PID %d of the copy has moved or doubled its memory while its pages were on their way (event %x)", of->pid,
             event->kind);
    }
    if (has_segments(of, event->removed.start, event->removed.end - event->removed.start)) {
        fail("PID %d of the copy has given back memory at %" PRIx64 " while its pages were on their way", of->pid,
             event->removed.start);
    }
}

static void take_report(struct filling *of, const struct uffd_event *event)
{
    if (event->kind == UFFD_FAULT) {
        add_report(&reading.faults, event);
    } else if (!__atomic_load_n(&all.running, __ATOMIC_ACQUIRE)) {
        require_no_change(of, event);
    } else if (event->kind == UFFD_FORK) {
        take_child(of, (int)event->fork.descriptor);
    } else {
        take_change(of, event);
    }
}

/* Whether a report that was read can only be applied when no other one is outstanding. */
static bool is_unsettled(const struct filling *of)
{
    return reading.waiting.count > 0 || reading.late.count > 0 || reading.unplaced_count > 0
           || of->moves.count > MOST_MOVES;
}

/* Reads one report after the other: each one that is read lets its thread continue. */
static bool read_reports(struct filling *of)
{
    uint64_t since = now_ns();
    bool changed = false;
    for (;;) {
        struct uffd_event event;
        ssize_t got = read(of->descriptor, &event, sizeof event);
        if (got == (ssize_t)sizeof event) {
            changed = changed || event.kind != UFFD_FAULT;
            take_report(of, &event);
            since = now_ns();
            continue;
        }
        if (got < 0 && errno != EAGAIN && errno != EINTR && errno != EMFILE && errno != ENFILE) {
            die("the faults of PID %d cannot be read", of->pid);
        }
        if (!is_outstanding(of)) {
            settle(of);
            return changed;
        }
        if (!is_unsettled(of)) {
            return changed;
        }
        if (now_ns() - since > REPORT_LIMIT_S * UINT64_C(1000000000)) {
            fail("PID %d has begun a change of its memory and not reported it for %d s", of->pid, (int)REPORT_LIMIT_S);
        }
        struct pollfd more = {of->descriptor, POLLIN, 0};
        poll(&more, 1, REPORT_PAUSE_MS);
    }
}

void answer_asked(void)
{
    for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
        pthread_rwlock_rdlock(&of->lock);
        for (size_t i = 0; i < of->asked_count && descriptor_of(of) >= 0; i++) {
            answer_fault(of, of->asked[i]);
        }
        of->asked_count = 0;
        pthread_rwlock_unlock(&of->lock);
    }
}

void take_reports(struct filling *of)
{
    reading.faults.count = 0;
    pthread_rwlock_wrlock(&of->lock);
    bool changed = descriptor_of(of) >= 0 && read_reports(of);
    pthread_rwlock_unlock(&of->lock);
    if (changed) {
        signal_change();
    }
    pthread_rwlock_rdlock(&of->lock);
    for (size_t i = 0; i < reading.faults.count && descriptor_of(of) >= 0; i++) {
        answer_fault(of, reading.faults.all[i].fault.address);
    }
    pthread_rwlock_unlock(&of->lock);
}
