/* The lazy pages of the processes, from CRIU's page maps and memory maps, and the order in which they travel. */
#ifndef PPMR_PAGES_PAGE_MAPS_H
#define PPMR_PAGES_PAGE_MAPS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "images.h"

/* Adjacent pages of one mapping, and the number of the first of them among the process's lazy pages. */
struct run {
    uint64_t address;
    uint64_t pages;
    uint64_t place;
    /* Whether a child of fork(2) has zeros there (MADV_WIPEONFORK). */
    bool wiped;
};

struct mapped_range {
    uint64_t start;
    uint64_t end;
};

struct pages {
    int pid;
    /* By address, as the page map has them. */
    struct run *runs;
    size_t run_count;
    size_t run_room;
    /* The mappings that may have lazy pages, by address: restored processes register them. */
    struct mapped_range *mappings;
    size_t mapping_count;
    size_t mapping_room;
    uint64_t total;
    /* The position of the order of all pages in this process. */
    size_t at_run;
    uint64_t in_run;
};

/* Reads a process's page map and memory map. */
void read_maps(struct pages *pages, struct bytes *image, const char *name, struct bytes *memory_map,
               const char *memory_name);

/* The run with an address, or NULL. */
const struct run *find_run(const struct pages *pages, uint64_t address);

/* The name by which CRIU calls an image of a process. */
void image_name(char name[NAME_MAX], const char *kind, int pid);

/* Adjacent pages of a process. */
struct piece {
    uint64_t address;
    uint64_t pages;
    uint64_t place;
};

/* Up to BLOCK_PAGES pages of one process, in the order of the stream. */
struct block {
    size_t process;
    size_t count;
    uint64_t pages;
    struct piece pieces[BLOCK_PAGES];
};

/* All pages of all processes: a block of each process but the last in turn, and then the blocks of the last one. */
struct order {
    struct pages **all;
    size_t count;
    size_t turn;
};

/* The next block; false when there are no more. */
bool next_block(struct order *order, struct block *block);

#endif
