/* See store.h. */
#define _GNU_SOURCE
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "batches.h"
#include "common.h"

enum {
    SLOT_BYTES = SET_BLOCK_PAGES * PAGE,
    /* Of addresses, of which only the stored pages have memory. */
    SLOTS_A_LIMIT = 32,
    DENSE_PAGES = 240
};

/* What has arrived before the copy's processes exist. One thread fills it, until everything is there. */
static struct {
    int stream;
    uint8_t *memory;
    uint32_t slots;
    uint32_t used;
    /* Slots below `used` that are free again. */
    uint32_t *free_slots;
    size_t free_count;
    uint64_t most_pages;
    uint64_t page_count;
    /* The pages of all stores with the same limit, in memory that they share. */
    uint64_t *all_pages;
    struct stored *all;
    size_t count;
    size_t room;
    uint64_t batches;
    uint64_t round;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool listed;
    bool whole;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

struct stored *stored_of(int pid)
{
    for (size_t i = 0; i < store.count; i++) {
        if (store.all[i].pid == pid) {
            return &store.all[i];
        }
    }
    return NULL;
}

uint8_t *slot_memory(const struct page_block *block, uint64_t address)
{
    return store.memory + (size_t)block->slot * SLOT_BYTES + address / PAGE % SET_BLOCK_PAGES * PAGE;
}

/* The first store makes the account. A new file has zeros. Its room is reserved: a full disk is no SIGBUS later. */
static uint64_t *open_account(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    void *memory = file < 0 || (errno = posix_fallocate(file, 0, sizeof(uint64_t))) != 0
                       ? MAP_FAILED
                       : mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        die("the account %s cannot be used", path);
    }
    close(file);
    return memory;
}

static void add_pages(uint64_t pages)
{
    store.page_count += pages;
    uint64_t all = store.all_pages == NULL ? store.page_count
                                           : __atomic_add_fetch(store.all_pages, pages, __ATOMIC_ACQ_REL);
    if (all > store.most_pages) {
        fail("more than %" PRIu64 " MiB of the job's memory have arrived, and staging has no room for more",
             store.most_pages / (1024 * 1024 / PAGE));
    }
}

static void remove_pages(uint64_t pages)
{
    store.page_count -= pages;
    if (store.all_pages != NULL) {
        __atomic_sub_fetch(store.all_pages, pages, __ATOMIC_ACQ_REL);
    }
}

void open_store(int images, uint64_t most_bytes, const char *account)
{
    store.all_pages = account == NULL ? NULL : open_account(account);
    store.most_pages = most_bytes / PAGE;
    uint64_t slots = (most_bytes / SLOT_BYTES + 1) * SLOTS_A_LIMIT;
    store.slots = slots > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)slots;
    size_t bytes = (size_t)store.slots * SLOT_BYTES;
    /*
     * Aligned to a slot, for huge pages. A slot becomes writable when it is taken: where memory is not overcommitted
     * (vm.overcommit_memory=2) each writable page counts.
     */
    uint8_t *memory = mmap(NULL, bytes + SLOT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        die("no addresses for arriving pages");
    }
    store.memory = memory + (SLOT_BYTES - (uintptr_t)memory % SLOT_BYTES) % SLOT_BYTES;
    madvise(store.memory, bytes, MADV_NOHUGEPAGE);
    /* The holder and the restore would keep every page that is given back here. */
    if (madvise(store.memory, bytes, MADV_DONTFORK) != 0) {
        die("the store of arriving pages would be shared with other processes");
    }
    store.stream = openat(images, ROUNDS_NAME, O_RDONLY | O_CLOEXEC);
    if (store.stream < 0) {
        die("cannot open %s", ROUNDS_NAME);
    }
}

void close_rounds(void)
{
    close(store.stream);
}

/* Reads all of something out of the stream. */
static void read_rounds(const struct iovec *into, int count, size_t length)
{
    struct iovec left[BATCH_PAGES + 1];
    struct iovec *at = left;
    memcpy(left, into, (size_t)count * sizeof *into);
    while (length > 0) {
        ssize_t got = readv(store.stream, at, count);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            die("cannot read %s", ROUNDS_NAME);
        }
        if (got == 0) {
            fail("%s ends after %" PRIu64 " batches, before its last one", ROUNDS_NAME, store.batches);
        }
        length -= (size_t)got;
        while (got > 0) {
            size_t part = (size_t)got < at->iov_len ? (size_t)got : at->iov_len;
            at->iov_base = (uint8_t *)at->iov_base + part;
            at->iov_len -= part;
            got -= (ssize_t)part;
            if (at->iov_len == 0) {
                at++;
                count--;
            }
        }
    }
}

static struct stored *make_stored(int pid)
{
    struct stored *found = stored_of(pid);
    if (found != NULL) {
        return found;
    }
    if (store.count == MAX_PROCESSES) {
        fail("%s has pages of more than %d processes", ROUNDS_NAME, (int)MAX_PROCESSES);
    }
    if (store.count == store.room) {
        store.room = store.room == 0 ? 16 : 2 * store.room;
        store.all = enlarge(store.all, store.room, sizeof *store.all);
    }
    store.all[store.count] = (struct stored){.pid = pid};
    return &store.all[store.count++];
}

/* Adds pages of one block to the store; returns their memory. */
static uint8_t *place_pages(struct stored *of, uint64_t address, uint64_t pages)
{
    struct page_block *block = set_block(&of->pages, address);
    if (block == NULL) {
        fail("no memory for the list of arriving pages");
    }
    if (block->slot == SET_NO_SLOT) {
        if (store.free_count == 0 && store.used == store.slots) {
            fail("the pages of the job lie in more than %u parts of 2 MiB", store.slots);
        }
        block->slot = store.free_count > 0 ? store.free_slots[--store.free_count] : store.used++;
        if (mprotect(store.memory + (size_t)block->slot * SLOT_BYTES, SLOT_BYTES, PROT_READ | PROT_WRITE) != 0) {
            die("no memory for arriving pages");
        }
        /* A dense block is read back by far fewer faults from a huge page. It counts as a whole. */
        block->dense = pages >= DENSE_PAGES;
        madvise(store.memory + (size_t)block->slot * SLOT_BYTES, SLOT_BYTES,
                block->dense ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        add_pages(block->dense ? SET_BLOCK_PAGES : 0);
    }
    uint64_t added = set_mark(&of->pages, block, address, pages, true);
    add_pages(block->dense ? 0 : added);
    return slot_memory(block, address);
}

static void take_pages(const struct batch_head *head)
{
    static uint8_t unread[BATCH_PAGES * PAGE];
    struct iovec into[BATCH_PAGES];
    int count = 0;
    uint64_t pages = 0;
    struct stored *of = make_stored(head->pid);
    for (uint32_t i = 0; i < head->pieces; i++) {
        uint64_t address = head->ranges[i].address;
        uint64_t left = head->ranges[i].pages;
        if (left == 0 || left > BATCH_PAGES - pages
            || (address != UNREAD_PAGES && (address % PAGE != 0 || address > UINT64_MAX / 2))) {
            fail("batch %" PRIu64 " of %s is invalid", head->number, ROUNDS_NAME);
        }
        pages += left;
        while (left > 0) {
            uint64_t part = address == UNREAD_PAGES ? left : set_part(address, left);
            if (count == BATCH_PAGES) {
                fail("batch %" PRIu64 " of %s is invalid", head->number, ROUNDS_NAME);
            }
            into[count++] = (struct iovec){
                address == UNREAD_PAGES ? unread : place_pages(of, address, part), part * PAGE};
            address += address == UNREAD_PAGES ? 0 : part * PAGE;
            left -= part;
        }
    }
    if (pages != head->pages) {
        fail("batch %" PRIu64 " of %s is invalid", head->number, ROUNDS_NAME);
    }
    read_rounds(into, count, pages * PAGE);
}

void give_back(const struct page_block *block)
{
    if (block->slot != SET_NO_SLOT
        && madvise(store.memory + (size_t)block->slot * SLOT_BYTES, SLOT_BYTES, MADV_DONTNEED) != 0) {
        die("memory of arriving pages cannot be given back");
    }
}

static bool is_empty(const struct page_block *block)
{
    uint64_t any = 0;
    for (size_t i = 0; i < sizeof block->bits / sizeof block->bits[0]; i++) {
        any |= block->bits[i];
    }
    return any == 0;
}

/* Gives back the slot of a block without pages. */
static void free_slot(struct page_block *block)
{
    give_back(block);
    remove_pages(block->dense ? SET_BLOCK_PAGES : 0);
    store.free_slots = enlarge(store.free_slots, store.free_count + 1, sizeof *store.free_slots);
    store.free_slots[store.free_count++] = block->slot;
    block->slot = SET_NO_SLOT;
    block->dense = false;
}

static void forget_stored(int pid)
{
    struct stored *of = stored_of(pid);
    if (of == NULL) {
        return;
    }
    for (size_t i = 0; i < of->pages.count; i++) {
        struct page_block *block = of->pages.blocks[i];
        uint64_t start = block->number * SET_BLOCK_PAGES * PAGE;
        uint64_t pages = set_mark(&of->pages, block, start, SET_BLOCK_PAGES, false);
        remove_pages(block->dense ? 0 : pages);
        if (block->slot != SET_NO_SLOT) {
            free_slot(block);
        }
    }
    set_free(&of->pages);
    *of = store.all[--store.count];
}

static void forget_ranges(const struct batch_head *head)
{
    struct stored *of = make_stored(head->pid);
    for (uint32_t i = 0; i < head->pieces; i++) {
        uint64_t address = head->ranges[i].address;
        uint64_t pages = head->ranges[i].pages;
        if (address % PAGE != 0 || address > UINT64_MAX / 2 || pages > SET_BLOCK_PAGES
            || set_part(address, pages) != pages) {
            fail("batch %" PRIu64 " of %s is invalid", head->number, ROUNDS_NAME);
        }
        struct page_block *block = set_find(&of->pages, address);
        if (block == NULL || block->slot == SET_NO_SLOT) {
            continue;
        }
        uint64_t removed = set_mark(&of->pages, block, address, pages, false);
        remove_pages(block->dense ? 0 : removed);
        if (is_empty(block)) {
            free_slot(block);
        } else if (madvise(slot_memory(block, address), pages * PAGE, MADV_DONTNEED) != 0) {
            die("memory of arriving pages cannot be given back");
        }
    }
}

static void set_flag(bool *flag)
{
    pthread_mutex_lock(&store.lock);
    *flag = true;
    pthread_cond_broadcast(&store.changed);
    pthread_mutex_unlock(&store.lock);
}

static void await_flag(const bool *flag)
{
    pthread_mutex_lock(&store.lock);
    while (!*flag) {
        pthread_cond_wait(&store.changed, &store.lock);
    }
    pthread_mutex_unlock(&store.lock);
}

void *run_store(void *unused)
{
    (void)unused;
    struct batch_head *head = NULL;
    if (posix_memalign((void **)&head, PAGE, PAGE) != 0) {
        fail("no memory for the pages");
    }
    while (!store.whole) {
        read_rounds(&(struct iovec){head, PAGE}, 1, PAGE);
        bool ends_round = head->kind == BATCH_ROUND_END;
        if (head->number != store.batches || head->pieces > BATCH_PAGES || head->pages > BATCH_PAGES
            || head->round != store.round + (head->round > store.round && !store.listed ? 1 : 0)
            || (ends_round && head->round != store.round + 1)) {
            fail("batch %" PRIu64 " of %s is missing or invalid", store.batches, ROUNDS_NAME);
        }
        store.batches++;
        switch (head->kind) {
        case BATCH_PAGES_OF:
            take_pages(head);
            break;
        case BATCH_FORGET:
            forget_stored(head->pid);
            break;
        case BATCH_UNMAPPED:
            forget_ranges(head);
            break;
        case BATCH_ROUND_END:
            store.round = head->round;
            break;
        case BATCH_LISTED:
            set_flag(&store.listed);
            break;
        case BATCH_LAST:
            set_flag(&store.whole);
            break;
        default:
            fail("batch %" PRIu64 " of %s is of an unknown kind", head->number, ROUNDS_NAME);
        }
    }
    free(head);
    return NULL;
}

void await_listed(void)
{
    await_flag(&store.listed);
}

void await_whole(void)
{
    await_flag(&store.whole);
}
