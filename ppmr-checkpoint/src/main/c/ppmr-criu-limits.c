// Preloaded into criu(8) if root has no CAP_SYS_RESOURCE, as in many containers. CRIU reads the resource limits of each
// process that it checkpoints by prlimit(2), which needs that capability for a process of another user. The kernel
// shows the same numbers to every user in /proc/PID/limits. So if prlimit(2) is refused, they are read there.
// Everything else is left to the C library, so that no process can change limits without permission.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// The first column of proc(5)'s limits, by the number of getrlimit(2), which is the order of its lines.
static const char *const names[] = {
    [RLIMIT_CPU] = "Max cpu time",           [RLIMIT_FSIZE] = "Max file size",
    [RLIMIT_DATA] = "Max data size",         [RLIMIT_STACK] = "Max stack size",
    [RLIMIT_CORE] = "Max core file size",    [RLIMIT_RSS] = "Max resident set",
    [RLIMIT_NPROC] = "Max processes",        [RLIMIT_NOFILE] = "Max open files",
    [RLIMIT_MEMLOCK] = "Max locked memory",  [RLIMIT_AS] = "Max address space",
    [RLIMIT_LOCKS] = "Max file locks",       [RLIMIT_SIGPENDING] = "Max pending signals",
    [RLIMIT_MSGQUEUE] = "Max msgqueue size", [RLIMIT_NICE] = "Max nice priority",
    [RLIMIT_RTPRIO] = "Max realtime priority", [RLIMIT_RTTIME] = "Max realtime timeout",
};

// Reads a number, or "unlimited", behind blanks, or 0 if there is none.
static int number(char **at, rlim64_t *value) {
    static const char unlimited[] = "unlimited";
    char *from = *at + strspn(*at, " ");
    if (strncmp(from, unlimited, sizeof unlimited - 1) == 0) {
        *value = RLIM64_INFINITY;
        *at = from + sizeof unlimited - 1;
        return 1;
    }
    errno = 0;
    *value = strtoull(from, at, 10);
    return *at != from && errno == 0;
}

static int shown(pid_t pid, unsigned resource, struct rlimit64 *limit) {
    char path[64], line[256];
    if (resource >= sizeof names / sizeof *names || !names[resource]) {
        return 0;
    }
    snprintf(path, sizeof path, "/proc/%d/limits", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return 0;
    }
    size_t length = strlen(names[resource]);
    int found = 0;
    while (!found && fgets(line, sizeof line, file)) {
        char *at = line + length;
        found = strncmp(line, names[resource], length) == 0 && line[length] == ' ' && number(&at, &limit->rlim_cur) &&
                number(&at, &limit->rlim_max);
    }
    fclose(file);
    return found;
}

// CRIU calls syscall(2), which bypasses the C library's wrapper. Older versions call prlimit(2).
static long (*next_syscall(void))(long, ...) {
    static long (*next)(long, ...);
    if (!next) {
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    }
    return next;
}

static int limits(pid_t pid, unsigned resource, const struct rlimit64 *new, struct rlimit64 *old) {
    int result = (int)next_syscall()(SYS_prlimit64, pid, resource, new, old);
    if (result == 0 || errno != EPERM || new || !old) {
        return result;
    }
    if (shown(pid, resource, old)) {
        return 0;
    }
    errno = EPERM;
    return -1;
}

int prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *new, struct rlimit64 *old) {
    return limits(pid, resource, new, old);
}

long syscall(long system_call, ...) {
    va_list list;
    va_start(list, system_call);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    return system_call == SYS_prlimit64 ? limits((pid_t)a, (unsigned)b, (const struct rlimit64 *)c, (struct rlimit64 *)d)
                                        : next_syscall()(system_call, a, b, c, d, e, f);
}
