/*
 * A job that uses its memory in every way that a look at written pages must survive, and checks its own memory:
 *
 *   churn-job --seed N --mib N --threads N --report FILE [--pace WRITES_PER_MS] [--children N]
 *
 * Its threads write random words of a large area; map, move, unmap, protect, grow and give back areas; swap the places of
 * areas of whole page tables; fork children that check what they have inherited; and wait in epoll_wait(2). Whatever it finds wrong goes into the report's last line,
 * and ends it with 3. The report begins with "ready" when everything is under way. SIGTERM has it check all of its memory,
 * write its counts and end with 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, ALIGNED = 4 << 20, AREAS = 24, MOST_AREA_PAGES = 64, MOST_THREADS = 16, MOST_CHILDREN = 8 };

static const char *report_path;
static uint64_t seed = 1;
static size_t bytes = 64 << 20;
static long thread_count = 2;
static long child_count;
static long pace = 200;
static uint64_t *large;
static _Atomic bool ending;
static _Atomic uint64_t moves;
static _Atomic uint64_t failed_moves;
static _Atomic uint64_t writes;
static _Atomic uint64_t waits;
static _Atomic uint64_t interrupted;

__attribute__((format(printf, 2, 3))) static void report(bool is_end, const char *format, ...)
{
    FILE *file = fopen(report_path, "ae");
    va_list arguments;
    va_start(arguments, format);
    if (file != NULL) {
        vfprintf(file, format, arguments);
        fputc('\n', file);
        fclose(file);
    }
    va_end(arguments);
    if (is_end) {
        _exit(3);
    }
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(*state);
}

static void pause_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Each writer owns every n-th word of the large area, and keeps what it wrote in a count of each page. */
struct writer {
    long number;
    uint32_t *counts;
};

static size_t word_of(const struct writer *writer, size_t page)
{
    return page * (PAGE / 8) + (size_t)writer->number * 7 % (PAGE / 8);
}

static uint64_t value_of(const struct writer *writer, size_t page, uint32_t count)
{
    return count == 0 ? 0 : mix(seed ^ (uint64_t)writer->number << 56 ^ (uint64_t)page << 24 ^ count);
}

static void check_writer(const struct writer *writer)
{
    for (size_t page = 0; page < bytes / PAGE; page++) {
        uint64_t found = large[word_of(writer, page)];
        if (found != value_of(writer, page, writer->counts[page])) {
            report(true, "wrong: writer %ld, page %zu: %" PRIx64 " after %u writes", writer->number, page, found,
                   writer->counts[page]);
        }
    }
}

static void *write_words(void *argument)
{
    struct writer *writer = argument;
    uint64_t state = seed * 31 + (uint64_t)writer->number;
    while (!atomic_load(&ending)) {
        for (long i = 0; i < pace; i++) {
            size_t page = next(&state) % (bytes / PAGE);
            size_t word = word_of(writer, page);
            if (large[word] != value_of(writer, page, writer->counts[page])) {
                report(true, "wrong: writer %ld, page %zu after %u writes", writer->number, page, writer->counts[page]);
            }
            large[word] = value_of(writer, page, ++writer->counts[page]);
        }
        atomic_fetch_add(&writes, (uint64_t)pace);
        pause_ms(1);
    }
    check_writer(writer);
    return NULL;
}

struct area {
    uint8_t *at;
    size_t pages;
    uint64_t key;
};

static void fill(struct area *area)
{
    for (size_t page = 0; page < area->pages; page++) {
        uint64_t *word = (uint64_t *)(void *)(area->at + page * PAGE);
        word[0] = mix(area->key + page);
        word[PAGE / 8 - 1] = word[0];
    }
}

static void check(const struct area *area, size_t pages)
{
    for (size_t page = 0; page < pages; page++) {
        const uint64_t *word = (const uint64_t *)(const void *)(area->at + page * PAGE);
        uint64_t wanted = mix(area->key + page);
        if (word[0] != wanted || word[PAGE / 8 - 1] != wanted) {
            report(true, "wrong: area %p of %zu pages, page %zu", (void *)area->at, area->pages, page);
        }
    }
}

static void require_zeros(const struct area *area)
{
    for (size_t page = 0; page < area->pages; page++) {
        if (*(const uint64_t *)(const void *)(area->at + page * PAGE) != 0) {
            report(true, "wrong: page %zu of area %p is not empty", page, (void *)area->at);
        }
    }
}

static void map(struct area *area, uint64_t *state)
{
    area->pages = 1 + next(state) % MOST_AREA_PAGES;
    area->at = mmap(NULL, area->pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area->at == MAP_FAILED) {
        report(true, "wrong: mmap: %s", strerror(errno));
    }
    area->key = next(state);
    fill(area);
}

static void move(struct area *area, uint64_t *state)
{
    size_t pages = 1 + next(state) % MOST_AREA_PAGES;
    size_t kept = pages < area->pages ? pages : area->pages;
    void *moved = mremap(area->at, area->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
    atomic_fetch_add(&moves, 1);
    if (moved == MAP_FAILED) {
        atomic_fetch_add(&failed_moves, 1);
        return;
    }
    area->at = moved;
    check(area, kept);
    area->pages = pages;
    fill(area);
}

static void *change_maps(void *unused)
{
    (void)unused;
    static struct area areas[AREAS];
    uint64_t state = seed * 97;
    for (size_t i = 0; i < AREAS; i++) {
        map(&areas[i], &state);
    }
    while (!atomic_load(&ending)) {
        for (int i = 0; i < 20; i++) {
            struct area *area = &areas[next(&state) % AREAS];
            uint64_t step = next(&state) % 6;
            if (step > 0 && step < 4) {
                /* The other steps throw its pages away, which need not have been touched. */
                check(area, area->pages);
            }
            switch (step) {
            case 0:
                munmap(area->at, area->pages * PAGE);
                map(area, &state);
                break;
            case 1:
            case 2:
                move(area, &state);
                break;
            case 3:
                mprotect(area->at, area->pages * PAGE, PROT_NONE);
                mprotect(area->at, area->pages * PAGE, PROT_READ | PROT_WRITE);
                break;
            case 4:
                madvise(area->at, area->pages * PAGE, MADV_DONTNEED);
                require_zeros(area);
                area->key = next(&state);
                fill(area);
                break;
            default:
                /* In place, where another mapping was. */
                area->key = next(&state);
                if (mmap(area->at, area->pages * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
                    != area->at) {
                    report(true, "wrong: mmap in place: %s", strerror(errno));
                }
                require_zeros(area);
                fill(area);
            }
        }
        pause_ms(1);
    }
    for (size_t i = 0; i < AREAS; i++) {
        check(&areas[i], areas[i].pages);
    }
    return NULL;
}

/* An area of whole page tables, which moves without a look at its pages. It holds its key's words, or zeros. */
struct aligned {
    uint8_t *at;
    uint64_t key;
    bool empty;
};

static void check_aligned(const struct aligned *area)
{
    for (size_t page = 0; page < ALIGNED / PAGE; page++) {
        uint64_t found = *(const uint64_t *)(const void *)(area->at + page * PAGE);
        if (found != (area->empty ? 0 : mix(area->key + page))) {
            report(true, "wrong: aligned area %p, page %zu: %" PRIx64 "%s", (void *)area->at, page, found,
                   area->empty ? ", it was given back" : "");
        }
    }
}

static void fill_aligned(struct aligned *area, uint64_t key)
{
    area->key = key;
    area->empty = false;
    for (size_t page = 0; page < ALIGNED / PAGE; page++) {
        *(uint64_t *)(void *)(area->at + page * PAGE) = mix(key + page);
    }
}

static void reserve(uint8_t *at)
{
    if (mmap(at, ALIGNED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != at) {
        report(true, "wrong: a place cannot be reserved: %s", strerror(errno));
    }
}

/* Moves an area to the free place, which its own place becomes. */
static void move_aligned(struct aligned *area, uint8_t **place)
{
    uint8_t *before = area->at;
    /* Its place stays mapped, so that no other thread gets it. */
    if (mremap(before, ALIGNED, ALIGNED, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, *place) != *place) {
        report(true, "wrong: an aligned area is not moved: %s", strerror(errno));
    }
    reserve(before);
    area->at = *place;
    *place = before;
}

/* Areas that swap places, and that are given back and read again. Few of their pages are written. */
static void *change_aligned(void *unused)
{
    (void)unused;
    uint64_t state = seed * 61;
    size_t room = (size_t)ALIGNED * 8;
    uint8_t *base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        report(true, "wrong: no addresses for aligned areas");
    }
    base += (ALIGNED - (uintptr_t)base % ALIGNED) % ALIGNED;
    struct aligned areas[2];
    for (size_t i = 0; i < 2; i++) {
        areas[i].at = base + 2 * i * ALIGNED;
        if (mmap(areas[i].at, ALIGNED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
            != areas[i].at) {
            report(true, "wrong: no aligned area: %s", strerror(errno));
        }
        madvise(areas[i].at, ALIGNED, i == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        fill_aligned(&areas[i], next(&state));
    }
    uint8_t *place = base + (size_t)4 * ALIGNED;
    while (!atomic_load(&ending)) {
        struct aligned *area = &areas[next(&state) % 2];
        check_aligned(area);
        uint64_t step = next(&state) % 64;
        if (step == 0) {
            fill_aligned(area, next(&state));
        } else if (step == 1) {
            madvise(area->at, ALIGNED, MADV_DONTNEED);
            area->empty = true;
        } else if (step < 32) {
            /* The second one takes the first one's place. */
            move_aligned(&areas[0], &place);
            move_aligned(&areas[1], &place);
        } else {
            move_aligned(area, &place);
        }
        check_aligned(area);
        pause_ms(20);
    }
    check_aligned(&areas[0]);
    check_aligned(&areas[1]);
    return NULL;
}

static void *wait_in_epoll(void *unused)
{
    (void)unused;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    while (!atomic_load(&ending)) {
        if (epoll_wait(epoll, &event, 1, 300) < 0) {
            atomic_fetch_add(&interrupted, 1);
        }
        atomic_fetch_add(&waits, 1);
    }
    return NULL;
}

static struct writer writers[MOST_THREADS];

/* What a child of fork(2) must not have: zeros (MADV_WIPEONFORK), or no memory (MADV_DONTFORK). */
struct unshared {
    struct area wiped;
    struct area kept;
};

/* A writer may be between its write and its count. */
static void check_as_child(uint64_t *state, const struct unshared *unshared)
{
    for (int i = 0; i < 200; i++) {
        const struct writer *writer = &writers[next(state) % (uint64_t)thread_count];
        size_t page = next(state) % (bytes / PAGE);
        uint64_t found = large[word_of(writer, page)];
        uint32_t count = writer->counts[page];
        if (found != value_of(writer, page, count) && found != value_of(writer, page, count + 1)
            && (count == 0 || found != value_of(writer, page, count - 1))) {
            report(true, "wrong: a child, writer %ld, page %zu: %" PRIx64 " after %u writes", writer->number, page,
                   found, count);
        }
        size_t mark = page * (PAGE / 8);
        if (large[mark + PAGE / 8 - 2] != mix(mark)) {
            report(true, "wrong: a child, page %zu has lost its mark", page);
        }
    }
    for (size_t i = 0; i < unshared->wiped.pages * PAGE; i += 8) {
        if (*(const uint64_t *)(const void *)(unshared->wiped.at + i) != 0) {
            report(true, "wrong: a child has inherited memory that is wiped");
        }
    }
}

static void map_unshared(struct area *area, int advice, uint64_t *state)
{
    map(area, state);
    if (madvise(area->at, area->pages * PAGE, advice) != 0) {
        report(true, "wrong: madvise: %s", strerror(errno));
    }
}

/*
 * Children that live for some milliseconds, check and change what they have inherited, fork a child of their own, or
 * execute another program.
 */
static void *fork_children(void *unused)
{
    (void)unused;
    uint64_t state = seed * 131;
    struct unshared unshared;
    map_unshared(&unshared.wiped, MADV_WIPEONFORK, &state);
    map_unshared(&unshared.kept, MADV_DONTFORK, &state);
    while (!atomic_load(&ending)) {
        uint64_t kind = next(&state) % 8;
        pid_t child = fork();
        if (child == 0) {
            if (kind == 0) {
                execl("/bin/true", "true", (char *)NULL);
            }
            check_as_child(&state, &unshared);
            for (int i = 0; i < 100; i++) {
                large[next(&state) % (bytes / 8)]++;
            }
            pause_ms(3);
            if (kind == 1 && fork() == 0) {
                large[next(&state) % (bytes / 8)]++;
            }
            _exit(0);
        }
        int status = 0;
        if (child > 0 && waitpid(child, &status, 0) == child) {
            next(&state);
        }
        if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
            report(true, "wrong: a child ended with status %x", (unsigned)status);
        }
        check(&unshared.wiped, unshared.wiped.pages);
        check(&unshared.kept, unshared.kept.pages);
        pause_ms(20);
    }
    return NULL;
}

static void end(int signal)
{
    (void)signal;
    atomic_store(&ending, true);
}

static pthread_t start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) {
        report(true, "wrong: no thread");
    }
    return thread;
}

static int compute(bool is_child)
{
    pthread_t threads[MOST_THREADS + 4];
    size_t started = 0;
    for (long i = 0; i < thread_count; i++) {
        writers[i] = (struct writer){i, calloc(bytes / PAGE, sizeof(uint32_t))};
        threads[started++] = start(write_words, &writers[i]);
    }
    threads[started++] = start(change_maps, NULL);
    threads[started++] = start(change_aligned, NULL);
    threads[started++] = start(wait_in_epoll, NULL);
    if (!is_child) {
        threads[started++] = start(fork_children, NULL);
        report(false, "ready");
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    report(false, "%s: %" PRIu64 " writes, %" PRIu64 " moves, %" PRIu64 " failed, %" PRIu64 " waits, %" PRIu64 " interrupted",
           is_child ? "child" : "end", writes, moves, failed_moves, waits, interrupted);
    return 0;
}

int main(int count, char **words)
{
    for (int i = 1; i + 1 < count; i += 2) {
        const char *value = words[i + 1];
        if (strcmp(words[i], "--seed") == 0) {
            seed = strtoull(value, NULL, 10);
        } else if (strcmp(words[i], "--mib") == 0) {
            bytes = strtoull(value, NULL, 10) << 20;
        } else if (strcmp(words[i], "--threads") == 0) {
            thread_count = strtol(value, NULL, 10);
        } else if (strcmp(words[i], "--pace") == 0) {
            pace = strtol(value, NULL, 10);
        } else if (strcmp(words[i], "--children") == 0) {
            child_count = strtol(value, NULL, 10);
        } else if (strcmp(words[i], "--report") == 0) {
            report_path = value;
        }
    }
    if (report_path == NULL || thread_count < 1 || thread_count > MOST_THREADS || child_count > MOST_CHILDREN) {
        fputs("usage: churn-job --seed N --mib N --threads N --report FILE [--pace N] [--children N]\n", stderr);
        return 1;
    }
    struct sigaction action = {.sa_handler = end, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    large = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (large == MAP_FAILED) {
        return 1;
    }
    for (size_t word = 0; word < bytes / 8; word += PAGE / 8) {
        large[word + PAGE / 8 - 2] = mix(word);
    }
    pid_t children[MOST_CHILDREN];
    for (long i = 0; i < child_count; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            seed += 1000 + (uint64_t)i;
            return compute(true);
        }
    }
    int result = compute(false);
    for (long i = 0; i < child_count; i++) {
        int status = 0;
        kill(children[i], SIGTERM);
        waitpid(children[i], &status, 0);
        if (status != 0) {
            result = 3;
        }
    }
    return result;
}
