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
    REPORT_PAUSE_MS = 1,
    REPORT_LIMIT_S = 30,
    /* Reports after which faults are answered, and those that may wait for one another. */
    MOST_READ = 256,
    MOST_UNSETTLED = 4096,
    MEMORY_PAUSE_NS = 10000000,
    /* Maps of children take at most these bytes, and the image by this number. */
    CHILD_BYTES = 256 << 20,
    CHILD_SHARE = 8,
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
    /* Registered memory without pages of the image: it only keeps its place. */
    bool blank;
    /* Blank, and registered only up to an address that is not known: memory grows when it is moved. */
    bool open;
    /* It was moved to its place since a report was outstanding. */
    bool moved;
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
    /* Whether memory was moved since a report was outstanding. */
    bool has_moved;
    /* Changes that wait for another report, in the order of reading. */
    struct reports waiting;
    /* Reports of unmapped memory at places to which memory was moved. */
    struct reports late;
    /* Moves whose second report was not read. */
    struct reports left;
    /* Since when a page could not be made because of an outstanding report; 0 if none waits. */
    uint64_t stalled_since;
    /* Of a child: what its map takes here. */
    uint64_t own_bytes;
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

/* Whether a report that was read can only be applied when no other one is outstanding. */
static bool is_unsettled(const struct filling *of)
{
    return of->waiting.count > 0 || of->late.count > 0;
}

enum outcome { COPIED, LATER, ENDED };

/* Behind the addresses of all processes. */
#define ADDRESSES_END (UINT64_C(1) << 47)

/* A report comes within microseconds otherwise. */
#ifndef STALL_LIMIT_NS
#define STALL_LIMIT_NS UINT64_C(5000000000)
#endif

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
    /* Of the image, and of the maps of children. */
    uint64_t image_pages;
    uint64_t child_bytes;
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

/* The runs of pages, and between them the registered memory that has none. */
static void list_segments(struct filling *of, const struct pages *pages)
{
    of->room = 2 * pages->run_count + pages->mapping_count + 1;
    of->segments = allocate(of->room, sizeof *of->segments);
    size_t next = 0;
    for (size_t i = 0; i < pages->mapping_count; i++) {
        uint64_t at = pages->mappings[i].start;
        uint64_t end = pages->mappings[i].end;
        while (at < end) {
            const struct run *run = next < pages->run_count && pages->runs[next].address < end ? &pages->runs[next] : NULL;
            uint64_t behind = run == NULL ? end : run->address;
            if (at < behind) {
                of->segments[of->count++] =
                    (struct segment){.address = at, .pages = (behind - at) / PAGE, .from = at, .blank = true};
                at = behind;
            }
            if (run != NULL) {
                of->segments[of->count++] = (struct segment){.address = run->address,
                                                             .pages = run->pages,
                                                             .place = run->place,
                                                             .from = run->address,
                                                             .wiped = run->wiped};
                at = run->address + run->pages * PAGE;
                next++;
            }
        }
    }
    if (next < pages->run_count) {
        fail("page %" PRIx64 " of PID %d is in no mapping", pages->runs[next].address, of->pid);
    }
}

struct filling *make_filling(const struct pages *pages, void (*wake)(void))
{
    struct filling *of = allocate(1, sizeof *of);
    of->pid = pages->pid;
    of->descriptor = -1;
    of->total = pages->total;
    of->claimed = allocate(pages->total / 8 + 1, 1);
    of->copied = allocate(pages->total / 8 + 1, 1);
    list_segments(of, pages);
    all.wake = wake;
    all.left += pages->total;
    all.image_pages += pages->total;
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

/* What the kernel has at an address. */
enum memory { ABSENT, REGISTERED, UNKNOWN };

/* Whether a change of the process's memory was begun whose report was not read. The address is none. */
static bool is_outstanding(int descriptor)
{
    struct uffd_copy copy = {.from = (uint64_t)(uintptr_t)all.unreadable, .length = PAGE};
    return ioctl(descriptor, UFFD_COPY, &copy) != 0 && errno == EAGAIN;
}

/* Whether pages lie in one registered mapping. That is not known as long as a report is outstanding. */
static enum memory look_at(int descriptor, uint64_t address, uint64_t pages)
{
    struct uffd_copy copy = {
        .to = address, .from = (uint64_t)(uintptr_t)all.unreadable, .length = pages * PAGE};
    if (ioctl(descriptor, UFFD_COPY, &copy) == 0) {
        fail("a page that cannot be read was copied");
    }
    int error = errno;
    /* The kernel looks for the mapping before it looks for changes. */
    if (error == EAGAIN || (error == ENOENT && is_outstanding(descriptor))) {
        return UNKNOWN;
    }
    return error == ENOENT || error == ESRCH ? ABSENT : REGISTERED;
}

/* The number of pages at the beginning of a range that are registered in one mapping; -1 if that is not known now. */
static int64_t look_from(int descriptor, uint64_t address, uint64_t pages)
{
    uint64_t low = 0;
    uint64_t high = pages + 1;
    for (uint64_t next = 1; low < pages && low + 1 < high; next = low + 1 < high - low ? 2 * low : low + (high - low) / 2) {
        next = next > pages ? pages : next;
        enum memory found = look_at(descriptor, address, next);
        if (found == UNKNOWN) {
            return -1;
        }
        low = found == REGISTERED ? next : low;
        high = found == REGISTERED ? high : next;
    }
    return (int64_t)low;
}

/* The number of pages at the beginning of a range that are all registered in one mapping, or all not. */
static uint64_t look_at_part(int descriptor, uint64_t address, uint64_t pages, enum memory *found)
{
    *found = look_at(descriptor, address, pages);
    if (*found != ABSENT) {
        return pages;
    }
    *found = look_at(descriptor, address, 1);
    uint64_t low = 1;
    if (*found == ABSENT) {
        while (low < pages && look_at(descriptor, address + low * PAGE, 1) == ABSENT) {
            low++;
        }
        return low;
    }
    for (uint64_t high = pages; *found == REGISTERED && high - low > 1;) {
        uint64_t middle = low + (high - low) / 2;
        if (look_at(descriptor, address, middle) == ABSENT) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return low;
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
        bool moves = failed != 0 && error == ENOENT && running && is_outstanding(of->descriptor);
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
        of->in = segment->blank ? segment->pages : of->in;
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
static void count_out(struct filling *of, size_t first, size_t behind)
{
    for (size_t i = first; i < behind; i++) {
        const struct segment *segment = &of->segments[i];
        for (uint64_t done = 0; !segment->blank && done < segment->pages;) {
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
    of->at = 0;
    of->in = 0;
}

/* Takes segments out of the map, and their pages count as being there. */
static void drop(struct filling *of, size_t first, size_t behind)
{
    count_out(of, first, behind);
    memmove(&of->segments[first], &of->segments[behind], (of->count - behind) * sizeof *of->segments);
    of->count -= behind - first;
}

/* Takes a process out that ended, or executes another program. */
static void end_filling(struct filling *of)
{
    pthread_rwlock_wrlock(&of->lock);
    if (!of->ended) {
        drop(of, 0, of->count);
        __atomic_store_n(&of->ended, true, __ATOMIC_RELEASE);
        free(of->segments);
        free(of->waiting.all);
        free(of->late.all);
        free(of->left.all);
        of->waiting = of->late = of->left = (struct reports){0};
        free(of->claimed);
        free(of->copied);
        of->segments = NULL;
        of->claimed = NULL;
        of->copied = NULL;
        __atomic_sub_fetch(&all.child_bytes, of->own_bytes, __ATOMIC_RELAXED);
        close(of->descriptor);
    }
    pthread_rwlock_unlock(&of->lock);
}

/* Copies the next pages of a process. COPIED if there were some, LATER if it must wait, ENDED if there is nothing to do. */
static enum outcome fill_some(struct filling *of)
{
    struct part part;
    pthread_rwlock_rdlock(&of->lock);
    bool waits = (descriptor_of(of) < 0 && of->count > 0) || is_unsettled(of);
    /* It may end before the reports for which it waits. */
    bool over = is_unsettled(of) && descriptor_of(of) >= 0 && is_over(of->descriptor, all.unreadable);
    bool more = !waits && descriptor_of(of) >= 0 && claim_next(of, &part);
    enum outcome outcome = more ? copy_part(of, &part) : waits ? LATER : ENDED;
    if (more && outcome != COPIED) {
        unclaim(of, &part);
    }
    pthread_rwlock_unlock(&of->lock);
    if (FILLING_PAUSE_NS > 0) {
        sleep_ns(FILLING_PAUSE_NS);
    }
    if (over || (more && outcome == ENDED)) {
        end_filling(of);
        return COPIED;
    }
    return outcome;
}

void *run_filling(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&all.lock);
    while (!all.may_begin) {
        pthread_cond_wait(&all.changed, &all.lock);
    }
    pthread_mutex_unlock(&all.lock);
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
            /*
             * A process has not registered its memory, or its reports were not read. CRIU reads other memory out of the
             * images before, which may take long. The service limits the time of the whole restore (restart_deadline).
             */
            sleep_ns(REGISTRATION_PAUSE_NS);
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
            for (uint64_t done = 0; !segment->blank && done < segment->pages;) {
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

/* Copies a page of a held copy. The thread that reads reports does it, so nothing else reads one in that time. */
static void fill_page(struct filling *of, const struct segment *segment, uint64_t in)
{
    uint64_t place = segment->place + in;
    for (bool there = false; !there;) {
        struct part part = {*segment, segment->address + in * PAGE, 1};
        /* Another thread may end the filling, which frees the bits. */
        pthread_rwlock_rdlock(&of->lock);
        bool ended = descriptor_of(of) < 0;
        there = !ended && get_bit(of->copied, place);
        bool mine = !ended && !there && !set_bit(of->claimed, place);
        enum outcome outcome = mine ? copy_part(of, &part) : LATER;
        if (mine && outcome != COPIED) {
            unclaim(of, &part);
        }
        pthread_rwlock_unlock(&of->lock);
        there = there || outcome == COPIED;
        if (ended || outcome == ENDED) {
            fail("PID %d of the copy ended before it could run", of->pid);
        }
        if (!there) {
            /* Another thread copies it; or a change of the memory is outstanding until its report is read. */
            take_reports(of);
            sleep_ns(REGISTRATION_PAUSE_NS);
        }
    }
}

/* The segment at a place in the map. False if there is none, or if the process ended. */
static bool segment_at(struct filling *of, size_t place, struct segment *segment)
{
    pthread_rwlock_rdlock(&of->lock);
    bool found = descriptor_of(of) >= 0 && place < of->count;
    if (found) {
        *segment = of->segments[place];
    }
    pthread_rwlock_unlock(&of->lock);
    return found;
}

void fill_wiped(void)
{
    for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
        struct segment segment;
        for (size_t i = 0; segment_at(of, i, &segment); i++) {
            for (uint64_t k = 0; segment.wiped && k < segment.pages; k++) {
                fill_page(of, &segment, k);
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

/*
 * Locked memory that grows when it is moved, mremap(2), is filled with pages before the move is reported, and none can be
 * made as long as it is not. So such a page leaves the registered memory: then the kernel makes it. Other memory is known.
 */
static bool ends_stall(struct filling *of, uint64_t address)
{
    uint64_t now = now_ns();
    if (of->stalled_since == 0) {
        of->stalled_since = now;
    }
    struct uffd_range range = {address, PAGE};
    return now - of->stalled_since > STALL_LIMIT_NS && ioctl(of->descriptor, UFFD_UNREGISTER, &range) == 0;
}

/* Handles a page that could not be made, with errno. */
static void wake_absent(struct filling *of, uint64_t address, bool is_known)
{
    bool running = __atomic_load_n(&all.running, __ATOMIC_ACQUIRE);
    bool gone = running && (errno == ENOENT || errno == ESRCH);
    if (errno != EEXIST && errno != EAGAIN && !gone) {
        die("page %" PRIx64 " of PID %d cannot be made", address, of->pid);
    }
    if (errno == EAGAIN && running && !is_known && ends_stall(of, address)) {
        return;
    }
    /* It is there; or a mapping changes, which this thread must read first, and the other one faults again. */
    wake_page(of, address);
}

/* Makes a page of zeros. Either no image has it; or it was copied, and is gone since then. */
static void make_page(struct filling *of, uint64_t address, bool is_known)
{
    struct uffd_zero zero = {.range = {address, PAGE}};
    uint64_t since = now_ns();
    while (ioctl(of->descriptor, UFFD_ZERO, &zero) != 0) {
        if (errno != ENOMEM) {
            wake_absent(of, address, is_known);
            return;
        }
        await_memory(of, address, since);
    }
}

/* Copies a page, and those behind it. */
static void answer_fault(struct filling *of, uint64_t address)
{
    address -= address % PAGE;
    size_t place = find_segment(of, address);
    bool is_known = place < of->count && of->segments[place].address <= address;
    if (!is_known || of->segments[place].blank) {
        make_page(of, address, is_known && !of->segments[place].open);
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
            /* It is there; or it was copied, and is gone since then: MADV_WIPEONFORK, guard regions, MADV_FREE. */
            make_page(of, address, true);
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

/* What the thread that reads keeps. */
static struct {
    struct reports faults;
    uint64_t forks;
    /* Since when no descriptor is free; 0 if one is. */
    uint64_t full_since;
} reading;

static void add_report(struct reports *to, const struct uffd_event *event)
{
    if (to->count == to->room) {
        to->room = to->room == 0 ? 16 : 2 * to->room;
        to->all = enlarge(to->all, to->room, sizeof *to->all);
    }
    to->all[to->count++] = *event;
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
    struct segment second = *first;
    second.address = address;
    second.pages -= pages;
    second.place += pages;
    second.from += pages * PAGE;
    first->pages = pages;
    insert_segment(of, second);
    return place + 1;
}

/* Whether a range has segments, or pages of the image. */
static bool has_segments(const struct filling *of, uint64_t start, uint64_t length)
{
    size_t place = find_segment(of, start);
    return place < of->count && of->segments[place].address < start + length;
}

/* Whether a range has segments that are certain. */
static bool has_known(const struct filling *of, uint64_t start, uint64_t length)
{
    for (size_t i = find_segment(of, start); i < of->count && of->segments[i].address < start + length; i++) {
        if (!of->segments[i].open) {
            return true;
        }
    }
    return false;
}

static bool has_pages(const struct filling *of, uint64_t start, uint64_t length)
{
    for (size_t i = find_segment(of, start); i < of->count && of->segments[i].address < start + length; i++) {
        if (!of->segments[i].blank) {
            return true;
        }
    }
    return false;
}

/* The place to which a move takes a segment. */
static struct page_range destination(const struct segment *segment, const struct uffd_event *move)
{
    uint64_t end = move->remap.from + move->remap.length;
    uint64_t start = segment->address < move->remap.from ? move->remap.from : segment->address;
    uint64_t behind = segment->address + segment->pages * PAGE;
    uint64_t length = (behind < end ? behind : end) - start;
    return (struct page_range){start - move->remap.from + move->remap.to, length / PAGE};
}

/* Whether segments lie where a move takes others. */
static bool is_occupied(const struct filling *of, const struct uffd_event *move)
{
    uint64_t end = move->remap.from + move->remap.length;
    for (size_t i = find_segment(of, move->remap.from); i < of->count && of->segments[i].address < end; i++) {
        struct page_range to = destination(&of->segments[i], move);
        if (has_segments(of, to.address, to.pages * PAGE)) {
            return true;
        }
    }
    return false;
}

/* Whether a move takes segments that were there, and segments that came since a report was outstanding. */
static bool is_mixed(const struct filling *of, const struct uffd_event *move)
{
    uint64_t end = move->remap.from + move->remap.length;
    bool came = false;
    bool was_there = false;
    for (size_t i = find_segment(of, move->remap.from); i < of->count && of->segments[i].address < end; i++) {
        came = came || of->segments[i].moved;
        was_there = was_there || !of->segments[i].moved;
    }
    return came && was_there;
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
    of->at = 0;
    of->in = 0;
    for (size_t i = 0; i < count; i++) {
        moved[i].address = moved[i].address - from + to;
        moved[i].moved = true;
        moved[i].open = false;
        insert_segment(of, moved[i]);
    }
    free(moved);
}

/* The report of a move does not contain by how much the memory grew. */
static void leave_open(struct filling *of, uint64_t address)
{
    size_t next = find_segment(of, address);
    uint64_t end = next < of->count ? of->segments[next].address : ADDRESSES_END;
    if (address < end) {
        insert_segment(of, (struct segment){.address = address,
                                            .pages = (end - address) / PAGE,
                                            .from = address,
                                            .blank = true,
                                            .open = true,
                                            .moved = true});
    }
}

/* Counts the pages of a child's segment, which needs the store's pages, too. */
static void count_in(const struct filling *child, const struct segment *segment)
{
    for (uint64_t done = 0; !segment->blank && done < segment->pages;) {
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

/* What the map of a child takes here. */
static uint64_t child_bytes(const struct filling *of)
{
    return sizeof *of + 2 * (of->total / 8 + 1) + of->count * sizeof *of->segments;
}

/* A job decides how often it forks. */
static void require_room(const struct filling *of)
{
    uint64_t most = CHILD_BYTES + all.image_pages * PAGE / CHILD_SHARE;
    if (__atomic_load_n(&all.child_bytes, __ATOMIC_RELAXED) + child_bytes(of) > most) {
        end_ended(of);
    }
    if (__atomic_load_n(&all.child_bytes, __ATOMIC_RELAXED) + child_bytes(of) > most) {
        fail("the copies have forked so many processes, while they were filled, that their maps need more than %" PRIu64
             " MiB", most / (1024 * 1024));
    }
}

/* No descriptor is free for a child of fork(2): those of ended processes are closed. */
static void await_descriptor(const struct filling *of)
{
    end_ended(of);
    uint64_t now = now_ns();
    reading.full_since = reading.full_since == 0 ? now : reading.full_since;
    if (now - reading.full_since > REPORT_LIMIT_S * UINT64_C(1000000000)) {
        fail("PID %d has forked more processes than descriptors may be open, while it was filled. Remedy: raise the"
             " service's LimitNOFILE", of->pid);
    }
    sleep_ns(REGISTRATION_PAUSE_NS);
}

/* The range from which a change takes pages. */
static struct page_range source(const struct uffd_event *event)
{
    return event->kind == UFFD_REMAP
               ? (struct page_range){event->remap.from, event->remap.length / PAGE}
               : (struct page_range){event->removed.start, (event->removed.end - event->removed.start) / PAGE};
}

static bool ranges_overlap(struct page_range one, struct page_range other)
{
    return one.address < other.address + other.pages * PAGE && other.address < one.address + one.pages * PAGE;
}

/*
 * Whether a change is made to memory that an earlier report moves to its place. It is not, if there is memory that makes
 * room by this change. Memory that grew is not certain.
 */
static bool is_made_behind(const struct filling *of, const struct uffd_event *event, const struct uffd_event *move)
{
    struct page_range from = source(event);
    if (event->kind == UFFD_REMOVE || !has_segments(of, from.address, from.pages * PAGE)) {
        return true;
    }
    return event->kind == UFFD_REMAP && from.address == move->remap.to
           && !has_known(of, from.address, from.pages * PAGE);
}

/*
 * Whether a change must wait for another one that waits. What is taken from a place waits for an earlier report that
 * moves memory from there. What is taken from a place to which an earlier report moves memory waits for that, if it is
 * not what makes room there. What is moved to one of these places waits, too.
 */
static bool waits_for(const struct filling *of, const struct uffd_event *event, const struct uffd_event *move)
{
    struct page_range from = source(event);
    struct page_range to = {move->remap.to, move->remap.length / PAGE};
    struct page_range own = {event->remap.to, event->remap.length / PAGE};
    bool comes = event->kind == UFFD_REMAP && (ranges_overlap(own, source(move)) || ranges_overlap(own, to));
    return move->kind == UFFD_REMAP
           && (comes || ranges_overlap(from, source(move))
               || (ranges_overlap(from, to) && is_made_behind(of, event, move)));
}

/* Whether a change must wait. A place to which memory is moved becomes free by another report. */
static bool must_wait(const struct filling *of, const struct uffd_event *event, size_t before)
{
    for (size_t i = 0; i < before; i++) {
        if (waits_for(of, event, &of->waiting.all[i])) {
            return true;
        }
    }
    return event->kind == UFFD_REMAP && (is_occupied(of, event) || is_mixed(of, event));
}

/* Whether all of a range was moved there since a report was outstanding. */
static bool has_only_moved(const struct filling *of, size_t first, size_t behind, uint64_t start, uint64_t end)
{
    for (size_t i = first; i < behind && of->segments[i].address == start && of->segments[i].moved; i++) {
        start += of->segments[i].pages * PAGE;
    }
    return start == end;
}

/*
 * Drops unmapped segments. Memory may have been moved into a gap of the range after that: so of segments that were moved
 * there only the kernel knows which change came last.
 */
static void drop_unmapped(struct filling *of, const struct uffd_event *event)
{
    size_t first = split_at(of, event->removed.start);
    size_t behind = split_at(of, event->removed.end);
    bool has_gaps = !has_only_moved(of, first, behind, event->removed.start, event->removed.end);
    bool late = false;
    while (behind > first) {
        behind--;
        late = late || of->segments[behind].open;
        if (has_gaps && of->segments[behind].moved && !of->segments[behind].open) {
            late = true;
        } else {
            drop(of, behind, behind + 1);
        }
    }
    if (late) {
        add_report(&of->late, event);
    }
}

/* Memory that was given back stays registered, and is all zeros. */
static void make_blank(struct filling *of, const struct uffd_event *event)
{
    size_t first = split_at(of, event->removed.start);
    size_t behind = split_at(of, event->removed.end);
    count_out(of, first, behind);
    for (size_t i = first; i < behind; i++) {
        of->segments[i].blank = true;
    }
}

static void apply_change(struct filling *of, const struct uffd_event *event)
{
    if (event->kind == UFFD_REMAP) {
        move_range(of, event->remap.from, event->remap.to, event->remap.length);
        leave_open(of, event->remap.to + event->remap.length);
        of->has_moved = true;
    } else if (event->kind == UFFD_UNMAP) {
        drop_unmapped(of, event);
    } else {
        make_blank(of, event);
    }
}

static void remove_report(struct reports *from, size_t place)
{
    from->count--;
    memmove(&from->all[place], &from->all[place + 1], (from->count - place) * sizeof *from->all);
}

/* Applies the changes that need not wait. */
static void apply_waiting(struct filling *of)
{
    for (size_t i = 0; i < of->waiting.count;) {
        struct uffd_event next = of->waiting.all[i];
        if (must_wait(of, &next, i)) {
            i++;
            continue;
        }
        remove_report(&of->waiting, i);
        apply_change(of, &next);
        i = 0;
    }
}

/*
 * All of what was moved was registered, also where memory grew without a report. What an earlier report
 * that waits will move there is not known yet.
 */
static void note_source(struct filling *of, const struct uffd_event *move)
{
    for (size_t i = 0; i < of->waiting.count; i++) {
        const struct uffd_event *earlier = &of->waiting.all[i];
        struct page_range to = {earlier->remap.to, earlier->remap.length / PAGE};
        if (earlier->kind == UFFD_REMAP && ranges_overlap(source(move), to)) {
            return;
        }
    }
    uint64_t end = move->remap.from + move->remap.length;
    size_t place = split_at(of, move->remap.from);
    (void)split_at(of, end);
    for (uint64_t at = move->remap.from; at < end; place++) {
        uint64_t next = place < of->count && of->segments[place].address < end ? of->segments[place].address : end;
        if (at < next) {
            insert_segment(of, (struct segment){.address = at, .pages = (next - at) / PAGE, .from = at, .blank = true});
        } else {
            of->segments[place].open = false;
        }
        at = of->segments[place].address + of->segments[place].pages * PAGE;
    }
}

/* A move to a given place unmaps what is there (MREMAP_FIXED), and reports that before it reports itself. */
static void end_late(struct filling *of, const struct uffd_event *move)
{
    for (size_t i = 0; i < of->late.count; i++) {
        const struct uffd_event *late = &of->late.all[i];
        if (late->removed.start == move->remap.to) {
            size_t first = split_at(of, late->removed.start);
            drop(of, first, split_at(of, late->removed.end));
            remove_report(&of->late, i);
            return;
        }
    }
}

/*
 * Whether a report is the second one of a move, about the place from which memory was moved. The place may have other
 * memory by then.
 */
static bool is_end_of_move(struct filling *of, const struct uffd_event *event)
{
    for (size_t i = 0; event->kind == UFFD_UNMAP && i < of->left.count; i++) {
        const struct uffd_event *move = &of->left.all[i];
        if (event->removed.start == move->remap.from
            && event->removed.end == move->remap.from + move->remap.length) {
            remove_report(&of->left, i);
            return true;
        }
    }
    return false;
}

static void take_change(struct filling *of, const struct uffd_event *event)
{
    if (is_end_of_move(of, event)) {
        return;
    }
    if (event->kind == UFFD_REMAP) {
        end_late(of, event);
        note_source(of, event);
        add_report(&of->left, event);
    }
    add_report(&of->waiting, event);
    apply_waiting(of);
}

/* Drops the segments of a range whose memory is gone. False if that cannot be known now. */
static bool drop_gone(struct filling *of, const struct uffd_event *event)
{
    size_t place = split_at(of, event->removed.start);
    (void)split_at(of, event->removed.end);
    while (place < of->count && of->segments[place].address < event->removed.end) {
        enum memory found;
        const struct segment *segment = &of->segments[place];
        uint64_t pages = look_at_part(of->descriptor, segment->address, segment->pages, &found);
        if (found == UNKNOWN) {
            return false;
        }
        size_t behind = split_at(of, segment->address + pages * PAGE);
        if (found == ABSENT) {
            drop(of, place, behind);
        } else {
            place = behind;
        }
    }
    return true;
}

/* Moves the segments of a range whose memory is gone; what is there came after the move. */
static bool move_gone(struct filling *of, const struct uffd_event *move)
{
    uint64_t end = move->remap.from + move->remap.length;
    size_t place = split_at(of, move->remap.from);
    (void)split_at(of, end);
    while (place < of->count && of->segments[place].address < end) {
        enum memory found;
        uint64_t address = of->segments[place].address;
        uint64_t pages = look_at_part(of->descriptor, address, of->segments[place].pages, &found);
        if (found == UNKNOWN) {
            return false;
        }
        size_t behind = split_at(of, address + pages * PAGE);
        uint64_t to = address - move->remap.from + move->remap.to;
        if (found == REGISTERED) {
            place = behind;
        } else if (has_segments(of, to, pages * PAGE)) {
            drop(of, place, behind);
        } else {
            move_range(of, address, to, pages * PAGE);
            leave_open(of, to + pages * PAGE);
            place = find_segment(of, address + pages * PAGE);
        }
    }
    return true;
}

/*
 * Makes room for a move whose place became free. What lies there was unmapped by a late report; or without a report
 * (shmat(2) over it); or a child has it not.
 */
static void free_place(struct filling *of, const struct uffd_event *move, bool without_report)
{
    uint64_t end = move->remap.to + move->remap.length;
    size_t place = split_at(of, move->remap.to);
    (void)split_at(of, end);
    while (place < of->count && of->segments[place].address < end) {
        struct segment segment = of->segments[place];
        struct page_range there = {segment.address, segment.pages};
        bool unmapped = without_report && (segment.blank || !segment.moved);
        for (size_t i = 0; i < of->late.count; i++) {
            unmapped = unmapped || ranges_overlap(there, source(&of->late.all[i]));
        }
        if (unmapped) {
            drop(of, place, place + 1);
        } else {
            place++;
        }
    }
}

/* Memory that grew ends where other memory was moved to: all reports that could have made room there were read. */
static void end_open(struct filling *of)
{
    for (size_t i = 0; i < of->waiting.count; i++) {
        struct uffd_event move = of->waiting.all[i];
        uint64_t end = move.remap.to + move.remap.length;
        size_t place = move.kind == UFFD_REMAP ? split_at(of, move.remap.to) : of->count;
        while (place < of->count && of->segments[place].address < end) {
            (void)split_at(of, end);
            if (of->segments[place].open) {
                drop(of, place, place + 1);
            } else {
                place++;
            }
        }
    }
}

/* Applies one change that waits for the kernel's answer. False if there is none now. */
static bool apply_forced(struct filling *of)
{
    for (size_t i = 0; i < of->waiting.count; i++) {
        struct uffd_event next = of->waiting.all[i];
        if (next.kind == UFFD_REMAP && is_occupied(of, &next)) {
            free_place(of, &next, false);
            if (!must_wait(of, &next, i)) {
                return true;
            }
        }
    }
    struct uffd_event first = of->waiting.all[0];
    if (is_mixed(of, &first)) {
        if (!move_gone(of, &first)) {
            return false;
        }
    } else {
        free_place(of, &first, true);
        if (is_occupied(of, &first)) {
            fail("PID %d has moved memory to a place that was not free", of->pid);
        }
        apply_change(of, &first);
    }
    remove_report(&of->waiting, 0);
    return true;
}

/* Finds out by how much memory grew when it was moved. False if that cannot be known now. */
static bool close_open(struct filling *of)
{
    for (size_t i = 0; i < of->count;) {
        struct segment *segment = &of->segments[i];
        int64_t pages = segment->open ? look_from(of->descriptor, segment->address, segment->pages) : 1;
        if (pages < 0) {
            return false;
        }
        if (pages == 0) {
            drop(of, i, i + 1);
            continue;
        }
        segment->pages = segment->open ? (uint64_t)pages : segment->pages;
        segment->open = false;
        i++;
    }
    return true;
}

/* No report is outstanding: what the kernel shows now holds. False if a change was begun in the meantime. */
static bool settle(struct filling *of)
{
    for (;;) {
        end_open(of);
        apply_waiting(of);
        if (of->has_moved && !close_open(of)) {
            return false;
        }
        apply_waiting(of);
        if (of->waiting.count == 0) {
            break;
        }
        if (!apply_forced(of)) {
            return false;
        }
    }
    if (of->has_moved && !close_open(of)) {
        return false;
    }
    while (of->late.count > 0) {
        if (!drop_gone(of, &of->late.all[0])) {
            return false;
        }
        remove_report(&of->late, 0);
    }
    for (size_t i = 0; of->has_moved && i < of->count; i++) {
        of->segments[i].moved = false;
    }
    of->has_moved = false;
    of->left.count = 0;
    of->stalled_since = 0;
    return true;
}

/* Drops what is not there of adjacent segments. They are few mappings mostly, and are asked for as such. */
static void drop_absent(struct filling *of, size_t first, size_t behind)
{
    const struct segment *last = &of->segments[behind - 1];
    uint64_t pages = (last->address - of->segments[first].address) / PAGE + last->pages;
    if (look_at(of->descriptor, of->segments[first].address, pages) != ABSENT) {
        return;
    }
    if (behind - first > 1) {
        size_t middle = first + (behind - first) / 2;
        drop_absent(of, middle, behind);
        drop_absent(of, first, middle);
        return;
    }
    uint64_t end = last->address + last->pages * PAGE;
    for (size_t place = first; place < of->count && of->segments[place].address < end;) {
        enum memory found;
        uint64_t address = of->segments[place].address;
        uint64_t part = look_at_part(of->descriptor, address, of->segments[place].pages, &found);
        size_t next = split_at(of, address + part * PAGE);
        if (found == ABSENT) {
            drop(of, place, next);
        } else {
            place = next;
        }
    }
}

static struct reports copy_of(const struct reports *from)
{
    struct reports made = {0};
    for (size_t i = 0; i < from->count; i++) {
        add_report(&made, &from->all[i]);
    }
    return made;
}

/*
 * A child has the memory that its parent had at fork(2): what is there is shared, and what is missing is missing in both.
 * Changes whose reports were read and wait were made before. If another thread of the parent has a report outstanding, its
 * change may have been made before, too: then the child has no memory at the old place, and no program knows what a child
 * has of memory that is changed while it is made. A child that changes its own memory already cannot be asked.
 */
static void take_child(struct filling *of, int descriptor)
{
    reading.full_since = 0;
    require_room(of);
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
    child->own_bytes = child_bytes(of);
    __atomic_add_fetch(&all.child_bytes, child->own_bytes, __ATOMIC_RELAXED);
    child->claimed = allocate(of->total / 8 + 1, 1);
    child->copied = allocate(of->total / 8 + 1, 1);
    memcpy(child->copied, of->copied, of->total / 8 + 1);
    memcpy(child->claimed, of->copied, of->total / 8 + 1);
    child->count = child->room = of->count;
    child->segments = allocate(of->count, sizeof *child->segments);
    memcpy(child->segments, of->segments, of->count * sizeof *child->segments);
    child->has_moved = of->has_moved;
    child->waiting = copy_of(&of->waiting);
    child->late = copy_of(&of->late);
    for (size_t i = 0; i < child->count; i++) {
        count_in(child, &child->segments[i]);
    }
    if (settle(child) && is_outstanding(of->descriptor)) {
        for (size_t behind = child->count; behind > 0;) {
            size_t first = behind - 1;
            while (first > 0
                   && child->segments[first - 1].address + child->segments[first - 1].pages * PAGE
                          == child->segments[first].address) {
                first--;
            }
            drop_absent(child, first, behind);
            behind = first;
        }
    }
    add_filling(child);
    if (++reading.forks % FORKS_BEFORE_PRUNED == 0) {
        end_ended(of);
    }
}

/* A held copy changes none of its mappings; its restore changes none that has lazy pages. */
static void require_no_change(struct filling *of, const struct uffd_event *event)
{
    if (event->kind == UFFD_FORK || event->kind == UFFD_REMAP) {
        fail("PID %d of the copy has moved or doubled its memory while its pages were on their way (event %x)", of->pid,
             event->kind);
    }
    if (has_pages(of, event->removed.start, event->removed.end - event->removed.start)) {
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

/* The report that is waited for may be that of a thread whose fault was read. */
static void end_stalls(struct filling *of)
{
    for (size_t i = 0; i < reading.faults.count;) {
        uint64_t address = reading.faults.all[i].fault.address;
        address -= address % PAGE;
        size_t place = find_segment(of, address);
        bool is_known = place < of->count && of->segments[place].address <= address && !of->segments[place].open;
        if (!is_known && ends_stall(of, address)) {
            remove_report(&reading.faults, i);
        } else {
            i++;
        }
    }
}

/* Reads one report after the other: each one that is read lets its thread continue. */
static bool read_reports(struct filling *of)
{
    uint64_t unsettled_since = 0;
    bool changed = false;
    for (int taken = 0;;) {
        struct uffd_event event;
        /* The list only helps to interpret other reports. Where there is never a quiet moment it must not grow. */
        of->left.count = of->left.count > MOST_UNSETTLED ? 0 : of->left.count;
        ssize_t got = read(of->descriptor, &event, sizeof event);
        bool is_full = got < 0 && (errno == EMFILE || errno == ENFILE);
        if (got == (ssize_t)sizeof event) {
            changed = changed || event.kind != UFFD_FAULT;
            take_report(of, &event);
            taken++;
        } else if (got < 0 && errno != EAGAIN && errno != EINTR && !is_full) {
            die("the faults of PID %d cannot be read", of->pid);
        } else if (is_full) {
            await_descriptor(of);
        } else if (!is_outstanding(of->descriptor) && settle(of)) {
            return changed;
        }
        if (pages_left() == 0) {
            /* With this program's end the threads continue. */
            return changed;
        }
        if (!is_unsettled(of)) {
            /* The other reports, and those of other processes, are read when the faults are answered. */
            if (got < 0 || taken >= MOST_READ) {
                return changed;
            }
            unsettled_since = 0;
            continue;
        }
        uint64_t now = now_ns();
        unsettled_since = unsettled_since == 0 ? now : unsettled_since;
        if (now - unsettled_since > REPORT_LIMIT_S * UINT64_C(1000000000)
            || of->waiting.count + of->late.count > MOST_UNSETTLED) {
            fail("threads of PID %d change its memory without a pause, for %d s or by %d reports", of->pid,
                 (int)REPORT_LIMIT_S, (int)MOST_UNSETTLED);
        }
        if (got < 0) {
            end_stalls(of);
            struct pollfd more = {of->descriptor, POLLIN, 0};
            poll(&more, 1, REPORT_PAUSE_MS);
        }
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
