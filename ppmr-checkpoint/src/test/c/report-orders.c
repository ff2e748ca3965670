/*
 * report-orders: a copy that runs while it is filled, in a model of the kernel, with every order of its reports.
 *
 *   report-orders COUNT [SEED [trace]]
 *
 * It holds filling.c itself. Processes, their memory and their userfaultfds are a model here, as userfaultfd(2) has it:
 * threads unmap, move, grow, shrink and give back memory, map other memory where the kernel finds room, fork, and touch
 * pages. A change is made at once. Its reports are queued some time later, so those of two threads can be read in another
 * order than their changes were made. As long as a report of a process was not read and taken by its thread, no page can be
 * copied into that process. Steps of the threads come between any two calls of the filling program.
 *
 * Two things are left out, since no program can tell them from others: a report that is queued so late that another thread
 * has made two more changes; and a child that changes its memory before the filling program has looked at it.
 *
 * Each thread owns areas, and finds in them what it must: the page of the image, or zeros. A child has what its parent had,
 * except for what other threads changed while fork(2) was under way: nothing is promised about that.
 *
 * Exit status: 0, or 1 with the seed of the model on standard error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int model_ioctl(int descriptor, unsigned long request, void *argument);
static ssize_t model_read(int descriptor, void *to, size_t length);
static int model_poll(struct pollfd *all, nfds_t count, int limit_ms);
static int model_fcntl(int descriptor, int command, int value);
static int model_yield(void);
static int model_close(int descriptor);

#define ioctl(descriptor, request, argument) model_ioctl(descriptor, request, argument)
#define read(descriptor, to, length) model_read(descriptor, to, length)
#define poll(all, count, limit) model_poll(all, count, limit)
#define fcntl(...) model_fcntl_of(__VA_ARGS__, 0)
#define model_fcntl_of(descriptor, command, value, ...) model_fcntl(descriptor, command, value)
#define STALL_LIMIT_NS 300
#define sched_yield() model_yield()
#define close(descriptor) model_close(descriptor)
#include "../../main/c/pages/filling.c"
#undef ioctl
#undef read
#undef poll

enum {
    SPACE = 80,
    THREADS = 3,
    MOST_MODELS = 6,
    MOST_REPORTS_OF = 4,
    STEPS = 1500,
    MOST_TURNS = 2000000,
    /* A page that can be made is there when a thread has faulted this often. */
    MOST_FAULTS = 1000,
    NO_MEMORY_IN = 16,
    FIRST_DESCRIPTOR = 100
};
/* Two blocks of the store meet in it. */
#define BASE ((UINT64_C(1) << 32) - UINT64_C(40) * PAGE)

static uint64_t seed;
static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = state;
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x % below;
}

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "seed %" PRIu64 ": ", seed);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* With a third argument each change, report and copy is printed. */
static bool traced;

__attribute__((format(printf, 1, 2))) static void trace(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (traced) {
        vprintf(format, arguments);
        fflush(stdout);
    }
    va_end(arguments);
}

/* Maps of ended models stay. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:quarantine_size_mb=4";
}

/* ---- what filling.c is given ------------------------------------------------------------------------------------ */

const char *mode = "model";
void (*before_leaving)(void);

void fail(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    wrong("the filling program ends: %s", text);
}

void die(const char *format, ...)
{
    char text[256];
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    wrong("the filling program ends: %s: %s", text, strerror(error));
}

void *allocate(size_t count, size_t bytes)
{
    return calloc(count == 0 ? 1 : count, bytes);
}

void *enlarge(void *memory, size_t count, size_t bytes)
{
    return realloc(memory, count * bytes);
}

/* Time is steps, so that nothing waits. */
static uint64_t now;

uint64_t now_ns(void)
{
    return ++now;
}

static void step_any(void);

void sleep_ns(long ns)
{
    (void)ns;
    step_any();
}

static struct stored stored;
static uint64_t store_memory[2][SET_BLOCK_PAGES][PAGE / 8];
static bool given_back[2];

struct stored *stored_of(int pid)
{
    (void)pid;
    return &stored;
}

uint8_t *slot_memory(const struct page_block *block, uint64_t address)
{
    if (given_back[block->slot]) {
        wrong("page %" PRIx64 " of the store was given back before it was copied", address);
    }
    return (uint8_t *)store_memory[block->slot][address / PAGE % SET_BLOCK_PAGES];
}

void give_back(const struct page_block *block)
{
    given_back[block->slot] = true;
}

static bool is_dead(int descriptor);

bool is_over(int descriptor, const void *unreadable)
{
    (void)unreadable;
    return is_dead(descriptor);
}

/* ---- the model of the kernel ------------------------------------------------------------------------------------ */

struct model_page {
    bool mapped;
    bool armed;
    bool present;
    /* Whether a change of another thread makes what it holds uncertain. */
    bool uncertain;
    /* A child does not get it (MADV_WIPEONFORK). */
    bool wiped;
    int mapping;
    /* The thread that uses it. */
    int owner;
    /* What a thread must find, and what is there. */
    uint64_t wanted;
    uint64_t found;
};

enum stage { IDLE, CHANGED, QUEUED, TAKEN, FAULTED };

struct model_thread {
    bool exists;
    enum stage stage;
    struct uffd_event reports[MOST_REPORTS_OF];
    int count;
    int at;
    /* MADV_DONTNEED: pages to be given back when the report was taken. */
    int given_first;
    int given_count;
    /* fork(2): the child, or -1. */
    int child;
    int touched;
    bool touch_reported;
    /* How often it was woken for a page that could be made and was not there. */
    int woken;
    /* Pages that the kernel fills before it queues the reports. */
    int populated;
    int populated_end;
    /* When its last change was made. */
    uint64_t since;
};

struct model {
    bool exists;
    bool dead;
    bool runs;
    /* Whether the filling program has its descriptor, and has looked at its memory. */
    bool known;
    bool asked;
    struct model_page pages[SPACE];
    struct model_thread threads[THREADS];
    int outstanding;
    int queue[THREADS];
    int queued;
};

static struct model models[MOST_MODELS];
static int model_count;
static int next_mapping;
static uint64_t next_time;
static bool changing;
/* How seldom threads change something. */
static uint64_t idle = 1;
static uint64_t touches;
static uint64_t changes;
static uint64_t forks;

static uint64_t address_of(int page)
{
    return BASE + (uint64_t)page * PAGE;
}

static int page_of(uint64_t address)
{
    return address < BASE || address >= address_of(SPACE) ? -1 : (int)((address - BASE) / PAGE);
}

static struct model *model_of(int descriptor)
{
    return &models[descriptor - FIRST_DESCRIPTOR];
}

static bool is_dead(int descriptor)
{
    return model_of(descriptor)->dead;
}

static void check_page(struct model *of, int page)
{
    struct model_page *at = &of->pages[page];
    touches++;
    if (at->found != at->wanted) {
        wrong("process %d, page %d has %" PRIu64 " in place of %" PRIu64, (int)(of - models), page, at->found,
              at->wanted);
    }
}

static void trace_report(const char *what, const struct model *of, const struct model_thread *thread,
                         const struct uffd_event *report)
{
    const char *names[] = {"fault", "fork", "move", "give back", "unmap"};
    bool moves = report->kind == UFFD_REMAP;
    uint64_t start = moves ? report->remap.from : report->removed.start;
    trace("process %d, thread %d: %s: %s %d", (int)(of - models), (int)(thread - of->threads), what,
          names[report->kind - UFFD_FAULT], page_of(start));
    if (moves) {
        trace(" + %d to %d\n", (int)(report->remap.length / PAGE), page_of(report->remap.to));
    } else if (report->kind == UFFD_FORK) {
        trace(": process %d\n", (int)report->fork.descriptor - FIRST_DESCRIPTOR);
    } else {
        trace(" + %d\n", (int)((report->removed.end - start) / PAGE));
    }
}

static void add_model_report(struct model *of, struct model_thread *thread, struct uffd_event report)
{
    thread->reports[thread->count++] = report;
    of->outstanding++;
    trace_report("made", of, thread, &report);
}

static void report_unmapped(struct model *of, struct model_thread *thread, int first, int count)
{
    bool armed = false;
    for (int i = first; i < first + count; i++) {
        armed = armed || (of->pages[i].mapped && of->pages[i].armed);
    }
    if (armed) {
        struct uffd_event report = {.kind = UFFD_UNMAP};
        report.removed.start = address_of(first);
        report.removed.end = address_of(first + count);
        add_model_report(of, thread, report);
    }
}

/* What is behind a change in one mapping becomes another mapping. */
static void cut(struct model *of, int page)
{
    if (page > 0 && page < SPACE && of->pages[page].mapped && of->pages[page - 1].mapped
        && of->pages[page].mapping == of->pages[page - 1].mapping) {
        int old = of->pages[page].mapping;
        int made = next_mapping++;
        for (int i = page; i < SPACE && of->pages[i].mapped && of->pages[i].mapping == old; i++) {
            of->pages[i].mapping = made;
        }
    }
}

static void unmap(struct model *of, int first, int count)
{
    cut(of, first);
    cut(of, first + count);
    memset(&of->pages[first], 0, (size_t)count * sizeof of->pages[0]);
}

/* Where the kernel finds room: the highest place. */
static int find_room(const struct model *of, int count)
{
    for (int first = SPACE - count; first >= 0; first--) {
        bool room = true;
        for (int i = first; i < first + count && room; i++) {
            room = !of->pages[i].mapped;
        }
        if (room) {
            return first;
        }
    }
    return -1;
}

/* Nothing is promised to children about what a thread changes while they are made. */
static void spoil(struct model *of, int first, int count, const struct model_thread *by)
{
    for (int i = 0; i < THREADS; i++) {
        struct model_thread *other = &of->threads[i];
        if (other != by && other->exists && other->stage != IDLE && other->stage != FAULTED && other->child >= 0) {
            for (int k = first; k < first + count; k++) {
                models[other->child].pages[k].uncertain = true;
            }
        }
    }
}

static struct uffd_event moved(int from, int to, int count)
{
    struct uffd_event report = {.kind = UFFD_REMAP};
    report.remap.from = address_of(from);
    report.remap.to = address_of(to);
    report.remap.length = (uint64_t)count * PAGE;
    return report;
}

static void move_pages(struct model *of, struct model_thread *thread, int first, int count, int number)
{
    /* number is the new size, where it moves; memory that becomes smaller moves with its first part. */
    int kept = number < count ? number : count;
    bool fixed = draw(4) == 0;
    int to = fixed ? (int)draw((uint64_t)(SPACE - number + 1)) : find_room(of, number);
    if (to < 0) {
        return;
    }
    if (fixed) {
        /* Only over memory of its own, and not over itself. */
        if (to < first + count && first < to + number) {
            return;
        }
        for (int i = to; i < to + number; i++) {
            if (!of->pages[i].mapped || of->pages[i].owner != of->pages[first].owner || of->pages[i].uncertain) {
                return;
            }
        }
        report_unmapped(of, thread, to, number);
        unmap(of, to, number);
    }
    /* What becomes smaller is unmapped first, and reported later. */
    int end = first + count;
    spoil(of, first, count, thread);
    spoil(of, to, number, thread);
    if (number < count) {
        cut(of, first + number);
        end = first + number;
    }
    struct model_page saved[SPACE];
    memcpy(saved, &of->pages[first], (size_t)kept * sizeof saved[0]);
    bool armed = saved[0].armed;
    if (armed) {
        add_model_report(of, thread, moved(first, to, kept));
        if (end < first + count) {
            report_unmapped(of, thread, end, first + count - end);
        }
        report_unmapped(of, thread, first, kept);
    }
    unmap(of, first, count);
    int made = next_mapping++;
    for (int i = 0; i < number; i++) {
        struct model_page *at = &of->pages[to + i];
        *at = i < kept ? saved[i]
                       : (struct model_page){.mapped = true, .armed = armed, .owner = saved[0].owner, .mapping = made};
        at->mapping = made;
    }
    /* Locked memory is filled with pages before the move is reported. Over other memory that would never end. */
    if (armed && !fixed && number > count && draw(3) == 0) {
        thread->populated = to + count;
        thread->populated_end = to + number;
    }
}

static void fork_model(struct model *of, struct model_thread *thread)
{
    if (model_count == MOST_MODELS) {
        return;
    }
    struct model *child = &models[model_count];
    *child = (struct model){.exists = true};
    memcpy(child->pages, of->pages, sizeof child->pages);
    thread->child = model_count++;
    forks++;
    for (int i = 0; i < SPACE; i++) {
        struct model_page *at = &child->pages[i];
        at->owner = 0;
        if (at->wiped) {
            at->present = false;
            at->wanted = 0;
        }
    }
    child->threads[0].exists = true;
    child->threads[0].child = -1;
    /* What other threads have changed and not got the end of. */
    for (int i = 0; i < THREADS; i++) {
        struct model_thread *other = &of->threads[i];
        if (other == thread || !other->exists || other->stage == IDLE || other->stage == FAULTED) {
            continue;
        }
        for (int k = 0; k < other->count; k++) {
            const struct uffd_event *report = &other->reports[k];
            if (report->kind == UFFD_REMAP) {
                int from = page_of(report->remap.from);
                int to = page_of(report->remap.to);
                for (int n = 0; n < SPACE; n++) {
                    bool in = (n >= from && n < from + (int)(report->remap.length / PAGE)) || (n >= to && n < to + SPACE / 2);
                    child->pages[n].uncertain = child->pages[n].uncertain || (in && of->pages[n].owner == i);
                    in = n >= to && n < to + (int)(report->remap.length / PAGE);
                    child->pages[n].uncertain = child->pages[n].uncertain || in;
                }
            } else if (report->kind != UFFD_FORK) {
                for (int n = page_of(report->removed.start); n < page_of(report->removed.end - 1) + 1; n++) {
                    child->pages[n].uncertain = true;
                }
            }
        }
    }
    struct uffd_event report = {.kind = UFFD_FORK};
    report.fork.descriptor = (uint32_t)(FIRST_DESCRIPTOR + thread->child);
    add_model_report(of, thread, report);
}

/* A thread makes a change, all of it at once. */
static void change(struct model *of, struct model_thread *thread)
{
    /* Its report is not queued so late. */
    for (int i = 0; i < THREADS; i++) {
        const struct model_thread *other = &of->threads[i];
        if (other->stage != IDLE && other->stage != FAULTED && other->since < thread->since) {
            return;
        }
    }
    int number = (int)(thread - of->threads);
    int starts[SPACE];
    int count = 0;
    for (int i = 0; i < SPACE; i++) {
        const struct model_page *at = &of->pages[i];
        if (at->mapped && at->owner == number && !at->uncertain) {
            starts[count++] = i;
        }
    }
    if (count == 0) {
        return;
    }
    int first = starts[draw((uint64_t)count)];
    int most = 1;
    while (first + most < SPACE && of->pages[first + most].mapped && of->pages[first + most].owner == number
           && !of->pages[first + most].uncertain && of->pages[first + most].mapping == of->pages[first].mapping) {
        most++;
    }
    int length = 1 + (int)draw((uint64_t)most);
    if (!changing || draw(3) == 0) {
        struct model_page *at = &of->pages[first];
        if (!at->present && !at->armed) {
            at->present = true;
            at->found = 0;
        }
        if (at->present) {
            check_page(of, first);
        } else {
            thread->stage = FAULTED;
            thread->touched = first;
            thread->touch_reported = false;
            thread->woken = 0;
        }
        return;
    }
    thread->since = ++next_time;
    thread->count = 0;
    thread->at = 0;
    thread->given_count = 0;
    thread->populated = thread->populated_end = 0;
    thread->touch_reported = false;
    thread->child = -1;
    changes++;
    switch (draw(9)) {
    case 0:
        spoil(of, first, length, thread);
        report_unmapped(of, thread, first, length);
        unmap(of, first, length);
        break;
    case 1:
    case 2:
    case 3:
        move_pages(of, thread, first, length, length);
        break;
    case 4:
        move_pages(of, thread, first, length, 1 + (int)draw((uint64_t)length + 4));
        break;
    case 5:
        spoil(of, first, length, thread);
        thread->given_first = first;
        thread->given_count = length;
        if (of->pages[first].armed) {
            struct uffd_event report = {.kind = UFFD_REMOVE};
            report.removed.start = address_of(first);
            report.removed.end = address_of(first + length);
            add_model_report(of, thread, report);
        }
        break;
    case 6: {
        int room = find_room(of, length);
        int made = next_mapping++;
        for (int i = 0; room >= 0 && i < length; i++) {
            of->pages[room + i] = (struct model_page){.mapped = true, .owner = number, .mapping = made};
        }
        break;
    }
    case 7:
        /* Guard regions, madvise(2), come and go without a report, and leave zeros. */
        for (int i = first; i < first + length; i++) {
            if (of->pages[i].present) {
                of->pages[i].present = false;
                of->pages[i].wanted = 0;
            }
        }
        break;
    default:
        fork_model(of, thread);
    }
    thread->stage = thread->count > 0 ? CHANGED : TAKEN;
}

/* A thread runs as far as it can. */
static void step(struct model *of, struct model_thread *thread)
{
    struct model_page *at;
    switch (thread->stage) {
    case IDLE:
        if (draw(idle) == 0) {
            change(of, thread);
        }
        break;
    case CHANGED:
        while (thread->populated < thread->populated_end) {
            at = &of->pages[thread->populated];
            if (!at->present && at->armed) {
                return;
            }
            at->present = true;
            thread->touch_reported = false;
            thread->populated++;
        }
        of->queue[of->queued++] = (int)(thread - of->threads);
        thread->stage = QUEUED;
        break;
    case TAKEN:
        if (thread->count > 0) {
            of->outstanding--;
        }
        if (++thread->at < thread->count) {
            thread->stage = CHANGED;
            break;
        }
        for (int i = thread->given_first; i < thread->given_first + thread->given_count; i++) {
            of->pages[i].present = false;
            of->pages[i].wanted = 0;
        }
        thread->given_count = 0;
        if (thread->child >= 0) {
            models[thread->child].runs = true;
            thread->child = -1;
        }
        thread->stage = IDLE;
        break;
    case FAULTED:
        at = &of->pages[thread->touched];
        if (at->present) {
            check_page(of, thread->touched);
            thread->stage = IDLE;
        }
        break;
    default:
        break;
    }
}

static void step_any(void)
{
    struct model *of = &models[draw((uint64_t)model_count)];
    /* A child needs longer for its first change than the filling program to look at its memory. */
    if (of->exists && of->runs && of->asked && !of->dead) {
        struct model_thread *thread = &of->threads[draw(THREADS)];
        if (thread->exists) {
            step(of, thread);
        }
        if (of != models && changing && draw(400) == 0) {
            /* It ends with all that it waits for. A child that is being made is none. */
            of->dead = true;
            for (int i = 0; i < THREADS; i++) {
                if (of->threads[i].exists && of->threads[i].stage != IDLE && of->threads[i].child >= 0) {
                    models[of->threads[i].child].dead = true;
                }
            }
        }
    }
}

static void step_some(void)
{
    while (draw(3) == 0) {
        step_any();
    }
}

/* The page that a thread waits for; -1 if there is none. */
static int faulted_page(const struct model_thread *thread)
{
    if (!thread->exists) {
        return -1;
    }
    bool populates = thread->stage == CHANGED && thread->populated < thread->populated_end;
    return thread->stage == FAULTED ? thread->touched : populates ? thread->populated : -1;
}

static void wake(struct model *of, uint64_t start, uint64_t length)
{
    for (int i = 0; i < THREADS; i++) {
        struct model_thread *thread = &of->threads[i];
        int page = faulted_page(thread);
        uint64_t address = page < 0 ? 0 : address_of(page);
        if (page >= 0 && address >= start && address < start + length) {
            bool is_missing = thread->stage == FAULTED && of->outstanding == 0 && !of->pages[page].present;
            thread->touch_reported = false;
            thread->woken += is_missing ? 1 : 0;
            if (thread->woken > MOST_FAULTS) {
                wrong("process %d waits for page %d for ever", (int)(of - models), page);
            }
        }
    }
}

/* UFFDIO_COPY, or UFFDIO_ZEROPAGE without a source. */
static int copy_pages(struct model *of, uint64_t to, const uint64_t *from, uint64_t length, int64_t *copied)
{
    *copied = 0;
    int first = page_of(to);
    int count = (int)(length / PAGE);
    if (of->dead) {
        errno = ESRCH;
        return -1;
    }
    if (of->outstanding > 0) {
        errno = EAGAIN;
        return -1;
    }
    if (to < PAGE) {
        errno = EINVAL;
        return -1;
    }
    if ((const void *)from != all.unreadable && draw(NO_MEMORY_IN) == 0) {
        errno = ENOMEM;
        return -1;
    }
    step_some();
    if (of->dead) {
        errno = ESRCH;
        return -1;
    }
    for (int i = first; i < first + count; i++) {
        if (first < 0 || i >= SPACE || !of->pages[i].mapped || !of->pages[i].armed
            || of->pages[i].mapping != of->pages[first].mapping) {
            errno = ENOENT;
            return -1;
        }
    }
    if (of->outstanding > 0) {
        errno = EAGAIN;
        return -1;
    }
    if ((const void *)from == all.unreadable) {
        errno = EFAULT;
        return -1;
    }
    int done = 0;
    while (done < count && !of->pages[first + done].present) {
        of->pages[first + done].present = true;
        of->pages[first + done].found = from == NULL ? 0 : from[(size_t)done * (PAGE / 8)];
        done++;
    }
    if (done == 0) {
        errno = EEXIST;
        return -1;
    }
    *copied = (int64_t)done * PAGE;
    trace("process %d: copied %d + %d: %" PRIu64 "\n", (int)(of - models), first, done, from == NULL ? 0 : from[0]);
    wake(of, to, (uint64_t)done * PAGE);
    errno = EAGAIN;
    return done == count ? 0 : -1;
}

/* The thread that reads reports comes between the look at the map and the copy, unless the lock of the process forbids it. */
static void read_between(int descriptor)
{
    for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
        if (descriptor_of(of) == descriptor && draw(4) == 0 && pthread_rwlock_trywrlock(&of->lock) == 0) {
            pthread_rwlock_unlock(&of->lock);
            take_reports(of);
        }
    }
}

static int model_ioctl(int descriptor, unsigned long request, void *argument)
{
    struct model *of = model_of(descriptor);
    step_some();
    if (request == UFFD_COPY) {
        struct uffd_copy *copy = argument;
        if ((const void *)(uintptr_t)copy->from != all.unreadable) {
            read_between(descriptor);
        }
        return copy_pages(of, copy->to, (const uint64_t *)(uintptr_t)copy->from, copy->length, &copy->copied);
    }
    if (request == UFFD_ZERO) {
        struct uffd_zero *zero = argument;
        return copy_pages(of, zero->range.start, NULL, zero->range.length, &zero->zeroed);
    }
    if (request == UFFD_WAKE) {
        const struct uffd_range *range = argument;
        wake(of, range->start, range->length);
        return 0;
    }
    if (request == UFFD_UNREGISTER) {
        const struct uffd_range *range = argument;
        int page = page_of(range->start);
        cut(of, page);
        cut(of, page + 1);
        of->pages[page].armed = false;
        wake(of, range->start, range->length);
        return 0;
    }
    wrong("ioctl %lx", request);
}

/* The next report: a fault before all others, userfaultfd(2). */
static ssize_t model_read(int descriptor, void *to, size_t length)
{
    struct model *of = model_of(descriptor);
    struct uffd_event report = {0};
    step_some();
    for (int i = 0; !of->dead && i < THREADS; i++) {
        struct model_thread *thread = &of->threads[i];
        int page = faulted_page(thread);
        if (page >= 0 && !thread->touch_reported && !of->pages[page].present) {
            thread->touch_reported = true;
            report.kind = UFFD_FAULT;
            report.fault.address = address_of(page) + 8;
            memcpy(to, &report, length);
            return (ssize_t)length;
        }
    }
    if (of->queued == 0 || of->dead) {
        errno = EAGAIN;
        return -1;
    }
    struct model_thread *thread = &of->threads[of->queue[0]];
    memmove(&of->queue[0], &of->queue[1], (size_t)(--of->queued) * sizeof of->queue[0]);
    memcpy(to, &thread->reports[thread->at], length);
    trace_report("read", of, thread, &thread->reports[thread->at]);
    thread->stage = TAKEN;
    if (thread->reports[thread->at].kind == UFFD_FORK) {
        models[thread->child].known = true;
    }
    return (ssize_t)length;
}

static int model_poll(struct pollfd *polled, nfds_t count, int limit_ms)
{
    (void)polled;
    (void)limit_ms;
    step_any();
    return (int)count;
}

static int model_fcntl(int descriptor, int command, int value)
{
    (void)descriptor;
    (void)command;
    (void)value;
    return 0;
}

static int model_close(int descriptor)
{
    (void)descriptor;
    return 0;
}

static int model_yield(void)
{
    step_any();
    return 0;
}

/* ---- one model -------------------------------------------------------------------------------------------------- */

static void no_wake(void)
{
}

/* Mappings with areas of all threads. About half of their pages are in the image, in runs. */
static void begin_model(void)
{
    memset(models, 0, sizeof models);
    memset(&reading, 0, sizeof reading);
    set_free(&stored.pages);
    memset(given_back, 0, sizeof given_back);
    struct model *root = &models[0];
    model_count = 1;
    next_mapping = 1;
    next_time = 0;
    now = 0;
    all.image_pages = all.child_bytes = 0;
    root->exists = root->known = root->asked = true;
    for (int i = 0; i < THREADS; i++) {
        root->threads[i].exists = true;
        root->threads[i].child = -1;
    }
    struct pages pages = {.pid = 1};
    static struct run runs[SPACE];
    pages.runs = runs;
    for (int page = 0; page < SPACE;) {
        int length = 1 + (int)draw(14);
        bool mapped = draw(3) > 0;
        int owner = (int)draw(THREADS);
        int mapping = next_mapping++;
        for (int i = page; mapped && i < page + length && i < SPACE; i++) {
            if (draw(5) == 0) {
                owner = (int)draw(THREADS);
            }
            root->pages[i] = (struct model_page){.mapped = true, .armed = true, .mapping = mapping, .owner = owner};
        }
        page += length;
    }
    static struct mapped_range mappings[SPACE];
    pages.mappings = mappings;
    for (int i = 0; i < SPACE; i++) {
        const struct model_page *at = &root->pages[i];
        if (at->mapped && (i == 0 || !at[-1].mapped || at[-1].mapping != at->mapping)) {
            mappings[pages.mapping_count++] = (struct mapped_range){address_of(i), 0};
        }
        if (at->mapped) {
            mappings[pages.mapping_count - 1].end = address_of(i + 1);
        }
    }
    bool lazy = false;
    int runs_mapping = 0;
    for (int i = 0; i < SPACE; i++) {
        struct model_page *at = &root->pages[i];
        bool was = lazy;
        lazy = at->mapped && (draw(4) == 0 ? !lazy : lazy);
        if (!lazy) {
            continue;
        }
        uint64_t id = 1000 + (uint64_t)i;
        at->wanted = id;
        if (!was || runs_mapping != at->mapping) {
            runs[pages.run_count++] = (struct run){address_of(i), 0, pages.total, draw(6) == 0};
        }
        at->wiped = runs[pages.run_count - 1].wiped;
        runs_mapping = at->mapping;
        runs[pages.run_count - 1].pages++;
        pages.total++;
        struct page_block *block = set_block(&stored.pages, address_of(i));
        if (block->slot == SET_NO_SLOT) {
            block->slot = address_of(i) >= UINT64_C(1) << 32 ? 1 : 0;
        }
        set_mark(&stored.pages, block, address_of(i), 1, true);
        store_memory[block->slot][address_of(i) / PAGE % SET_BLOCK_PAGES][0] = id;
    }
    all.first = all.last = NULL;
    all.left = 0;
    all.may_begin = all.registered = true;
    all.running = false;
    struct filling *of = make_filling(&pages, no_wake);
    give_descriptor(of, FIRST_DESCRIPTOR);
    require_stored();
    fill_wiped();
    all.running = root->runs = true;
}

/* When no report is outstanding, the map has the pages that are missing, and no others. */
static void check_map(const struct filling *of)
{
    const struct model *model = model_of(of->descriptor);
    for (int i = 0; i < SPACE && model->outstanding == 0 && !model->dead; i++) {
        const struct model_page *at = &model->pages[i];
        size_t place = find_segment(of, address_of(i));
        const struct segment *segment =
            place < of->count && of->segments[place].address <= address_of(i) ? &of->segments[place] : NULL;
        bool known = segment != NULL && !segment->blank;
        uint64_t in = known ? (address_of(i) - segment->address) / PAGE : 0;
        known = known && !get_bit(of->copied, segment->place + in);
        uint64_t from = known ? segment->from + in * PAGE : 0;
        uint64_t id = known ? store_memory[from >> 32][from / PAGE % SET_BLOCK_PAGES][0] : 0;
        if (at->mapped && at->armed && !at->present && !at->uncertain && id != at->wanted) {
            wrong("the map of process %d has %" PRIu64 " for page %d in place of %" PRIu64, (int)(model - models), id, i,
                  at->wanted);
        }
    }
}

static void trace_map(const struct filling *of)
{
    trace("   map of process %d:", of->descriptor - FIRST_DESCRIPTOR);
    for (size_t i = 0; i < of->count; i++) {
        const struct segment *one = &of->segments[i];
        trace(" %d+%d%s%s%s", page_of(one->address), (int)one->pages, one->blank ? "b" : "", one->open ? "o" : "",
              one->moved ? "m" : "");
    }
    trace("\n");
}

/* Whether the descriptor of a process can be read, poll(2). */
static bool is_readable(int descriptor)
{
    const struct model *of = model_of(descriptor);
    bool found = of->queued > 0;
    for (int i = 0; i < THREADS; i++) {
        int page = faulted_page(&of->threads[i]);
        found = found || (page >= 0 && !of->threads[i].touch_reported && !of->pages[page].present);
    }
    return found && !of->dead;
}

static void serve_one(void)
{
    for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
        int descriptor = descriptor_of(of);
        if (descriptor >= 0 && draw(2) == 0 && is_readable(descriptor)) {
            take_reports(of);
            for (int i = 0; i < model_count; i++) {
                models[i].asked = models[i].known;
            }
            if (descriptor_of(of) >= 0) {
                trace_map(of);
                check_map(of);
            }
        }
    }
}

static void fill_one(void)
{
    for (struct filling *of = next_filling(NULL); of != NULL; of = next_filling(of)) {
        if (draw(3) == 0) {
            (void)fill_some(of);
        }
    }
}

static bool is_quiet(void)
{
    for (int i = 0; i < model_count; i++) {
        for (int k = 0; k < THREADS; k++) {
            if (!models[i].dead && models[i].runs && models[i].threads[k].exists && models[i].threads[k].stage != IDLE) {
                return false;
            }
        }
    }
    return true;
}

static void run_model(void)
{
    state = seed;
    begin_model();
    /* Some are filled soon, and some when they have changed a lot. */
    uint64_t pace = 1 + draw(60);
    idle = UINT64_C(32) << draw(3);
    changing = true;
    for (uint64_t i = 0; i < STEPS * idle; i++) {
        step_any();
        if (draw(12) == 0) {
            serve_one();
        }
        if (draw(pace * 10) == 0) {
            fill_one();
        }
    }
    changing = false;
    for (int turns = 0; pages_left() > 0; turns++) {
        if (turns == MOST_TURNS) {
            for (int i = 0; i < model_count; i++) {
                for (int k = 0; k < THREADS; k++) {
                    const struct model_thread *thread = &models[i].threads[k];
                    trace("process %d: %d outstanding; thread %d: stage %d, %d of %d reports, page %d\n", i,
                          models[i].outstanding, k, (int)thread->stage, thread->at, thread->count, faulted_page(thread));
                }
            }
            wrong("%" PRIu64 " pages are left for ever", pages_left());
        }
        step_any();
        serve_one();
        fill_one();
    }
    /* The descriptors are closed: the kernel makes missing pages, and reports nothing more. */
    while (!is_quiet()) {
        for (int i = 0; i < model_count; i++) {
            for (int k = 0; k < THREADS; k++) {
                struct model_thread *thread = &models[i].threads[k];
                if (thread->stage == FAULTED && !models[i].pages[thread->touched].present) {
                    models[i].pages[thread->touched].present = true;
                    models[i].pages[thread->touched].found = 0;
                }
                if (thread->stage == CHANGED || thread->stage == QUEUED) {
                    thread->stage = TAKEN;
                }
            }
        }
        step_any();
    }
    for (int i = 0; i < model_count; i++) {
        for (int page = 0; page < SPACE && !models[i].dead; page++) {
            struct model_page *at = &models[i].pages[page];
            if (at->mapped && !at->uncertain) {
                if (!at->present) {
                    /* As the kernel does when it is touched. */
                    at->found = 0;
                }
                check_page(&models[i], page);
            }
        }
    }
}

int main(int count, char **words)
{
    uint64_t runs = count > 1 ? strtoull(words[1], NULL, 10) : 1;
    uint64_t first = count > 2 ? strtoull(words[2], NULL, 10) : 1;
    traced = count > 3;
    for (seed = first; seed < first + runs; seed++) {
        run_model();
    }
    printf("%" PRIu64 " models, %" PRIu64 " changes, %" PRIu64 " forks, %" PRIu64 " pages looked at, none is wrong\n", runs,
           changes, forks, touches);
    return 0;
}
