/* pages-fuzz: tests the parsers of ppmr-pages with images, lists, streams and frames that are derived from valid
 * ones.
 *
 *   pages-fuzz INPUTS [SEED [ONLY]]
 *
 * It includes ppmr-pages.c itself, built with the address and undefined-behaviour sanitizers. Files and sockets are
 * memory here. An input is a migration of a few processes. It has their core images and pagemaps, the list, the
 * stream of pages, and the requests of CRIU's daemon. One of eight inputs is unchanged. It must be accepted, and
 * every page must be delivered once, with its own bytes. In the others a few bytes are damaged. They must be
 * accepted or refused with a sentence, within a second and bounded memory.
 *
 * Exit status: 0, or 1 with the seed and the number of the input on standard error. The sanitizers end it with their
 * own status. */
#define _GNU_SOURCE
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
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
    MOST_PROCESSES = 4,
    MOST_RUNS = 12,
    MOST_RUN_PAGES = 90,
    /* A pagemap of each, and the list. The stream is behind them. */
    MOST_FILES = MOST_PROCESSES + 1,
    STREAM = MOST_FILES,
    FILE_ROOM = 1 << 15,
    PAGE_BYTES = 4096,
    /* Damage may make runs longer. Pages behind this number do not exist. */
    STREAM_PAGES = 1 << 13,
    MOST_ALLOCATIONS = 4096,
    MOST_ALLOCATED = 64 << 20,
    ANSWER_ROOM = 64 + 64 * PAGE_BYTES,
    MOST_ASKED_PAGES = 1024,
    FIRST_DESCRIPTOR = 1000,
    INPUT_MS = 1000,
    /* One in this many inputs is unchanged, and one in this many requests is odd. */
    WHOLE_IN = 8,
    ODD_IN = 128
};

/* A refused input leaks memory, and freed memory need not be checked for longer than an input. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:quarantine_size_mb=4";
}

/* ---- what ppmr-pages is given in place of the system's ---------------------------------------------------------- */

struct fuzz_file {
    char name[NAME_MAX];
    uint8_t *bytes;
    size_t length;
    size_t at;
};

static struct fuzz_file fuzz_files[MOST_FILES];
static int fuzz_file_count;
/* The first eight bytes of a page identify it, and the others are not compared. */
static uint64_t fuzz_marks[STREAM_PAGES];
static size_t fuzz_stream_bytes;
static size_t fuzz_stream_at;
static void *fuzz_memory[MOST_ALLOCATIONS];
static size_t fuzz_sizes[MOST_ALLOCATIONS];
static int fuzz_memory_count;
static size_t fuzz_allocated;
static jmp_buf fuzz_refused;
static FILE *fuzz_sink;
static char fuzz_message[4096];
static uint8_t fuzz_answer[ANSWER_ROOM];
static size_t fuzz_answer_bytes;

/* Memory of a refused input is freed after it, so that a run of any length has enough memory. */
static void *fuzz_resize(void *old, size_t count, size_t bytes)
{
    int place = 0;
    while (place < fuzz_memory_count && (old == NULL || fuzz_memory[place] != old))
        place++;
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all) || all > MOST_ALLOCATED || place == MOST_ALLOCATIONS
        || fuzz_allocated + all > MOST_ALLOCATED) {
        errno = ENOMEM;
        return NULL;
    }
    void *memory = realloc(old, all == 0 ? 1 : all);
    if (memory == NULL)
        abort();
    if (place == fuzz_memory_count)
        fuzz_memory_count++;
    else
        fuzz_allocated -= fuzz_sizes[place];
    fuzz_memory[place] = memory;
    fuzz_sizes[place] = all;
    fuzz_allocated += all;
    return memory;
}

static void *fuzz_calloc(size_t count, size_t bytes)
{
    void *memory = fuzz_resize(NULL, count, bytes);
    if (memory != NULL)
        memset(memory, 0, count * bytes);
    return memory;
}

static void fuzz_free(void *memory)
{
    for (int i = 0; memory != NULL && i < fuzz_memory_count; i++) {
        if (fuzz_memory[i] == memory) {
            free(memory);
            fuzz_allocated -= fuzz_sizes[i];
            fuzz_memory_count--;
            fuzz_memory[i] = fuzz_memory[fuzz_memory_count];
            fuzz_sizes[i] = fuzz_sizes[fuzz_memory_count];
            return;
        }
    }
}

static int fuzz_openat(const char *name, const char *stream)
{
    if (strcmp(name, stream) == 0) {
        fuzz_stream_at = 0;
        return FIRST_DESCRIPTOR + STREAM;
    }
    for (int i = 0; i < fuzz_file_count; i++) {
        if (strcmp(fuzz_files[i].name, name) == 0) {
            fuzz_files[i].at = 0;
            return FIRST_DESCRIPTOR + i;
        }
    }
    errno = ENOENT;
    return -1;
}

/* Forbids, or permits, the use of memory behind a file's content. */
static void fuzz_fence(void *memory, size_t length, bool forbidden)
{
#ifdef __SANITIZE_ADDRESS__
    if (forbidden)
        __asan_poison_memory_region(memory, length);
    else
        __asan_unpoison_memory_region(memory, length);
#else
    (void)memory;
    (void)length;
    (void)forbidden;
#endif
}

/* Lets the sanitizer check the use of all of it. */
static void fuzz_touch(const void *memory, size_t length)
{
#ifdef __SANITIZE_ADDRESS__
    const char *bad = __asan_region_is_poisoned((void *)(uintptr_t)memory, length);
    if (bad != NULL)
        fprintf(stderr, "%d is no memory to be used\n", *bad);
#else
    (void)memory;
    (void)length;
#endif
}

static ssize_t fuzz_read_stream(uint8_t *to, size_t room)
{
    size_t left = fuzz_stream_bytes - fuzz_stream_at;
    size_t now = left < room ? left : room;
    fuzz_touch(to, now);
    for (size_t at = 0; at + PAGE_BYTES <= now; at += PAGE_BYTES)
        memcpy(to + at, &fuzz_marks[(fuzz_stream_at + at) / PAGE_BYTES], sizeof *fuzz_marks);
    fuzz_stream_at += now;
    return (ssize_t)now;
}

static ssize_t fuzz_read(int descriptor, void *to, size_t room)
{
    if (descriptor == FIRST_DESCRIPTOR + STREAM)
        return fuzz_read_stream(to, room);
    struct fuzz_file *file = &fuzz_files[descriptor - FIRST_DESCRIPTOR];
    size_t left = file->length - file->at;
    size_t now = left < room ? left : room;
    memcpy(to, file->bytes + file->at, now);
    file->at += now;
    if (now == 0)
        fuzz_fence(to, room, true);
    return (ssize_t)now;
}

static int fuzz_close(int descriptor)
{
    return descriptor < 0 ? -1 : 0;
}

static ssize_t fuzz_send(const void *data, size_t length)
{
    if (fuzz_answer_bytes + length > sizeof fuzz_answer)
        abort();
    fuzz_touch(data, length);
    for (size_t at = 0; at < length; at += PAGE_BYTES)
        memcpy(fuzz_answer + fuzz_answer_bytes + at, (const uint8_t *)data + at, length < PAGE_BYTES ? length : 8);
    fuzz_answer_bytes += length;
    return (ssize_t)length;
}

#undef stderr
#define stderr fuzz_sink
#define main ppmr_pages_main
#define _exit(status) longjmp(fuzz_refused, 1)
#define calloc(count, bytes) fuzz_calloc(count, bytes)
#define reallocarray(memory, count, bytes) fuzz_resize(memory, count, bytes)
#define free(memory) fuzz_free(memory)
#define openat(directory, name, ...) ((void)(directory), fuzz_openat(name, STREAM_NAME))
#define read(descriptor, to, room) fuzz_read(descriptor, to, room)
#define close(descriptor) fuzz_close(descriptor)
#define send(peer, data, length, flags) ((void)(peer), fuzz_send(data, length))
#include "../../main/c/ppmr-pages.c"
#undef stderr
#undef main
#undef _exit
#undef free
#undef read
#undef close
#undef send
#define stderr stdout

/* ---- an input --------------------------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t drawn(uint64_t below)
{
    state += 0x9E3779B97F4A7C15u;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (x ^ (x >> 31)) % below;
}

static struct fuzz_file cores[MOST_PROCESSES];
static struct pages sources[MOST_PROCESSES];
static uint64_t seed;
static uint64_t number;

__attribute__((noreturn)) static void found(const char *what)
{
    printf("pages-fuzz %" PRIu64 " %" PRIu64 ": %s; ppmr-pages prints: %s\n", seed, number, what, fuzz_message);
    exit(1);
}

static struct fuzz_file *file_named(struct fuzz_file *file, const char *name, size_t room)
{
    if (file->bytes == NULL && (file->bytes = malloc(room)) == NULL)
        abort();
    fuzz_fence(file->bytes, room, false);
    snprintf(file->name, sizeof file->name, "%s", name);
    file->length = 0;
    file->at = 0;
    return file;
}

static struct fuzz_file *new_file(const char *name, size_t room)
{
    return file_named(&fuzz_files[fuzz_file_count++], name, room);
}

static void put(struct fuzz_file *file, const void *data, size_t length)
{
    memcpy(file->bytes + file->length, data, length);
    file->length += length;
}

static void put_varint(struct fuzz_file *file, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(file, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_number(struct fuzz_file *file, unsigned field, uint64_t value)
{
    put_varint(file, field << 3);
    put_varint(file, value);
}

/* Begins a message of 32 bits of length, which end_message writes. */
static size_t begin_message(struct fuzz_file *file)
{
    put(file, "\0\0\0", 4);
    return file->length;
}

static void end_message(struct fuzz_file *file, size_t begin)
{
    uint32_t length = (uint32_t)(file->length - begin);
    memcpy(file->bytes + begin - 4, &length, sizeof length);
}

static void put_part(struct fuzz_file *file, unsigned field, const struct fuzz_file *part)
{
    put_varint(file, field << 3 | 2);
    put_varint(file, part->length);
    put(file, part->bytes, part->length);
}

static void make_pagemap(int pid)
{
    char name[NAME_MAX];
    pagemap_name(name, pid);
    struct fuzz_file *file = new_file(name, FILE_ROOM);
    put(file, "pagemap.", IMAGE_HEAD_BYTES);
    size_t head = begin_message(file);
    put_number(file, 1, 5);
    end_message(file, head);
    uint64_t address = 0x10000;
    for (uint64_t run = drawn(MOST_RUNS) + 1; run > 0; run--) {
        uint64_t pages = drawn(MOST_RUN_PAGES) + 1;
        size_t begin = begin_message(file);
        put_number(file, 1, address);
        put_number(file, 2, pages);
        put_number(file, 4, drawn(4) == 0 ? PAGE_PRESENT : PAGE_PRESENT | PAGEMAP_LAZY);
        end_message(file, begin);
        address += (pages + drawn(3)) * PAGE;
    }
}

static void make_core(int process, uint64_t rseq)
{
    static struct fuzz_file inner, outer;
    struct fuzz_file *core = file_named(&cores[process], "core", FILE_ROOM);
    file_named(&inner, "rseq", FILE_ROOM);
    file_named(&outer, "thread", FILE_ROOM);
    put_number(&inner, FIELD_RSEQ_POINTER, rseq);
    put_number(&outer, 1, drawn(1000));
    put_part(&outer, FIELD_RSEQ, &inner);
    put(core, "coreimg.", IMAGE_HEAD_BYTES);
    size_t begin = begin_message(core);
    put_number(core, 1, drawn(1 << 20));
    put_part(core, FIELD_THREAD_CORE, &outer);
    end_message(core, begin);
}

static void damage(struct fuzz_file *file)
{
    static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff};
    for (uint64_t times = drawn(4) + 1; times > 0 && file->length > 0; times--) {
        size_t at = drawn(file->length);
        size_t run = drawn(file->length - at < 12 ? file->length - at : 12) + 1;
        run = run > file->length - at ? file->length - at : run;
        switch (drawn(6)) {
        case 0:
            file->bytes[at] ^= (uint8_t)(1 << drawn(8));
            break;
        case 1:
            memset(file->bytes + at, extremes[drawn(sizeof extremes)], run);
            break;
        case 2:
            file->length = at;
            break;
        case 3:
            memmove(file->bytes + at, file->bytes + at + run, file->length - at - run);
            file->length -= run;
            break;
        case 4:
            if (file->length + run <= FILE_ROOM) {
                memmove(file->bytes + at + run, file->bytes + at, file->length - at);
                file->length += run;
            }
            break;
        default:
            file->bytes[at] = (uint8_t)('0' + drawn(10));
            break;
        }
    }
}

/* ---- what is tried ---------------------------------------------------------------------------------------------- */

/* The bytes of a page identify its process and its address. */
static uint64_t mark_of(int pid, uint64_t address)
{
    return address ^ (uint64_t)pid << 48;
}

/* Makes the list, and the stream with the pages in their order, as a source does with its images. */
static void run_as_source(int processes)
{
    struct order all = {allocate((size_t)processes, sizeof *all.all), 0, 0, 0};
    struct fuzz_file *list = new_file(LIST_NAME, FILE_ROOM);
    list->length = (size_t)snprintf((char *)list->bytes, FILE_ROOM, "%s\n", LIST_HEAD);
    for (int i = 0; i < processes; i++) {
        struct pages *pages = &sources[i];
        struct bytes core = {cores[i].bytes, cores[i].length};
        struct bytes pagemap = {fuzz_files[i].bytes, fuzz_files[i].length};
        fuzz_fence(core.at + core.length, FILE_ROOM - core.length, true);
        fuzz_fence(pagemap.at + pagemap.length, FILE_ROOM - pagemap.length, true);
        uint64_t page = rseq_page(&core, "core");
        *pages = (struct pages){.pid = i + 1};
        if (page != 0) {
            pages->first = enlarge(NULL, 1, sizeof *pages->first);
            pages->first[pages->first_count++] = page;
        }
        read_pagemap(pages, &pagemap, "pagemap");
        settle_first(pages);
        put_in_order(pages);
        all.all[all.count++] = pages;
        list->length += (size_t)snprintf((char *)list->bytes + list->length, FILE_ROOM - list->length,
                                         "process %d %" PRIu64 "\n", pages->pid, pages->total);
        for (size_t k = 0; k < pages->first_count; k++)
            list->length += (size_t)snprintf((char *)list->bytes + list->length, FILE_ROOM - list->length,
                                             "first %" PRIx64 "\n", pages->first[k]);
    }
    list->length += (size_t)snprintf((char *)list->bytes + list->length, FILE_ROOM - list->length, "end\n");
    struct piece piece;
    size_t count = 0;
    while (count < STREAM_PAGES && next_piece(&all, &piece)) {
        for (uint64_t page = 0; page < piece.pages && count < STREAM_PAGES; page++)
            fuzz_marks[count++] = mark_of(all.all[piece.process]->pid, piece.address + page * PAGE);
    }
    fuzz_stream_bytes = count * PAGE;
}

/* Answers one request as the target does, which has read the stream far enough by then. Returns the number of pages. */
static uint64_t ask_for(uint64_t process, uint64_t address, uint64_t pages, bool whole)
{
    uint8_t head[MAX_FRAME_BYTES];
    struct frame question = {COMMAND_GET, pages, address, process};
    encode(&question, head);
    if (!whole && drawn(ODD_IN) == 0)
        head[drawn(frame_bytes)] ^= (uint8_t)(1 << drawn(8));
    question = decode(head);
    struct arriving *from = asked_of(&question);
    const struct run *run = find_run(&from->pages, question.address);
    while (run != NULL && from->read <= run->place + (question.address - run->address) / PAGE && read_piece())
        continue;
    arrivals.over = true;
    fuzz_answer_bytes = 0;
    question_comes();
    answer(0, from, &question);
    struct frame stated = decode(fuzz_answer);
    if (fuzz_answer_bytes != frame_bytes + stated.pages * PAGE || stated.pages == 0 || stated.pages > question.pages)
        found("the length of an answer differs from its head");
    for (uint64_t page = 0; whole && page < stated.pages; page++) {
        uint64_t mark;
        memcpy(&mark, fuzz_answer + frame_bytes + page * PAGE, sizeof mark);
        if (mark != mark_of(from->pages.pid, address + page * PAGE))
            found("an answer has another page's bytes");
    }
    return stated.pages;
}

static void run_as_target(bool whole)
{
    read_list(0);
    order.all = allocate(arriving_count + 1, sizeof *order.all);
    for (; order.count < arriving_count; order.count++) {
        prepare(0, &arriving[order.count]);
        order.all[order.count] = &arriving[order.count].pages;
    }
    stream = openat(0, STREAM_NAME, O_RDONLY | O_CLOEXEC);
    /* Requests are by address, as in a restore, which requests the first pages of each process in front. */
    for (size_t i = 0; i < arriving_count; i++) {
        for (size_t k = 0; k < arriving[i].pages.run_count; k++) {
            uint64_t process = (uint64_t)arriving[i].pages.pid;
            struct run run = arriving[i].pages.runs[k];
            for (uint64_t done = 0; done < run.pages && done < MOST_ASKED_PAGES;) {
                if (!whole && drawn(ODD_IN) == 0)
                    ask_for(drawn(MOST_PROCESSES + 1), run.address + drawn(MOST_RUN_PAGES) * PAGE, drawn(200), false);
                done += ask_for(process, run.address + done * PAGE, run.pages - done, whole);
            }
        }
        if (whole && arriving[i].left != 0)
            found("pages are left when all were requested");
    }
}

static void forget(void)
{
    while (fuzz_memory_count > 0)
        fuzz_free(fuzz_memory[0]);
    arriving = NULL;
    arriving_count = 0;
    order = (struct order){NULL, 0, 0, 0};
    arrivals.kept_pages = 0;
    arrivals.wanted = false;
    arrivals.over = false;
    arrivals.spare_count = 0;
    rest.waiting = false;
    rest.open = 0;
    rest.unfinished = 0;
    fuzz_file_count = 0;
    /* A refusal leaves its lock as it is. */
    pthread_mutex_init(&arrivals.lock, NULL);
    pthread_mutex_init(&rest.lock, NULL);
    rewind(fuzz_sink);
    memset(fuzz_message, 0, sizeof fuzz_message);
}

/* Returns true if the input was accepted. */
static bool try_one(void)
{
    bool whole = drawn(WHOLE_IN) == 0;
    int processes = (int)drawn(MOST_PROCESSES) + 1;
    forget();
    frame_bytes = drawn(2) == 0 ? 24 : 32;
    if (setjmp(fuzz_refused) == 0) {
        for (int i = 0; i < processes; i++) {
            make_pagemap(i + 1);
            make_core(i, 0x10000 + drawn(MOST_RUNS * MOST_RUN_PAGES) * PAGE + drawn(PAGE));
            if (!whole && drawn(8) == 0)
                damage(&cores[i]);
            if (!whole && drawn(8) == 0)
                damage(&fuzz_files[i]);
        }
        run_as_source(processes);
        if (!whole) {
            for (int i = 0; i < processes; i++)
                fuzz_fence(fuzz_files[i].bytes, FILE_ROOM, false);
            if (drawn(3) > 0)
                damage(&fuzz_files[drawn((uint64_t)processes + 1)]);
            /* The stream's bytes are a job's memory. Only missing bytes can do harm. */
            fuzz_stream_bytes -= drawn(4) > 0 ? 0 : drawn(fuzz_stream_bytes + 1);
        }
        run_as_target(whole);
        return true;
    }
    fflush(fuzz_sink);
    if (whole)
        found("a sound input is refused");
    if (strlen(fuzz_message) < 16 || strchr(fuzz_message, ' ') == NULL)
        found("a refusal has no message");
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        printf("usage: pages-fuzz INPUTS [SEED [ONLY]]\n");
        return 1;
    }
    uint64_t inputs = strtoull(argv[1], NULL, 10);
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    uint64_t only = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
    fuzz_sink = fmemopen(fuzz_message, sizeof fuzz_message - 1, "w");
    if (fuzz_sink == NULL)
        return 1;
    mode = "fuzz";
    uint64_t taken = 0;
    for (number = 0; number < inputs; number++) {
        if (only != UINT64_MAX && number != only)
            continue;
        struct timespec begin, end;
        state = seed * 0x9E3779B97F4A7C15u + number * 0xD1B54A32D192ED03u;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
        taken += try_one();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        if ((end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 > INPUT_MS)
            found("an input takes more than a second");
    }
    printf("%" PRIu64 " inputs of seed %" PRIu64 ", %" PRIu64 " taken\n", inputs, seed, taken);
    return only == UINT64_MAX && (taken < inputs / 16 || taken > inputs - inputs / 16) ? 1 : 0;
}
