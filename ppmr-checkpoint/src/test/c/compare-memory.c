/*
 * Compares the private memory of stopped processes with that of their stopped copies:
 *
 *   compare-memory PID COPY_PID [PID COPY_PID]...
 *
 * The fields of rseq(2), which the kernel writes, are left out. Prints one line for each pair; ends with 3 if they
 * differ.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MOST_AREAS = 1 << 16, MOST_RSEQ = 4096, RSEQ_CONFIGURATION = 0x420f };

struct rseq_configuration {
    uint64_t address;
    uint32_t size;
    uint32_t signature;
    uint32_t flags;
    uint32_t padding;
};

static struct rseq_configuration areas[MOST_RSEQ];
static size_t area_count;

static void find_rseq(int pid)
{
    char path[64];
    area_count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL) {
        perror(path);
        exit(1);
    }
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        int tid = atoi(entry->d_name);
        int status;
        if (tid <= 0) {
            continue;
        }
        if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0 || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0
            || waitpid(tid, &status, __WALL) != tid) {
            perror("a thread cannot be traced");
            exit(1);
        }
        struct rseq_configuration found = {0};
        if (ptrace((enum __ptrace_request)RSEQ_CONFIGURATION, tid, (void *)sizeof found, &found) > 0 && found.address != 0
            && area_count < MOST_RSEQ) {
            areas[area_count++] = found;
        }
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
    }
    closedir(tasks);
}

static bool is_rseq(uint64_t address)
{
    for (size_t i = 0; i < area_count; i++) {
        uint64_t size = areas[i].size > 64 ? areas[i].size : 64;
        if (address >= areas[i].address && address < areas[i].address + size) {
            return true;
        }
    }
    return false;
}

static int open_memory(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    if (memory < 0) {
        perror(path);
        exit(1);
    }
    return memory;
}

/* Compares the mapping's pages; returns the number of bytes that differ. */
static uint64_t compare(int one, int other, uint64_t start, uint64_t end, uint64_t *compared)
{
    static uint8_t left[PAGE];
    static uint8_t right[PAGE];
    uint64_t differing = 0;
    for (uint64_t at = start; at < end; at += PAGE) {
        ssize_t got = pread(one, left, PAGE, (off_t)at);
        ssize_t got_other = pread(other, right, PAGE, (off_t)at);
        if (got != got_other) {
            printf("  page %" PRIx64 " is readable in one alone\n", at);
            differing += PAGE;
            continue;
        }
        if (got != PAGE || memcmp(left, right, PAGE) == 0) {
            *compared += got == PAGE ? 1 : 0;
            continue;
        }
        uint64_t first = 0;
        uint64_t count = 0;
        for (uint64_t i = 0; i < PAGE; i++) {
            if (left[i] != right[i] && !is_rseq(at + i)) {
                first = count == 0 ? at + i : first;
                count++;
            }
        }
        if (count > 0) {
            printf("  page %" PRIx64 ": %" PRIu64 " bytes differ, the first at %" PRIx64 "\n", at, count, first);
        }
        differing += count;
        (*compared)++;
    }
    return differing;
}

static bool compare_pair(int pid, int copy)
{
    char path[64];
    char *line = NULL;
    size_t room = 0;
    uint64_t differing = 0;
    uint64_t compared = 0;
    find_rseq(pid);
    int one = open_memory(pid);
    int other = open_memory(copy);
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps != NULL && getline(&line, &room, maps) > 0) {
        uint64_t start;
        uint64_t end;
        char rights[8];
        char name[16] = "";
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %15s", &start, &end, rights, name) >= 3
            && rights[3] == 'p' && strncmp(name, "[v", 2) != 0) {
            differing += compare(one, other, start, end, &compared);
        }
    }
    printf("%d %d: %" PRIu64 " pages compared, %" PRIu64 " bytes differ\n", pid, copy, compared, differing);
    if (maps != NULL) {
        fclose(maps);
    }
    free(line);
    close(one);
    close(other);
    return differing == 0 && compared > 0;
}

int main(int count, char **words)
{
    bool same = count > 2;
    for (int i = 1; i + 1 < count; i += 2) {
        same &= compare_pair(atoi(words[i]), atoi(words[i + 1]));
    }
    return same ? 0 : 3;
}
