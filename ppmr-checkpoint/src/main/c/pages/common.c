/* See common.h. */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DIGITS_MAX = 20 };

const char *mode = "ppmr-pages";

static void report(const char *format, va_list arguments, int error)
{
    fprintf(stderr, "ppmr-pages %s: ", mode);
    vfprintf(stderr, format, arguments);
    if (error != 0) {
        fprintf(stderr, ": %s", strerror(error));
    }
    fputc('\n', stderr);
    fflush(stderr);
}

void (*before_leaving)(void);

/*
 * Ends all threads at once: one of them may wait in the image filesystem. The kernel ends the target's restore then
 * (PR_SET_PDEATHSIG).
 */
__attribute__((noreturn)) static void leave(void)
{
    if (before_leaving != NULL) {
        before_leaving();
    }
    _exit(1);
}

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments, 0);
    va_end(arguments);
    leave();
}

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments, error);
    va_end(arguments);
    leave();
}

void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count == 0 ? 1 : count, bytes);
    if (memory == NULL) {
        die("no memory for %zu items of %zu bytes", count, bytes);
    }
    return memory;
}

void *enlarge(void *memory, size_t count, size_t bytes)
{
    void *more = reallocarray(memory, count, bytes);
    if (more == NULL) {
        die("no memory for %zu items of %zu bytes", count, bytes);
    }
    return more;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

void sleep_ns(long ns)
{
    struct timespec pause = {ns / 1000000000, ns % 1000000000};
    nanosleep(&pause, NULL);
}

pid_t start(char **command, int socket, int status, bool ends_with_us)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) {
        die("cannot start %s", command[0]);
    }
    if (child > 0) {
        return child;
    }
    if (ends_with_us && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        die("%s cannot be tied to its parent", command[0]);
    }
    static char numbers[2][DIGITS_MAX];
    snprintf(numbers[0], DIGITS_MAX, "%d", socket);
    snprintf(numbers[1], DIGITS_MAX, "%d", status);
    for (char **word = command; *word != NULL; word++) {
        if (socket >= 0 && strcmp(*word, "{socket}") == 0) {
            *word = numbers[0];
        } else if (status >= 0 && strcmp(*word, "{status}") == 0) {
            *word = numbers[1];
        }
    }
    if ((socket >= 0 && fcntl(socket, F_SETFD, 0) != 0) || (status >= 0 && fcntl(status, F_SETFD, 0) != 0)) {
        die("descriptors cannot be handed to %s", command[0]);
    }
    execvp(command[0], command);
    fprintf(stderr, "ppmr-pages %s: cannot start %s: %s\n", mode, command[0], strerror(errno));
    _exit(1);
}

int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            die("cannot wait for PID %d", child);
        }
    }
    return status;
}

const char *describe(int status, char *text, size_t room)
{
    if (WIFEXITED(status)) {
        snprintf(text, room, "ended with exit status %d", WEXITSTATUS(status));
    } else {
        snprintf(text, room, "was killed by signal %d", WTERMSIG(status));
    }
    return text;
}

pthread_t start_thread(void *(*body)(void *))
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, NULL);
    if (error != 0) {
        errno = error;
        die("no thread can be made");
    }
    return thread;
}

void make_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        die("no pair of sockets can be made");
    }
}

int open_directory(const char *path)
{
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        die("cannot open the directory %s", path);
    }
    return directory;
}

int pid_of(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value <= 0 || value > INT_MAX) {
        fail("'%s' is not a PID", text);
    }
    return (int)value;
}
