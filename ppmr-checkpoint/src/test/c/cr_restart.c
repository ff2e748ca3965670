/*
 * cr_restart: stands in for BLCR's program of that name, for images of selfckpt-job. It takes BLCR's options and refuses
 * unknown ones. The restored process reads the stream itself, front to back; cr_restart stays its parent until it ends,
 * and ends the same way.
 *
 * Exit status: the restored process's; 1 usage; otherwise the errno of what failed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPTION_RUN = 256, OPTION_STOP, OPTION_RESTORE_PID, OPTION_NO_RESTORE_PID, OPTION_RELOCATE, OPTION_ON_SUCCESS,
       OPTION_ON_FAILURE, OPTION_VERSION, MAX_RELOCATIONS = 16, MAX_ARGUMENTS = 2 * MAX_RELOCATIONS + 8 };

static const struct option OPTIONS[] = {
    {"file", required_argument, NULL, 'f'},
    {"fd", required_argument, NULL, 'F'},
    {"run", no_argument, NULL, OPTION_RUN},
    {"stop", no_argument, NULL, OPTION_STOP},
    {"restore-pid", no_argument, NULL, OPTION_RESTORE_PID},
    {"no-restore-pid", no_argument, NULL, OPTION_NO_RESTORE_PID},
    {"relocate", required_argument, NULL, OPTION_RELOCATE},
    {"run-on-success", required_argument, NULL, OPTION_ON_SUCCESS},
    {"run-on-failure", required_argument, NULL, OPTION_ON_FAILURE},
    {"quiet", no_argument, NULL, 'q'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static const char *file;
static int image_fd = -1;
static bool stop;
static bool restore_pid = true;
static const char *on_success;
static const char *on_failure;
static char *relocations[MAX_RELOCATIONS];
static int relocation_count;

static void usage(void)
{
    fprintf(stderr, "Usage: cr_restart [options] [checkpoint_file]\n"
                    "  -f FILE|-F FD  --run|--stop  --restore-pid|--no-restore-pid  --relocate OLD=NEW\n"
                    "  --run-on-success=CMD  --run-on-failure=CMD\n");
    exit(1);
}

static void parse(int argc, char **argv)
{
    int option;
    while ((option = getopt_long(argc, argv, "f:F:q", OPTIONS, NULL)) != -1) {
        switch (option) {
        case 'q': break;
        case 'f': file = optarg; break;
        case 'F': image_fd = atoi(optarg); break;
        case OPTION_RUN: stop = false; break;
        case OPTION_STOP: stop = true; break;
        case OPTION_RESTORE_PID: restore_pid = true; break;
        case OPTION_NO_RESTORE_PID: restore_pid = false; break;
        case OPTION_ON_SUCCESS: on_success = optarg; break;
        case OPTION_ON_FAILURE: on_failure = optarg; break;
        case OPTION_RELOCATE:
            if (relocation_count == MAX_RELOCATIONS || strchr(optarg, '=') == NULL)
                usage();
            relocations[relocation_count++] = optarg;
            break;
        case OPTION_VERSION: puts("cr_restart version 0.8.5 (ppmr's stand-in for tests)"); exit(0);
        default: usage();
        }
    }
    if (file == NULL && image_fd < 0 && optind == argc - 1)
        file = argv[optind++];
    if (optind != argc || (file == NULL) == (image_fd < 0))
        usage();
}

static int fail(const char *what, int error)
{
    fprintf(stderr, "Restart failed: %s: %s\n", what, strerror(error));
    if (on_failure != NULL && system(on_failure) != 0)
        fprintf(stderr, "cr_restart: the command '%s' failed\n", on_failure);
    return error;
}

/* The restored process is a selfckpt-job that reads its state from the image. */
static void become_job(int ready_fd)
{
    char program[4096];
    char image_text[16];
    char ready_text[16];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    if (length < 0)
        _exit(127);
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    snprintf(slash + 1, 32, "selfckpt-job");
    snprintf(image_text, sizeof image_text, "%d", image_fd);
    snprintf(ready_text, sizeof ready_text, "%d", ready_fd);
    char *arguments[MAX_ARGUMENTS] = {"selfckpt-job", "--restore-fd", image_text, "--ready-fd", ready_text};
    int count = 5;
    if (stop)
        arguments[count++] = "--stop";
    for (int i = 0; i < relocation_count; i++) {
        arguments[count++] = "--relocate";
        arguments[count++] = relocations[i];
    }
    execv(program, arguments);
    _exit(127);
}

static int end_like(int status)
{
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    if (restore_pid) {
        fprintf(stderr, "cr_restart: this stand-in cannot restore a PID; give --no-restore-pid\n");
        return ENOSYS;
    }
    if (file != NULL) {
        image_fd = open(file, O_RDONLY);
        if (image_fd < 0)
            return fail(file, errno);
    }
    int ready[2];
    if (pipe(ready) != 0)
        return fail("pipe", errno);
    fcntl(ready[0], F_SETFD, FD_CLOEXEC);
    pid_t child = fork();
    if (child < 0)
        return fail("fork", errno);
    if (child == 0)
        become_job(ready[1]);
    close(ready[1]);
    close(image_fd);

    int32_t error = 0;
    int status;
    if (read(ready[0], &error, sizeof error) != (ssize_t)sizeof error)
        error = ECHILD;
    if (error != 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return fail(file == NULL ? "image" : file, error);
    }
    close(ready[0]);
    if (stop && (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)))
        return fail("the restored process has ended", ECHILD);
    if (on_success != NULL && system(on_success) != 0)
        fprintf(stderr, "cr_restart: the command '%s' failed\n", on_success);
    if (waitpid(child, &status, 0) != child)
        return fail("wait", errno);
    return end_like(status);
}
