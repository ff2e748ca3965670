/*
 * Finds the pages that a process has written since the last look, from outside: a userfaultfd of the process in the
 * kernel's asynchronous write protection (UFFD_FEATURE_WP_ASYNC, Linux 6.7), and PAGEMAP_SCAN. ioctl_userfaultfd(2),
 * ioctl_pagemap_scan(2).
 *
 * Looks that reset the protection happen while all threads of the job are stopped. Otherwise a read(2) in flight could
 * write into a page after its reset, unnoticed; and a mapping could grow between the list of mappings and its
 * registration, which would split it.
 *
 * The set of sent pages holds each page whose bytes were read after the last look that found it written. A mapping that
 * is new, or that is no longer registered, is not in the set. It is registered again, and all of it counts as written:
 * mremap(2) can drop the registration of a neighbour and leave its pages' old marks.
 *
 * An older kernel that marks written pages (soft-dirty, CONFIG_MEM_SOFT_DIRTY) needs no userfaultfd: the marks are read
 * out of /proc/PID/pagemap, and cleared by /proc/PID/clear_refs. Some changes leave no mark, so the frame of each page is
 * noted, too: a page with another frame counts as written.
 */
#ifndef PPMR_WRITE_TRACKER_H
#define PPMR_WRITE_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page-set.h"

/* Ranges of pages, by address. */
struct ranges {
    struct page_range *all;
    size_t count;
    size_t room;
};

/* A number for each page, by blocks. */
struct frames {
    struct page_set blocks;
    uint64_t *all;
    /* Of blocks. */
    size_t count;
    size_t room;
};

struct tracked {
    int pid;
    int inner;
    uint64_t start;
    /* Both are -1 if it cannot be tracked: then all of its memory counts as written. */
    int userfaultfd;
    /* /proc/PID/clear_refs, with soft-dirty marks. */
    int clear;
    int pagemap;
    /* /proc/PID/mem. */
    int memory;
    struct page_set sent;
    /* What the target stores of it: all pages that were sent, without those that were forgotten. */
    struct page_set stored;
    /* Its mappings at the last look. */
    struct ranges mapped;
    /* What the last look found. */
    struct ranges written;
    /* With soft-dirty marks: the frames that the last look has found. */
    struct frames frames;
    /* Why it is not tracked. */
    char why[240];
};

enum tracking { TRACK_NOTHING, TRACK_BY_USERFAULTFD, TRACK_BY_SOFT_DIRTY };

/* How this kernel can track a process. It is tried with this one. TRACK_NOTHING with the reason. */
enum tracking find_tracking(char *why, size_t room);

/* Begins to track a process. Takes the userfaultfd; -1 for soft-dirty marks. Returns false with the reason in `why`. */
bool begin_tracking(struct tracked *tracked, int userfaultfd);

bool is_tracked(const struct tracked *tracked);

/* Registers the mappings of a stopped process. All of their pages count as written. Returns false with the reason. */
bool register_mappings(struct tracked *tracked);

/* Registers new mappings, finds the written pages, and protects them again. The process is stopped. Returns false if
 * its memory is gone, as after execve(2). */
bool look_and_protect(struct tracked *tracked);

/* Finds the written pages without a reset; returns their number. */
uint64_t count_written(struct tracked *tracked);

/* The last look: what is in `sent` afterwards needs no further sending. The process is stopped. */
void look_last(struct tracked *tracked);

void end_tracking(struct tracked *tracked);

#endif
