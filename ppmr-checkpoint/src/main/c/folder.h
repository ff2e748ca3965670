/* Finds the folder of a path without following any link. A user who can change a name on the way cannot redirect the
 * caller. It works on every kernel that has O_PATH; openat2(2) would need Linux 5.6. */
#ifndef PPMR_FOLDER_H
#define PPMR_FOLDER_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Opens the folder of an absolute path step by step, and points last at the name in it. The path is changed. Returns
 * -1 with errno: EINVAL for a path with an empty part, '.' or '..', ELOOP or ENOTDIR for a link in the path. */
static inline int open_folder(char *path, char **last)
{
    int folder = path[0] == '/' ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : (errno = EINVAL, -1);
    char *name = path + 1;
    while (folder >= 0) {
        char *slash = strchr(name, '/');
        if (slash != NULL)
            *slash = '\0';
        if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            close(folder);
            errno = EINVAL;
            return -1;
        }
        if (slash == NULL) {
            *last = name;
            return folder;
        }
        int next = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        close(folder);
        errno = error;
        folder = next;
        name = slash + 1;
    }
    return -1;
}

#endif
