/*
 * A second process that has the descriptors of the copies' memory. As long as one process has them the memory stays
 * registered, so a thread of a copy that needs a missing page blocks, also if it is continued (SIGCONT). Both processes
 * have one table of descriptors, clone(2). So there is no moment in which only one of them has a descriptor.
 */
#ifndef PPMR_PAGES_HOLDER_H
#define PPMR_PAGES_HOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

void start_holder(void);

/* The holder's PID. */
pid_t holder_pid(void);

/* Notes that the holder ended, so that this program's end makes a new one. */
void lose_holder(void);

/* Whether the memory behind a descriptor is gone. It is asked with a page that cannot be read. */
bool is_over(int descriptor, const void *unreadable);

bool is_userfaultfd(int descriptor);

/*
 * Ignores all signals that can be. A stop of the service manager's unit sends SIGTERM to all of its processes at once: if
 * both of these ended, copies that handle it would continue with empty pages.
 */
void ignore_signals(void);

/*
 * From now on the copies may run. If this program ends before it dismisses the holder, the holder kills all processes of
 * their PID namespace, which may be this program's own: they would never get the pages that are missing.
 */
void guard_copies(uint64_t namespace_inode, bool is_own);

/* Notes that all pages are there. From now on the copies live, whatever ends this program or the holder. */
void note_whole(void);

/* Has the holder end, which has nothing more to hold. */
void dismiss_holder(void);

/* Starts a holder again, after the one before ended while the copies run. False if it was dismissed before. */
bool restart_holder(void);

/* Starts a holder again if the first one is gone, before this program ends; does nothing otherwise. */
void replace_holder(void);

/* Closes all descriptors of copies' memory, all of which is there. */
void close_copies(void);

#endif
