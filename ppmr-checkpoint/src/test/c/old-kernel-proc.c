/* old-kernel-proc.so: shows /proc in the form of Linux 3.10 to a program that is linked to the C library. It
 * replaces the functions of the C library that open, inspect or follow a path. A file that had fewer fields then is
 * read and copied without the later ones. A file that did not exist then is missing.
 *
 * Its state was recorded on such a node (src/test/resources/linux-3.10 of ppmr-linux), and a test compares it. proc(5),
 * ld.so(8). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define RELEASE "3.10.108"

static const char *const OF_PROCESS[] = {
    "auxv", "cgroup", "clear_refs", "cmdline", "comm", "coredump_filter", "cwd", "environ", "exe", "fd", "fdinfo",
    "gid_map", "limits", "map_files", "maps", "mem", "mountinfo", "mounts", "mountstats", "net", "ns", "oom_adj",
    "oom_score", "oom_score_adj", "pagemap", "personality", "projid_map", "root", "setgroups", "smaps", "stat", "statm",
    "status", "syscall", "task", "timers", "uid_map", "wchan", NULL};

static const char *const NAMESPACES[] = {"ipc", "mnt", "net", "pid", "user", "uts", NULL};

static const char *const OF_STATUS[] = {
    "Name", "State", "Tgid", "Pid", "PPid", "TracerPid", "Uid", "Gid", "FDSize", "Groups", "VmPeak", "VmSize", "VmLck",
    "VmPin", "VmHWM", "VmRSS", "VmData", "VmStk", "VmExe", "VmLib", "VmPTE", "VmSwap", "Threads", "SigQ", "SigPnd",
    "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "Cpus_allowed", "Cpus_allowed_list",
    "Mems_allowed", "Mems_allowed_list", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", NULL};

static const char *const OF_SMAPS[] = {
    "Size", "Rss", "Pss", "Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty", "Referenced", "Anonymous",
    "AnonHugePages", "Swap", "KernelPageSize", "MMUPageSize", "Locked", "VmFlags", NULL};

static const char *const OF_FDINFO[] = {"pos", "flags", NULL};

static const char *const OF_MEMINFO[] = {
    "MemTotal", "MemFree", "Buffers", "Cached", "SwapCached", "Active", "Inactive", "Active(anon)", "Inactive(anon)",
    "Active(file)", "Inactive(file)", "Unevictable", "Mlocked", "SwapTotal", "SwapFree", "Dirty", "Writeback", "AnonPages",
    "Mapped", "Shmem", "Slab", "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "NFS_Unstable", "Bounce",
    "WritebackTmp", "CommitLimit", "Committed_AS", "VmallocTotal", "VmallocUsed", "VmallocChunk", "DirectMap4k",
    "DirectMap2M", NULL};

/* There is no mount of cgroup v2, which is of Linux 4.5. */
static const char *const MOUNTINFO[] = {NULL};

/* A file of a process that is missing, because such kernels were made with and without it. */
#define WITHOUT "OLD_KERNEL_WITHOUT"

static const char *const FILESYSTEMS[] = {
    "sysfs", "rootfs", "bdev", "proc", "cgroup", "cpuset", "tmpfs", "devtmpfs", "sockfs", "pipefs", "anon_inodefs",
    "rpc_pipefs", "devpts", "ext3", "ext2", "ext4", "ramfs", "nfs", "nfs4", "fuseblk", "fuse", "fusectl", "9p", "mqueue",
    NULL};

/* The view of a path: it is shown, it is missing, or only lines with these words remain. */
struct view {
    bool hidden;
    bool release;
    const char *const *words;
};

static bool among(const char *word, size_t length, const char *const *all)
{
    for (; *all != NULL; all++) {
        if (strlen(*all) == length && strncmp(*all, word, length) == 0)
            return true;
    }
    return false;
}

/* Returns the view of a path behind "/proc/PID/" or "/proc/PID/task/TID/". */
static struct view view_of_process(const char *rest)
{
    struct view view = {0};
    size_t length = strcspn(rest, "/");
    if (length == 0)
        return view;
    const char *without = getenv(WITHOUT);
    view.hidden = !among(rest, length, OF_PROCESS)
        || (without != NULL && strlen(without) == length && strncmp(rest, without, length) == 0);
    const char *below = rest[length] == '/' ? rest + length + 1 : "";
    if (length == 4 && strncmp(rest, "task", 4) == 0 && *below != '\0') {
        size_t thread = strcspn(below, "/");
        return view_of_process(below[thread] == '/' ? below + thread + 1 : "");
    }
    if (length == 2 && strncmp(rest, "ns", 2) == 0 && *below != '\0')
        view.hidden = !among(below, strlen(below), NAMESPACES);
    if (length == 6 && strncmp(rest, "fdinfo", 6) == 0 && *below != '\0')
        view.words = OF_FDINFO;
    if (strcmp(rest, "status") == 0)
        view.words = OF_STATUS;
    if (strcmp(rest, "mountinfo") == 0)
        view.words = MOUNTINFO;
    if (strcmp(rest, "smaps") == 0)
        view.words = OF_SMAPS;
    return view;
}

static struct view view_of(const char *path)
{
    struct view view = {0};
    if (strncmp(path, "/proc/", 6) != 0)
        return view;
    const char *name = path + 6;
    size_t length = strcspn(name, "/");
    if (strspn(name, "0123456789") == length || strncmp(name, "self/", 5) == 0)
        return view_of_process(name[length] == '/' ? name + length + 1 : "");
    view.hidden = strncmp(name, "thread-self", 11) == 0;
    view.release = strcmp(name, "sys/kernel/osrelease") == 0;
    if (strcmp(name, "meminfo") == 0)
        view.words = OF_MEMINFO;
    if (strcmp(name, "filesystems") == 0)
        view.words = FILESYSTEMS;
    return view;
}

static bool is_shown(const char *line, size_t length, const char *const *words)
{
    if (words == MOUNTINFO)
        return memmem(line, length, " - cgroup2 ", 11) == NULL;
    if (words == FILESYSTEMS) {
        const char *name = memchr(line, '\t', length);
        return name == NULL || among(name + 1, (size_t)(line + length - name - 1), words);
    }
    size_t word = 0;
    while (word < length && line[word] != ':')
        word++;
    /* In smaps this is the first line of each mapping, which begins with its addresses. */
    bool addresses = words == OF_SMAPS && (memchr(line, ' ', word) != NULL || memchr(line, '-', word) != NULL);
    return addresses || among(line, word, words);
}

/* Returns the linker's own dlsym, because this library has one, too. */
static void *real_symbol(const char *name)
{
    static void *(*real)(void *, const char *);
    if (real == NULL)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(RTLD_NEXT, name);
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (real == NULL) \
        real = (__typeof__(name) *)real_symbol(#name)

static int real_open(const char *path, int flags, mode_t mode)
{
    static int (*real)(const char *, int, ...);
    if (real == NULL)
        real = (int (*)(const char *, int, ...))real_symbol("open64");
    return real(path, flags, mode);
}

static char *read_whole(int fd, size_t *length)
{
    size_t room = 1 << 16;
    char *text = malloc(room);
    *length = 0;
    for (;;) {
        if (text == NULL)
            return NULL;
        ssize_t got = read(fd, text + *length, room - *length);
        if (got <= 0) {
            if (got == 0)
                return text;
            int error = errno;
            free(text);
            errno = error;
            return NULL;
        }
        *length += (size_t)got;
        if (*length == room) {
            room *= 2;
            char *more = realloc(text, room);
            if (more == NULL)
                free(text);
            text = more;
        }
    }
}

/* Returns an open file with the remaining lines of the one at the path. */
static int open_view(const char *path, int flags, struct view view)
{
    int from = real_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (from < 0)
        return -1;
    size_t length;
    char *text = read_whole(from, &length);
    int error = errno;
    close(from);
    if (text == NULL) {
        errno = error;
        return -1;
    }
    int to = real_open("/dev/shm", O_TMPFILE | O_RDWR | (flags & O_CLOEXEC), 0600);
    bool written = to >= 0;
    if (view.release)
        written = written && write(to, RELEASE "\n", sizeof RELEASE) == (ssize_t)sizeof RELEASE;
    size_t kept = 0;
    for (size_t at = 0; !view.release && at < length;) {
        char *end = memchr(text + at, '\n', length - at);
        size_t line = end == NULL ? length - at : (size_t)(end - text) - at;
        size_t whole = end == NULL ? line : line + 1;
        if (is_shown(text + at, line, view.words)) {
            memmove(text + kept, text + at, whole);
            kept += whole;
        }
        at += whole;
    }
    written = written && write(to, text, kept) == (ssize_t)kept && lseek(to, 0, SEEK_SET) == 0;
    free(text);
    if (!written) {
        if (to >= 0)
            close(to);
        errno = EIO;
        return -1;
    }
    return to;
}

static int open_as_seen(const char *path, int flags, mode_t mode)
{
    struct view view = view_of(path);
    if (view.hidden) {
        errno = ENOENT;
        return -1;
    }
    return view.words != NULL || view.release ? open_view(path, flags, view) : real_open(path, flags, mode);
}

static mode_t mode_of(int flags, va_list more)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        return open_as_seen(path, flags, mode); \
    }

OPEN(open)
OPEN(open64)

/* Returns the whole path of a file below an open folder of /proc, or any other path as it is. */
static const char *whole_path(int directory, const char *path, char whole[PATH_MAX])
{
    static ssize_t (*real)(const char *, char *, size_t);
    if (directory == AT_FDCWD || path[0] == '/' || path[0] == '\0')
        return path;
    if (real == NULL)
        real = (ssize_t (*)(const char *, char *, size_t))real_symbol("readlink");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = real(link, whole, PATH_MAX - 1);
    if (length < 5 || strncmp(whole, "/proc", 5) != 0 || (size_t)length + strlen(path) + 2 > PATH_MAX)
        return path;
    whole[length] = '/';
    strcpy(whole + length + 1, path);
    return whole;
}

#define OPENAT(name) \
    int name(int directory, const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        char room[PATH_MAX]; \
        const char *whole = whole_path(directory, path, room); \
        if (whole[0] == '/') \
            return open_as_seen(whole, flags, mode); \
        static int (*real)(int, const char *, int, ...); \
        if (real == NULL) \
            real = (int (*)(int, const char *, int, ...))real_symbol(#name); \
        return real(directory, path, flags, mode); \
    }

OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) \
    { \
        struct view view = view_of(path); \
        if (view.hidden) { \
            errno = ENOENT; \
            return NULL; \
        } \
        if (view.words != NULL || view.release) { \
            int fd = open_view(path, strchr(mode, 'e') == NULL ? 0 : O_CLOEXEC, view); \
            return fd < 0 ? NULL : fdopen(fd, "r"); \
        } \
        REAL(name); \
        return real(path, mode); \
    }

FOPEN(fopen)
FOPEN(fopen64)

#define UNLESS_HIDDEN(type, name, parameters, arguments) \
    type name parameters \
    { \
        if (view_of(path).hidden) { \
            errno = ENOENT; \
            return -1; \
        } \
        static type (*real) parameters; \
        if (real == NULL) \
            real = (type (*) parameters)real_symbol(#name); \
        return real arguments; \
    }

UNLESS_HIDDEN(int, access, (const char *path, int mode), (path, mode))
UNLESS_HIDDEN(int, faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags))
UNLESS_HIDDEN(int, stat, (const char *path, struct stat *to), (path, to))
UNLESS_HIDDEN(int, lstat, (const char *path, struct stat *to), (path, to))
UNLESS_HIDDEN(int, stat64, (const char *path, struct stat64 *to), (path, to))
UNLESS_HIDDEN(int, lstat64, (const char *path, struct stat64 *to), (path, to))
UNLESS_HIDDEN(int, fstatat, (int at, const char *path, struct stat *to, int flags), (at, path, to, flags))
UNLESS_HIDDEN(int, fstatat64, (int at, const char *path, struct stat64 *to, int flags), (at, path, to, flags))
UNLESS_HIDDEN(int, __xstat64, (int version, const char *path, struct stat64 *to), (version, path, to))
UNLESS_HIDDEN(int, __lxstat64, (int version, const char *path, struct stat64 *to), (version, path, to))
UNLESS_HIDDEN(ssize_t, readlink, (const char *path, char *to, size_t room), (path, to, room))

ssize_t readlinkat(int at, const char *path, char *to, size_t room)
{
    char whole[PATH_MAX];
    if (view_of(whole_path(at, path, whole)).hidden) {
        errno = ENOENT;
        return -1;
    }
    REAL(readlinkat);
    return real(at, path, to, room);
}

/* Java's foreign calls look a function up in the C library's own handle and would miss the ones here. The last line
 * stays a jump (-O2), so that RTLD_NEXT means the same as at the caller. */
__attribute__((optimize("O2"))) void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);
    if (handle != RTLD_NEXT && handle != RTLD_DEFAULT) {
        if (strcmp(name, "open") == 0)
            return (void *)open;
        if (strcmp(name, "openat") == 0)
            return (void *)openat;
        if (strcmp(name, "readlinkat") == 0)
            return (void *)readlinkat;
        if (strcmp(name, "access") == 0)
            return (void *)access;
    }
    if (real == NULL)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(handle, name);
}

int uname(struct utsname *name)
{
    REAL(uname);
    int answer = real(name);
    if (answer == 0)
        strcpy(name->release, RELEASE);
    return answer;
}
