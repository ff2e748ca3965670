/*
 * What kernels before Linux 5.9 have no call for, done the older way where the newer one answers ENOSYS. The C library
 * may be as old as the kernel, so calls go by number. Numbers of calls since Linux 5.0 are the same on all machines.
 */
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
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/*
 * Returns true for the number of a user or a group. Of the numbers of 32 bits the highest is none: setresuid(2) takes it
 * for "leave it as it is", so root would stay root. A longer one would be cut to another user's.
 */
static inline int is_identity(unsigned long long number)
{
    return number < UINT32_MAX;
}

/* Closes those in /proc/self/fd; false if there is no /proc. proc(5). */
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

/* close_range(2): closes the descriptors from the first to the last; 0, or -1 with errno. */
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

/*
 * Gives this process, and what it starts, an empty session keyring of root's in the place of the service's, of which
 * every child would possess the keys, whatever user it becomes; 0, or -1 with errno. Made before that, as a user may
 * have 200 keyrings and root a million. A kernel, or a container, without keyrings has no keys to give away. keyctl(2),
 * session-keyring(7).
 */
static inline int leave_session_keyring(void)
{
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0 || errno == ENOSYS || errno == EPERM)
        return 0;
    return -1;
}

#endif
