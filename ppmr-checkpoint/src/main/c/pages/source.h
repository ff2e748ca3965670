/* ppmr-pages source: CRIU's dump of held processes, whose pages are sent beside it. */
#ifndef PPMR_PAGES_SOURCE_H
#define PPMR_PAGES_SOURCE_H

#include <stddef.h>
#include <stdint.h>

/* With root_start the processes run, and their memory is sent in rounds before: then the orders name the processes. */
int run_source(const char *images_path, const char *scratch_path, int root, uint64_t root_start, int *pids,
               size_t pid_count, char **dump);

#endif
