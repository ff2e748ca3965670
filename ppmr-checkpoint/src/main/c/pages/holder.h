/*
 * A second process that has the descriptors of the copies' memory. As long as one process has them the memory stays
 * registered, so a thread of a copy that needs a missing page blocks, also if it is continued (SIGCONT).
 */
#ifndef PPMR_PAGES_HOLDER_H
#define PPMR_PAGES_HOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

void start_holder(void);

/* The holder's PID. */
pid_t holder_pid(void);

/* Gives a descriptor to the holder before it is used. */
void share_with_holder(int descriptor);

/* Notes that the holder ended, so that this program's end makes a new one. */
void lose_holder(void);

/* Whether the memory behind a descriptor is gone. It is asked with a page that cannot be read. */
bool is_over(int descriptor, const void *unreadable);

/* Closes a descriptor whose memory is gone. */
void release_held(int descriptor);

/*
 * From now on the copies may run. If this program ends before it dismisses the holder, the holder kills all processes of
 * their PID namespace, which may be this program's own: they would never get the pages that are missing.
 */
void guard_copies(uint64_t namespace_inode, bool is_own);

/* Has the holder end, which has nothing more to hold. */
void dismiss_holder(void);

/* Starts a holder again that has the same descriptors, after the one before ended while the copies run. */
void restart_holder(void);

/* Keeps the descriptors in a new holder if the first one is gone; does nothing otherwise. */
void replace_holder(void);

/* Takes a descriptor, if there is one, with the byte before it; the byte alone; or neither at the end. */
ssize_t receive_descriptor(int socket, uint8_t *byte, int *descriptor);

#endif
