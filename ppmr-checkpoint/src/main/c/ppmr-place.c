/*
 * ppmr-place: puts files of a job at their places on the node that the job moves to, and takes them away again. It is
 * started as the job's user, so that it can write what the job may write and no more. Folders are opened without
 * following links. It answers over a pipe until its standard input ends.
 *
 * A question is a letter; texts end with NUL. It answers with one line, at once.
 *
 * Its only word is the PID of the service that starts it.
 *
 *   e TEMP PATH REPLACES IDENTITY  notes a file, from 0 on: the temporary name in its folder, its path, 1 where it may
 *                                replace a file of the job's user, and its identity if it was written before. No answer.
 *   p                            writes all that were noted under their temporary names, out of what follows: for each
 *                                a line "file MODE GID SIZE SECONDS.NANOSECONDS", then pieces: offset (8 bytes), length
 *                                (4 bytes), both with the highest byte first, and so many bytes; a length of 0 ends it.
 *                                "written IDENTITY IDENTITY ..." when all are on the disk.
 *   g                            gives each its name; what had that name has the temporary one then. "placed"
 *   v                            "placed" if each still has its name
 *   u                            undoes it: what was there before has its name again, and nothing of ours is left. "undone"
 *   f                            takes away what was there before. "finished"
 *
 * Else "failed INDEX ERRNO". After a failure of p and g nothing is left of what they did; nor is it where the input ends
 * between the two. renameat2(2).
 */
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

/*
 * A file's number, and when it was made where the filesystem tells: a number is given again when its file is gone. Its
 * length and time as they were written, and the number of its folder: another filesystem may be mounted there later.
 */
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

/* Behind the temporary name: what is about to be removed. */
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
/* Files are written and do not have their names yet: the caller may be gone before. */
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

/* False where the input is none. A folder that cannot be opened is told with the question that needs it. */
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

static void say_failed(int index, int error)
{
    printf("failed %d %d\n", index, error);
}

/* What has a name in a file's folder, no link followed; false, with errno, if nothing can be said. */
static bool look(const struct entry *entry, const char *name, struct stat *status)
{
    return fstatat(entry->folder, name, status, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The identity of what has a name in a folder, which was looked at; no link followed. */
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

/* Returns true if nothing was written to a file of ours since it was put there. */
static bool is_untouched(const struct entry *entry, const struct stat *status)
{
    return status->st_size == entry->is.size && status->st_mtim.tv_sec == entry->is.changed_seconds
           && status->st_mtim.tv_nsec == (long)entry->is.changed_nanoseconds;
}

static int exchange(const struct entry *entry)
{
    return (int)syscall(SYS_renameat2, entry->folder, entry->temporary, entry->folder, entry->name, RENAME_EXCHANGE);
}

/* Gives a file the second name, which must be free, in place of the first. */
static int move(const struct entry *entry, const char *from, const char *to)
{
    return (int)syscall(SYS_renameat2, entry->folder, from, entry->folder, to, RENAME_NOREPLACE);
}

/* The names are on the disk; a folder that its user cannot read is written with the next of its filesystem. */
static void sync_folder(const struct entry *entry)
{
    int folder = openat(entry->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

/*
 * Takes the new file away that has a name. What is looked at and what is removed must be one file, even if another process changes names
 * meanwhile: so it gets a name of its own first, and its old one back if it is another one. 0 or the error.
 */
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

/* A process that was killed may have left a file of ours, or what it took for one, under that name of its own. */
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

/* Takes one file away, and gives what was there before its name again; 0, or the error. To be repeated at will. */
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

/* Reads the pieces of one file and writes them, if it has one and no error yet; the first error, or -1 for no input. */
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

/* Writes one file under its temporary name; 0, the error, or -1 where the input is none. */
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

/* False where the input is none: nothing is left then either. */
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
        say_failed(failed, error);
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

/* Gives one file its name; 0 or the error. */
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
    /* Something else had the name by then: it has it again, and the file its temporary one. */
    return exchange(entry) == 0 ? EEXIST : errno;
}

/* Looks whether the path still leads to each file, its folders included. */
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

/* The path of an entry as it was noted: its names are separated by NUL since its folder was opened. */
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

/* What has the temporary name is what was there before only while the new file has its name. */
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

/* Does it with all; the first error, and at which. */
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
        say_failed(failed, error);
}

int main(int argc, char **argv)
{
    /* Nothing else of this user's traces it, or writes other answers. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* It does nothing once its service, or the thread there that started it, has ended: another one undoes it. */
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
