/* See rounds.h. */
#define _GNU_SOURCE
#include "rounds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../tree-stop.h"
#include "../write-tracker.h"
#include "batches.h"
#include "outgoing.h"

enum {
    ORDERS_LIMIT_MS = 60000,
    YOUNG_S = 2,
    /* The looks of one stop. */
    LOOK_LIMIT_NS = 1000000000
};

#define ORDERS_NAME "orders"

/* The processes of the rank while it runs, and the batch that is being filled. */
static struct {
    int root;
    uint64_t root_start;
    enum tracking tracking;
    char why_untracked[STOP_REASON_BYTES];
    struct tracked *all;
    size_t count;
    size_t room;
    uint64_t batches;
    uint64_t number;
    uint64_t sent;
    /* What was sent when the job was held. */
    uint64_t before_rest;
    /* The FIFO of the service's orders. */
    FILE *orders;
    /* Pieces of the next batch, of one process. */
    struct piece pieces[BATCH_PAGES];
    size_t piece_count;
    uint64_t pages;
} rounds;

/* Publishes a batch whose pages are in the ring behind its head. */
static void publish_batch(struct batch_head *head)
{
    struct room room = next_room(0, 1);
    struct batch_head *place = room.parts[0].iov_base;
    head->number = rounds.batches++;
    head->round = rounds.number;
    memset(place, 0, PAGE);
    memcpy(place, head, sizeof *head);
    publish(1 + head->pages, head->kind == BATCH_LISTED);
}

static void send_mark(enum batch_kind kind, int pid)
{
    struct batch_head head = {.kind = kind, .pid = pid};
    await_room(1);
    publish_batch(&head);
}

/*
 * Reads and sends the collected pieces of a process. Pages that it has unmapped in the meantime are left out; while it is held
 * there are none. Only pages that were read count as sent.
 */
static void flush_batch(struct tracked *of, int memory, bool is_held)
{
    if (rounds.pages == 0) {
        return;
    }
    await_room(1 + rounds.pages);
    struct room room = next_room(1, rounds.pages);
    uint64_t done = read_pieces(of->pid, rounds.pieces, rounds.piece_count, &room);
    char first;
    if (done > 0 && pread(memory, &first, 1, (off_t)rounds.pieces[0].address) != 1) {
        /* The process ended, and another one may have had its number. */
        done = 0;
    }
    struct batch_head head = {.kind = BATCH_PAGES_OF, .pid = of->inner, .pages = (uint32_t)rounds.pages};
    uint64_t before = 0;
    for (size_t i = 0; i < rounds.piece_count; i++) {
        const struct piece *piece = &rounds.pieces[i];
        for (uint64_t page = 0; page < piece->pages; page++) {
            uint64_t address = piece->address + page * PAGE;
            bool read = before + page < done
                || pread(memory, page_of(&room, before + page), PAGE, (off_t)address) == PAGE;
            if (!read && is_held) {
                die("cannot read the memory of PID %d at %" PRIx64, of->pid, address);
            }
            if (!read) {
                memset(page_of(&room, before + page), 0, PAGE);
            }
            struct page_range *last = head.pieces > 0 ? &head.ranges[head.pieces - 1] : NULL;
            uint64_t behind = last == NULL ? 0 : last->address + last->pages * PAGE;
            if (last != NULL && (read ? last->address != UNREAD_PAGES && behind == address : last->address == UNREAD_PAGES)) {
                last->pages++;
            } else {
                head.ranges[head.pieces++] = (struct page_range){read ? address : UNREAD_PAGES, 1};
            }
            if (read && (!set_add(&of->sent, address, 1) || !set_add(&of->stored, address, 1))) {
                fail("no memory for the list of sent pages");
            }
        }
        before += piece->pages;
    }
    rounds.sent += rounds.pages;
    publish_batch(&head);
    rounds.pages = 0;
    rounds.piece_count = 0;
}

/* Sends pages of a process. */
static void send_range(struct tracked *of, int memory, uint64_t address, uint64_t pages, bool is_held)
{
    while (pages > 0) {
        uint64_t room = BATCH_PAGES - rounds.pages;
        uint64_t now = pages < room ? pages : room;
        rounds.pieces[rounds.piece_count++] = (struct piece){address, now, 0};
        rounds.pages += now;
        address += now * PAGE;
        pages -= now;
        if (rounds.pages == BATCH_PAGES) {
            flush_batch(of, memory, is_held);
        }
    }
}

static void send_forgotten(struct batch_head *head)
{
    if (head->pieces > 0) {
        await_room(1);
        publish_batch(head);
        head->pieces = 0;
    }
}

static void forget_range(void *context, uint64_t address, uint64_t pages)
{
    struct batch_head *head = context;
    head->ranges[head->pieces++] = (struct page_range){address, pages};
    if (head->pieces == BATCH_PAGES) {
        send_forgotten(head);
    }
}

/* Has the target give back what the process has unmapped, so that its store is no larger than the job. */
static void forget_unmapped(struct tracked *of)
{
    struct batch_head head = {.kind = BATCH_UNMAPPED, .pid = of->inner};
    set_each_outside(&of->stored, of->mapped.all, of->mapped.count, forget_range, &head);
    send_forgotten(&head);
    set_keep(&of->stored, of->mapped.all, of->mapped.count);
}

static void end_process(size_t place)
{
    send_mark(BATCH_FORGET, rounds.all[place].inner);
    end_tracking(&rounds.all[place]);
    rounds.all[place] = rounds.all[--rounds.count];
}

static struct tracked *find_tracked(int pid)
{
    for (size_t i = 0; i < rounds.count; i++) {
        if (rounds.all[i].pid == pid) {
            return &rounds.all[i];
        }
    }
    return NULL;
}

static struct tracked *add_tracked(const struct stopped_process *process)
{
    if (rounds.count == rounds.room) {
        rounds.room = rounds.room == 0 ? 16 : 2 * rounds.room;
        rounds.all = enlarge(rounds.all, rounds.room, sizeof *rounds.all);
    }
    struct tracked *added = &rounds.all[rounds.count++];
    *added = (struct tracked){.pid = process->pid, .inner = process->inner, .start = process->start,
                              .userfaultfd = -1, .clear = -1, .pagemap = -1, .memory = -1};
    return added;
}

/* Whether a process was started a short time ago, so that it may end soon. */
static bool is_young(const struct tracked *of)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    return (uint64_t)now.tv_sec * ticks + (uint64_t)now.tv_nsec * ticks / 1000000000U < of->start + YOUNG_S * ticks;
}

/* Begins to track a process. The pages of a young one are found only in the next round. */
static void begin_with(struct tree_stop *stop, struct tracked *of)
{
    int made = -1;
    if (rounds.tracking == TRACK_NOTHING) {
        snprintf(of->why, sizeof of->why, "%s", rounds.why_untracked);
        return;
    }
    if (rounds.tracking == TRACK_BY_USERFAULTFD) {
        made = make_userfaultfd(stop, of->pid, of->why);
        if (made < 0) {
            return;
        }
    }
    if (!begin_tracking(of, made)) {
        return;
    }
    if (is_young(of) ? register_mappings(of) : look_and_protect(of)) {
        of->why[0] = '\0';
    } else {
        end_tracking(of);
    }
}

/*
 * Finds what a stopped process has written. If it executed another program its memory is another one, and tracking
 * begins again. A process that cannot be tracked is sent when the job is held.
 */
static void look_at(struct tree_stop *stop, struct tracked *of)
{
    if (is_tracked(of)) {
        if (look_and_protect(of)) {
            return;
        }
        send_mark(BATCH_FORGET, of->inner);
        end_tracking(of);
        begin_with(stop, of);
    } else if (of->why[0] == '\0') {
        begin_with(stop, of);
    }
}

static void forget_ended(const struct stopped_process *now, size_t count)
{
    for (size_t i = rounds.count; i > 0; i--) {
        bool found = false;
        for (size_t k = 0; k < count && !found; k++) {
            found = now[k].pid == rounds.all[i - 1].pid && now[k].start == rounds.all[i - 1].start;
        }
        if (!found) {
            end_process(i - 1);
        }
    }
}

/* Whether the service wants the round to end with what it has sent: another order arrived, or the service ended. */
static bool is_cut(void)
{
    struct pollfd polled = {fileno(rounds.orders), POLLIN, 0};
    return poll(&polled, 1, 0) != 0;
}

/* Sends what was found written, until the round is cut. Returns the number of pages that are left for the pause. */
static uint64_t send_written(struct tracked *of, bool *cut)
{
    uint64_t left = 0;
    for (size_t i = 0; i < of->written.count; i++) {
        struct page_range range = of->written.all[i];
        while (range.pages > 0 && !*cut) {
            uint64_t room = BATCH_PAGES - rounds.pages;
            uint64_t now = range.pages < room ? range.pages : room;
            send_range(of, of->memory, range.address, now, false);
            range.address += now * PAGE;
            range.pages -= now;
            *cut = rounds.pages == 0 && is_cut();
        }
        left += range.pages;
    }
    flush_batch(of, of->memory, false);
    return left;
}

/* One round: what was written since the last one is found in a stop of all threads, and sent while they run. */
static void run_round(void)
{
    struct tree_stop stop;
    struct stopped_process *processes;
    size_t count;
    char why[STOP_REASON_BYTES];
    uint64_t sent_before = rounds.sent;
    /* The marks that a look sends have room then. Otherwise the job would be stopped as long as the network stalls. */
    await_room(RING_PAGES);
    if (!stop_tree(&stop, rounds.root, rounds.root_start, &processes, &count, why)) {
        printf("none %s\n", why);
        return;
    }
    uint64_t since = now_ns();
    rounds.number++;
    forget_ended(processes, count);
    const char *untracked = "";
    size_t untracked_count = 0;
    /* Nothing is registered in a process that runs: a mapping that grows in that time would be registered in part. */
    for (size_t i = 0; i < count && holds_tree(&stop); i++) {
        struct tracked *of = find_tracked(processes[i].pid);
        of = of == NULL ? add_tracked(&processes[i]) : of;
        if (now_ns() - since < LOOK_LIMIT_NS) {
            look_at(&stop, of);
        } else {
            /* Its marks stay, for the next round. */
            of->written.count = 0;
        }
    }
    uint64_t stopped = now_ns() - since;
    bool held = continue_tree(&stop);
    free(processes);
    if (!held) {
        char last[STOP_REASON_BYTES + 2] = "";
        /* Pages may have been written between the look and the end of the stop, unnoticed. */
        while (rounds.count > 0) {
            if (rounds.all[rounds.count - 1].why[0] != '\0') {
                snprintf(last, sizeof last, ": %s", rounds.all[rounds.count - 1].why);
            }
            end_process(rounds.count - 1);
        }
        send_mark(BATCH_ROUND_END, 0);
        printf("none the helper that stops the processes ended%s\n", last);
        return;
    }
    uint64_t dirty = 0;
    bool cut = false;
    for (size_t i = 0; i < rounds.count; i++) {
        struct tracked *of = &rounds.all[i];
        forget_unmapped(of);
        dirty += send_written(of, &cut);
        if (!is_tracked(of)) {
            untracked = of->why;
            untracked_count++;
        }
    }
    send_mark(BATCH_ROUND_END, 0);
    for (size_t i = 0; i < rounds.count; i++) {
        dirty += count_written(&rounds.all[i]);
    }
    printf("round %" PRIu64 " sent %" PRIu64 " written %" PRIu64 " stopped-us %" PRIu64 " processes %zu untracked %zu %s\n",
           rounds.number, rounds.sent - sent_before, dirty, stopped / 1000, rounds.count, untracked_count, untracked);
}

/* Opens the FIFO by which the service sends its orders. It is at its end when the service ends. */
static void open_orders(int scratch)
{
    if (mkfifoat(scratch, ORDERS_NAME, 0600) != 0) {
        die("cannot make %s in the scratch folder", ORDERS_NAME);
    }
    struct pollfd polled = {openat(scratch, ORDERS_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC), POLLIN, 0};
    rounds.orders = polled.fd < 0 ? NULL : fdopen(polled.fd, "r");
    /* Without a buffer, an order that has not been read is seen by poll(2). */
    if (rounds.orders == NULL || setvbuf(rounds.orders, NULL, _IONBF, 0) != 0) {
        die("cannot open %s", ORDERS_NAME);
    }
    if (poll(&polled, 1, ORDERS_LIMIT_MS) != 1 || fcntl(polled.fd, F_SETFL, 0) != 0) {
        fail("no order came within %d ms", (int)ORDERS_LIMIT_MS);
    }
}

size_t run_rounds(int images, int scratch, int root, uint64_t root_start, int *pids)
{
    rounds.root = root;
    rounds.root_start = root_start;
    rounds.tracking = find_tracking(rounds.why_untracked, sizeof rounds.why_untracked);
    open_stream(images, ROUNDS_NAME);
    open_orders(scratch);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, rounds.orders) > 0) {
        if (strcmp(line, "round\n") == 0) {
            run_round();
            fflush(stdout);
            continue;
        }
        if (strcmp(line, "cut\n") == 0) {
            /* The round ended by it, or before it. */
            continue;
        }
        char *rest = NULL;
        char *word = strtok_r(line, " \n", &rest);
        if (word == NULL || strcmp(word, "dump") != 0) {
            fail("a line is not understood: %s", line);
        }
        size_t count = 0;
        while ((word = strtok_r(NULL, " \n", &rest)) != NULL && count < MAX_PROCESSES) {
            pids[count++] = pid_of(word);
        }
        free(line);
        return count;
    }
    fail("the order to dump has not come");
}

void send_rest(const struct pages *pages, int outer_pid, int memory)
{
    struct tracked *tracked = find_tracked(outer_pid);
    struct tracked unknown = {.pid = outer_pid, .inner = pages->pid, .userfaultfd = -1, .clear = -1};
    if (tracked == NULL || tracked->inner != pages->pid) {
        tracked = &unknown;
    }
    look_last(tracked);
    for (size_t i = 0; i < pages->run_count; i++) {
        const struct run *run = &pages->runs[i];
        for (uint64_t done = 0; done < run->pages;) {
            bool present;
            uint64_t address = run->address + done * PAGE;
            uint64_t count = set_run(&tracked->sent, address, run->pages - done, &present);
            if (!present) {
                send_range(tracked, memory, address, count, true);
            }
            done += count;
        }
    }
    flush_batch(tracked, memory, true);
    set_free(&unknown.sent);
}

void send_listed(void)
{
    rounds.before_rest = rounds.sent;
    send_mark(BATCH_LISTED, 0);
}

void end_rounds(void)
{
    send_mark(BATCH_LAST, 0);
    end_stream();
    printf("last sent %" PRIu64 " of %" PRIu64 "\n", rounds.sent - rounds.before_rest, rounds.sent);
    fflush(stdout);
}
