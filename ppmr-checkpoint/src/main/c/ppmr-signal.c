/*
 * ppmr-signal: sends a signal to processes that are named by PID, start time and PID namespace, in this order.
 *
 *   ppmr-signal SIGNAL PID STARTTICKS PIDNS [PID STARTTICKS PIDNS]...
 *
 * Between a look at /proc and kill(2) the PID can become a stranger's. A pidfd is opened first, the process is checked
 * through /proc afterwards, and the signal goes to the pidfd: if the PID was reused before pidfd_open the check sees it,
 * if later the pidfd still means the old process. pidfd_open(2), pidfd_send_signal(2), proc(5).
 *
 * One that is gone, or another one by now, is named on standard output: "gone PID". One that cannot be signalled does
 * not keep the signal from the others.
 *
 * Exit status: 0 each was signalled or is gone; 4 not permitted; 2 usage; 1 anything else.
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

enum { EXIT_OTHER = 1, EXIT_USAGE = 2, EXIT_GONE = 3 /* never an exit status */, EXIT_NOT_PERMITTED = 4 };

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

/* Signals one process; 0 sent, EXIT_GONE if it is gone or another one, else why not, with a line on standard error. */
static int send_signal(int signal_number, int pid, long long ticks, long long pid_namespace)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) {
        if (errno == ESRCH)
            return EXIT_GONE;
        fprintf(stderr, "ppmr-signal: pidfd_open(%d): %s\n", pid, strerror(errno));
        return EXIT_OTHER;
    }
    int result = 0;
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    if (start_ticks(pid) != ticks) {
        result = EXIT_GONE;
    } else if (stat(path, &status) != 0) {
        /* A zombie has no namespaces any more, and a signal to it has no effect. */
        result = errno == ENOENT ? EXIT_GONE : errno == EACCES ? EXIT_NOT_PERMITTED : EXIT_OTHER;
        if (result != EXIT_GONE)
            fprintf(stderr, "ppmr-signal: %s: %s\n", path, strerror(errno));
    } else if ((long long)status.st_ino != pid_namespace) {
        result = EXIT_GONE;
    } else if (syscall(SYS_pidfd_send_signal, fd, signal_number, NULL, 0) != 0) {
        result = errno == ESRCH ? EXIT_GONE : errno == EPERM ? EXIT_NOT_PERMITTED : EXIT_OTHER;
        if (result != EXIT_GONE)
            fprintf(stderr, "ppmr-signal: PID %d: %s\n", pid, strerror(errno));
    }
    close(fd);
    return result;
}

int main(int argc, char **argv)
{
    if (argc < 5 || (argc - 2) % 3 != 0) {
        fprintf(stderr, "usage: ppmr-signal SIGNAL PID STARTTICKS PIDNS [PID STARTTICKS PIDNS]...\n");
        return EXIT_USAGE;
    }
    int signal_number = (int)number(argv[1], "signal");
    int failure = 0;
    for (int i = 2; i < argc; i += 3) {
        int pid = (int)number(argv[i], "PID");
        int result = send_signal(
            signal_number, pid, number(argv[i + 1], "start time"), number(argv[i + 2], "PID namespace"));
        if (result == EXIT_GONE)
            printf("gone %d\n", pid);
        else if (failure == 0)
            failure = result;
    }
    return failure;
}
