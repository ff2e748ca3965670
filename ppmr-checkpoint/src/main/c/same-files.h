/* Files that must be the same in two mount namespaces, by device and inode. They are noted in the one and compared
 * in the other. For a program, its interpreter or loader is noted, too, and the folder of that, which has the C
 * library. */
#ifndef PPMR_SAME_FILES_H
#define PPMR_SAME_FILES_H

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SAME = 256, MOST_INTERPRETERS = 4, MOST_SEGMENTS = 64, LINE_BYTES = 256 };

/* A path, and the file that was found there. */
struct same_file {
    const char *path;
    bool there;
    dev_t device;
    ino_t inode;
};

struct same_files {
    size_t count;
    struct same_file all[MOST_SAME];
};

static inline void read_same(struct same_file *file)
{
    struct stat found;
    file->there = stat(file->path, &found) == 0;
    file->device = file->there ? found.st_dev : 0;
    file->inode = file->there ? found.st_ino : 0;
}

/* Reads the path of a script's interpreter or of a program's loader. Returns false if there is none. elf(5),
 * execve(2). */
static inline bool read_interpreter(int file, char *path)
{
    char head[LINE_BYTES];
    ssize_t length = pread(file, head, sizeof head - 1, 0);
    if (length > 2 && head[0] == '#' && head[1] == '!') {
        head[length] = '\0';
        char *begin = head + 2 + strspn(head + 2, " \t");
        begin[strcspn(begin, " \t\n")] = '\0';
        snprintf(path, PATH_MAX, "%s", begin);
        return *path == '/';
    }
    ElfW(Ehdr) program;
    if (pread(file, &program, sizeof program, 0) != (ssize_t)sizeof program
        || memcmp(program.e_ident, ELFMAG, SELFMAG) != 0 || program.e_phentsize != sizeof(ElfW(Phdr))
        || program.e_ident[EI_CLASS] != (sizeof(void *) == sizeof(Elf64_Addr) ? ELFCLASS64 : ELFCLASS32))
        return false;
    for (unsigned int i = 0; i < program.e_phnum && i < MOST_SEGMENTS; i++) {
        ElfW(Phdr) segment;
        if (pread(file, &segment, sizeof segment, (off_t)(program.e_phoff + i * sizeof segment))
            != (ssize_t)sizeof segment)
            return false;
        if (segment.p_type != PT_INTERP || segment.p_filesz == 0 || segment.p_filesz >= PATH_MAX)
            continue;
        bool whole = pread(file, path, segment.p_filesz, (off_t)segment.p_offset) == (ssize_t)segment.p_filesz;
        path[segment.p_filesz] = '\0';
        return whole && *path == '/';
    }
    return false;
}

/* Notes a file or folder, which may be missing, and its interpreters. Returns false with errno if there is no room
 * for it. */
static inline bool note_same(struct same_files *files, const char *path, int interpreters)
{
    if (files->count == MOST_SAME) {
        errno = E2BIG;
        return false;
    }
    struct same_file *next = &files->all[files->count];
    next->path = strdup(path);
    if (next->path == NULL)
        return false;
    files->count++;
    read_same(next);
    char interpreter[PATH_MAX];
    int file = next->there && interpreters < MOST_INTERPRETERS ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    bool found = file >= 0 && read_interpreter(file, interpreter);
    if (file >= 0)
        close(file);
    if (!found)
        return true;
    char real[PATH_MAX];
    if (!note_same(files, interpreter, interpreters + 1) || realpath(interpreter, real) == NULL)
        return false;
    *strrchr(real, '/') = '\0';
    return note_same(files, *real == '\0' ? "/" : real, MOST_INTERPRETERS);
}

/* Notes each part of a list of folders or files, as in LD_LIBRARY_PATH. */
static inline bool note_same_list(struct same_files *files, const char *list, const char *separators)
{
    char *copy = list == NULL ? NULL : strdup(list);
    bool noted = list == NULL || copy != NULL;
    char *rest;
    for (char *one = copy == NULL ? NULL : strtok_r(copy, separators, &rest); noted && one != NULL;
         one = strtok_r(NULL, separators, &rest))
        noted = *one != '/' || note_same(files, one, 0);
    free(copy);
    return noted;
}

/* Notes the folders and files that provide every program's libraries, and those in which programs are found;
 * ld.so(8). */
static inline bool note_system(struct same_files *files)
{
    static const char *const all[] = {"/", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/etc/ld.so.cache", "/etc/ld.so.preload",
                                      "/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/local/lib"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!note_same(files, all[i], MOST_INTERPRETERS))
            return false;
    }
    return note_same_list(files, getenv("LD_LIBRARY_PATH"), ":;") && note_same_list(files, getenv("LD_PRELOAD"), ": ");
}

/* Returns the first path at which another file is found than was noted; NULL if all are the same. */
static inline const char *find_other(const struct same_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        struct same_file now = {.path = files->all[i].path};
        read_same(&now);
        if (now.there != files->all[i].there || now.device != files->all[i].device || now.inode != files->all[i].inode)
            return now.path;
    }
    return NULL;
}

#endif
