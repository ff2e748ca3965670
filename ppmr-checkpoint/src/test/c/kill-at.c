/*
 * Runs a program, and kills one of its descendants before or after a system call of it:
 *
 *   kill-at WORD STEP FILE PROGRAM ARGUMENT...
 *
 * The descendant is the first one that executes a program with WORD as its first argument. Each of its system calls has
 * two steps, one before it and one after it. FILE gets the number of steps that it made. Ends as the program does.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 4096, EVENT_SHIFT = 16 };

static bool has_word(pid_t pid, const char *word)
{
    char path[64];
    char words[ROOM];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, words, sizeof words - 1);
    if (file >= 0) {
        close(file);
    }
    if (length <= 0) {
        return false;
    }
    words[length] = '\0';
    size_t first = strlen(words) + 1;
    return first < (size_t)length && strcmp(words + first, word) == 0;
}

static pid_t start(char **program)
{
    pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        execv(program[0], program);
        perror(program[0]);
        _exit(127);
    }
    int status;
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC
        | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (child < 0 || waitpid(child, &status, WUNTRACED) != child || ptrace(PTRACE_SEIZE, child, NULL, options) != 0) {
        perror("the program cannot be traced");
        exit(1);
    }
    kill(child, SIGCONT);
    return child;
}

int main(int count, char **words)
{
    if (count < 5) {
        fputs("usage: kill-at WORD STEP FILE PROGRAM ARGUMENT...\n", stderr);
        return 1;
    }
    long wanted = atol(words[2]);
    long steps = 0;
    pid_t program = start(&words[4]);
    pid_t victim = 0;
    int end = 0;
    int status;
    for (pid_t pid = waitpid(-1, &status, __WALL); pid > 0; pid = waitpid(-1, &status, __WALL)) {
        if (!WIFSTOPPED(status)) {
            if (pid == program) {
                end = status;
            }
            continue;
        }
        int event = status >> EVENT_SHIFT;
        int signal = WSTOPSIG(status);
        if (event == PTRACE_EVENT_EXEC && victim == 0 && has_word(pid, words[1])) {
            victim = pid;
        }
        if (pid == victim && signal == (SIGTRAP | 0x80)) {
            steps++;
            if (steps == wanted) {
                kill(victim, SIGKILL);
                continue;
            }
        }
        bool is_signal = event == 0 && signal != (SIGTRAP | 0x80) && signal != SIGTRAP;
        bool is_group_stop = event == PTRACE_EVENT_STOP && signal != SIGTRAP;
        ptrace(is_group_stop ? PTRACE_LISTEN : pid == victim ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL,
               (void *)(long)(is_signal ? signal : 0));
    }
    FILE *file = fopen(words[3], "we");
    if (file == NULL || fprintf(file, "%ld\n", steps) < 0 || fclose(file) != 0) {
        perror(words[3]);
        return 1;
    }
    return WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end);
}
