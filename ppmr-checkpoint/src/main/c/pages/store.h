/*
 * The target's store: the newest bytes of each page that rounds.stream has brought, and a bit for each. One thread fills
 * it. When everything is there, threads read it and give its blocks back.
 */
#ifndef PPMR_PAGES_STORE_H
#define PPMR_PAGES_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "../page-set.h"

/* The pages of one process that have arrived, the newest of each. */
struct stored {
    int pid;
    struct page_set pages;
};

/*
 * Opens rounds.stream and reserves addresses for the pages. The limit is that of all stores with the same account, a file;
 * NULL if there is no other one.
 */
void open_store(int images, uint64_t most_bytes, const char *account);

/* Closes rounds.stream, all of which was taken. */
void close_rounds(void);

/* Takes batches until the last one. The body of a thread. */
void *run_store(void *unused);

/* Waits until the source has its list and all images. */
void await_listed(void);

/* Waits until every page is there. */
void await_whole(void);

/* The pages of a process, or NULL. */
struct stored *stored_of(int pid);

/* The memory of a stored page. */
uint8_t *slot_memory(const struct page_block *block, uint64_t address);

/* Gives the memory of a block back, all of whose pages were used. */
void give_back(const struct page_block *block);

#endif
