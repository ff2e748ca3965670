/* See outgoing.h. */
#define _GNU_SOURCE
#include "outgoing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "batches.h"

enum {
    /* One FUSE request. */
    SLOT_PAGES = 32
};

/* The stream while it is written: the main thread fills the ring, its own thread writes what is in it. In pages. */
static struct {
    int file;
    const char *name;
    uint8_t *memory;
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t filled;
    uint64_t written;
    /* Where the written pages are sent on although no chunk is full. */
    uint64_t sync_at;
    bool ended;
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint8_t *ring_memory(uint64_t page)
{
    return ring.memory + (page % RING_PAGES) * (size_t)PAGE;
}

/* The number of pages from a place of the ring that follow each other in memory. */
static uint64_t ring_run(uint64_t page, uint64_t most)
{
    uint64_t left = RING_PAGES - page % RING_PAGES;
    return most < left ? most : left;
}

static void *write_stream(void *unused)
{
    (void)unused;
    for (uint64_t at = 0;;) {
        pthread_mutex_lock(&ring.lock);
        while (ring.filled == at && !ring.ended) {
            pthread_cond_wait(&ring.changed, &ring.lock);
        }
        uint64_t pages = ring_run(at, ring.filled - at);
        pthread_mutex_unlock(&ring.lock);
        if (pages == 0) {
            return NULL;
        }
        pages = pages < SLOT_PAGES ? pages : SLOT_PAGES;
        write_all(ring.file, ring.name, ring_memory(at), pages * PAGE);
        at += pages;
        pthread_mutex_lock(&ring.lock);
        bool syncs = ring.sync_at > 0 && ring.sync_at <= at;
        ring.sync_at = syncs ? 0 : ring.sync_at;
        pthread_mutex_unlock(&ring.lock);
        if (syncs && fsync(ring.file) != 0 && errno != EINVAL) {
            die("cannot send %s", ring.name);
        }
        pthread_mutex_lock(&ring.lock);
        ring.written = at;
        pthread_cond_broadcast(&ring.changed);
        pthread_mutex_unlock(&ring.lock);
    }
}

void open_stream(int images, const char *name)
{
    ring.name = name;
    ring.file = openat(images, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (ring.file < 0) {
        die("cannot make %s in the image directory", name);
    }
    if (posix_memalign((void **)&ring.memory, PAGE, (size_t)RING_PAGES * PAGE) != 0) {
        fail("no memory for the pages");
    }
    ring.writer = start_thread(write_stream);
}

void await_room(uint64_t pages)
{
    pthread_mutex_lock(&ring.lock);
    while (ring.filled + pages - ring.written > RING_PAGES) {
        pthread_cond_wait(&ring.changed, &ring.lock);
    }
    pthread_mutex_unlock(&ring.lock);
}

void publish(uint64_t pages, bool at_once)
{
    pthread_mutex_lock(&ring.lock);
    ring.filled += pages;
    ring.sync_at = at_once ? ring.filled : ring.sync_at;
    pthread_cond_broadcast(&ring.changed);
    pthread_mutex_unlock(&ring.lock);
}

void end_stream(void)
{
    pthread_mutex_lock(&ring.lock);
    ring.ended = true;
    pthread_cond_broadcast(&ring.changed);
    pthread_mutex_unlock(&ring.lock);
}

void close_stream(void)
{
    pthread_join(ring.writer, NULL);
    if (close(ring.file) != 0) {
        die("cannot close %s", ring.name);
    }
}

struct room next_room(uint64_t skipped, uint64_t pages)
{
    uint64_t page = ring.filled + skipped;
    uint64_t first = ring_run(page, pages);
    struct room room = {{{ring_memory(page), first * PAGE}}, 1};
    if (first < pages) {
        room.parts[room.count++] = (struct iovec){ring_memory(page + first), (pages - first) * PAGE};
    }
    return room;
}

uint8_t *page_of(const struct room *room, uint64_t page)
{
    size_t offset = page * PAGE;
    const struct iovec *part = &room->parts[offset < room->parts[0].iov_len ? 0 : 1];
    return (uint8_t *)part->iov_base + (part == &room->parts[0] ? offset : offset - room->parts[0].iov_len);
}

uint64_t read_pieces(int pid, const struct piece *pieces, size_t count, const struct room *room)
{
    struct iovec remote[BATCH_PAGES];
    for (size_t i = 0; i < count; i++) {
        remote[i] = (struct iovec){(void *)(uintptr_t)pieces[i].address, pieces[i].pages * PAGE};
    }
    ssize_t got = process_vm_readv(pid, room->parts, room->count, remote, count, 0);
    return got < 0 ? 0 : (uint64_t)got / PAGE;
}
