/*
 * Stops all threads of a process tree for some milliseconds by ptrace(2), and makes a userfaultfd in a process of it.
 *
 * A process of its own does this: `ppmr-pages stop`. The kernel continues all threads when that process ends, however it
 * ends. So no failure leaves a thread stopped. A thread that does not stop in time can be released only in this way.
 *
 * A stop interrupts system calls. The kernel restarts most of them. epoll_wait(2) would return EINTR, and is started
 * again here. sigtimedwait(2), semtimedop(2), io_getevents(2), and calls of sockets with a time limit return EINTR, as
 * after any stop by a signal.
 */
#ifndef PPMR_TREE_STOP_H
#define PPMR_TREE_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A process of the tree, and its number in its own namespace. */
struct stopped_process {
    int32_t pid;
    int32_t inner;
    uint64_t start;
};

/* The helper, and this process's end of the channel to it. */
struct tree_stop {
    pid_t helper;
    int channel;
};

enum { STOP_REASON_BYTES = 240 };

/*
 * Stops the tree of a process. On success the processes are in *list, which the caller frees. Otherwise the reason is in
 * `why`, and no thread is stopped.
 */
bool stop_tree(struct tree_stop *stop, int root, uint64_t root_start, struct stopped_process **list, size_t *count,
               char why[STOP_REASON_BYTES]);

/* Returns a userfaultfd of a stopped process, which has no descriptor of it; or -1 with the reason. */
int make_userfaultfd(struct tree_stop *stop, int pid, char why[STOP_REASON_BYTES]);

/* Whether the threads are stopped: the helper lives. */
bool holds_tree(const struct tree_stop *stop);

/* Continues all threads. Returns false if they were not stopped all the time. */
bool continue_tree(struct tree_stop *stop);

/* The helper's main function. */
int run_stop(int channel, int root, uint64_t root_start);

#endif
