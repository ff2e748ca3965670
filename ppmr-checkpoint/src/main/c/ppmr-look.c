/* ppmr-look: reports the files at paths to the service over a pipe. It runs as the job's user, so that it has
 * exactly the job's access. It can be killed if a file's server does not answer.
 *
 *   ppmr-look           answers queries until its standard input ends
 *   ppmr-look --flush   the same as root, only for the queries of letter f
 *
 * A query is a letter and texts that end with NUL. Answers are one line each, in the order of the queries, the last
 * at '.':
 *
 *   s FIRST NAME   the file at FIRST, or otherwise at NAME (FIRST may be empty). FIRST may be a link of /proc, whose text
 *                  NAME is. If the link has another text for long, the answer is "error ESTALE".
 *                  "found WHICH FSTYPE HANDLE MODE UID GID SIZE RDEV LINKS INODE DEVICE MTIME CTIME BYTES", or "error ERRNO".
 *                  HANDLE is TYPE:HEX by name_to_handle_at(2), or "-". BYTES is the size on the disk.
 *   l FIRST NAME   as s, and the file is opened for that: a client of a network filesystem then queries its server.
 *   y FIRST NAME   as s, after this node's unwritten data of the file is flushed to its disk or server.
 *   d FIRST NAME   a "found" line as above, and behind it "bytes" and the content: pieces that begin with their length,
 *                  4 bytes in the machine's order, and end with a length of 0. Then "end" or "error ERRNO".
 *   c FIRST NAME   as d, except that an ELF file with a build ID gives "id HEX" instead of the content.
 *   a WAY NAME     whether this user may open NAME: WAY is r or -, and w or -. "--" opens a directory, or only finds
 *                  the file. "yes" or "error ERRNO".
 *   n FIRST NAME   the size of the file for a move: "data BYTES", without its holes, or "error ERRNO"; ENOTSUP for a file
 *                  with attributes (xattr(7)) that are not copied.
 *   r FIRST NAME   a "found" line, and behind it the content without its holes: pieces that begin with their length, 4
 *                  bytes, and their offset, 8 bytes, in the machine's order, and end with a length of 0 and an offset of 0.
 *                  Then "end" or "error ERRNO".
 *   w GID NAME     whether a file of that group may be made at NAME, or replace the user's own: "room DEVICE BYTES TAKEN"
 *                  with the free space of its filesystem, and 1 if that file exists, or "error ERRNO". No link is followed.
 *   u FIRST NAME   whether a socket of any process is bound to the file: "yes", or "error ECONNREFUSED". A datagram socket is
 *                  connected for that, which a server does not notice, unix(7).
 *   f PID FD       flushes a process's file to its disk or server: "found" with the file's length, or "error ERRNO".
 *
 * A second process watches the answering one, and kills it as soon as the client's end of standard input is closed.
 * The client may have died while a file's server delays the answer.
 *
 * Digests are printed on request. No file is written, created or truncated. stat(2), elf(5), pidfd_getfd(2). */
#define _GNU_SOURCE
#include "folder.h"
#include "kernel.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

enum {
    PATH_BYTES = 4096 + 64,
    HANDLE_BYTES = 128,
    ANSWER_BYTES = 1 << 18,
    PIECE_BYTES = 1 << 16,
    NOTE_BYTES = 1 << 16,
    MOST_SEGMENTS = 128,
    LONGEST_ID = 64,
    WATCH_MS = 1000,
    ATTRIBUTE_BYTES = 1 << 16,
    MOST_RUNS = 1 << 20,
    MOST_GROUPS = 1 << 16,
    NAME_ATTEMPTS = 50,
    NAME_PAUSE_NS = 1000000,
};

static char first[PATH_BYTES];
static char name[PATH_BYTES];
static unsigned char piece[PIECE_BYTES];
static unsigned char notes[NOTE_BYTES];

/* Reads a text. Returns false at the end of the input. A longer text is no path. It is read, and answered as such. */
static bool read_text(char *to)
{
    size_t used = 0;
    for (int c = getchar(); c != EOF; c = getchar()) {
        if (used < PATH_BYTES)
            to[used++] = (char)c;
        if (c == '\0') {
            to[PATH_BYTES - 1] = '\0';
            return true;
        }
    }
    return false;
}

static void print_error(int error)
{
    printf("error %d\n", error);
}

static void print_handle(int file)
{
    static _Alignas(struct file_handle) unsigned char room[sizeof(struct file_handle) + HANDLE_BYTES];
    struct file_handle *handle = (struct file_handle *)room;
    int mount;
    handle->handle_bytes = HANDLE_BYTES;
    if (name_to_handle_at(file, "", handle, &mount, AT_EMPTY_PATH) != 0) {
        printf("-");
        return;
    }
    printf("%d:", handle->handle_type);
    for (unsigned i = 0; i < handle->handle_bytes; i++)
        printf("%02x", room[offsetof(struct file_handle, f_handle) + i]);
}

/* Prints the facts of a file. Returns false, after the error line, if it has none. */
static bool print_found(int which, int file, struct stat *status)
{
    struct statfs system;
    if (fstat(file, status) != 0 || fstatfs(file, &system) != 0) {
        print_error(errno);
        return false;
    }
    printf("found %d %lx ", which, (unsigned long)system.f_type & 0xffffffffUL);
    print_handle(file);
    printf(" %o %u %u %" PRId64 " %u:%u %lu %" PRIu64 " %u:%u %" PRId64 ".%09ld %" PRId64 ".%09ld %" PRId64 "\n",
           (unsigned)status->st_mode, status->st_uid, status->st_gid, (int64_t)status->st_size, major(status->st_rdev),
           minor(status->st_rdev), (unsigned long)status->st_nlink, (uint64_t)status->st_ino, major(status->st_dev),
           minor(status->st_dev), (int64_t)status->st_mtim.tv_sec, status->st_mtim.tv_nsec, (int64_t)status->st_ctim.tv_sec,
           status->st_ctim.tv_nsec, (int64_t)status->st_blocks * 512);
    return true;
}

/* Returns whether a file that was found at FIRST is the one that NAME shows. A shell, for example, replaces its standard
 * output for the time of one command, so a process can change a descriptor after its link was read. */
static bool is_named(int found)
{
    static char shown[PATH_BYTES];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", found);
    ssize_t length = readlink(link, shown, sizeof shown - 1);
    if (length < 0)
        // The kernel shows no path that is too long.
        return true;
    shown[length] = '\0';
    return strcmp(shown, name) == 0;
}

/* Opens FIRST once it is the file that NAME shows. */
static int find_first(void)
{
    for (int attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
        int file = open(first, O_PATH | O_CLOEXEC);
        if (file < 0 || name[0] == '\0' || strncmp(first, "/proc/", 6) != 0 || is_named(file))
            return file;
        close(file);
        nanosleep(&(struct timespec){ .tv_nsec = NAME_PAUSE_NS }, NULL);
    }
    errno = ESTALE;
    return -1;
}

/* Finds the file without opening it, so that no device, FIFO or lease is affected. Returns the descriptor, or -1
 * with errno. */
static int find(int *which)
{
    int file = first[0] == '\0' ? -1 : find_first();
    *which = 1;
    if (file < 0 && (first[0] == '\0' || errno != ESTALE) && name[0] != '\0') {
        *which = 2;
        file = open(name, O_PATH | O_CLOEXEC);
    }
    if (file < 0 && first[0] == '\0' && name[0] == '\0')
        errno = ENOENT;
    return file;
}

/* Opens a regular file that was found. */
static int open_found(int found, int mode)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", found);
    return open(link, mode | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static void status_of(bool opened, bool synced)
{
    int which;
    int found = find(&which);
    struct stat status;
    if (found < 0) {
        print_error(errno);
        return;
    }
    if (opened && fstat(found, &status) == 0 && S_ISREG(status.st_mode)) {
        int file = open_found(found, O_RDONLY);
        if (file < 0)
            file = open_found(found, O_WRONLY);
        if (file < 0) {
            print_error(errno);
            close(found);
            return;
        }
        close(found);
        found = file;
        if (synced && fsync(file) != 0) {
            print_error(errno);
            close(file);
            return;
        }
    }
    print_found(which, found, &status);
    close(found);
}

/* Finds a regular file and opens it for reading. Returns -1 after the error line. */
static int open_asked(int *which, struct stat *status)
{
    int found = find(which);
    if (found < 0) {
        print_error(errno);
        return -1;
    }
    int file = fstat(found, status) != 0 ? -1 : S_ISREG(status->st_mode) ? open_found(found, O_RDONLY) : (errno = EINVAL, -1);
    int error = errno;
    close(found);
    if (file < 0)
        print_error(error);
    return file;
}

static bool read_at(int file, void *to, size_t bytes, uint64_t at)
{
    return at <= INT64_MAX && pread(file, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Finds the build ID among notes. Returns its length, 0 if there is none. */
static size_t id_among(size_t bytes, unsigned char *id)
{
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        size_t owner = at + sizeof note;
        size_t content = owner + (((size_t)note.n_namesz + 3) & ~(size_t)3);
        size_t next = content + (((size_t)note.n_descsz + 3) & ~(size_t)3);
        if (content > bytes || next > bytes + 3 || content + note.n_descsz > bytes || next <= at)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + owner, "GNU", 4) == 0
            && note.n_descsz > 0 && note.n_descsz <= LONGEST_ID) {
            memcpy(id, notes + content, note.n_descsz);
            return note.n_descsz;
        }
        at = next;
    }
    return 0;
}

static size_t id_in(int file, uint64_t at, uint64_t bytes, unsigned char *id)
{
    return bytes > 0 && bytes <= NOTE_BYTES && read_at(file, notes, bytes, at) ? id_among(bytes, id) : 0;
}

/* Reads the build ID of an ELF file of this machine's byte order. Returns its length, 0 if there is none. */
static size_t build_id(int file, unsigned char *id)
{
    unsigned char ident[EI_NIDENT];
    size_t length = 0;
    if (!read_at(file, ident, sizeof ident, 0) || memcmp(ident, ELFMAG, SELFMAG) != 0)
        return 0;
    if (ident[EI_CLASS] == ELFCLASS64) {
        Elf64_Ehdr head;
        if (!read_at(file, &head, sizeof head, 0) || head.e_phentsize != sizeof(Elf64_Phdr))
            return 0;
        for (unsigned i = 0; i < head.e_phnum && i < MOST_SEGMENTS && length == 0; i++) {
            Elf64_Phdr segment;
            if (!read_at(file, &segment, sizeof segment, head.e_phoff + (uint64_t)i * sizeof segment))
                return 0;
            if (segment.p_type == PT_NOTE)
                length = id_in(file, segment.p_offset, segment.p_filesz, id);
        }
    } else if (ident[EI_CLASS] == ELFCLASS32) {
        Elf32_Ehdr head;
        if (!read_at(file, &head, sizeof head, 0) || head.e_phentsize != sizeof(Elf32_Phdr))
            return 0;
        for (unsigned i = 0; i < head.e_phnum && i < MOST_SEGMENTS && length == 0; i++) {
            Elf32_Phdr segment;
            if (!read_at(file, &segment, sizeof segment, head.e_phoff + (uint64_t)i * sizeof segment))
                return 0;
            if (segment.p_type == PT_NOTE)
                length = id_in(file, segment.p_offset, segment.p_filesz, id);
        }
    }
    return length;
}

/* Prints no more than its length when it was found, because it may grow while it is read. */
static void print_bytes(int file, int64_t length)
{
    int error = 0;
    printf("bytes\n");
    while (length > 0) {
        ssize_t got = read(file, piece, length < PIECE_BYTES ? (size_t)length : PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            error = got < 0 ? errno : ESTALE;
            break;
        }
        uint32_t bytes = (uint32_t)got;
        if (fwrite(&bytes, sizeof bytes, 1, stdout) != 1 || fwrite(piece, 1, bytes, stdout) != bytes)
            exit(1);
        length -= got;
    }
    uint32_t last = 0;
    fwrite(&last, sizeof last, 1, stdout);
    if (error == 0)
        printf("end\n");
    else
        print_error(error);
}

static void content_of(bool by_id)
{
    int which;
    struct stat status;
    int file = open_asked(&which, &status);
    if (file < 0)
        return;
    if (print_found(which, file, &status)) {
        unsigned char id[LONGEST_ID];
        size_t length = by_id ? build_id(file, id) : 0;
        if (length > 0) {
            printf("id ");
            for (size_t i = 0; i < length; i++)
                printf("%02x", id[i]);
            printf("\n");
        } else {
            print_bytes(file, status.st_size);
        }
    }
    close(file);
}

/* Finds the next run of bytes from an offset that is no hole, within the file's length. Returns false if there is
 * none. If the filesystem shows no holes, or there are too many, everything is one run. */
static bool next_run(int file, int64_t from, const struct stat *status, int *runs, int64_t *start, int64_t *end)
{
    int64_t length = status->st_size;
    if (from >= length)
        return false;
    *start = from;
    *end = length;
    /* A file whose size on the disk is at least its length has no holes. */
    if (++*runs > MOST_RUNS || (int64_t)status->st_blocks * 512 >= length)
        return true;
    off_t data = lseek(file, from, SEEK_DATA);
    if (data < 0)
        return errno != ENXIO;
    *start = data;
    off_t hole = lseek(file, data, SEEK_HOLE);
    if (hole > data && hole < length)
        *end = hole;
    return *start < length;
}

/* Returns true for user attributes and access lists, which are never copied. Labels and the like belong to each
 * node. */
static bool has_attributes(int file)
{
    static char names[ATTRIBUTE_BYTES];
    ssize_t bytes = flistxattr(file, names, sizeof names);
    if (bytes < 0)
        return errno == E2BIG || errno == ERANGE;
    for (const char *one = names; one < names + bytes; one += strlen(one) + 1) {
        if (strncmp(one, "user.", 5) == 0 || strncmp(one, "system.", 7) == 0 || strcmp(one, "security.capability") == 0)
            return true;
    }
    return false;
}

static void data_of(void)
{
    int which;
    struct stat status;
    int file = open_asked(&which, &status);
    if (file < 0)
        return;
    if (has_attributes(file)) {
        print_error(ENOTSUP);
    } else {
        int64_t bytes = 0;
        int64_t start;
        int64_t end = 0;
        for (int runs = 0; next_run(file, end, &status, &runs, &start, &end);)
            bytes += end - start;
        printf("data %" PRId64 "\n", bytes);
    }
    close(file);
}

static void print_piece(uint32_t bytes, int64_t offset)
{
    if (fwrite(&bytes, sizeof bytes, 1, stdout) != 1 || fwrite(&offset, sizeof offset, 1, stdout) != 1
        || fwrite(piece, 1, bytes, stdout) != bytes)
        exit(1);
}

static void runs_of(void)
{
    int which;
    struct stat status;
    int file = open_asked(&which, &status);
    if (file < 0)
        return;
    /* Some filesystems show data that is not on the disk yet as a hole. */
    if (fsync(file) != 0) {
        print_error(errno);
        close(file);
        return;
    }
    if (print_found(which, file, &status)) {
        struct stat after;
        int error = 0;
        int64_t at;
        int64_t end = 0;
        for (int runs = 0; error == 0 && next_run(file, end, &status, &runs, &at, &end);) {
            while (at < end && error == 0) {
                ssize_t got = pread(file, piece, end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES, at);
                if (got > 0) {
                    print_piece((uint32_t)got, at);
                    at += got;
                } else if (got == 0 || errno != EINTR) {
                    error = got < 0 ? errno : ESTALE;
                }
            }
        }
        if (error == 0
            && (fstat(file, &after) != 0 || after.st_size != status.st_size
                || after.st_mtim.tv_sec != status.st_mtim.tv_sec || after.st_mtim.tv_nsec != status.st_mtim.tv_nsec))
            error = ESTALE;
        print_piece(0, 0);
        if (error == 0)
            printf("end\n");
        else
            print_error(error);
    }
    close(file);
}

static bool is_of_group(gid_t gid)
{
    static gid_t groups[MOST_GROUPS];
    int count = getgroups(MOST_GROUPS, groups);
    bool found = gid == getegid();
    for (int i = 0; i < count; i++)
        found = found || groups[i] == gid;
    return found;
}

static void room_at(void)
{
    char *last;
    struct stat status;
    struct statvfs room;
    int folder = open_folder(name, &last);
    int error = 0;
    bool taken = false;
    if (folder < 0) {
        print_error(errno);
        return;
    }
    if (faccessat(folder, ".", W_OK | X_OK, 0) != 0 || fstatvfs(folder, &room) != 0)
        error = errno;
    else if (!is_of_group((gid_t)strtoul(first, NULL, 10)))
        error = EPERM;
    else if ((taken = fstatat(folder, last, &status, AT_SYMLINK_NOFOLLOW) == 0))
        error = S_ISREG(status.st_mode) && status.st_uid == geteuid() ? 0 : EEXIST;
    else if (errno != ENOENT)
        error = errno;
    if (error == 0 && fstat(folder, &status) != 0)
        error = errno;
    if (error == 0)
        printf("room %u:%u %" PRIu64 " %d\n", major(status.st_dev), minor(status.st_dev),
               (uint64_t)room.f_bavail * (uint64_t)room.f_frsize, taken);
    else
        print_error(error);
    close(folder);
}

/* Returns a descriptor of the same open file, or a new one of the same file if the kernel or the node denies that. */
static int descriptor_of(long pid, long number)
{
    int process = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0U);
    int file = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, (int)number, 0U);
    int error = errno;
    if (process >= 0)
        close(process);
    if (file >= 0 || (error != ENOSYS && error != EPERM)) {
        errno = error;
        return file;
    }
    char link[64];
    snprintf(link, sizeof link, "/proc/%ld/fd/%ld", pid, number);
    return open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static void flush(void)
{
    int file = descriptor_of(strtol(first, NULL, 10), strtol(name, NULL, 10));
    struct stat status;
    if (file < 0) {
        print_error(errno);
        return;
    }
    errno = EINVAL;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || fsync(file) != 0)
        print_error(errno);
    else
        print_found(1, file, &status);
    close(file);
}

static void access_to(void)
{
    struct stat status;
    int way = (first[0] == 'r' ? R_OK : 0) | (first[0] != '\0' && first[1] == 'w' ? W_OK : 0);
    if (way == 0 && fstatat(AT_FDCWD, name, &status, 0) == 0 && S_ISDIR(status.st_mode))
        way = X_OK;
    if (faccessat(AT_FDCWD, name, way == 0 ? F_OK : way, AT_EACCESS) == 0)
        printf("yes\n");
    else
        print_error(errno);
}

/* A bound socket of another type answers EPROTOTYPE. The link is a name of any file that fits into an address. */
static void bound_to(void)
{
    int which;
    int found = find(&which);
    if (found < 0) {
        print_error(errno);
        return;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", found);
    int trial = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (trial >= 0 && (connect(trial, (struct sockaddr *)&address, sizeof address) == 0 || errno == EPROTOTYPE))
        printf("yes\n");
    else
        print_error(errno);
    if (trial >= 0)
        close(trial);
    close(found);
}

/* Watches the answering process, and ends as it does. Kills it when its client is gone. */
static int watch(pid_t answers)
{
    struct pollfd asker = {.fd = STDIN_FILENO, .events = 0};
    int end = (int)syscall(SYS_pidfd_open, answers, 0U);
    struct pollfd both[] = {asker, {.fd = end, .events = POLLIN}};
    /* Its copies of the pipes must not keep them open. */
    close(STDOUT_FILENO);
    /* On a kernel without pidfds the process is checked each second. */
    while (poll(both, end < 0 ? 1 : 2, end < 0 ? WATCH_MS : -1) >= 0 || errno == EINTR) {
        int status;
        if (waitpid(answers, &status, WNOHANG) == answers)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        if (both[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            break;
    }
    kill(answers, SIGKILL);
    return 1;
}

int main(int argc, char **argv)
{
    bool flushes = argc == 2 && strcmp(argv[1], "--flush") == 0;
    if (argc > 2 || (argc == 2 && !flushes)) {
        fprintf(stderr, "usage: ppmr-look [--flush]\n");
        return 2;
    }
    /* No other process of this user may trace it or write other answers. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    pid_t watcher = getpid();
    pid_t answers = fork();
    if (answers < 0)
        return 1;
    if (answers > 0)
        return watch(answers);
    /* This user can kill the watcher, too. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != watcher)
        return 1;
    setvbuf(stdout, NULL, _IOFBF, ANSWER_BYTES);
    for (int letter = getchar(); letter != EOF; letter = getchar()) {
        if (letter == '.') {
            if (fflush(stdout) != 0)
                return 1;
            continue;
        }
        if (strchr(flushes ? "f" : "slycdanrwu", letter) == NULL || letter == '\0' || !read_text(first) || !read_text(name))
            return 2;
        errno = 0;
        if (strlen(first) >= PATH_BYTES - 1 || strlen(name) >= PATH_BYTES - 1)
            print_error(ENAMETOOLONG);
        else if (letter == 'f')
            flush();
        else if (letter == 'a')
            access_to();
        else if (letter == 'c' || letter == 'd')
            content_of(letter == 'c');
        else if (letter == 'n')
            data_of();
        else if (letter == 'r')
            runs_of();
        else if (letter == 'w')
            room_at();
        else if (letter == 'u')
            bound_to();
        else
            status_of(letter != 's', letter == 'y');
        /* Flush now, so that the caller knows which file does not answer. */
        if (letter != 'c' && letter != 'd' && fflush(stdout) != 0)
            return 1;
    }
    return 0;
}
