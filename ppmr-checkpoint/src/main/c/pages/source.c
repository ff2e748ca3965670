/* See source.h. */
#define _GNU_SOURCE
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batches.h"
#include "outgoing.h"
#include "rounds.h"

enum { DUMP_END_LOOKS = 100, DUMP_END_PAUSE_US = 50000 };

/* The source's CRIU, and our side of its socket; 0 and -1 while there is none. */
static pid_t dump_pid;
static int dump_socket = -1;

/*
 * CRIU notices the end of its connection, and detaches from the processes. That is waited for, since the caller considers
 * the processes free when this program ended.
 */
static void end_dump(void)
{
    if (dump_pid > 0) {
        shutdown(dump_socket, SHUT_RDWR);
        for (int look = 0; look < DUMP_END_LOOKS && waitpid(dump_pid, NULL, WNOHANG) == 0; look++) {
            usleep(DUMP_END_PAUSE_US);
        }
    }
}

/* An original, whose memory is read while CRIU keeps it stopped. */
struct original {
    struct pages pages;
    int outer_pid;
    /* /proc/PID/mem, opened before the dump: it stays the same memory. -1 for a zombie. */
    int memory;
};

/* Reads what process_vm_readv(2) refuses, such as pages without any rights (mprotect(2)). */
static void read_by_file(const struct original *of, uint64_t address, uint8_t *to, size_t length)
{
    while (length > 0) {
        ssize_t got = pread(of->memory, to, length, (off_t)address);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            die("cannot read the memory of PID %d at %" PRIx64, of->outer_pid, address);
        }
        to += got;
        address += (uint64_t)got;
        length -= (size_t)got;
    }
}

static void read_block(const struct original *of, const struct block *block, const struct room *room)
{
    uint64_t done = read_pieces(of->outer_pid, block->pieces, block->count, room);
    uint64_t before = 0;
    for (size_t i = 0; i < block->count; i++) {
        const struct piece *piece = &block->pieces[i];
        for (uint64_t page = done > before ? done - before : 0; page < piece->pages; page++) {
            read_by_file(of, piece->address + page * PAGE, page_of(room, before + page), PAGE);
        }
        before += piece->pages;
    }
}

static void read_pages(struct order *order, const struct original *originals)
{
    struct block block;
    while (next_block(order, &block)) {
        await_room(block.pages);
        struct room room = next_room(0, block.pages);
        read_block(&originals[block.process], &block, &room);
        publish(block.pages, false);
    }
    end_stream();
}

static void link_to_scratch(int images, const char *scratch, const char *name)
{
    char target[PATH_MAX];
    if (snprintf(target, sizeof target, "%s/%s", scratch, name) >= (int)sizeof target) {
        fail("the scratch folder's name is too long: %s", scratch);
    }
    if (unlink(target) != 0 && errno != ENOENT) {
        die("cannot remove %s", target);
    }
    if (symlinkat(target, images, name) != 0) {
        die("cannot make a link %s in the image directory", name);
    }
}

/* Replaces a link by the file that CRIU has written through it; false if it has written none. */
static bool take_in(int images, int scratch, const char *name, struct bytes *image)
{
    if (unlinkat(images, name, 0) != 0) {
        die("cannot remove the link %s in the image directory", name);
    }
    if (faccessat(scratch, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    *image = read_file(scratch, name);
    int file = openat(images, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
        die("cannot make %s in the image directory", name);
    }
    write_all(file, name, image->at, image->length);
    if (close(file) != 0) {
        die("cannot close %s", name);
    }
    if (unlinkat(scratch, name, 0) != 0) {
        die("cannot remove %s in the scratch folder", name);
    }
    return true;
}

/* The number that a process or a thread has in its own namespace, by which CRIU names its images; proc(5). */
static int inner_pid(const char *status_path)
{
    static const char key[] = "NSpid:";
    char line[256];
    int found = 0;
    FILE *status = fopen(status_path, "re");
    while (status != NULL && found == 0 && fgets(line, sizeof line, status) != NULL) {
        char *last = strrchr(line, '\t');
        if (strncmp(line, key, sizeof key - 1) == 0 && last != NULL) {
            line[strcspn(line, "\n")] = '\0';
            found = pid_of(last + 1);
        }
    }
    if (found == 0) {
        die("%s does not contain the process's number in its namespace", status_path);
    }
    fclose(status);
    return found;
}

static int inner_pid_of_process(int pid)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return inner_pid(path);
}

static void write_list(int images, const struct order *order, const char *head)
{
    static const char temporary[] = LIST_NAME ".new";
    int number = openat(images, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *list = number < 0 ? NULL : fdopen(number, "w");
    if (list == NULL) {
        die("cannot make %s", temporary);
    }
    fprintf(list, "%s\n", head);
    for (size_t i = 0; i < order->count; i++) {
        const struct pages *pages = order->all[i];
        fprintf(list, "process %d %" PRIu64 "\n", pages->pid, pages->total);
    }
    fprintf(list, "end\n");
    if (fflush(list) != 0 || ferror(list) || fclose(list) != 0) {
        die("cannot write %s", temporary);
    }
    if (renameat(images, temporary, images, LIST_NAME) != 0) {
        die("cannot rename %s", temporary);
    }
}

static int open_memory(int pid)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void link_image(int images, const char *scratch_path, const char *kind, int pid)
{
    char name[NAME_MAX];
    image_name(name, kind, pid);
    link_to_scratch(images, scratch_path, name);
}

/* Reads both maps of a process; false for a zombie, and for a process that shares the memory of another one. */
static bool take_in_maps(int images, int scratch, struct pages *pages)
{
    char name[NAME_MAX];
    char memory_name[NAME_MAX];
    struct bytes image = {NULL, 0};
    struct bytes memory_map = {NULL, 0};
    image_name(name, "pagemap", pages->pid);
    image_name(memory_name, "mm", pages->pid);
    bool has_pages = take_in(images, scratch, name, &image);
    bool has_memory = take_in(images, scratch, memory_name, &memory_map);
    if (has_pages) {
        if (!has_memory) {
            fail("CRIU has written %s and no %s", name, memory_name);
        }
        read_maps(pages, &image, name, &memory_map, memory_name);
    }
    free(image.at);
    free(memory_map.at);
    return has_pages;
}

/* The processes in the order of the stream: the root is the last one. */
static size_t root_last(const int *pids, size_t count, int root, struct original *originals)
{
    size_t next = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < count; i++) {
            if ((pids[i] == root) == (turn == 1)) {
                originals[next++].outer_pid = pids[i];
            }
        }
    }
    if (next == 0 || originals[next - 1].outer_pid != root) {
        fail("PID %d is the root, and is not among the processes", root);
    }
    return next;
}

/* Waits for CRIU's byte; false if it ended without one. */
static bool wait_for_status(int status)
{
    uint8_t byte;
    ssize_t got;
    do {
        got = read(status, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        die("cannot read CRIU's status");
    }
    close(status);
    return got == 1;
}

/* Sends all pages in their order. */
static void send_in_order(int images, struct order *order, struct original *originals)
{
    open_stream(images, STREAM_NAME);
    write_list(images, order, LIST_HEAD);
    read_pages(order, originals);
}

/* Sends what the rounds have left. */
static void send_after_rounds(int images, struct order *order, struct original *originals)
{
    write_list(images, order, ROUNDS_LIST_HEAD);
    send_listed();
    for (size_t i = 0; i < order->count; i++) {
        send_rest(&originals[i].pages, originals[i].outer_pid, originals[i].memory);
    }
    end_rounds();
}

int run_source(const char *images_path, const char *scratch_path, int root, uint64_t root_start, int *pids,
               size_t pid_count, char **dump)
{
    before_leaving = end_dump;
    int images = open_directory(images_path);
    int scratch = open_directory(scratch_path);
    bool in_rounds = root_start > 0;
    if (in_rounds) {
        pid_count = run_rounds(images, scratch, root, root_start, pids);
    }
    struct original *originals = allocate(pid_count, sizeof *originals);
    pid_count = root_last(pids, pid_count, root, originals);
    for (size_t i = 0; i < pid_count; i++) {
        originals[i].pages.pid = inner_pid_of_process(originals[i].outer_pid);
        originals[i].memory = open_memory(originals[i].outer_pid);
        link_image(images, scratch_path, "pagemap", originals[i].pages.pid);
        link_image(images, scratch_path, "mm", originals[i].pages.pid);
    }
    int pair[2];
    int status[2];
    make_pair(pair);
    if (pipe2(status, O_CLOEXEC) != 0) {
        die("no pipe can be made");
    }
    /* Never killed by our end: it notices that the socket is closed, and undoes what it has done to the processes. */
    pid_t criu = start(dump, pair[1], status[1], false);
    dump_socket = pair[0];
    dump_pid = criu;
    close(pair[1]);
    close(status[1]);
    char text[64];
    if (!wait_for_status(status[0])) {
        fail("CRIU has written no image: it %s", describe(wait_for(criu), text, sizeof text));
    }
    struct order order = {allocate(pid_count, sizeof *order.all), 0, 0};
    for (size_t i = 0; i < pid_count; i++) {
        if (take_in_maps(images, scratch, &originals[i].pages)) {
            struct original one = originals[i];
            originals[order.count] = one;
            order.all[order.count] = &originals[order.count].pages;
            order.count++;
        } else if (originals[i].outer_pid == root) {
            fail("CRIU has written no page map of the root, PID %d", root);
        }
    }
    (in_rounds ? send_after_rounds : send_in_order)(images, &order, originals);
    /* While CRIU waits in its page server no signal continues the processes; afterwards one could. */
    if (waitpid(criu, NULL, WNOHANG) != 0) {
        dump_pid = 0;
        fail("CRIU ended before all pages were read, so the processes may have run before that");
    }
    shutdown(pair[0], SHUT_RDWR);
    int end = wait_for(criu);
    dump_pid = 0;
    if (!WIFEXITED(end) || WEXITSTATUS(end) != 0) {
        fail("all pages were read, but CRIU %s", describe(end, text, sizeof text));
    }
    close_stream();
    return 0;
}
