/* What selfckpt-job, cr_checkpoint and cr_restart agree on. */
#ifndef PPMR_SELFCKPT_H
#define PPMR_SELFCKPT_H

#include <limits.h>
#include <stdint.h>

/*
 * The job listens on an abstract Unix socket of this name, with its PID: abstract names belong to the network namespace,
 * so they need no directory and no permission, and two isolated nodes do not meet. unix(7).
 */
#define SELFCKPT_SOCKET_FORMAT "ppmr-selfckpt-%d"

/* How the job creates its context file. */
enum selfckpt_policy { POLICY_ATOMIC, POLICY_CLOBBER, POLICY_NOCLOBBER, POLICY_DESCRIPTOR };

/* What becomes of the job when its context file is complete. */
enum selfckpt_after { AFTER_RUN, AFTER_STOP, AFTER_CONT, AFTER_TERM, AFTER_KILL };

struct selfckpt_request {
    uint32_t policy;
    uint32_t after;
    uint32_t sync;
    char path[PATH_MAX];
};

struct selfckpt_reply {
    int32_t error; /* 0, or an errno */
    char message[256];
};

#endif
