/* ppmr-place: places files of a job on the node that the job moves to, and removes them again. It runs as the job's
 * user, so that it has exactly the job's access. Folders are opened without following links. It answers over a pipe
 * until its standard input ends.
 *
 * A query is a letter. Texts end with NUL. It answers with one line, at once.
 *
 * Its only argument is the PID of the service that starts it.
 *
 *   e TEMP PATH REPLACES IDENTITY  notes a file, from 0 on: the temporary name in its folder, its path, 1 if it may
 *                                replace a file of the job's user, and its identity if it was written before. No answer.
 *   p                            writes all noted files under their temporary names, from the following input: for each
 *                                a line "file MODE GID SIZE SECONDS.NANOSECONDS", then pieces: offset (8 bytes), length
 *                                (4 bytes), both with the highest byte first, and the bytes; a length of 0 ends it.
 *                                "written IDENTITY IDENTITY ..." when all are on the disk.
 *   g                            moves each to its name; a replaced file then has the temporary name. "placed"
 *   v                            "placed" if each still has its name
 *   u                            undoes it: replaced files get their names again, and the new files are removed. "undone"
 *   f                            removes the replaced files. "finished"
 *   k                            gives each path, which is the name of a Unix socket, the temporary name, too. "kept"
 *   b                            gives each of these sockets its first name again, if it lost that. "back"
 *   d                            removes the temporary names of these sockets. "dropped"
 *
 * On an error it answers "failed INDEX ERRNO". After a failure of p or g, their work is undone. It is also undone if
 * the input ends between the two. renameat2(2). */
#define _GNU_SOURCE
#include "folder.h"
#include "kernel.h"

#include <endian.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

enum {
    PATH_BYTES = 4096 + 64,
    LINE_BYTES = 128,
    LONGEST_NAME = 240,
    PIECE_BYTES = 1 << 16,
    MOST_FILES = 1024,
    NANOSECONDS = 1000000000,
};

/* A file's number and, if the filesystem has it, its birth time, because a number is reused after its file is gone.
 * It also has the length and time as written, and the number of its folder, because another filesystem may be
 * mounted there later. */
struct identity {
    uint64_t inode;
    int64_t seconds;
    uint32_t nanoseconds;
    int64_t size;
    int64_t changed_seconds;
    uint32_t changed_nanoseconds;
    uint64_t folder;
};

#define IDENTITY_SCAN "%" SCNu64 ":%" SCNd64 ".%" SCNu32 ":%" SCNd64 ":%" SCNd64 ".%" SCNu32 ":%" SCNu64
#define IDENTITY_PRINT " %" PRIu64 ":%" PRId64 ".%" PRIu32 ":%" PRId64 ":%" PRId64 ".%" PRIu32 ":%" PRIu64

/* Suffix of the temporary name for a file that is about to be removed. */
#define GONE ".gone"

struct entry {
    char *temporary;
    char *path; /* cut into its names where its folder was opened */
    char *name;
    int folder;
    int error;
    bool replaces;
    bool known;
    struct identity is;
};

static struct entry entries[MOST_FILES];
static int count;
/* Files are written and do not have their names yet. The caller may die before that. */
static bool unplaced;
static unsigned char piece[PIECE_BYTES];

static char *read_text(void)
{
    static char text[PATH_BYTES];
    size_t used = 0;
    for (int c = getchar(); c != EOF; c = getchar()) {
        if (used == PATH_BYTES)
            return NULL;
        text[used++] = (char)c;
        if (c == '\0')
            return strdup(text);
    }
    return NULL;
}

static bool is_name(const char *text)
{
    return text[0] != '\0' && text[0] != '/' && strchr(text, '/') == NULL && strlen(text) <= LONGEST_NAME;
}

/* Returns false for invalid input. A folder that cannot be opened is reported with the query that needs it. */
static bool note(void)
{
    if (count == MOST_FILES)
        return false;
    struct entry *entry = &entries[count];
    entry->temporary = read_text();
    entry->path = entry->temporary == NULL ? NULL : read_text();
    char *replaces = entry->path == NULL ? NULL : read_text();
    char *inode = replaces == NULL ? NULL : read_text();
    if (inode == NULL || !is_name(entry->temporary))
        return false;
    entry->replaces = strcmp(replaces, "1") == 0;
    entry->known = sscanf(inode, IDENTITY_SCAN, &entry->is.inode, &entry->is.seconds, &entry->is.nanoseconds,
                          &entry->is.size, &entry->is.changed_seconds, &entry->is.changed_nanoseconds, &entry->is.folder)
                   == 7;
    entry->folder = open_folder(entry->path, &entry->name);
    entry->error = entry->folder < 0 ? errno : 0;
    struct stat status;
    if (entry->error == 0 && entry->known && (fstat(entry->folder, &status) != 0 || status.st_ino != entry->is.folder))
        entry->error = ESTALE;
    free(replaces);
    free(inode);
    count++;
    return true;
}

static void print_failed(int index, int error)
{
    printf("failed %d %d\n", index, error);
}

/* Reads the status of a name in a file's folder, without following links. Returns false, with errno, on an error. */
static bool look(const struct entry *entry, const char *name, struct stat *status)
{
    return fstatat(entry->folder, name, status, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Returns the identity of a name in a folder, whose status is given, without following links. */
static struct identity identity(int folder, const char *name, const struct stat *status)
{
    struct identity is = {.inode = status->st_ino,
                          .size = status->st_size,
                          .changed_seconds = status->st_mtim.tv_sec,
                          .changed_nanoseconds = (uint32_t)status->st_mtim.tv_nsec};
#ifdef STATX_BTIME
    struct statx more;
    if (statx(folder, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &more) == 0
        && more.stx_ino == is.inode && (more.stx_mask & STATX_BTIME) != 0) {
        is.seconds = more.stx_btime.tv_sec;
        is.nanoseconds = more.stx_btime.tv_nsec;
    }
#else
    (void)folder;
    (void)name;
#endif
    return is;
}

static bool is_own(const struct entry *entry, int folder, const char *name, const struct stat *status)
{
    struct identity is = identity(folder, name, status);
    return entry->known && S_ISREG(status->st_mode) && is.inode == entry->is.inode && is.seconds == entry->is.seconds
           && is.nanoseconds == entry->is.nanoseconds;
}

/* Returns true if a file of ours was not changed since it was placed. */
static bool is_untouched(const struct entry *entry, const struct stat *status)
{
    return status->st_size == entry->is.size && status->st_mtim.tv_sec == entry->is.changed_seconds
           && status->st_mtim.tv_nsec == (long)entry->is.changed_nanoseconds;
}

static int exchange(const struct entry *entry)
{
    return (int)syscall(SYS_renameat2, entry->folder, entry->temporary, entry->folder, entry->name, RENAME_EXCHANGE);
}

/* Moves a file to the second name, which must be free. */
static int move(const struct entry *entry, const char *from, const char *to)
{
    return (int)syscall(SYS_renameat2, entry->folder, from, entry->folder, to, RENAME_NOREPLACE);
}

/* Syncs a folder's names to the disk. If its user cannot read a folder, the filesystem's next sync writes it. */
static void sync_folder(const struct entry *entry)
{
    int folder = openat(entry->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

/* Removes the new file with this name. The checked file and the removed one must be the same, even if another
 * process changes names. Therefore it first gets a private name, and its old one back if it is another file. Returns
 * 0 or the error. */
static int remove_own(const struct entry *entry, const char *name)
{
    char aside[LONGEST_NAME + sizeof GONE];
    struct stat status;
    snprintf(aside, sizeof aside, "%s%s", entry->temporary, GONE);
    if (move(entry, name, aside) != 0)
        return errno;
    bool own = look(entry, aside, &status)
               && (entry->known ? is_own(entry, entry->folder, aside, &status) && is_untouched(entry, &status)
                                : S_ISREG(status.st_mode) && status.st_uid == geteuid());
    if (own)
        return unlinkat(entry->folder, aside, 0) == 0 ? 0 : errno;
    return move(entry, aside, name) == 0 ? ESTALE : errno;
}

/* A killed process may have left a file of ours, or a foreign file, under that private name. */
static int settle_aside(const struct entry *entry)
{
    char aside[LONGEST_NAME + sizeof GONE];
    struct stat status;
    snprintf(aside, sizeof aside, "%s%s", entry->temporary, GONE);
    if (!look(entry, aside, &status))
        return errno == ENOENT ? 0 : errno;
    if (entry->known && is_own(entry, entry->folder, aside, &status) && is_untouched(entry, &status))
        return unlinkat(entry->folder, aside, 0) == 0 ? 0 : errno;
    return move(entry, aside, entry->temporary) == 0 ? 0 : errno;
}

/* Removes one file, and restores the replaced one; 0, or the error. It may be repeated. */
static int undo(struct entry *entry)
{
    struct stat there;
    struct stat kept;
    if (entry->error != 0)
        return entry->error;
    int error = settle_aside(entry);
    if (error != 0)
        return error;
    bool has_name = look(entry, entry->name, &there);
    if (!has_name && errno != ENOENT)
        return errno;
    bool has_temporary = look(entry, entry->temporary, &kept);
    if (!has_temporary && errno != ENOENT)
        return errno;
    bool placed = has_name && is_own(entry, entry->folder, entry->name, &there);
    bool waits = has_temporary && (!entry->known || is_own(entry, entry->folder, entry->temporary, &kept));
    if (placed && !is_untouched(entry, &there))
        return ESTALE;
    if (placed && has_temporary && !waits) {
        if (exchange(entry) != 0)
            return errno;
        error = remove_own(entry, entry->temporary);
    } else if (placed) {
        error = remove_own(entry, entry->name);
    } else if (waits) {
        error = remove_own(entry, entry->temporary);
    } else if (has_temporary && move(entry, entry->temporary, entry->name) != 0) {
        error = errno;
    }
    sync_folder(entry);
    return error;
}

static int undo_all(int *failed)
{
    int first = 0;
    for (int i = 0; i < count; i++) {
        int error = undo(&entries[i]);
        if (error != 0 && first == 0) {
            first = error;
            *failed = i;
        }
    }
    return first;
}

static bool read_exactly(void *to, size_t bytes)
{
    return fread(to, 1, bytes, stdin) == bytes;
}

static int write_all(int file, const unsigned char *from, size_t bytes, int64_t at)
{
    while (bytes > 0) {
        ssize_t done = pwrite(file, from, bytes, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done == 0 ? EIO : errno;
        from += done;
        at += done;
        bytes -= (size_t)done;
    }
    return 0;
}

/* Reads the pieces of one file and writes them, if it has a descriptor and no error yet. Returns the first error, or
 * -1 for invalid input. */
static int take_pieces(int file, int64_t size, int error)
{
    for (;;) {
        uint64_t offset;
        uint32_t length;
        if (!read_exactly(&offset, sizeof offset) || !read_exactly(&length, sizeof length))
            return -1;
        int64_t at = (int64_t)be64toh(offset);
        uint32_t left = be32toh(length);
        if (left == 0)
            return error;
        if (at < 0 || at > size - (int64_t)left)
            return -1;
        while (left > 0) {
            uint32_t next = left < PIECE_BYTES ? left : PIECE_BYTES;
            if (!read_exactly(piece, next))
                return -1;
            if (error == 0)
                error = write_all(file, piece, next, at);
            at += next;
            left -= next;
        }
    }
}

/* Writes one file under its temporary name; 0, the error, or -1 for invalid input. */
static int write_one(struct entry *entry)
{
    char line[LINE_BYTES];
    unsigned mode;
    unsigned gid;
    int64_t size;
    int64_t seconds;
    long nanoseconds;
    if (fgets(line, sizeof line, stdin) == NULL
        || sscanf(line, "file %o %u %" SCNd64 " %" SCNd64 ".%ld\n", &mode, &gid, &size, &seconds, &nanoseconds) != 5
        || size < 0 || nanoseconds < 0 || nanoseconds >= NANOSECONDS)
        return -1;
    int file = entry->error != 0 ? (errno = entry->error, -1)
                                 : openat(entry->folder, entry->temporary,
                                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int error = file < 0 ? errno : 0;
    error = take_pieces(file, size, error);
    struct stat status;
    struct timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
    if (error == 0
        && (ftruncate(file, size) != 0 || fchown(file, (uid_t)-1, gid) != 0 || fchmod(file, mode & 07777) != 0
            || futimens(file, times) != 0 || fsync(file) != 0 || fstat(file, &status) != 0))
        error = errno;
    if (error == 0) {
        struct stat folder;
        entry->is = identity(file, "", &status);
        if (fstat(entry->folder, &folder) != 0)
            error = errno;
        entry->is.folder = folder.st_ino;
        entry->known = true;
    }
    if (file >= 0)
        close(file);
    return error;
}

/* Returns false for invalid input. Then all files are removed, too. */
static bool write_files(void)
{
    int error = 0;
    int failed = 0;
    for (int i = 0; i < count; i++) {
        int found = write_one(&entries[i]);
        if (found < 0) {
            undo_all(&failed);
            return false;
        }
        if (found != 0 && error == 0) {
            error = found;
            failed = i;
        }
    }
    if (error != 0) {
        int ignored;
        undo_all(&ignored);
        print_failed(failed, error);
        return true;
    }
    unplaced = true;
    printf("written");
    for (int i = 0; i < count; i++) {
        const struct identity *is = &entries[i].is;
        printf(IDENTITY_PRINT, is->inode, is->seconds, is->nanoseconds, is->size, is->changed_seconds,
               is->changed_nanoseconds, is->folder);
    }
    printf("\n");
    return true;
}

/* Moves one file to its name; 0 or the error. */
static int place(struct entry *entry)
{
    struct stat before;
    struct stat aside;
    if (entry->error != 0)
        return entry->error;
    if (!look(entry, entry->name, &before))
        return errno != ENOENT ? errno : move(entry, entry->temporary, entry->name) == 0 ? 0 : errno;
    if (!entry->replaces || !S_ISREG(before.st_mode) || before.st_uid != geteuid())
        return EEXIST;
    if (exchange(entry) != 0)
        return errno;
    if (look(entry, entry->temporary, &aside) && aside.st_ino == before.st_ino && aside.st_dev == before.st_dev
        && S_ISREG(aside.st_mode))
        return 0;
    /* Another file had the name by then. It gets the name again, and the new file its temporary one. */
    return exchange(entry) == 0 ? EEXIST : errno;
}

/* Checks that the path still leads to the file, including its folders. */
static int verify(struct entry *entry, const char *path)
{
    char again[PATH_BYTES];
    char *name;
    struct stat status;
    snprintf(again, sizeof again, "%s", path);
    int folder = open_folder(again, &name);
    if (folder < 0)
        return errno;
    int error = 0;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        error = errno;
    else if (!is_own(entry, folder, name, &status))
        error = ESTALE;
    close(folder);
    return error;
}

/* Returns the path of an entry as it was noted. NUL separates its names since its folder was opened. */
static void whole_path(const struct entry *entry, char *to)
{
    const char *end = entry->name + strlen(entry->name);
    size_t bytes = (size_t)(end - entry->path);
    for (size_t i = 0; i < bytes; i++)
        to[i] = entry->path[i] == '\0' ? '/' : entry->path[i];
    to[bytes] = '\0';
}

static int check(struct entry *entry)
{
    char path[PATH_BYTES];
    if (entry->error != 0)
        return entry->error;
    whole_path(entry, path);
    return verify(entry, path);
}

static int place_and_check(struct entry *entry)
{
    int error = place(entry);
    return error != 0 ? error : check(entry);
}

/* The file with the temporary name is the replaced one only while the new file has its name. */
static int finish(struct entry *entry)
{
    struct stat status;
    if (entry->error != 0)
        return entry->error;
    if (!look(entry, entry->temporary, &status))
        return errno == ENOENT ? 0 : errno;
    if (!entry->known || is_own(entry, entry->folder, entry->temporary, &status) || !S_ISREG(status.st_mode)
        || status.st_uid != geteuid())
        return ESTALE;
    if (unlinkat(entry->folder, entry->temporary, 0) != 0)
        return errno;
    sync_folder(entry);
    return 0;
}

static bool is_own_socket(const struct stat *status)
{
    return S_ISSOCK(status->st_mode) && status->st_uid == geteuid();
}

static int keep_name(struct entry *entry)
{
    struct stat status;
    if (entry->error != 0)
        return entry->error;
    if (!look(entry, entry->name, &status))
        return errno;
    if (!is_own_socket(&status))
        return ESTALE;
    return linkat(entry->folder, entry->name, entry->folder, entry->temporary, 0) == 0 ? 0 : errno;
}

/* Only a socket of the same user is replaced, which a copy has left there. It may be repeated. */
static int bring_name_back(struct entry *entry)
{
    struct stat kept;
    struct stat there;
    if (entry->error != 0)
        return entry->error;
    if (!look(entry, entry->temporary, &kept))
        return errno == ENOENT ? 0 : errno;
    if (!is_own_socket(&kept))
        return ESTALE;
    if (!look(entry, entry->name, &there)) {
        if (errno != ENOENT)
            return errno;
    } else if (there.st_ino == kept.st_ino && there.st_dev == kept.st_dev) {
        /* rename(2) leaves two names of one file as they are. */
        return unlinkat(entry->folder, entry->temporary, 0) == 0 ? 0 : errno;
    } else if (!is_own_socket(&there)) {
        return EEXIST;
    }
    return renameat(entry->folder, entry->temporary, entry->folder, entry->name) == 0 ? 0 : errno;
}

static int drop_name(struct entry *entry)
{
    struct stat kept;
    if (entry->error != 0)
        return entry->error;
    if (!look(entry, entry->temporary, &kept))
        return errno == ENOENT ? 0 : errno;
    if (!is_own_socket(&kept))
        return ESTALE;
    return unlinkat(entry->folder, entry->temporary, 0) == 0 ? 0 : errno;
}

static int sync_one(struct entry *entry)
{
    struct stat own;
    struct stat before;
    const struct entry *last = entry - 1;
    bool same = entry > entries && last->error == 0 && fstat(entry->folder, &own) == 0 && fstat(last->folder, &before) == 0
                && own.st_ino == before.st_ino && own.st_dev == before.st_dev;
    if (!same)
        sync_folder(entry);
    return 0;
}

/* Calls the function for all files. Returns the first error, and its file. */
static int each(int (*what)(struct entry *), bool stops, int *failed)
{
    int first = 0;
    for (int i = 0; i < count && !(stops && first != 0); i++) {
        int error = what(&entries[i]);
        if (error != 0 && first == 0) {
            first = error;
            *failed = i;
        }
    }
    return first;
}

static void answer(const char *done, int error, int failed)
{
    if (error == 0)
        printf("%s\n", done);
    else
        print_failed(failed, error);
}

int main(int argc, char **argv)
{
    /* No other process of this user may trace it or write other answers. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* It stops when its service, or the thread there that started it, ends. Another process then undoes its
     * work. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (argc != 2 || getppid() != (pid_t)strtol(argv[1], NULL, 10))
        return 2;
    umask(0);
    for (int letter = getchar(); letter != EOF; letter = getchar()) {
        int failed = 0;
        int ignored;
        int error;
        switch (letter) {
        case 'e':
            if (!note())
                return 2;
            continue;
        case 'p':
            if (!write_files())
                return 2;
            break;
        case 'g':
            error = each(place_and_check, true, &failed);
            if (error == 0)
                each(sync_one, false, &ignored);
            else
                undo_all(&ignored);
            unplaced = false;
            answer("placed", error, failed);
            break;
        case 'v':
            error = each(check, true, &failed);
            answer("placed", error, failed);
            break;
        case 'u':
            error = undo_all(&failed);
            answer("undone", error, failed);
            break;
        case 'f':
            error = each(finish, false, &failed);
            answer("finished", error, failed);
            break;
        case 'k':
            error = each(keep_name, true, &failed);
            if (error != 0)
                each(drop_name, false, &ignored);
            answer("kept", error, failed);
            break;
        case 'b':
            error = each(bring_name_back, false, &failed);
            answer("back", error, failed);
            break;
        case 'd':
            error = each(drop_name, false, &failed);
            answer("dropped", error, failed);
            break;
        default:
            return 2;
        }
        if (fflush(stdout) != 0)
            break;
    }
    if (unplaced) {
        int ignored;
        undo_all(&ignored);
    }
    return 0;
}
