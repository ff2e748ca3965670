/* See write-tracker.h. */
#define _GNU_SOURCE
#include "write-tracker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "userfaultfd.h"

/* linux/fs.h, from Linux 6.7 on. */
struct scanned_region {
    uint64_t start;
    uint64_t end;
    uint64_t categories;
};

struct pagemap_scan {
    uint64_t size;
    uint64_t flags;
    uint64_t start;
    uint64_t end;
    uint64_t walk_end;
    uint64_t regions;
    uint64_t region_count;
    uint64_t most_pages;
    uint64_t inverted;
    uint64_t all_of;
    uint64_t any_of;
    uint64_t returned;
};

#define PAGEMAP_SCAN _IOWR('f', 16, struct pagemap_scan)

enum {
    SCAN_REGIONS = 4096,
    /* flags */
    PROTECT_FOUND = 1,
    /* categories */
    TRACKABLE = 1 << 0,
    WRITTEN = 1 << 1,
    PRESENT = 1 << 3,
    SWAPPED = 1 << 4,
    ZERO_PAGE = 1 << 5,
    PATH_ROOM = 64,
    /* Of /proc/PID/pagemap: entries of one read. */
    ENTRIES = 1 << 14,
    /* The scan of a process, for which the job is stopped. */
    SCAN_LIMIT_MS = 500
};

/* A page in memory or in swap, and a page that was written since the marks were cleared; proc_pid_pagemap(5). */
#define ENTRY_PRESENT (UINT64_C(3) << 62)
#define ENTRY_SOFT_DIRTY (UINT64_C(1) << 55)
/* The number of the page's frame, or its place in swap. */
#define ENTRY_FRAME ((UINT64_C(1) << 55) - 1)

/* The end of the addresses of a process: the kernel keeps the last page free. */
#define ADDRESS_END ((UINT64_C(1) << 47) - SET_PAGE)

static bool add_range(struct ranges *ranges, uint64_t start, uint64_t end)
{
    if (ranges->count > 0) {
        struct page_range *last = &ranges->all[ranges->count - 1];
        if (last->address + last->pages * SET_PAGE == start) {
            last->pages += (end - start) / SET_PAGE;
            return true;
        }
    }
    if (ranges->count == ranges->room) {
        size_t room = ranges->room == 0 ? 256 : 2 * ranges->room;
        struct page_range *more = reallocarray(ranges->all, room, sizeof *more);
        if (more == NULL) {
            return false;
        }
        ranges->all = more;
        ranges->room = room;
    }
    ranges->all[ranges->count++] = (struct page_range){start, (end - start) / SET_PAGE};
    return true;
}

static void free_ranges(struct ranges *ranges)
{
    free(ranges->all);
    *ranges = (struct ranges){0};
}

/* What is listed: pages of all these categories, and of any of those. */
struct wanted {
    uint64_t all_of;
    uint64_t none_of;
    uint64_t any_of;
};

/* What is registered, with its holes. */
static const struct wanted REGISTERED = {TRACKABLE, 0, 0};
/* Pages with bytes that were written. The kernel counts holes as written, too. */
static const struct wanted WRITTEN_PAGES = {TRACKABLE | WRITTEN, ZERO_PAGE, PRESENT | SWAPPED};
/* Everything that does not have the bytes that were sent. */
static const struct wanted CHANGED = {TRACKABLE | WRITTEN, 0, 0};

/* Lists such pages. False with errno; ESRCH if the memory is gone. */
static bool scan(const struct tracked *tracked, const struct wanted *wanted, uint64_t flags, struct ranges *found)
{
    static struct scanned_region regions[SCAN_REGIONS];
    struct pagemap_scan arguments = {.size = sizeof arguments,
                                     .flags = flags,
                                     .end = ADDRESS_END,
                                     .regions = (uint64_t)(uintptr_t)regions,
                                     .region_count = SCAN_REGIONS,
                                     .all_of = wanted->all_of | wanted->none_of,
                                     .inverted = wanted->none_of,
                                     .any_of = wanted->any_of,
                                     .returned = wanted->all_of};
    found->count = 0;
    while (arguments.start < arguments.end) {
        int count = ioctl(tracked->pagemap, PAGEMAP_SCAN, &arguments);
        if (count < 0) {
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        for (int i = 0; i < count; i++) {
            if (!add_range(found, regions[i].start, regions[i].end)) {
                errno = ENOMEM;
                return false;
            }
        }
        if (arguments.walk_end <= arguments.start) {
            break;
        }
        arguments.start = arguments.walk_end;
    }
    return true;
}

/*
 * Whether a file of /dev can write into a process's memory past the protection: what is no plain one may be a device that
 * pins memory.
 */
static bool is_device(const char *path)
{
    static const char *const folders[] = {"pts/", "shm/", "mqueue/", "hugepages/"};
    static const char *const plain[] = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "net/tun"};
    if (strncmp(path, "/dev/", 5) != 0) {
        return false;
    }
    const char *name = path + 5;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (strncmp(name, folders[i], strlen(folders[i])) == 0) {
            return false;
        }
    }
    size_t length = strcspn(name, " \n");
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (length == strlen(plain[i]) && strncmp(name, plain[i], length) == 0) {
            return false;
        }
    }
    return true;
}

/* Whether a process has a descriptor by which its memory is written over a stop, or by which it clears marks itself. */
static bool has_ring(int pid)
{
    char path[PATH_ROOM];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *descriptors = opendir(path);
    if (descriptors == NULL) {
        return true;
    }
    for (struct dirent *entry = readdir(descriptors); !found && entry != NULL; entry = readdir(descriptors)) {
        char target[PATH_ROOM] = "";
        if (readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target - 1) > 0) {
            const char *last = strrchr(target, '/');
            found = strcmp(target, "anon_inode:[io_uring]") == 0 || is_device(target)
                || (strncmp(target, "/proc/", 6) == 0 && strcmp(last, "/clear_refs") == 0);
        }
    }
    closedir(descriptors);
    return found;
}

/* Lists the private mappings without a file. */
static bool list_anonymous(int pid, struct ranges *found)
{
    char path[PATH_ROOM];
    char *line = NULL;
    size_t room = 0;
    bool listed = true;
    found->count = 0;
    if (has_ring(pid)) {
        errno = EOPNOTSUPP;
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL) {
        return false;
    }
    while (listed && getline(&line, &room, maps) > 0) {
        uint64_t start;
        uint64_t end;
        uint64_t inode;
        char rights[8];
        char name[8] = "";
        int fields = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %" SCNu64 " %7s", &start, &end, rights, &inode, name);
        const char *device = strstr(line, " /dev/");
        bool is_kernels = strncmp(name, "[v", 2) == 0;
        if (strstr(line, " /[aio]") != NULL || strstr(line, "anon_inode:[io_uring]") != NULL
            || (device != NULL && is_device(device + 1))) {
            /* What is in flight over a stop writes past the protection. */
            errno = EOPNOTSUPP;
            listed = false;
        } else if (fields >= 4 && inode == 0 && rights[3] == 'p' && !is_kernels && end <= ADDRESS_END) {
            listed = add_range(found, start, end);
        }
    }
    int error = errno;
    free(line);
    fclose(maps);
    errno = error;
    return listed;
}

/* What of a list is not in another one. Both ascend. */
static bool difference(const struct ranges *of, const struct ranges *without, struct ranges *result)
{
    size_t next = 0;
    result->count = 0;
    for (size_t i = 0; i < of->count; i++) {
        uint64_t at = of->all[i].address;
        uint64_t end = at + of->all[i].pages * SET_PAGE;
        while (next < without->count && without->all[next].address + without->all[next].pages * SET_PAGE <= at) {
            next++;
        }
        for (size_t gap = next; at < end; gap++) {
            uint64_t start = gap < without->count ? without->all[gap].address : end;
            if (start > at && !add_range(result, at, start < end ? start : end)) {
                return false;
            }
            if (start >= end) {
                break;
            }
            at = without->all[gap].address + without->all[gap].pages * SET_PAGE;
        }
    }
    return true;
}

bool is_tracked(const struct tracked *tracked)
{
    return tracked->userfaultfd >= 0 || tracked->clear >= 0;
}

static int open_of(int pid, const char *name, int how)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return open(path, how | O_CLOEXEC);
}

bool begin_tracking(struct tracked *tracked, int userfaultfd)
{
    struct uffd_api api = {.api = UFFD_API_VERSION, .features = UFFD_WP_ASYNC};
    bool by_userfaultfd = userfaultfd >= 0;
    tracked->userfaultfd = -1;
    if (by_userfaultfd && ioctl(userfaultfd, UFFD_API, &api) != 0) {
        snprintf(tracked->why, sizeof tracked->why, "this kernel has no asynchronous write protection: %s",
                 strerror(errno));
        close(userfaultfd);
        return false;
    }
    tracked->pagemap = open_of(tracked->pid, "pagemap", O_RDONLY);
    tracked->memory = open_of(tracked->pid, "mem", O_RDONLY);
    tracked->clear = by_userfaultfd ? -1 : open_of(tracked->pid, "clear_refs", O_WRONLY);
    if (tracked->pagemap < 0 || tracked->memory < 0 || (!by_userfaultfd && tracked->clear < 0)) {
        snprintf(tracked->why, sizeof tracked->why, "the memory of PID %d cannot be read: %s", tracked->pid,
                 strerror(errno));
        if (by_userfaultfd) {
            close(userfaultfd);
        }
        end_tracking(tracked);
        return false;
    }
    tracked->userfaultfd = userfaultfd;
    return true;
}

/* ---- soft-dirty marks -------------------------------------------------------------------------------------------- */

/* What is listed of a process with soft-dirty marks. */
enum soft_wanted {
    /* Pages with bytes, which may differ from what the look before has found. */
    SOFT_WRITTEN,
    /* Everything that may differ. */
    SOFT_CHANGED
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Where the frame of a page is noted; NULL if none is, or if there is no memory for a new one. */
static uint64_t *frame_place(struct tracked *tracked, uint64_t address, bool make)
{
    struct frames *frames = &tracked->frames;
    struct page_block *block = make ? set_block(&frames->blocks, address) : set_find(&frames->blocks, address);
    if (block == NULL) {
        return NULL;
    }
    if (block->slot == SET_NO_SLOT) {
        if (frames->count == frames->room) {
            size_t room = frames->room == 0 ? 16 : 2 * frames->room;
            uint64_t *more = reallocarray(frames->all, room * SET_BLOCK_PAGES, sizeof *more);
            if (more == NULL) {
                return NULL;
            }
            frames->all = more;
            frames->room = room;
        }
        block->slot = (uint32_t)frames->count++;
        memset(&frames->all[(size_t)block->slot * SET_BLOCK_PAGES], 0, SET_BLOCK_PAGES * sizeof *frames->all);
    }
    return &frames->all[(size_t)block->slot * SET_BLOCK_PAGES + address / SET_PAGE % SET_BLOCK_PAGES];
}

static void free_frames(struct tracked *tracked)
{
    set_free(&tracked->frames.blocks);
    free(tracked->frames.all);
    tracked->frames = (struct frames){0};
}

/*
 * Whether a page has the bytes that the look before has found. The mark alone is not enough: a mapping of whole page
 * tables is moved without marks (mremap(2)), and neither the huge page of zeros nor a merged page (KSM) has one. Then
 * the address has another frame. A page that was only moved by the kernel is sent again.
 */
static bool is_unchanged(struct tracked *tracked, uint64_t address, uint64_t entry)
{
    const uint64_t *noted = frame_place(tracked, address, false);
    return (entry & ENTRY_PRESENT) != 0 && (entry & ENTRY_SOFT_DIRTY) == 0 && noted != NULL
        && *noted == (entry & (ENTRY_PRESENT | ENTRY_FRAME));
}

/* Lists such pages of the mappings, and notes the frames of what it lists if that is wanted. False with errno; ESRCH if
 * the memory is gone, ETIME if it takes too long. */
static bool scan_soft(struct tracked *tracked, enum soft_wanted wanted, bool notes, struct ranges *found)
{
    static uint64_t entries[ENTRIES];
    uint64_t since = now_ms();
    found->count = 0;
    for (size_t i = 0; i < tracked->mapped.count; i++) {
        uint64_t first = tracked->mapped.all[i].address / SET_PAGE;
        uint64_t end = first + tracked->mapped.all[i].pages;
        while (first < end) {
            size_t count = end - first < ENTRIES ? (size_t)(end - first) : ENTRIES;
            ssize_t got = pread(tracked->pagemap, entries, count * sizeof *entries, (off_t)(first * sizeof *entries));
            if (got < 0 && errno == EINTR) {
                continue;
            }
            if (got < (ssize_t)sizeof *entries || (notes && now_ms() - since > SCAN_LIMIT_MS)) {
                errno = got < 0 ? errno : got == 0 ? ESRCH : ETIME;
                return false;
            }
            count = (size_t)got / sizeof *entries;
            for (size_t k = 0; k < count; k++) {
                uint64_t address = (first + k) * SET_PAGE;
                bool present = (entries[k] & ENTRY_PRESENT) != 0;
                if ((!present && wanted == SOFT_WRITTEN) || is_unchanged(tracked, address, entries[k])) {
                    continue;
                }
                uint64_t *noted = notes ? frame_place(tracked, address, true) : NULL;
                if (!add_range(found, address, address + SET_PAGE) || (notes && noted == NULL)) {
                    errno = ENOMEM;
                    return false;
                }
                if (notes) {
                    *noted = entries[k] & (ENTRY_PRESENT | ENTRY_FRAME);
                }
            }
            first += count;
        }
    }
    return true;
}

/* Pages that are written from now on get the mark. */
static bool clear_marks(const struct tracked *tracked)
{
    return pwrite(tracked->clear, "4", 1, 0) == 1;
}

/* Whether this kernel marks the pages of this process that are written, and shows their frames. */
static bool has_soft_marks(void)
{
    struct tracked self = {.pid = getpid(), .userfaultfd = -1, .clear = -1, .pagemap = -1, .memory = -1};
    struct ranges found = {0};
    volatile uint8_t *page = mmap(NULL, SET_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool works = false;
    if ((void *)(uintptr_t)page != MAP_FAILED && begin_tracking(&self, -1)) {
        struct page_range one = {(uint64_t)(uintptr_t)page, 1};
        self.mapped = (struct ranges){&one, 1, 1};
        *page = 1;
        works = scan_soft(&self, SOFT_WRITTEN, true, &found) && found.count == 1 && clear_marks(&self)
            && scan_soft(&self, SOFT_WRITTEN, false, &found) && found.count == 0;
        /* An unprivileged process is shown the frame 0. */
        const uint64_t *frame = frame_place(&self, one.address, false);
        works = works && frame != NULL && (*frame & ENTRY_FRAME) != 0;
        *page = 2;
        works = works && scan_soft(&self, SOFT_WRITTEN, false, &found) && found.count == 1;
        self.mapped = (struct ranges){0};
    }
    if ((void *)(uintptr_t)page != MAP_FAILED) {
        munmap((void *)(uintptr_t)page, SET_PAGE);
    }
    free_ranges(&found);
    end_tracking(&self);
    return works;
}

static bool look_soft(struct tracked *tracked)
{
    return list_anonymous(tracked->pid, &tracked->mapped)
        && scan_soft(tracked, SOFT_WRITTEN, true, &tracked->written) && clear_marks(tracked);
}

/* ---- userfaultfd ------------------------------------------------------------------------------------------------- */

static bool has_async_protection(char *why, size_t room)
{
    struct tracked self = {.pid = getpid(), .userfaultfd = -1, .clear = -1, .pagemap = -1, .memory = -1};
    struct ranges found = {0};
    int made = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    bool able = false;
    if (made < 0) {
        snprintf(why, room, "no userfaultfd can be made here: %s", strerror(errno));
    } else if (!begin_tracking(&self, made)) {
        snprintf(why, room, "%s", self.why);
    } else if (!scan(&self, &REGISTERED, 0, &found)) {
        snprintf(why, room, "this kernel has no PAGEMAP_SCAN: %s", strerror(errno));
    } else {
        able = true;
    }
    free_ranges(&found);
    end_tracking(&self);
    return able;
}

enum tracking find_tracking(char *why, size_t room)
{
    if (has_async_protection(why, room)) {
        return TRACK_BY_USERFAULTFD;
    }
    if (has_soft_marks()) {
        return TRACK_BY_SOFT_DIRTY;
    }
    size_t length = strlen(why);
    snprintf(why + length, room - length, "; and it does not mark written pages (CONFIG_MEM_SOFT_DIRTY)");
    return TRACK_NOTHING;
}

/*
 * Registers mappings. A part that the kernel refuses is not tracked. The pages lose old marks of protection, so that all
 * of them count as written.
 */
static bool register_new(struct tracked *tracked, const struct ranges *new)
{
    for (size_t i = 0; i < new->count; i++) {
        struct uffd_range range = {new->all[i].address, new->all[i].pages * SET_PAGE};
        struct uffd_register registered = {.range = range, .mode = UFFD_REGISTER_WP};
        struct uffd_protect unprotected = {.range = range, .mode = 0};
        if (ioctl(tracked->userfaultfd, UFFD_REGISTER, &registered) != 0) {
            /* The process executed another program, and its memory is another one. Kernels name it by either error. */
            if (errno == ESRCH || errno == ENOMEM) {
                return false;
            }
            continue;
        }
        int failed;
        do {
            failed = ioctl(tracked->userfaultfd, UFFD_PROTECT, &unprotected);
        } while (failed != 0 && errno == EAGAIN);
        if (failed != 0) {
            struct uffd_range left = range;
            ioctl(tracked->userfaultfd, UFFD_UNREGISTER, &left);
        }
    }
    return true;
}

static void forget_written(struct tracked *tracked, const struct ranges *registered)
{
    for (size_t i = 0; i < tracked->written.count; i++) {
        set_remove(&tracked->sent, tracked->written.all[i].address, tracked->written.all[i].pages);
    }
    set_keep(&tracked->sent, registered->all, registered->count);
}

static bool refuse(struct tracked *tracked)
{
    if (errno == EOPNOTSUPP) {
        snprintf(tracked->why, sizeof tracked->why, "PID %d has rings of io_setup(2) or io_uring, RDMA or another device, or"
                 " marks of written pages of its own", tracked->pid);
    } else if (errno == ETIME) {
        snprintf(tracked->why, sizeof tracked->why, "PID %d has so much address space that it would be stopped for more"
                 " than %d ms", tracked->pid, (int)SCAN_LIMIT_MS);
    } else {
        snprintf(tracked->why, sizeof tracked->why, "the writes of PID %d cannot be found: %s", tracked->pid,
                 strerror(errno));
    }
    return false;
}

/* Registers the mappings that are not registered. `before` gets those that were. */
static bool register_rest(struct tracked *tracked, struct ranges *before)
{
    struct ranges new = {0};
    bool registered = list_anonymous(tracked->pid, &tracked->mapped) && scan(tracked, &REGISTERED, 0, before)
        && difference(&tracked->mapped, before, &new) && register_new(tracked, &new);
    free_ranges(&new);
    return registered;
}

bool register_mappings(struct tracked *tracked)
{
    if (tracked->clear >= 0) {
        /* The first look counts every page as written. */
        return true;
    }
    struct ranges before = {0};
    bool registered = register_rest(tracked, &before);
    free_ranges(&before);
    return registered || refuse(tracked);
}

bool look_and_protect(struct tracked *tracked)
{
    if (tracked->clear >= 0) {
        bool looked = look_soft(tracked);
        if (looked) {
            forget_written(tracked, &tracked->mapped);
        }
        return looked || refuse(tracked);
    }
    struct ranges before = {0};
    bool found = register_rest(tracked, &before)
        && scan(tracked, &WRITTEN_PAGES, PROTECT_FOUND, &tracked->written);
    if (found) {
        /* Only a mapping that was registered at the look before keeps its sent pages. */
        forget_written(tracked, &before);
    }
    free_ranges(&before);
    return found || refuse(tracked);
}

uint64_t count_written(struct tracked *tracked)
{
    struct ranges found = {0};
    uint64_t pages = 0;
    bool counted = tracked->clear >= 0 ? scan_soft(tracked, SOFT_WRITTEN, false, &found)
                                       : tracked->userfaultfd >= 0 && scan(tracked, &WRITTEN_PAGES, 0, &found);
    if (counted) {
        for (size_t i = 0; i < found.count; i++) {
            pages += found.all[i].pages;
        }
    }
    free_ranges(&found);
    return pages;
}

void look_last(struct tracked *tracked)
{
    struct ranges registered = {0};
    if (tracked->clear >= 0 && list_anonymous(tracked->pid, &tracked->mapped)
        && scan_soft(tracked, SOFT_CHANGED, false, &tracked->written)) {
        forget_written(tracked, &tracked->mapped);
    } else if (tracked->userfaultfd >= 0 && scan(tracked, &REGISTERED, 0, &registered)
        && !has_ring(tracked->pid) && scan(tracked, &CHANGED, 0, &tracked->written)) {
        forget_written(tracked, &registered);
    } else {
        set_free(&tracked->sent);
    }
    free_ranges(&registered);
}

void end_tracking(struct tracked *tracked)
{
    int *descriptors[] = {&tracked->userfaultfd, &tracked->clear, &tracked->pagemap, &tracked->memory};
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
        if (*descriptors[i] >= 0) {
            close(*descriptors[i]);
        }
        *descriptors[i] = -1;
    }
    set_free(&tracked->sent);
    set_free(&tracked->stored);
    free_frames(tracked);
    free_ranges(&tracked->written);
    free_ranges(&tracked->mapped);
}
