/*
 * The part of the kernel's interface for userfaultfd(2) that ppmr-pages uses, as ioctl_userfaultfd(2) has it. It is
 * repeated here because the build must also pass where the headers of the kernel are older.
 */
#ifndef PPMR_USERFAULTFD_H
#define PPMR_USERFAULTFD_H

#include <stdint.h>
#include <sys/ioctl.h>

struct uffd_range {
    uint64_t start;
    uint64_t length;
};

struct uffd_api {
    uint64_t api;
    uint64_t features;
    uint64_t ioctls;
};

struct uffd_register {
    struct uffd_range range;
    uint64_t mode;
    uint64_t ioctls;
};

struct uffd_protect {
    struct uffd_range range;
    uint64_t mode;
};

struct uffd_copy {
    uint64_t to;
    uint64_t from;
    uint64_t length;
    uint64_t mode;
    /* The number of bytes that were copied, or the negative error. */
    int64_t copied;
};

struct uffd_zero {
    struct uffd_range range;
    uint64_t mode;
    int64_t zeroed;
};

#define UFFD_API_VERSION 0xAA
#define UFFD_USER_MODE_ONLY 1
/* The kernel resolves faults of write protection itself, from Linux 6.7 on. */
#define UFFD_WP_ASYNC (UINT64_C(1) << 15)
#define UFFD_REGISTER_WP 2
#define UFFD_API _IOWR(0xAA, 0x3F, struct uffd_api)
#define UFFD_REGISTER _IOWR(0xAA, 0x00, struct uffd_register)
#define UFFD_UNREGISTER _IOR(0xAA, 0x01, struct uffd_range)
#define UFFD_PROTECT _IOWR(0xAA, 0x06, struct uffd_protect)
#define UFFD_WAKE _IOR(0xAA, 0x02, struct uffd_range)
#define UFFD_COPY _IOWR(0xAA, 0x03, struct uffd_copy)
#define UFFD_ZERO _IOWR(0xAA, 0x04, struct uffd_zero)

enum { UFFD_FAULT = 0x12, UFFD_FORK = 0x13, UFFD_REMAP = 0x14, UFFD_REMOVE = 0x15, UFFD_UNMAP = 0x16 };

struct uffd_event {
    uint8_t kind;
    uint8_t reserved[7];
    union {
        struct {
            uint64_t flags;
            uint64_t address;
            uint64_t thread;
        } fault;
        struct {
            uint32_t descriptor;
        } fork;
        struct {
            uint64_t from;
            uint64_t to;
            uint64_t length;
        } remap;
        struct {
            uint64_t start;
            uint64_t end;
        } removed;
        uint64_t room[3];
    };
};

_Static_assert(sizeof(struct uffd_event) == 32, "the kernel writes messages of this size");

#endif
