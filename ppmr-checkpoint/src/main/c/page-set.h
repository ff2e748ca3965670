/*
 * A set of pages of an address space, in blocks of 2 MiB with a bit for each page. Blocks lie by address. A block can
 * have a place in a store, which the owner of the set assigns. For one thread.
 */
#ifndef PPMR_PAGE_SET_H
#define PPMR_PAGE_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SET_PAGE = 4096, SET_BLOCK_PAGES = 512, SET_WORDS = SET_BLOCK_PAGES / 64 };

#define SET_NO_SLOT UINT32_MAX

/* Adjacent pages. */
struct page_range {
    uint64_t address;
    uint64_t pages;
};

struct page_block {
    /* The address by 2 MiB. */
    uint64_t number;
    uint32_t slot;
    /* For the owner: pages that are still needed. */
    uint32_t left;
    bool dense;
    uint64_t bits[SET_WORDS];
};

struct page_set {
    struct page_block **blocks;
    size_t count;
    size_t room;
    /* The block that was found last. */
    size_t last;
    uint64_t pages;
};

/* The place of the first block that is not before a number. */
static inline size_t set_place(struct page_set *set, uint64_t number)
{
    if (set->last < set->count && set->blocks[set->last]->number == number) {
        return set->last;
    }
    size_t low = 0;
    size_t high = set->count;
    if (high > 0 && set->blocks[high - 1]->number < number) {
        low = high;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->blocks[middle]->number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    set->last = low;
    return low;
}

/* The block of an address, or NULL. */
static inline struct page_block *set_find(struct page_set *set, uint64_t address)
{
    uint64_t number = address / SET_PAGE / SET_BLOCK_PAGES;
    size_t place = set_place(set, number);
    return place < set->count && set->blocks[place]->number == number ? set->blocks[place] : NULL;
}

/* The same for a set that threads read at the same time; it changes nothing. */
static inline struct page_block *set_known(const struct page_set *set, uint64_t address)
{
    struct page_set view = *set;
    view.last = view.count;
    return set_find(&view, address);
}

/* The block of an address, which is made if there is none. NULL if there is no memory. */
static inline struct page_block *set_block(struct page_set *set, uint64_t address)
{
    struct page_block *found = set_find(set, address);
    if (found != NULL) {
        return found;
    }
    if (set->count == set->room) {
        size_t room = set->room == 0 ? 64 : 2 * set->room;
        struct page_block **more = reallocarray(set->blocks, room, sizeof(struct page_block *));
        if (more == NULL) {
            return NULL;
        }
        set->blocks = more;
        set->room = room;
    }
    struct page_block *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    made->number = address / SET_PAGE / SET_BLOCK_PAGES;
    made->slot = SET_NO_SLOT;
    size_t place = set_place(set, made->number);
    memmove(&set->blocks[place + 1], &set->blocks[place], (set->count - place) * sizeof(struct page_block *));
    set->blocks[place] = made;
    set->count++;
    return made;
}

/* The part of a range that lies in the block of its first page, in pages. */
static inline uint64_t set_part(uint64_t address, uint64_t pages)
{
    uint64_t left = SET_BLOCK_PAGES - address / SET_PAGE % SET_BLOCK_PAGES;
    return pages < left ? pages : left;
}

/* The bits of some pages of a block in one of its words; *count pages of them, at most to the word's end. */
static inline uint64_t set_mask(unsigned first, unsigned pages, unsigned *count)
{
    unsigned left = 64 - first % 64;
    *count = pages < left ? pages : left;
    uint64_t ones = *count == 64 ? UINT64_MAX : (UINT64_C(1) << *count) - 1;
    return ones << (first % 64);
}

/* Sets or clears the bits of pages of one block. Returns the number of pages that were not so before. */
static inline uint64_t set_mark(struct page_set *set, struct page_block *block, uint64_t address, uint64_t pages,
                                bool present)
{
    uint64_t changed = 0;
    unsigned first = (unsigned)(address / SET_PAGE % SET_BLOCK_PAGES);
    unsigned left = (unsigned)pages;
    while (left > 0) {
        unsigned count;
        uint64_t mask = set_mask(first, left, &count);
        uint64_t *word = &block->bits[first / 64];
        changed += (unsigned)__builtin_popcountll(present ? mask & ~*word : mask & *word);
        *word = present ? *word | mask : *word & ~mask;
        first += count;
        left -= count;
    }
    set->pages = present ? set->pages + changed : set->pages - changed;
    return changed;
}

/* Adds pages; false if there is no memory. */
static inline bool set_add(struct page_set *set, uint64_t address, uint64_t pages)
{
    while (pages > 0) {
        uint64_t part = set_part(address, pages);
        struct page_block *block = set_block(set, address);
        if (block == NULL) {
            return false;
        }
        set_mark(set, block, address, part, true);
        address += part * SET_PAGE;
        pages -= part;
    }
    return true;
}

/* Removes pages. Blocks stay, also empty ones. */
static inline void set_remove(struct page_set *set, uint64_t address, uint64_t pages)
{
    uint64_t end = address + pages * SET_PAGE;
    size_t place = set_place(set, address / SET_PAGE / SET_BLOCK_PAGES);
    for (; place < set->count; place++) {
        struct page_block *block = set->blocks[place];
        uint64_t start = block->number * SET_BLOCK_PAGES * SET_PAGE;
        uint64_t behind = start + (uint64_t)SET_BLOCK_PAGES * SET_PAGE;
        if (start >= end) {
            return;
        }
        uint64_t from = start > address ? start : address;
        uint64_t to = behind < end ? behind : end;
        set_mark(set, block, from, (to - from) / SET_PAGE, false);
    }
}

/*
 * The number of pages at the beginning of a range that are all in the set, or all not in it; *present is which. The
 * run lies within the block of its first page.
 */
static inline uint64_t set_run(struct page_set *set, uint64_t address, uint64_t pages, bool *present)
{
    const struct page_block *block = set_find(set, address);
    uint64_t most = set_part(address, pages);
    *present = false;
    if (block == NULL) {
        return most;
    }
    unsigned first = (unsigned)(address / SET_PAGE % SET_BLOCK_PAGES);
    *present = (block->bits[first / 64] >> (first % 64) & 1) != 0;
    unsigned at = first;
    unsigned end = first + (unsigned)most;
    while (at < end) {
        uint64_t word = block->bits[at / 64] >> (at % 64);
        uint64_t other = *present ? ~word : word;
        unsigned same = other == 0 ? 64 : (unsigned)__builtin_ctzll(other);
        unsigned left = 64 - at % 64;
        if (same < left) {
            at += same;
            break;
        }
        at += left;
    }
    return (at < end ? at : end) - first;
}

/* Calls a function with each run of pages of the set that lies outside of ranges, which ascend and do not overlap. */
static inline void set_each_outside(struct page_set *set, const struct page_range *kept, size_t count,
                                    void (*each)(void *context, uint64_t address, uint64_t pages), void *context)
{
    size_t next = 0;
    for (size_t i = 0; i < set->count; i++) {
        uint64_t at = set->blocks[i]->number * SET_BLOCK_PAGES * SET_PAGE;
        uint64_t end = at + (uint64_t)SET_BLOCK_PAGES * SET_PAGE;
        while (at < end) {
            while (next < count && kept[next].address + kept[next].pages * SET_PAGE <= at) {
                next++;
            }
            uint64_t kept_start = next < count ? kept[next].address : end;
            if (kept_start <= at) {
                at = kept[next].address + kept[next].pages * SET_PAGE;
                continue;
            }
            uint64_t gap_end = kept_start < end ? kept_start : end;
            bool present;
            uint64_t pages = set_run(set, at, (gap_end - at) / SET_PAGE, &present);
            if (present) {
                each(context, at, pages);
            }
            at += pages * SET_PAGE;
        }
    }
}

/* Removes all pages outside of ranges, which ascend and do not overlap. */
static inline void set_keep(struct page_set *set, const struct page_range *kept, size_t count)
{
    size_t next = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct page_block *block = set->blocks[i];
        uint64_t at = block->number * SET_BLOCK_PAGES * SET_PAGE;
        uint64_t end = at + (uint64_t)SET_BLOCK_PAGES * SET_PAGE;
        while (next < count && kept[next].address + kept[next].pages * SET_PAGE <= at) {
            next++;
        }
        for (size_t range = next; at < end; range++) {
            uint64_t start = range < count ? kept[range].address : end;
            uint64_t gap_end = start < end ? start : end;
            if (gap_end > at) {
                set_mark(set, block, at, (gap_end - at) / SET_PAGE, false);
            }
            if (range >= count || start >= end) {
                break;
            }
            at = kept[range].address + kept[range].pages * SET_PAGE;
        }
    }
}

static inline void set_free(struct page_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        free(set->blocks[i]);
    }
    free(set->blocks);
    *set = (struct page_set){0};
}

#endif
