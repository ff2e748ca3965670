/* The common definitions of selfckpt-job, cr_checkpoint and cr_restart. */
#ifndef PPMR_SELFCKPT_H
#define PPMR_SELFCKPT_H

#include <limits.h>
#include <stdint.h>

/* The job listens on an abstract Unix socket of this name, with its PID. Abstract names belong to the network
 * namespace. They need no directory and no permission, and two isolated nodes do not collide. unix(7). */
#define SELFCKPT_SOCKET_FORMAT "ppmr-selfckpt-%d"

/* A request of cr_checkpoint, with which the open context file is sent. */
struct selfckpt_request {
    uint32_t waits; /* whether the job waits until the connection ends, since a signal comes before that */
    uint32_t sync;
};

struct selfckpt_reply {
    int32_t error; /* 0, or an errno */
};

/* The head of a context file, with a 4-byte length before each of the two. */
#define SELFCKPT_LANES 8

static const char SELFCKPT_MAGIC[8] = {'P', 'P', 'M', 'R', 'S', 'C', 'K', '2'};

struct image_header {
    char magic[8];
    uint32_t version;
    uint32_t page_bytes;
    uint32_t pid;    /* that it had */
    uint32_t orphan; /* whether its parent was init */
};

struct job_state {
    uint64_t size_bytes;
    uint64_t passes;
    uint64_t seed;
    uint64_t pass;          /* the pass that is under way, from 0 */
    uint64_t word;          /* the next word of it */
    uint64_t progress_offset;
    uint64_t pace_ms;
    uint64_t writers;       /* how many write its image at once */
    uint64_t lanes[SELFCKPT_LANES];
};

#endif
