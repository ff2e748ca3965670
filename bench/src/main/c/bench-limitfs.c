/*
 * bench-limitfs: the limit of a filesystem in C on this machine. Each write is copied into a chunk of a pool, and each
 * read out of one. It uses libfuse 2.9's high-level interface and threads, with the mount options of the service.
 *
 *   bench-limitfs --pool BYTES --chunk BYTES [--crc] [--cycle] MOUNTPOINT
 *
 * A full chunk returns to the pool at once. --crc computes its CRC32C first. The pool hands out the chunk that returned
 * last, as the service's does. --cycle hands out the chunk that returned first. So all of the pool is used in turn, as
 * by chunks that arrive and are read in order. Any name in the root can be created and opened. Reads return the pool's
 * current bytes. It runs in the foreground until it is unmounted.
 */
#define FUSE_USE_VERSION 26
#define _GNU_SOURCE
#include "bench.h"
#include "crc32c.h"

#include <fuse.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILES_MAX = 4096, NAME_MAX_BYTES = 256 };

struct file {
    pthread_mutex_t lock;
    char name[NAME_MAX_BYTES];
    int chunk;
    size_t used;
    off_t size;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    unsigned char *memory;
    size_t chunk_bytes;
    int *free;
    int chunks;
    int first;
    int free_count;
    bool cycle;
    bool crc;
    volatile uint32_t last_crc;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};

static struct file *files[FILES_MAX];
static int file_count;
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static int claim(void)
{
    pthread_mutex_lock(&pool.lock);
    while (pool.free_count == 0)
        pthread_cond_wait(&pool.freed, &pool.lock);
    int at = pool.cycle ? pool.first : (pool.first + pool.free_count - 1) % pool.chunks;
    int chunk = pool.free[at];
    if (pool.cycle)
        pool.first = (pool.first + 1) % pool.chunks;
    pool.free_count--;
    pthread_mutex_unlock(&pool.lock);
    return chunk;
}

static void give_back(int chunk)
{
    pthread_mutex_lock(&pool.lock);
    pool.free[(pool.first + pool.free_count) % pool.chunks] = chunk;
    pool.free_count++;
    pthread_cond_signal(&pool.freed);
    pthread_mutex_unlock(&pool.lock);
}

/* Moves bytes between the caller and the file's chunk. A used chunk returns to the pool. */
static int move(struct file *file, char *bytes, size_t length, bool in)
{
    pthread_mutex_lock(&file->lock);
    for (size_t done = 0; done < length;) {
        if (file->chunk < 0) {
            file->chunk = claim();
            file->used = 0;
        }
        unsigned char *chunk = pool.memory + (size_t)file->chunk * pool.chunk_bytes;
        size_t now = pool.chunk_bytes - file->used < length - done ? pool.chunk_bytes - file->used : length - done;
        if (in)
            memcpy(chunk + file->used, bytes + done, now);
        else
            memcpy(bytes + done, chunk + file->used, now);
        file->used += now;
        done += now;
        if (file->used == pool.chunk_bytes) {
            if (pool.crc)
                pool.last_crc = crc32c(chunk, pool.chunk_bytes);
            give_back(file->chunk);
            file->chunk = -1;
        }
    }
    pthread_mutex_unlock(&file->lock);
    return (int)length;
}

static struct file *find(const char *path)
{
    for (int i = 0; i < file_count; i++)
        if (strcmp(files[i]->name, path) == 0)
            return files[i];
    return NULL;
}

static int fs_getattr(const char *path, struct stat *stat)
{
    memset(stat, 0, sizeof *stat);
    stat->st_nlink = 1;
    if (path == NULL || strcmp(path, "/") == 0) {
        stat->st_ino = 1;
        stat->st_mode = S_IFDIR | 0755;
        return 0;
    }
    pthread_mutex_lock(&names_lock);
    struct file *file = find(path);
    pthread_mutex_unlock(&names_lock);
    if (file == NULL)
        return -ENOENT;
    stat->st_ino = (ino_t)(uintptr_t)file;
    stat->st_mode = S_IFREG | 0600;
    stat->st_size = file->size;
    return 0;
}

static int fs_fgetattr(const char *path, struct stat *stat, struct fuse_file_info *info)
{
    (void)path;
    struct file *file = (struct file *)(uintptr_t)info->fh;
    memset(stat, 0, sizeof *stat);
    stat->st_nlink = 1;
    stat->st_ino = (ino_t)(uintptr_t)file;
    stat->st_mode = S_IFREG | 0600;
    stat->st_size = file->size;
    return 0;
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
    (void)mode;
    pthread_mutex_lock(&names_lock);
    struct file *file = find(path);
    if (file == NULL && file_count < FILES_MAX && strlen(path) < NAME_MAX_BYTES) {
        file = calloc(1, sizeof *file);
        if (file != NULL) {
            pthread_mutex_init(&file->lock, NULL);
            strcpy(file->name, path);
            file->chunk = -1;
            files[file_count++] = file;
        }
    }
    pthread_mutex_unlock(&names_lock);
    info->fh = (uint64_t)(uintptr_t)file;
    return file == NULL ? -ENOSPC : 0;
}

static int fs_open(const char *path, struct fuse_file_info *info)
{
    pthread_mutex_lock(&names_lock);
    struct file *file = find(path);
    pthread_mutex_unlock(&names_lock);
    info->fh = (uint64_t)(uintptr_t)file;
    return file == NULL ? -ENOENT : 0;
}

static int fs_write(const char *path, const char *bytes, size_t length, off_t offset, struct fuse_file_info *info)
{
    (void)path;
    struct file *file = (struct file *)(uintptr_t)info->fh;
    if (offset + (off_t)length > file->size)
        file->size = offset + (off_t)length;
    return move(file, (char *)(uintptr_t)bytes, length, true);
}

static int fs_read(const char *path, char *bytes, size_t length, off_t offset, struct fuse_file_info *info)
{
    (void)path;
    (void)offset;
    return move((struct file *)(uintptr_t)info->fh, bytes, length, false);
}

static int fs_truncate(const char *path, off_t size)
{
    (void)path;
    (void)size;
    return 0;
}

static int fs_unlink(const char *path)
{
    pthread_mutex_lock(&names_lock);
    struct file *file = find(path);
    if (file != NULL)
        file->name[0] = '\0';
    pthread_mutex_unlock(&names_lock);
    return file == NULL ? -ENOENT : 0;
}

static int fs_flush(const char *path, struct fuse_file_info *info)
{
    (void)path;
    (void)info;
    return 0;
}

static int fs_fsync(const char *path, int data_only, struct fuse_file_info *info)
{
    (void)path;
    (void)data_only;
    (void)info;
    return 0;
}

static int fs_release(const char *path, struct fuse_file_info *info)
{
    (void)path;
    struct file *file = (struct file *)(uintptr_t)info->fh;
    pthread_mutex_lock(&file->lock);
    if (file->chunk >= 0)
        give_back(file->chunk);
    file->chunk = -1;
    pthread_mutex_unlock(&file->lock);
    return 0;
}

static const struct fuse_operations operations = {.getattr = fs_getattr,
                                                  .fgetattr = fs_fgetattr,
                                                  .create = fs_create,
                                                  .open = fs_open,
                                                  .write = fs_write,
                                                  .read = fs_read,
                                                  .truncate = fs_truncate,
                                                  .unlink = fs_unlink,
                                                  .flush = fs_flush,
                                                  .fsync = fs_fsync,
                                                  .release = fs_release,
                                                  .flag_nullpath_ok = 1};

static void make_pool(long long bytes)
{
    pool.chunks = (int)(bytes / (long long)pool.chunk_bytes);
    if (pool.chunks < 1)
        die("the pool has not one chunk");
    pool.memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pool.free = calloc((size_t)pool.chunks, sizeof *pool.free);
    if (pool.memory == MAP_FAILED || pool.free == NULL)
        die("no memory for the pool");
    memset(pool.memory, 1, (size_t)bytes);
    for (int i = 0; i < pool.chunks; i++)
        pool.free[i] = i;
    pool.free_count = pool.chunks;
}

int main(int count, char **words)
{
    static const struct option options[] = {{"pool", required_argument, NULL, 'p'},
                                            {"chunk", required_argument, NULL, 'c'},
                                            {"crc", no_argument, NULL, 'r'},
                                            {"cycle", no_argument, NULL, 'y'},
                                            {NULL, 0, NULL, 0}};
    long long pool_bytes = 8 << 20;
    pool.chunk_bytes = 128 << 10;
    int option;
    while ((option = getopt_long(count, words, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': pool_bytes = number(optarg, "--pool"); break;
        case 'c': pool.chunk_bytes = (size_t)number(optarg, "--chunk"); break;
        case 'r': pool.crc = true; break;
        case 'y': pool.cycle = true; break;
        default: return 2;
        }
    }
    if (optind != count - 1 || pool.chunk_bytes < 1)
        die("usage: bench-limitfs --pool BYTES --chunk BYTES [--crc] [--cycle] MOUNTPOINT");
    crc32c_init();
    make_pool(pool_bytes);
    char settings[] = "big_writes,direct_io,use_ino,hard_remove,default_permissions,max_write=131072,max_read=131072,"
                      "attr_timeout=0,entry_timeout=0,negative_timeout=0,fsname=ppmr-bench-limit";
    char *arguments[] = {words[0], "-f", "-o", settings, words[optind], NULL};
    char *mount_point;
    int multithreaded;
    struct fuse *fuse =
        fuse_setup(5, arguments, &operations, sizeof operations, &mount_point, &multithreaded, NULL);
    if (fuse == NULL)
        return 1;
    int result = fuse_loop_mt(fuse);
    fuse_teardown(fuse, mount_point);
    return result == 0 ? 0 : 1;
}
