/* The record of a rank's namespaces: a file in /run/ppmr/namespaces, named by the inode of the PID namespace. It has
 * one line about the init: boot id, inodes of its PID and mount namespace, start time in ticks. Device and inode of
 * its program follow. The init, ppmr-rank-init, writes it at its start and keeps it locked (flock(2)) as long as it
 * lives. Both ppmr-launch and the services enter a namespace only if its present state agrees with the record. The name
 * of a process proves nothing. The record outlives a service, and one of an earlier boot is invalid. */
#ifndef PPMR_NAMESPACE_RECORD_H
#define PPMR_NAMESPACE_RECORD_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define RECORD_FOLDER "/run/ppmr/namespaces"

enum { RECORD_BYTES = 256, RECORD_NAME_BYTES = 24, PROC_FILE_BYTES = 4096, START_TIME_FIELD = 22 };

/* Reads the beginning of a file in a folder as text. Returns false, with errno, if it cannot be read. */
static inline bool read_text_at(int folder, const char *name, char *text, size_t size)
{
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t length = read(file, text, size - 1);
    int failure = length == 0 ? ESRCH : errno;
    close(file);
    if (length <= 0) {
        errno = failure;
        return false;
    }
    text[length] = '\0';
    return true;
}

/* Opens the folder of records. Only root can change this folder and all folders above it. Returns -1 with errno on
 * an error. */
static inline int open_records(bool make)
{
    static const char *const names[] = {"run", "ppmr", "namespaces"};
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; folder >= 0; i++) {
        struct stat kind;
        bool roots = fstat(folder, &kind) == 0 && kind.st_uid == 0 && (kind.st_mode & (S_IWGRP | S_IWOTH)) == 0;
        if (roots && i == sizeof names / sizeof *names)
            return folder;
        int next = -1;
        if (!roots)
            errno = EPERM;
        else if (!make || mkdirat(folder, names[i], 0755) == 0 || errno == EEXIST)
            next = openat(folder, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int failure = errno;
        close(folder);
        folder = next;
        errno = failure;
    }
    return -1;
}

/* Returns the inode of a namespace of a process, whose folder in /proc is given; 0 with errno on an error. */
static inline unsigned long long namespace_inode(int process, const char *name)
{
    struct stat namespace;
    return fstatat(process, name, &namespace, 0) == 0 ? (unsigned long long)namespace.st_ino : 0;
}

/* Returns field 22 of proc(5)'s stat, or 0 if the process ended. Field 3 follows the name in parentheses, which may
 * have blanks. */
static inline unsigned long long start_time(int process)
{
    char text[PROC_FILE_BYTES];
    if (!read_text_at(process, "stat", text, sizeof text))
        return 0;
    char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < START_TIME_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

/* Writes the record of a process, whose folder in /proc is given, if it is the init of its namespaces. Returns
 * false, with errno, on an error. */
static inline bool describe_init(int process, char *record, char *name)
{
    char boot[64];
    struct stat program;
    unsigned long long pid_namespace = namespace_inode(process, "ns/pid");
    unsigned long long mount_namespace = namespace_inode(process, "ns/mnt");
    unsigned long long ticks = start_time(process);
    if (pid_namespace == 0 || mount_namespace == 0 || ticks == 0 || fstatat(process, "exe", &program, 0) != 0
        || !read_text_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot))
        return false;
    boot[strcspn(boot, "\n")] = '\0';
    snprintf(record, RECORD_BYTES, "%s %llu %llu %llu %llu %llu\n", boot, pid_namespace, mount_namespace, ticks,
             (unsigned long long)program.st_dev, (unsigned long long)program.st_ino);
    snprintf(name, RECORD_NAME_BYTES, "%llu", pid_namespace);
    return true;
}

#endif
