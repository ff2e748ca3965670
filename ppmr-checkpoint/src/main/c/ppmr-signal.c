/*
 * ppmr-signal: sends a signal to one process that is named by PID, start time and PID namespace.
 *
 *   ppmr-signal SIGNAL PID STARTTICKS PIDNS
 *
 * Between a look at /proc and kill(2) the PID can become a stranger's. A pidfd is opened first, the process is checked
 * through /proc afterwards, and the signal goes to the pidfd: if the PID was reused before pidfd_open the check sees it,
 * if later the pidfd still means the old process. pidfd_open(2), pidfd_send_signal(2), proc(5).
 *
 * Exit status: 0 sent; 3 the process is gone or another one; 4 not permitted; 2 usage; 1 anything else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EXIT_OTHER = 1, EXIT_USAGE = 2, EXIT_GONE = 3, EXIT_NOT_PERMITTED = 4 };

static long long number(const char *text, const char *what)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || value < 0) {
        fprintf(stderr, "ppmr-signal: %s '%s' is not a number\n", what, text);
        exit(EXIT_USAGE);
    }
    return value;
}

/* Field 22 of /proc/PID/stat; the command name before it may hold blanks and parentheses. -1 if the process is gone. */
static long long start_ticks(int pid)
{
    char path[64];
    char text[4096];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return -1;
    text[length] = '\0';
    char *field = strrchr(text, ')');
    for (int i = 2; field != NULL && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field == NULL ? -1 : strtoll(field + 1, NULL, 10);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: ppmr-signal SIGNAL PID STARTTICKS PIDNS\n");
        return EXIT_USAGE;
    }
    int signal_number = (int)number(argv[1], "signal");
    int pid = (int)number(argv[2], "PID");
    long long ticks = number(argv[3], "start time");
    long long pid_namespace = number(argv[4], "PID namespace");

    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) {
        if (errno == ESRCH)
            return EXIT_GONE;
        fprintf(stderr, "ppmr-signal: pidfd_open(%d): %s\n", pid, strerror(errno));
        return EXIT_OTHER;
    }
    if (start_ticks(pid) != ticks)
        return EXIT_GONE;
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    /* A zombie has no namespaces any more, and a signal to it has no effect. */
    if (stat(path, &status) != 0)
        return errno == ENOENT ? EXIT_GONE : errno == EACCES ? EXIT_NOT_PERMITTED : EXIT_OTHER;
    if ((long long)status.st_ino != pid_namespace)
        return EXIT_GONE;
    if (syscall(SYS_pidfd_send_signal, fd, signal_number, NULL, 0) != 0) {
        int error = errno;
        if (error == ESRCH)
            return EXIT_GONE;
        fprintf(stderr, "ppmr-signal: PID %d: %s\n", pid, strerror(error));
        return error == EPERM ? EXIT_NOT_PERMITTED : EXIT_OTHER;
    }
    return 0;
}
