// many-marks COUNT: becomes sleep(1) for ten minutes, with COUNT variables in its environment that look like the marks
// of restarts. The kernel accepts about 20,000 of them with the default limit of the stack.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int count = argc == 2 ? atoi(argv[1]) : 0;
    if (count <= 0) {
        fprintf(stderr, "usage: many-marks COUNT\n");
        return 2;
    }
    char **environment = calloc((size_t)count + 1, sizeof *environment);
    for (int i = 0; environment != NULL && i < count; i++)
        if (asprintf(&environment[i], "PPMR_RESTART=%016x%016x", getpid(), i) < 0)
            return 1;
    if (environment == NULL)
        return 1;
    char *command[] = {"sleep", "600", NULL};
    execve("/bin/sleep", command, environment);
    perror("many-marks: /bin/sleep");
    return 1;
}
