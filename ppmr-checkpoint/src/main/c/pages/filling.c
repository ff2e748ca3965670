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
    MEMORY_LIMIT_S = 30,
    IDLE_NS = 100000000,
    REPORTS_AT_ONCE = 64,
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

/* Copies pages of one block, which this thread has claimed; *part becomes the rest of them. The caller holds the lock. */
static enum outcome copy_part(struct filling *of, struct part *part)
{
    uint64_t step = part->pages;
    uint64_t since = now_ns();
    while (part->pages > 0) {
        bool registered = __atomic_load_n(&all.registered, __ATOMIC_ACQUIRE);
        bool running = __atomic_load_n(&all.running, __ATOMIC_ACQUIRE);
        uint64_t now = step < part->pages ? step : part->pages;
        uint64_t from = part->of.from + (part->address - part->of.address);
        struct uffd_copy copy = {.to = part->address,
                                 .from = (uint64_t)(uintptr_t)slot_memory(block_of(of, from), from),
                                 .length = now * PAGE};
        int failed = ioctl(of->descriptor, UFFD_COPY, &copy);
        uint64_t done = 0;
        if (failed == 0) {
            done = now;
        } else if (errno == EAGAIN && copy.copied > 0) {
            done = (uint64_t)copy.copied / PAGE;
        } else if (errno == EAGAIN || (errno == ENOENT && !registered)) {
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
            of->in++;
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
        release_held(of->descriptor);
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
            enum outcome outcome = fill_some(of);
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
                while (mine && copy_part(of, &part) != COPIED) {
                    await_registration(now_ns());
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

/* Whether a page lies in memory that is registered: yes, no, or -1 as long as a report is outstanding. */
static int is_registered(int descriptor, uint64_t address)
{
    struct uffd_copy copy = {.to = address, .from = (uint64_t)(uintptr_t)all.unreadable, .length = PAGE};
    if (ioctl(descriptor, UFFD_COPY, &copy) == 0) {
        fail("a page that cannot be read was copied");
    }
    return errno == EAGAIN ? -1 : errno != ENOENT && errno != ESRCH;
}

struct reports {
    struct uffd_event *all;
    size_t count;
    size_t room;
    /* Whether there are others than faults. */
    bool changes;
};

/* Reads what is there. A child's descriptor goes to the holder at once, so that two processes have it. */
static void read_reports(struct filling *of, struct reports *reports)
{
    if (reports->room - reports->count < REPORTS_AT_ONCE) {
        reports->room += 2 * REPORTS_AT_ONCE;
        reports->all = enlarge(reports->all, reports->room, sizeof *reports->all);
    }
    ssize_t got = read(of->descriptor, &reports->all[reports->count], REPORTS_AT_ONCE * sizeof *reports->all);
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
        die("the faults of PID %d cannot be read", of->pid);
    }
    for (ssize_t i = 0; i < got / (ssize_t)sizeof *reports->all; i++) {
        const struct uffd_event *event = &reports->all[reports->count++];
        reports->changes = reports->changes || event->kind != UFFD_FAULT;
        if (event->kind == UFFD_FORK) {
            share_with_holder((int)event->fork.descriptor);
        }
    }
}

/* Reads reports until none is outstanding. */
static void gather(struct filling *of, struct reports *reports)
{
    uint64_t since = now_ns();
    read_reports(of, reports);
    while (reports->changes && is_registered(of->descriptor, 0) < 0) {
        struct pollfd more = {of->descriptor, POLLIN, 0};
        if (poll(&more, 1, REPORT_PAUSE_MS) > 0) {
            read_reports(of, reports);
        }
        if (now_ns() - since > REPORT_LIMIT_S * UINT64_C(1000000000)) {
            fail("PID %d has begun a change of its memory and not reported it for %d s", of->pid, (int)REPORT_LIMIT_S);
        }
    }
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

static void move_range(struct filling *of, uint64_t from, uint64_t to, uint64_t length)
{
    size_t first = split_at(of, from);
    size_t behind = split_at(of, from + length);
    size_t count = behind - first;
    struct segment *moved = allocate(count + 1, sizeof *moved);
    memcpy(moved, &of->segments[first], count * sizeof *moved);
    memmove(&of->segments[first], &of->segments[behind], (of->count - behind) * sizeof *of->segments);
    of->count -= count;
    /* What lay at the new place was unmapped before. */
    first = split_at(of, to);
    drop(of, first, split_at(of, to + length));
    for (size_t i = 0; i < count; i++) {
        moved[i].address = moved[i].address - from + to;
        insert_segment(of, moved[i]);
    }
    free(moved);
}

/* Drops the pages of a range, or only those that the kernel shows as unmapped. */
static void drop_range(struct filling *of, uint64_t start, uint64_t end, bool unmapped)
{
    size_t first = split_at(of, start);
    size_t behind = split_at(of, end);
    while (behind > first) {
        behind--;
        if (!unmapped || is_registered(of->descriptor, of->segments[behind].address) == 0) {
            drop(of, behind, behind + 1);
        }
    }
}

static bool lies_in(uint64_t address, uint64_t start, uint64_t length)
{
    return address >= start && address - start < length;
}

/* The move of an address in a batch, or NULL. */
static const struct uffd_event *move_of(const struct reports *reports, uint64_t address)
{
    for (size_t i = 0; i < reports->count; i++) {
        const struct uffd_event *event = &reports->all[i];
        if (event->kind == UFFD_REMAP && lies_in(address, event->remap.from, event->remap.length)) {
            return event;
        }
    }
    return NULL;
}

static bool is_destination(const struct reports *reports, uint64_t address)
{
    for (size_t i = 0; i < reports->count; i++) {
        const struct uffd_event *event = &reports->all[i];
        if (event->kind == UFFD_REMAP && lies_in(address, event->remap.to, event->remap.length)) {
            return true;
        }
    }
    return false;
}

static bool is_unmapped(const struct reports *reports, uint64_t address)
{
    for (size_t i = 0; i < reports->count; i++) {
        const struct uffd_event *event = &reports->all[i];
        if (event->kind == UFFD_UNMAP && lies_in(address, event->removed.start, event->removed.end - event->removed.start)) {
            return true;
        }
    }
    return false;
}

/* Whether a child of a fork(2) has memory at an address that was changed at the same time. */
static bool has_child(const struct filling *of, int descriptor, uint64_t address)
{
    int registered = is_registered(descriptor, address);
    if (registered < 0) {
        fail("PID %d has changed its memory and forked at the same time, and the child changes its own memory", of->pid);
    }
    return registered > 0;
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
 * A child has the memory that its parent had at fork(2): what is there is shared, and what is missing is missing in both.
 * `of` is still as it was before all changes of the batch. The kernel shows which of these were made before the fork: the
 * child has moved memory at its new place, and has no memory where it was unmapped.
 */
static void take_child(struct filling *of, const struct reports *reports, int descriptor)
{
    struct filling *child = allocate(1, sizeof *child);
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
        die("the userfaultfd of a child of PID %d cannot be used", of->pid);
    }
    child->pid = of->pid;
    child->descriptor = descriptor;
    child->stored = of->stored;
    child->total = of->total;
    child->claimed = allocate(of->total / 8 + 1, 1);
    child->copied = allocate(of->total / 8 + 1, 1);
    memcpy(child->copied, of->copied, of->total / 8 + 1);
    memcpy(child->claimed, of->copied, of->total / 8 + 1);
    for (size_t i = 0; i < of->count; i++) {
        struct segment segment = of->segments[i];
        const struct uffd_event *moved = move_of(reports, segment.address);
        if (is_destination(reports, segment.address)) {
            fail("PID %d has moved memory to where other memory was, and forked at the same time", of->pid);
        }
        if (moved != NULL && has_child(of, descriptor, segment.address - moved->remap.from + moved->remap.to)) {
            segment.address = segment.address - moved->remap.from + moved->remap.to;
        } else if ((moved != NULL || is_unmapped(reports, segment.address))
                   && !has_child(of, descriptor, segment.address)) {
            continue;
        }
        inherit(child, &segment);
    }
    add_filling(child);
}

/* Makes borders of segments where a batch has its ranges, so that each segment has one answer. */
static void split_at_all(struct filling *of, const struct reports *reports)
{
    for (size_t i = 0; i < reports->count; i++) {
        const struct uffd_event *event = &reports->all[i];
        if (event->kind == UFFD_REMAP) {
            split_at(of, event->remap.from);
            split_at(of, event->remap.from + event->remap.length);
            split_at(of, event->remap.to);
            split_at(of, event->remap.to + event->remap.length);
        } else if (event->kind == UFFD_REMOVE || event->kind == UFFD_UNMAP) {
            split_at(of, event->removed.start);
            split_at(of, event->removed.end);
        }
    }
}

static void apply(struct filling *of, const struct reports *reports)
{
    split_at_all(of, reports);
    for (size_t i = 0; i < reports->count; i++) {
        if (reports->all[i].kind == UFFD_FORK) {
            take_child(of, reports, (int)reports->all[i].fork.descriptor);
        }
    }
    for (size_t i = 0; i < reports->count; i++) {
        const struct uffd_event *event = &reports->all[i];
        switch (event->kind) {
        case UFFD_REMAP:
            move_range(of, event->remap.from, event->remap.to, event->remap.length);
            break;
        case UFFD_REMOVE:
            drop_range(of, event->removed.start, event->removed.end, false);
            break;
        case UFFD_UNMAP:
            drop_range(of, event->removed.start, event->removed.end, true);
            break;
        default:
            break;
        }
    }
}

/* A held copy changes none of its mappings; its restore changes none that has lazy pages. */
static void require_no_change(struct filling *of, const struct reports *reports)
{
    for (size_t i = 0; i < reports->count; i++) {
        const struct uffd_event *event = &reports->all[i];
        bool removes = event->kind == UFFD_REMOVE || event->kind == UFFD_UNMAP;
        if (event->kind == UFFD_FORK || event->kind == UFFD_REMAP) {
            fail("PID %d of the copy has moved or doubled its memory while its pages were on their way (event %x)",
                 of->pid, event->kind);
        }
        size_t place = removes ? find_segment(of, event->removed.start) : of->count;
        if (place < of->count && of->segments[place].address < event->removed.end) {
            fail("PID %d of the copy has given back memory at %" PRIx64 " while its pages were on their way", of->pid,
                 event->removed.start);
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
    /* Only one thread reads. */
    static struct reports reports;
    reports.count = 0;
    reports.changes = false;
    pthread_rwlock_wrlock(&of->lock);
    if (descriptor_of(of) >= 0) {
        gather(of, &reports);
    }
    if (reports.changes && __atomic_load_n(&all.running, __ATOMIC_ACQUIRE)) {
        apply(of, &reports);
    } else if (reports.changes) {
        require_no_change(of, &reports);
    }
    pthread_rwlock_unlock(&of->lock);
    if (reports.changes) {
        signal_change();
    }
    pthread_rwlock_rdlock(&of->lock);
    for (size_t i = 0; i < reports.count && descriptor_of(of) >= 0; i++) {
        if (reports.all[i].kind == UFFD_FAULT) {
            answer_fault(of, reports.all[i].fault.address);
        }
    }
    pthread_rwlock_unlock(&of->lock);
}
