/*
 * shared-fs: a filesystem that several nodes see, as a client of a network filesystem shows it: what a node knows of a file
 * may be a second old, and with "keep" it keeps what its programs write until it is told to send it. It speaks the protocol
 * of FUSE itself, fuse(4), since libfuse 2 cannot have writes kept back.
 *
 *   shared-fs STORE MOUNT CONTROL [keep]
 *
 * Shows the folder STORE at MOUNT; each file has its number there. As long as CONTROL.hang is there it answers nothing; as
 * long as CONTROL.lose is there it says that writes are done, and does nothing. Runs until it is unmounted or killed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST_NODES = 4096, REQUEST_BYTES = 1 << 20, MOST_WRITE = 1 << 17, PATH_BYTES = 4200, VALID_SECONDS = 1 };

static int device;
static const char *control;
/* What was looked up, by its number less 1, with its number in the store. All of it stays. */
static int nodes[MOST_NODES];
static ino_t inodes[MOST_NODES];
static int node_count;
static bool keeps;
static char request[REQUEST_BYTES];
static char answer[REQUEST_BYTES];

static void die(const char *what)
{
    fprintf(stderr, "shared-fs: %s: %s\n", what, strerror(errno));
    exit(1);
}

static bool is_told(const char *what)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s.%s", control, what);
    return access(path, F_OK) == 0;
}

static void reply(const struct fuse_in_header *in, int error, const void *body, size_t bytes)
{
    struct fuse_out_header out = {.len = (uint32_t)(sizeof out + (error ? 0 : bytes)), .error = -error, .unique = in->unique};
    struct iovec parts[] = {{&out, sizeof out}, {(void *)(uintptr_t)body, error ? 0 : bytes}};
    /* The caller may be gone. */
    if (writev(device, parts, 2) < 0 && errno != ENOENT)
        die("writev");
}

static void failed(const struct fuse_in_header *in)
{
    reply(in, errno, NULL, 0);
}

static int node(uint64_t number)
{
    return number - 1 < (uint64_t)node_count ? nodes[number - 1] : -1;
}

static const char *link_of(int descriptor)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return path;
}

static bool tell(int descriptor, struct fuse_attr *to)
{
    struct stat status;
    if (fstatat(descriptor, "", &status, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    *to = (struct fuse_attr){.ino = status.st_ino,
                             .size = (uint64_t)status.st_size,
                             .blocks = (uint64_t)status.st_blocks,
                             .atime = (uint64_t)status.st_atim.tv_sec,
                             .mtime = (uint64_t)status.st_mtim.tv_sec,
                             .ctime = (uint64_t)status.st_ctim.tv_sec,
                             .atimensec = (uint32_t)status.st_atim.tv_nsec,
                             .mtimensec = (uint32_t)status.st_mtim.tv_nsec,
                             .ctimensec = (uint32_t)status.st_ctim.tv_nsec,
                             .mode = status.st_mode,
                             .nlink = (uint32_t)status.st_nlink,
                             .uid = status.st_uid,
                             .gid = status.st_gid,
                             .rdev = (uint32_t)status.st_rdev,
                             .blksize = (uint32_t)status.st_blksize};
    return true;
}

static bool look_up(uint64_t parent, const char *name, struct fuse_entry_out *entry)
{
    struct stat status;
    int found = openat(node(parent), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (found < 0 || fstat(found, &status) != 0)
        return false;
    int at = 0;
    while (at < node_count && inodes[at] != status.st_ino)
        at++;
    if (at < node_count) {
        close(found);
    } else if (node_count == MOST_NODES) {
        close(found);
        errno = ENFILE;
        return false;
    } else {
        inodes[node_count] = status.st_ino;
        nodes[node_count++] = found;
    }
    *entry = (struct fuse_entry_out){
        .nodeid = (uint64_t)at + 1, .entry_valid = VALID_SECONDS, .attr_valid = VALID_SECONDS};
    return tell(nodes[at], &entry->attr);
}

static void say_attributes(const struct fuse_in_header *in)
{
    struct fuse_attr_out out = {.attr_valid = VALID_SECONDS};
    if (tell(node(in->nodeid), &out.attr))
        reply(in, 0, &out, sizeof out);
    else
        failed(in);
}

static void set_attributes(const struct fuse_in_header *in, const struct fuse_setattr_in *wanted)
{
    const char *path = link_of(node(in->nodeid));
    struct timespec times[] = {{(time_t)wanted->atime, wanted->atimensec}, {(time_t)wanted->mtime, wanted->mtimensec}};
    if (!(wanted->valid & FATTR_ATIME))
        times[0].tv_nsec = UTIME_OMIT;
    if (!(wanted->valid & FATTR_MTIME))
        times[1].tv_nsec = UTIME_OMIT;
    bool done = (!(wanted->valid & FATTR_MODE) || chmod(path, wanted->mode & 07777) == 0)
                && (!(wanted->valid & (FATTR_UID | FATTR_GID))
                    || chown(path, wanted->valid & FATTR_UID ? wanted->uid : (uid_t)-1,
                             wanted->valid & FATTR_GID ? wanted->gid : (gid_t)-1)
                           == 0)
                && (!(wanted->valid & FATTR_SIZE) || truncate(path, (off_t)wanted->size) == 0)
                && (!(wanted->valid & (FATTR_ATIME | FATTR_MTIME)) || utimensat(AT_FDCWD, path, times, 0) == 0);
    if (done)
        say_attributes(in);
    else
        failed(in);
}

/* The kernel reads what it writes in parts, and appends by itself. */
static int server_mode(uint32_t flags)
{
    int mode = (int)flags & O_ACCMODE;
    return (mode == O_WRONLY ? O_RDWR : mode) | ((int)flags & (O_TRUNC | O_DIRECTORY)) | O_CLOEXEC;
}

static void open_file(const struct fuse_in_header *in, uint32_t flags)
{
    int file = open(link_of(node(in->nodeid)), server_mode(flags));
    struct fuse_open_out out = {.fh = (uint64_t)file};
    if (file < 0)
        failed(in);
    else
        reply(in, 0, &out, sizeof out);
}

static void create(const struct fuse_in_header *in, const struct fuse_create_in *wanted, const char *name)
{
    struct {
        struct fuse_entry_out entry;
        struct fuse_open_out open;
    } out = {0};
    int file = openat(node(in->nodeid), name, server_mode(wanted->flags) | O_CREAT | ((int)wanted->flags & O_EXCL),
                      wanted->mode & 07777);
    if (file < 0 || fchown(file, in->uid, in->gid) != 0 || fchmod(file, wanted->mode & 07777 & ~wanted->umask) != 0
        || !look_up(in->nodeid, name, &out.entry)) {
        failed(in);
        return;
    }
    out.open.fh = (uint64_t)file;
    reply(in, 0, &out, sizeof out);
}

static void make_folder(const struct fuse_in_header *in, const struct fuse_mkdir_in *wanted, const char *name)
{
    struct fuse_entry_out entry;
    if (mkdirat(node(in->nodeid), name, wanted->mode & 07777 & ~wanted->umask) != 0
        || fchownat(node(in->nodeid), name, in->uid, in->gid, 0) != 0 || !look_up(in->nodeid, name, &entry))
        failed(in);
    else
        reply(in, 0, &entry, sizeof entry);
}

static void read_file(const struct fuse_in_header *in, const struct fuse_read_in *wanted)
{
    size_t bytes = wanted->size < sizeof answer ? wanted->size : sizeof answer;
    ssize_t got = pread((int)wanted->fh, answer, bytes, (off_t)wanted->offset);
    if (got < 0)
        failed(in);
    else
        reply(in, 0, answer, (size_t)got);
}

static void write_file(const struct fuse_in_header *in, const struct fuse_write_in *wanted)
{
    ssize_t put = is_told("lose") ? (ssize_t)wanted->size
                                  : pwrite((int)wanted->fh, wanted + 1, wanted->size, (off_t)wanted->offset);
    struct fuse_write_out out = {.size = (uint32_t)put};
    if (put < 0)
        failed(in);
    else
        reply(in, 0, &out, sizeof out);
}

static void list(const struct fuse_in_header *in, const struct fuse_read_in *wanted)
{
    size_t used = 0;
    uint64_t at = 0;
    int again = openat((int)wanted->fh, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    if (folder == NULL) {
        failed(in);
        return;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct fuse_dirent *to = (struct fuse_dirent *)(answer + used);
        size_t length = strlen(entry->d_name);
        size_t bytes = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + length);
        if (at++ < wanted->offset)
            continue;
        if (used + bytes > wanted->size || used + bytes > sizeof answer)
            break;
        *to = (struct fuse_dirent){.ino = entry->d_ino, .off = at, .namelen = (uint32_t)length, .type = entry->d_type};
        memcpy(to->name, entry->d_name, length);
        used += bytes;
    }
    closedir(folder);
    reply(in, 0, answer, used);
}

static void say_size(const struct fuse_in_header *in)
{
    struct statfs here;
    struct fuse_statfs_out out = {0};
    if (fstatfs(nodes[0], &here) != 0) {
        failed(in);
        return;
    }
    out.st = (struct fuse_kstatfs){.blocks = here.f_blocks,
                                   .bfree = here.f_bfree,
                                   .bavail = here.f_bavail,
                                   .files = here.f_files,
                                   .ffree = here.f_ffree,
                                   .bsize = (uint32_t)here.f_bsize,
                                   .namelen = 255,
                                   .frsize = (uint32_t)here.f_frsize};
    reply(in, 0, &out, sizeof out);
}

static void done(const struct fuse_in_header *in, bool is_done)
{
    if (is_done)
        reply(in, 0, NULL, 0);
    else
        failed(in);
}

static void begin(const struct fuse_in_header *in)
{
    struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                .minor = 31,
                                .max_readahead = MOST_WRITE,
                                .flags = FUSE_BIG_WRITES | (keeps ? FUSE_WRITEBACK_CACHE : 0),
                                .max_background = 16,
                                .congestion_threshold = 12,
                                .max_write = MOST_WRITE,
                                .time_gran = 1};
    reply(in, 0, &out, sizeof out);
}

static void handle(const struct fuse_in_header *in)
{
    const void *body = in + 1;
    const char *name = body;
    struct fuse_entry_out entry;
    switch (in->opcode) {
    case FUSE_INIT: begin(in); break;
    case FUSE_LOOKUP:
        if (look_up(in->nodeid, name, &entry))
            reply(in, 0, &entry, sizeof entry);
        else
            failed(in);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: break;
    case FUSE_GETATTR: say_attributes(in); break;
    case FUSE_SETATTR: set_attributes(in, body); break;
    case FUSE_OPEN: open_file(in, ((const struct fuse_open_in *)body)->flags); break;
    case FUSE_OPENDIR: open_file(in, O_RDONLY | O_DIRECTORY); break;
    case FUSE_CREATE: create(in, body, (const char *)((const struct fuse_create_in *)body + 1)); break;
    case FUSE_MKDIR: make_folder(in, body, (const char *)((const struct fuse_mkdir_in *)body + 1)); break;
    case FUSE_READ: read_file(in, body); break;
    case FUSE_WRITE: write_file(in, body); break;
    case FUSE_READDIR: list(in, body); break;
    case FUSE_STATFS: say_size(in); break;
    case FUSE_FLUSH: reply(in, 0, NULL, 0); break;
    case FUSE_FSYNC: done(in, fsync((int)((const struct fuse_fsync_in *)body)->fh) == 0); break;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR: done(in, close((int)((const struct fuse_release_in *)body)->fh) == 0); break;
    case FUSE_UNLINK: done(in, unlinkat(node(in->nodeid), name, 0) == 0); break;
    case FUSE_RMDIR: done(in, unlinkat(node(in->nodeid), name, AT_REMOVEDIR) == 0); break;
    case FUSE_RENAME: {
        const struct fuse_rename_in *to = body;
        const char *from = (const char *)(to + 1);
        done(in, renameat(node(in->nodeid), from, node(to->newdir), from + strlen(from) + 1) == 0);
        break;
    }
    default: reply(in, ENOSYS, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    char options[128];
    keeps = argc == 5 && strcmp(argv[4], "keep") == 0;
    if (argc != (keeps ? 5 : 4)) {
        fprintf(stderr, "usage: shared-fs STORE MOUNT CONTROL [keep]\n");
        return 2;
    }
    control = argv[3];
    umask(0);
    nodes[node_count++] = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    struct stat root;
    if (nodes[0] < 0 || device < 0 || fstat(nodes[0], &root) != 0)
        die(argv[1]);
    inodes[0] = root.st_ino;
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", device);
    if (mount("shared-fs", argv[2], "fuse.shared", MS_NOSUID | MS_NODEV, options) != 0)
        die(argv[2]);
    for (;;) {
        ssize_t got = read(device, request, sizeof request);
        if (got < 0 && errno == ENODEV)
            return 0;
        if (got < 0 && errno != ENOENT && errno != EINTR && errno != EAGAIN)
            die("/dev/fuse");
        if (got < (ssize_t)sizeof(struct fuse_in_header))
            continue;
        while (is_told("hang"))
            usleep(10000);
        handle((const struct fuse_in_header *)request);
    }
}
