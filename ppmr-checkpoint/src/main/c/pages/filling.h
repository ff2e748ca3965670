/*
 * The processes of a copy whose pages come out of the store. Threads copy the pages; one thread reads faults and events.
 *
 * A copy may run while it is filled. It then changes its mappings, and forks. The kernel reports each such change, and
 * blocks the changing thread until the report is read, userfaultfd(2). Reports are read and applied under the lock of the
 * process, which each copying thread shares from the look at the map to the end of UFFDIO_COPY. So no page is copied to
 * a place that it has left.
 *
 * Reports of two threads of a process can arrive in another order than their changes were made. They are applied as they
 * are read, except for those that contradict what is known: these wait for another report, or until none is outstanding. As
 * long as one is, UFFDIO_COPY fails with EAGAIN. Then the kernel shows which change came last.
 */
#ifndef PPMR_PAGES_FILLING_H
#define PPMR_PAGES_FILLING_H

#include <stdbool.h>
#include <stdint.h>

#include "page-maps.h"

struct filling;

/* Takes a process with its lazy pages; none of them is there. `wake` is called when the last page is there. */
struct filling *make_filling(const struct pages *pages, void (*wake)(void));

/* The process has its userfaultfd. */
void give_descriptor(struct filling *of, int descriptor);

/* Ends this program unless each page of all processes is in the store. */
void require_stored(void);

/* Lets the copying threads begin. */
void begin_filling(void);

/* All processes have registered their memory. */
void note_registered(void);

/* Copies pages until all are there. The body of a thread. */
void *run_filling(void *unused);

/* Copies the pages that a child of fork(2) must not have (MADV_WIPEONFORK), before the processes may run. */
void fill_wiped(void);

/* The processes may run from now on. */
void let_run(void);

/* Reads faults and events of a process, and handles them. */
void take_reports(struct filling *of);

/* Copies the pages that threads asked for before everything was in the store. For the thread that reads reports. */
void answer_asked(void);

/* The number of pages that are not there yet. */
uint64_t pages_left(void);

/* The processes one after the other; NULL behind the last one. A process that forks adds one at the end. */
struct filling *next_filling(struct filling *after);

/* Its userfaultfd, or -1 if it has none, or ended. */
int descriptor_of(struct filling *of);

#endif
