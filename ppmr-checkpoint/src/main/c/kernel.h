/* Replacements for calls that kernels before Linux 5.9 lack. The older way is used if the newer one returns ENOSYS.
 * The C library may be as old as the kernel, so calls use numbers. Numbers of calls since Linux 5.0 are the same on
 * all machines. */
#ifndef PPMR_KERNEL_H
#define PPMR_KERNEL_H

#include <dirent.h>
#include <errno.h>
#include <linux/keyctl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Returns true for the number of a user or a group. The highest 32-bit number is none, because setresuid(2) reads it
 * as "no change", so root would stay root. A longer number would be cut to another user's. */
static inline int is_identity(unsigned long long number)
{
    return number < UINT32_MAX;
}

/* Closes the descriptors in /proc/self/fd. Returns false if there is no /proc. proc(5). */
static inline int close_listed(unsigned int first, unsigned int last)
{
    DIR *all = opendir("/proc/self/fd");
    if (all == NULL)
        return 0;
    int own = dirfd(all);
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
        char *end;
        unsigned long fd = strtoul(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == '\0' && fd >= first && fd <= last && (int)fd != own)
            close((int)fd);
    }
    closedir(all);
    return 1;
}

/* Closes the descriptors from the first to the last, as close_range(2); 0, or -1 with errno. */
static inline int close_descriptors(unsigned int first, unsigned int last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0U) == 0)
        return 0;
    if (errno != ENOSYS)
        return -1;
    if (close_listed(first, last))
        return 0;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return -1;
    for (unsigned int fd = first; fd <= last && fd < limit.rlim_cur; fd++)
        close((int)fd);
    return 0;
}

/* Gives this process and its children an empty session keyring of root instead of the service's. Otherwise every
 * child would possess the service's keys, whatever user it becomes. Returns 0, or -1 with errno. The caller is still
 * root, because a user may have 200 keyrings and root a million. A kernel or container without keyrings has no keys
 * to protect. keyctl(2), session-keyring(7). */
static inline int leave_session_keyring(void)
{
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0 || errno == ENOSYS || errno == EPERM)
        return 0;
    return -1;
}

#endif
