/* The source while the job runs: rounds in which the memory of a process tree is sent. */
#ifndef PPMR_PAGES_ROUNDS_H
#define PPMR_PAGES_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

#include "page-maps.h"

/* Opens the stream, and makes rounds until the order to dump comes, with the processes that are held by then. */
size_t run_rounds(int images, int scratch, int root, uint64_t root_start, int *pids);

/* Marks that the list of processes and all images are there, so that the target may begin its restore. */
void send_listed(void);

/* Sends the pages of a held process's page map that were not sent, or were written since. */
void send_rest(const struct pages *pages, int outer_pid, int memory);

/* Ends the stream. Prints how much was sent in the pause, and in all. */
void end_rounds(void);

#endif
