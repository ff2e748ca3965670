/*
 * pages-fuzz: tries the parsers of ppmr-pages with images, lists, streams and frames that are made out of valid ones.
 *
 *   pages-fuzz INPUTS [SEED [ONLY]]
 *
 * It holds the sources of ppmr-pages themselves, built with the address and undefined-behaviour sanitizers. Files and the memory of the
 * copies are memory here. An input is a migration of a few processes: their memory maps and page maps, the list, the
 * stream of pages, and faults. One of eight inputs is left as it is. It must be accepted, and every page must be copied
 * once, with its own bytes, within its mapping, the root's pages last. In the others a few bytes are damaged. They must
 * be accepted or refused with a sentence, within a second, with memory that is bounded.
 *
 * Each third input is a stream of rounds in place of that: pages that are sent again, unmapped and forgotten, of
 * processes that end. A whole one must leave each page's newest bytes in the store, and nothing else.
 *
 * Exit status: 0, or 1 with the seed and the number of the input on standard error. The sanitizers end it by their own.
 */
#define _GNU_SOURCE
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
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
#include <poll.h>
#include <sched.h>
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

enum {
    MOST_PROCESSES = 4,
    MOST_RUNS = 12,
    MOST_RUN_PAGES = 90,
    /* A page map and a memory map of each, and the list; the stream is behind them. */
    MOST_FILES = 2 * MOST_PROCESSES + 1,
    STREAM = MOST_FILES,
    FILE_ROOM = 1 << 15,
    PAGE_BYTES = 4096,
    /* Damage may make runs longer: what is behind these many pages is not there. */
    STREAM_PAGES = 1 << 13,
    MOST_ALLOCATIONS = 4096,
    MOST_ALLOCATED = 64 << 20,
    MOST_COPIED_PAGES = 1 << 14,
    FIRST_DESCRIPTOR = 1000,
    FIRST_COPY = 2000,
    INPUT_MS = 1000,
    /* Of a stream of rounds: its batches, a process's pages, and the parts of 2 MiB in which these lie. */
    MOST_BATCHES = 40,
    MOST_HEADS = 64,
    ROUND_PAGES = 600,
    ADJACENT_PAGES = 250,
    ROUNDS_IN = 3,
    STORE_BYTES = 16 << 20,
    /* One of this many inputs is whole, and one of this many copies has another answer. */
    WHOLE_IN = 8,
    ODD_IN = 128
};

/* Leaks are what a refused input leaves, and memory that was given back needs no watching for longer than an input. */
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
/* Of a page's bytes the first eight say which it is, and nobody looks at the others. */
static uint64_t fuzz_marks[STREAM_PAGES];
static size_t fuzz_stream_bytes;
static size_t fuzz_stream_at;
static void *fuzz_memory[MOST_ALLOCATIONS];
static size_t fuzz_sizes[MOST_ALLOCATIONS];
static int fuzz_memory_count;
static size_t fuzz_allocated;
static jmp_buf fuzz_refused;
static FILE *fuzz_sink;
static char fuzz_said[4096];

/* What an input's refusal leaves behind is given back behind it, so that a run of any length has memory enough. */
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
    if (strcmp(name, "rounds.stream") == 0)
        return FIRST_DESCRIPTOR + STREAM;
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

/* Forbids, or permits, the use of memory behind what a file has. */
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

/* Whether the sanitizer has nothing against the use of all of it. */
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

/* A stream of rounds: the heads of its batches, and pages, of which there are only the marks. */
static struct {
    uint8_t heads[MOST_HEADS][PAGE_BYTES];
    struct {
        int head;
        uint64_t mark;
    } pages[MOST_HEADS * 256];
    size_t head_count;
    size_t page_count;
    size_t at;
} fuzz_rounds;

static ssize_t fuzz_readv(const struct iovec *into, int count)
{
    ssize_t got = 0;
    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at + PAGE_BYTES <= into[i].iov_len && fuzz_rounds.at < fuzz_rounds.page_count; at += PAGE_BYTES) {
            uint8_t *to = (uint8_t *)into[i].iov_base + at;
            fuzz_touch(to, PAGE_BYTES);
            int head = fuzz_rounds.pages[fuzz_rounds.at].head;
            if (head >= 0)
                memcpy(to, fuzz_rounds.heads[head], PAGE_BYTES);
            else
                memcpy(to, &fuzz_rounds.pages[fuzz_rounds.at].mark, sizeof(uint64_t));
            fuzz_rounds.at++;
            got += PAGE_BYTES;
        }
    }
    return got;
}

static void *fuzz_mapped;
static size_t fuzz_mapped_bytes;

static void *fuzz_mmap(size_t length)
{
    if (fuzz_mapped != NULL)
        munmap(fuzz_mapped, fuzz_mapped_bytes);
    void *made = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fuzz_mapped = made == MAP_FAILED ? NULL : made;
    fuzz_mapped_bytes = length;
    return made;
}

static uint8_t fuzz_page[PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));

static int fuzz_close(int descriptor)
{
    return descriptor < 0 ? -1 : 0;
}

static int fuzz_ioctl(int descriptor, unsigned long request, void *argument);

#undef stderr
#define stderr fuzz_sink
#define _exit(status) longjmp(fuzz_refused, 1)
#define calloc(count, bytes) fuzz_calloc(count, bytes)
#define reallocarray(memory, count, bytes) fuzz_resize(memory, count, bytes)
#define free(memory) fuzz_free(memory)
#define openat(directory, name, ...) ((void)(directory), fuzz_openat(name, STREAM_NAME))
#define read(descriptor, to, room) fuzz_read(descriptor, to, room)
#define close(descriptor) fuzz_close(descriptor)
#define mmap(address, length, protection, flags, descriptor, offset)                                                   \
    ((void)(address), (void)(protection), (void)(flags), (void)(descriptor), fuzz_mmap(length))
#define readv(descriptor, into, count) ((void)(descriptor), fuzz_readv(into, count))
#define posix_memalign(place, align, length) ((void)(align), (void)(length), *(place) = fuzz_page, 0)
#define write(descriptor, data, length) ((void)(descriptor), (void)(data), (ssize_t)(length))
#define ioctl(descriptor, request, argument) fuzz_ioctl(descriptor, request, argument)
#include "../../main/c/pages/common.c"
#include "../../main/c/pages/images.c"
#include "../../main/c/pages/page-maps.c"
#include "../../main/c/pages/outgoing.c"
#include "../../main/c/pages/rounds.c"
#include "../../main/c/pages/source.c"
#include "../../main/c/pages/holder.c"
#include "../../main/c/pages/store.c"
#include "../../main/c/pages/target.c"
#undef stderr
#undef _exit
#undef free
#undef read
#undef close
#undef mmap
#undef readv
#undef posix_memalign
#undef write
#undef ioctl
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

/* Of an input: whether it is whole, and the pages that were copied. */
static bool is_whole;
static uint64_t copied_pages;
static struct pages sources[MOST_PROCESSES];
static uint64_t seed;
static uint64_t number;

__attribute__((noreturn)) static void found(const char *what)
{
    printf("pages-fuzz %" PRIu64 " %" PRIu64 ": %s; ppmr-pages says: %s\n", seed, number, what, fuzz_said);
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

/* A mapping of the memory map: a message within the message. */
static void put_mapping(struct fuzz_file *file, uint64_t start, uint64_t end, bool lazy)
{
    static struct fuzz_file inner;
    file_named(&inner, "vma", FILE_ROOM);
    put_number(&inner, 1, start);
    put_number(&inner, 2, end);
    put_number(&inner, 6, lazy ? MAP_LAZY : MAP_LAZY | 0x2000U);
    put_varint(file, FIELD_VMAS << 3 | 2);
    put_varint(file, inner.length);
    put(file, inner.bytes, inner.length);
}

static void put_pages(struct fuzz_file *file, uint64_t address, uint64_t pages, uint64_t flags)
{
    size_t begin = begin_message(file);
    put_number(file, 1, address);
    put_number(file, 2, pages);
    put_number(file, 4, flags);
    if (drawn(2) == 0)
        put_number(file, 5, pages);
    end_message(file, begin);
}

/* Runs of lazy pages, of which some go over the border of two mappings. */
static void make_maps(int pid)
{
    char name[NAME_MAX];
    image_name(name, "pagemap", pid);
    struct fuzz_file *pagemap = new_file(name, FILE_ROOM);
    image_name(name, "mm", pid);
    struct fuzz_file *memory = new_file(name, FILE_ROOM);
    put(pagemap, "pagemap.", IMAGE_HEAD_BYTES);
    size_t head = begin_message(pagemap);
    put_number(pagemap, 1, 5);
    end_message(pagemap, head);
    put(memory, "mmimage.", IMAGE_HEAD_BYTES);
    size_t all = begin_message(memory);
    put_number(memory, 1, drawn(1000));
    uint64_t address = 0x10000;
    uint64_t open = 0;
    uint64_t open_pages = 0;
    for (uint64_t mapping = drawn(MOST_RUNS) + 1; mapping > 0; mapping--) {
        uint64_t pages = drawn(MOST_RUN_PAGES) + 1;
        bool lazy = drawn(4) > 0;
        put_mapping(memory, address, address + pages * PAGE, lazy);
        bool joins = lazy && open_pages > 0 && open + open_pages * PAGE == address;
        uint64_t skipped = joins ? 0 : drawn(pages);
        if (!joins) {
            if (open_pages > 0)
                put_pages(pagemap, open, open_pages, PAGEMAP_PRESENT | PAGEMAP_LAZY);
            open = address + skipped * PAGE;
            open_pages = 0;
            if (!lazy)
                put_pages(pagemap, open, pages - skipped, PAGEMAP_PRESENT);
        }
        open_pages += lazy ? pages - skipped : 0;
        address += (pages + drawn(2)) * PAGE;
    }
    if (open_pages > 0)
        put_pages(pagemap, open, open_pages, PAGEMAP_PRESENT | PAGEMAP_LAZY);
    end_message(memory, all);
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

/* A page's bytes say whose it is, and which. */
static uint64_t mark_of(int pid, uint64_t address)
{
    return address ^ (uint64_t)pid << 48;
}

static struct bytes bytes_of(struct fuzz_file *file)
{
    fuzz_fence(file->bytes + file->length, FILE_ROOM - file->length, true);
    return (struct bytes){file->bytes, file->length};
}

/* As a source does it with its images: the list, and the stream, which has the pages in their order. */
static void run_as_source(int processes)
{
    struct order all = {allocate((size_t)processes, sizeof *all.all), 0, 0};
    for (int i = 0; i < processes; i++) {
        struct bytes pagemap = bytes_of(&fuzz_files[2 * i]);
        struct bytes memory = bytes_of(&fuzz_files[2 * i + 1]);
        sources[i] = (struct pages){.pid = i + 1};
        read_maps(&sources[i], &pagemap, "pagemap", &memory, "mm");
        all.all[all.count++] = &sources[i];
    }
    struct fuzz_file *list = new_file(LIST_NAME, FILE_ROOM);
    list->length = (size_t)snprintf((char *)list->bytes, FILE_ROOM, "%s\n", LIST_HEAD);
    for (int i = 0; i < processes; i++)
        list->length += (size_t)snprintf((char *)list->bytes + list->length, FILE_ROOM - list->length,
                                         "process %d %" PRIu64 "\n", sources[i].pid, sources[i].total);
    list->length += (size_t)snprintf((char *)list->bytes + list->length, FILE_ROOM - list->length, "end\n");
    struct block block;
    size_t count = 0;
    while (count < STREAM_PAGES && next_block(&all, &block)) {
        for (size_t i = 0; i < block.count; i++)
            for (uint64_t page = 0; page < block.pieces[i].pages && count < STREAM_PAGES; page++)
                fuzz_marks[count++] = mark_of(all.all[block.process]->pid, block.pieces[i].address + page * PAGE);
    }
    fuzz_stream_bytes = count * PAGE;
}

/* A copy may be interrupted, wait for its process, or find that the page is there. */
static int odd_copy(struct uffd_copy *copy)
{
    uint64_t pages = copy->length / PAGE;
    switch (drawn(is_whole ? 2 : 3)) {
    case 0:
        copy->copied = -EAGAIN;
        errno = EAGAIN;
        return -1;
    case 1:
        copy->length = pages > 1 ? (drawn(pages - 1) + 1) * PAGE : copy->length;
        errno = EAGAIN;
        return pages > 1 ? 1 : 0;
    default:
        errno = EEXIST;
        return -1;
    }
}

/* The kernel's part: pages that are copied are looked at. */
static int fuzz_ioctl(int descriptor, unsigned long request, void *argument)
{
    if (request != UFFD_COPY) {
        errno = EEXIST;
        return request == UFFD_ZERO && drawn(2) == 0 ? -1 : 0;
    }
    struct uffd_copy *copy = argument;
    const struct arriving *of = &arriving[descriptor - FIRST_COPY];
    if (copy->length == 0 || copy->length % PAGE != 0 || copy->to % PAGE != 0)
        found("a copy is not of whole pages");
    int odd = drawn(ODD_IN) == 0 ? odd_copy(copy) : 0;
    if (odd < 0)
        return -1;
    const struct run *run = find_run(&of->pages, copy->to);
    if (run == NULL || copy->to + copy->length > run->address + run->pages * PAGE)
        found("a copy is not within one mapping");
    for (size_t i = 0; is_whole && of == &arriving[arriving_count - 1] && i + 1 < arriving_count; i++)
        if (arriving[i].pages.at_run < arriving[i].pages.run_count)
            found("a page of the root is copied before another process's last one");
    fuzz_touch((const void *)(uintptr_t)copy->from, copy->length);
    for (uint64_t at = 0; at < copy->length; at += PAGE) {
        uint64_t mark;
        memcpy(&mark, (const void *)(uintptr_t)(copy->from + at), sizeof mark);
        if (is_whole && mark != mark_of(of->pages.pid, copy->to + at))
            found("a copy has another page's bytes");
    }
    copied_pages += copy->length / PAGE;
    if (copied_pages > MOST_COPIED_PAGES)
        found("more pages are copied than there are");
    copy->copied = (int64_t)copy->length;
    return odd == 0 ? 0 : -1;
}

static void run_as_target(bool whole)
{
    is_whole = whole;
    copied_pages = 0;
    read_list(0, LIST_HEAD);
    fill.order.all = allocate(arriving_count, sizeof *fill.order.all);
    for (; fill.order.count < arriving_count; fill.order.count++) {
        prepare(0, &arriving[fill.order.count]);
        fill.order.all[fill.order.count] = &arriving[fill.order.count].pages;
        arriving[fill.order.count].descriptor = FIRST_COPY + (int)fill.order.count;
    }
    uint64_t wanted = fill.left;
    fill.stream = openat(0, STREAM_NAME, O_RDONLY | O_CLOEXEC);
    struct block block;
    uint8_t *memory = allocate(BLOCK_PAGES, PAGE);
    while (fill_block(&block, memory)) {
        struct uffd_event event = {.kind = drawn(ODD_IN) == 0 && !whole ? (uint8_t)drawn(32) : UFFD_FAULT};
        event.fault.address = 0x10000 + drawn(MOST_RUNS * MOST_RUN_PAGES * PAGE_BYTES);
        event.removed.start = event.kind == UFFD_FAULT ? event.removed.start : drawn(1 << 24);
        take_event(&arriving[drawn(arriving_count)], &event);
    }
    if (fill.left != 0 || copied_pages != wanted)
        found("pages are left when the stream has ended");
}

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

/* The newest bytes of each process's pages: 0 is none. The pages of a process lie in several parts of 2 MiB. */
static uint64_t newest[MOST_PROCESSES][ROUND_PAGES];
static uint64_t round_number;
static uint64_t writes;

static uint64_t round_address(uint64_t page)
{
    return 0x7fe000 + page * PAGE_BYTES + page / ADJACENT_PAGES * (SET_BLOCK_PAGES + 7) * PAGE_BYTES;
}

static struct batch_head *next_head(uint32_t kind, int pid)
{
    struct batch_head *head = (struct batch_head *)(void *)fuzz_rounds.heads[fuzz_rounds.head_count];
    memset(head, 0, PAGE_BYTES);
    head->kind = kind;
    head->pid = pid;
    head->number = fuzz_rounds.head_count;
    head->round = round_number;
    fuzz_rounds.pages[fuzz_rounds.page_count].head = (int)fuzz_rounds.head_count++;
    fuzz_rounds.page_count++;
    return head;
}

static void put_page(struct batch_head *head, uint64_t address, uint64_t mark)
{
    struct page_range *last = head->pieces > 0 ? &head->ranges[head->pieces - 1] : NULL;
    if (last != NULL && address != UNREAD_PAGES && last->address != UNREAD_PAGES
        && last->address + last->pages * PAGE_BYTES == address)
        last->pages++;
    else
        head->ranges[head->pieces++] = (struct page_range){address, 1};
    head->pages++;
    fuzz_rounds.pages[fuzz_rounds.page_count].head = -1;
    fuzz_rounds.pages[fuzz_rounds.page_count++].mark = mark;
}

static void send_pages(int process)
{
    struct batch_head *head = next_head(BATCH_PAGES_OF, process + 1);
    /* A block that comes in one piece is stored in another way. */
    bool dense = drawn(60) == 0;
    uint64_t page = dense ? drawn(2) == 0 ? 2 : ADJACENT_PAGES : drawn(ROUND_PAGES);
    for (uint64_t left = dense ? BATCH_PAGES - 2 : drawn(BATCH_PAGES - 2) + 1; left > 0 && page < ROUND_PAGES; left--) {
        if (!dense && drawn(16) == 0) {
            put_page(head, UNREAD_PAGES, 0);
        } else {
            newest[process][page] = ++writes;
            put_page(head, round_address(page), writes);
        }
        page += !dense && drawn(8) == 0 ? drawn(60) + 1 : 1;
    }
}

static void send_unmapped(int process)
{
    struct batch_head *head = next_head(BATCH_UNMAPPED, process + 1);
    bool all = drawn(3) == 0;
    for (uint64_t page = 0; all && page < ROUND_PAGES;) {
        uint64_t adjacent = ADJACENT_PAGES - page % ADJACENT_PAGES;
        uint64_t part = set_part(round_address(page), adjacent < ROUND_PAGES - page ? adjacent : ROUND_PAGES - page);
        head->ranges[head->pieces++] = (struct page_range){round_address(page), part};
        memset(&newest[process][page], 0, part * sizeof newest[process][page]);
        page += part;
    }
    if (all)
        return;
    uint64_t page = drawn(ROUND_PAGES);
    for (uint64_t left = drawn(BATCH_PAGES) + 1; left > 0 && page < ROUND_PAGES; left--) {
        head->ranges[head->pieces++] = (struct page_range){round_address(page), 1};
        newest[process][page] = 0;
        page += drawn(20) + 1;
    }
}

static void make_rounds(void)
{
    memset(newest, 0, sizeof newest);
    memset(&fuzz_rounds, 0, sizeof fuzz_rounds);
    round_number = 1;
    writes = 0;
    for (uint64_t left = drawn(MOST_BATCHES); left > 0; left--) {
        int process = (int)drawn(MOST_PROCESSES);
        switch (drawn(8)) {
        case 0:
            next_head(BATCH_ROUND_END, 0);
            round_number++;
            break;
        case 1:
            next_head(BATCH_FORGET, process + 1);
            memset(newest[process], 0, sizeof newest[process]);
            break;
        case 2:
            send_unmapped(process);
            break;
        default:
            send_pages(process);
            break;
        }
    }
    next_head(BATCH_ROUND_END, 0);
    next_head(BATCH_LISTED, 0);
    for (uint64_t left = drawn(4); left > 0; left--)
        send_pages((int)drawn(MOST_PROCESSES));
    next_head(BATCH_LAST, 0);
}

static void damage_rounds(void)
{
    for (uint64_t times = drawn(3) + 1; times > 0; times--) {
        size_t at = drawn(fuzz_rounds.head_count);
        struct batch_head *head = (struct batch_head *)(void *)fuzz_rounds.heads[at];
        uint64_t extremes[] = {0, 1, SET_BLOCK_PAGES, BATCH_PAGES, BATCH_PAGES + 1, UINT32_MAX, UINT64_MAX / 2, UINT64_MAX};
        uint64_t value = drawn(2) == 0 ? drawn(1 << 20) : extremes[drawn(sizeof extremes / sizeof *extremes)];
        struct page_range *range = &head->ranges[drawn(head->pieces < BATCH_PAGES ? head->pieces + 1U : BATCH_PAGES)];
        switch (drawn(10)) {
        case 0:
            head->kind = (uint32_t)drawn(9);
            break;
        case 1:
            head->pid = (int32_t)value;
            break;
        case 2:
            head->pieces = (uint32_t)value;
            break;
        case 3:
            head->pages = (uint32_t)value;
            break;
        case 4:
            head->number = value;
            break;
        case 5:
            head->round = value;
            break;
        case 6:
            range->address = drawn(2) == 0 ? value : value * PAGE_BYTES;
            break;
        case 7:
            range->pages = value;
            break;
        case 8:
            fuzz_rounds.page_count = drawn(fuzz_rounds.page_count + 1);
            break;
        default:
            fuzz_rounds.heads[at][drawn(PAGE_BYTES)] ^= (uint8_t)(1 << drawn(8));
            break;
        }
    }
}

/* Removes a batch with its pages. Such a stream is never accepted. */
static void drop_batch(void)
{
    int dropped = (int)drawn(fuzz_rounds.head_count);
    size_t from = 0;
    while (fuzz_rounds.pages[from].head != dropped)
        from++;
    size_t to = from + 1;
    while (to < fuzz_rounds.page_count && fuzz_rounds.pages[to].head < 0)
        to++;
    memmove(&fuzz_rounds.pages[from], &fuzz_rounds.pages[to], (fuzz_rounds.page_count - to) * sizeof *fuzz_rounds.pages);
    fuzz_rounds.page_count -= to - from;
}

/* What the store counts is what its blocks take. */
static void require_counted(void)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < store.count; i++) {
        for (size_t k = 0; k < store.all[i].pages.count; k++) {
            const struct page_block *block = store.all[i].pages.blocks[k];
            uint64_t pages = 0;
            for (int word = 0; word < SET_WORDS; word++)
                pages += (uint64_t)__builtin_popcountll(block->bits[word]);
            if ((block->slot != SET_NO_SLOT) != (pages > 0))
                found("a block without pages has memory, or one with pages has none");
            taken += block->dense ? SET_BLOCK_PAGES : pages;
        }
    }
    if (taken != store.page_count)
        found("the store counts other pages than its blocks take");
}

static void require_newest(void)
{
    require_counted();
    for (int process = 0; process < MOST_PROCESSES; process++) {
        const struct stored *of = stored_of(process + 1);
        uint64_t wanted = 0;
        for (uint64_t page = 0; page < ROUND_PAGES; page++) {
            uint64_t mark = newest[process][page];
            uint64_t address = round_address(page);
            struct page_block *block = of == NULL ? NULL : set_known(&of->pages, address);
            unsigned place = (unsigned)(address / PAGE_BYTES % SET_BLOCK_PAGES);
            bool present = block != NULL && (block->bits[place / 64] >> (place % 64) & 1) != 0;
            wanted += mark != 0;
            if (present != (mark != 0))
                found(present ? "a page is stored that was forgotten" : "a page is lost");
            if (present && memcmp(slot_memory(block, address), &mark, sizeof mark) != 0)
                found("a page has other bytes than its newest ones");
        }
        if (of != NULL && of->pages.pages != wanted)
            found("pages are stored that were never sent");
    }
}

static void run_rounds_as_target(bool whole, bool dropped)
{
    open_store(0, STORE_BYTES, NULL);
    run_store(NULL);
    if (whole)
        require_newest();
    if (dropped)
        found("a stream without one of its batches is accepted");
}

static void forget_store(void)
{
    memset(&store, 0, sizeof store);
    pthread_mutex_init(&store.lock, NULL);
    pthread_cond_init(&store.changed, NULL);
}

static void forget(void)
{
    forget_store();
    while (fuzz_memory_count > 0)
        fuzz_free(fuzz_memory[0]);
    arriving = NULL;
    arriving_count = 0;
    fill.order = (struct order){NULL, 0, 0};
    fill.left = 0;
    fuzz_file_count = 0;
    /* A refusal leaves the lock that it was found under as it is. */
    pthread_mutex_init(&fill.lock, NULL);
    rewind(fuzz_sink);
    memset(fuzz_said, 0, sizeof fuzz_said);
}

/* True if it was taken. */
static bool try_one(void)
{
    bool whole = drawn(WHOLE_IN) == 0;
    int processes = (int)drawn(MOST_PROCESSES) + 1;
    forget();
    bool in_rounds = number % ROUNDS_IN == 0;
    bool dropped = in_rounds && !whole && drawn(4) == 0;
    if (in_rounds) {
        make_rounds();
        if (dropped)
            drop_batch();
        else if (!whole)
            damage_rounds();
    }
    if (setjmp(fuzz_refused) == 0) {
        if (in_rounds) {
            run_rounds_as_target(whole, dropped);
            return true;
        }
        for (int i = 0; i < processes; i++) {
            make_maps(i + 1);
            if (!whole && drawn(8) == 0)
                damage(&fuzz_files[2 * i + (int)drawn(2)]);
        }
        run_as_source(processes);
        if (!whole) {
            for (int i = 0; i < 2 * processes; i++)
                fuzz_fence(fuzz_files[i].bytes, FILE_ROOM, false);
            if (drawn(3) > 0)
                damage(&fuzz_files[drawn(2 * (uint64_t)processes + 1)]);
            /* The stream's bytes are a job's memory; only that there are too few of them can harm. */
            fuzz_stream_bytes -= drawn(4) > 0 ? 0 : drawn(fuzz_stream_bytes + 1);
        }
        run_as_target(whole);
        return true;
    }
    fflush(fuzz_sink);
    if (whole)
        found("a sound input is refused");
    if (strlen(fuzz_said) < 16 || strchr(fuzz_said, ' ') == NULL)
        found("a refusal says nothing");
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
    fuzz_sink = fmemopen(fuzz_said, sizeof fuzz_said - 1, "w");
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
