/* See page-maps.h. */
#define _GNU_SOURCE
#include "page-maps.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_RUNS = 1 << 24, IMAGE_HEAD_BYTES = 8 };

/* images/pagemap.proto, criu/include/image.h */
#define PAGEMAP_PARENT 1U
#define PAGEMAP_LAZY 2U
#define PAGEMAP_PRESENT 4U
/* images/mm.proto, images/vma.proto, mmap(2) */
#define FIELD_VMAS 14U
#define MAP_KIND (0x02U | 0x20U | 0x2000U | 0x40000U)
#define MAP_LAZY (0x02U | 0x20U)
/* madvise(2) */
#define ADVICE_WIPE_ON_FORK 18

static void add_run(struct pages *pages, uint64_t address, uint64_t count, bool wiped, const char *name)
{
    if (pages->run_count == pages->run_room) {
        if (pages->run_count >= MAX_RUNS) {
            fail("%s has more than %d runs of lazy pages", name, (int)MAX_RUNS);
        }
        pages->run_room = pages->run_room == 0 ? 256 : 2 * pages->run_room;
        pages->runs = enlarge(pages->runs, pages->run_room, sizeof *pages->runs);
    }
    pages->runs[pages->run_count++] = (struct run){address, count, pages->total, wiped};
    pages->total += count;
}

/* A mapping of the memory map. */
struct mapping {
    uint64_t start;
    uint64_t end;
    bool lazy;
    bool wiped;
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
    mappings->now = (struct mapping){0, 0, false, false};
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
        case 9:
            mappings->now.wiped = (value >> ADVICE_WIPE_ON_FORK & 1) != 0;
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
        add_run(pages, address, part, mappings->now.wiped, mappings->name);
        address += part * PAGE;
        count -= part;
    }
}

static void list_mappings(struct pages *pages, struct bytes *memory_map, const char *name)
{
    struct mappings mappings;
    open_mappings(&mappings, memory_map, name);
    while (next_mapping(&mappings)) {
        if (!mappings.now.lazy) {
            continue;
        }
        if (pages->mapping_count == pages->mapping_room) {
            pages->mapping_room = pages->mapping_room == 0 ? 64 : 2 * pages->mapping_room;
            pages->mappings = enlarge(pages->mappings, pages->mapping_room, sizeof *pages->mappings);
        }
        pages->mappings[pages->mapping_count++] = (struct mapped_range){mappings.now.start, mappings.now.end};
    }
}

void read_maps(struct pages *pages, struct bytes *image, const char *name, struct bytes *memory_map,
               const char *memory_name)
{
    size_t offset = IMAGE_HEAD_BYTES;
    struct message message;
    if (image->length < IMAGE_HEAD_BYTES || !next_message(image, &offset, name, &message)) {
        fail("%s has no head", name);
    }
    list_mappings(pages, memory_map, memory_name);
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

const struct run *find_run(const struct pages *pages, uint64_t address)
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

void image_name(char name[NAME_MAX], const char *kind, int pid)
{
    snprintf(name, NAME_MAX, "%s-%d.img", kind, pid);
}

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

bool next_block(struct order *order, struct block *block)
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
