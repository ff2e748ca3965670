/* ppmr-pages target: CRIU's restore, whose processes are filled with the pages that the source sends. */
#ifndef PPMR_PAGES_TARGET_H
#define PPMR_PAGES_TARGET_H

#include <stdbool.h>
#include <stdint.h>

struct target_orders {
    const char *images;
    /* The directory of CRIU's socket, which is root's own. */
    const char *work;
    /* A new file, for the numbers of the copy's processes. */
    const char *pids;
    /* If not NULL, the copies may run while they are filled. A new file, for the numbers of the filling programs. */
    const char *fillers;
    /* Whether the copies are in another PID namespace than this program, which has all of that namespace otherwise. */
    bool apart;
    /* If not 0, the pages come in rounds, and at most these bytes of them are kept. */
    uint64_t store_bytes;
    /* The file in which all programs with this limit count their pages, or NULL. */
    const char *account;
};

int run_target(const struct target_orders *orders, char **restore);

#endif
