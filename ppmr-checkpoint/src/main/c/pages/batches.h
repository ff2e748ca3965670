/* The format of rounds.stream: batches of pages, each behind a page that describes it. */
#ifndef PPMR_PAGES_BATCHES_H
#define PPMR_PAGES_BATCHES_H

#include <stdint.h>

#include "../page-set.h"
#include "common.h"

enum {
    /* A batch: a page that describes it, and these pages at most. */
    BATCH_PAGES = 248
};

#define ROUNDS_NAME "rounds.stream"
#define ROUNDS_LIST_HEAD "ppmr pages 3, in rounds"

/* What a batch of rounds.stream holds. */
enum batch_kind {
    /* Pages of a process; later ones replace earlier ones. */
    BATCH_PAGES_OF = 1,
    /* A process ended, or has executed another program: its pages are of no use. */
    BATCH_FORGET,
    /* Pages that a process has unmapped. */
    BATCH_UNMAPPED,
    /* The end of a round. */
    BATCH_ROUND_END,
    /* The list of processes is there, and all images. */
    BATCH_LISTED,
    /* All pages of the page maps have been sent. */
    BATCH_LAST
};

/* An address of pages that could not be read, since the process has unmapped them. Their bytes mean nothing. */
#define UNREAD_PAGES UINT64_MAX

/* The first page of a batch. */
struct batch_head {
    uint32_t kind;
    int32_t pid;
    uint32_t pieces;
    uint32_t pages;
    /* The place of this batch among all. */
    uint64_t number;
    /* Of a round's end: the round's number. */
    uint64_t round;
    struct page_range ranges[BATCH_PAGES];
};

_Static_assert(sizeof(struct batch_head) <= PAGE, "a batch's head is a page");

#endif
