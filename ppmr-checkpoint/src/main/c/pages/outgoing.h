/*
 * The stream that a source writes. The main thread fills a ring of pages, and a thread of its own writes what is in it.
 */
#ifndef PPMR_PAGES_OUTGOING_H
#define PPMR_PAGES_OUTGOING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "page-maps.h"

enum { RING_PAGES = 1024 };

/* Memory for pages that follow each other in the ring, in at most two parts. */
struct room {
    struct iovec parts[2];
    size_t count;
};

/* Makes the file and starts the writer. */
void open_stream(int images, const char *name);

/* Waits until pages have room in the ring. A writer that cannot write ends this program, so the wait ends. */
void await_room(uint64_t pages);

/* The room of the next pages that are published, after some that are skipped. */
struct room next_room(uint64_t skipped, uint64_t pages);

/* The memory of one page of some room. */
uint8_t *page_of(const struct room *room, uint64_t page);

/* Reads pieces of a process's memory; returns the number of pages that were read, up to the first refused one. */
uint64_t read_pieces(int pid, const struct piece *pieces, size_t count, const struct room *room);

/* Has the writer write the next pages of the ring, and send them on at once if that is wanted. */
void publish(uint64_t pages, bool at_once);

/* Nothing is published from now on. */
void end_stream(void);

/* Waits until everything is written. */
void close_stream(void);

#endif
