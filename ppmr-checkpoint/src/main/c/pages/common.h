/* What all parts of ppmr-pages use: errors, memory, time, children. Nothing here returns after an error. */
#ifndef PPMR_PAGES_COMMON_H
#define PPMR_PAGES_COMMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PAGE = 4096,
    MAX_PROCESSES = 1024,
    /* A turn of a process: the usual chunk. */
    BLOCK_PAGES = 64
};

#define LIST_NAME "pages.list"
/* Change this with the order of the pages or the size of a block: both sides must have the same version. */
#define LIST_HEAD "ppmr pages 3, blocks of 64, root last"
_Static_assert(BLOCK_PAGES == 64, "the list's head has the length of a block");
#define STREAM_NAME "pages.stream"

/* The first word of the command line, for messages. */
extern const char *mode;

/* What must happen before this program ends with an error; NULL for nothing. */
extern void (*before_leaving)(void);

/* Ends with a message. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

/* Ends with a message and the text of errno. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

void *allocate(size_t count, size_t bytes);
void *enlarge(void *memory, size_t count, size_t bytes);
uint64_t now_ns(void);
void sleep_ns(long ns);

/* Starts a command that keeps the given descriptors, whose numbers are put in place of {socket} and {status}. */
pid_t start(char **command, int socket, int status, bool ends_with_us);
int wait_for(pid_t child);
const char *describe(int status, char *text, size_t room);
pthread_t start_thread(void *(*body)(void *));
void make_pair(int pair[2]);
int open_directory(const char *path);
int pid_of(const char *text);

#endif
