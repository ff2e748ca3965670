/* ppmr-pages target: CRIU's restore, whose processes are filled with the pages that the source sends. */
#ifndef PPMR_PAGES_TARGET_H
#define PPMR_PAGES_TARGET_H

#include <stdint.h>

/* With store_bytes the pages come in rounds, and at most these bytes of them are kept. */
int run_target(const char *images_path, const char *work_path, const char *pids_path, uint64_t store_bytes,
               char **restore);

#endif
