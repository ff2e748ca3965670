/* See images.h. */
#define _GNU_SOURCE
#include "images.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

struct bytes read_file(int directory, const char *name)
{
    int file = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        die("cannot open %s", name);
    }
    struct bytes all = {NULL, 0};
    size_t room = 0;
    for (;;) {
        if (all.length == room) {
            room = room == 0 ? 1 << 16 : 2 * room;
            all.at = enlarge(all.at, room, 1);
        }
        ssize_t got = read(file, all.at + all.length, room - all.length);
        if (got < 0 && errno != EINTR) {
            die("cannot read %s", name);
        }
        if (got == 0) {
            break;
        }
        all.length += got > 0 ? (size_t)got : 0;
    }
    close(file);
    return all;
}

void write_all(int file, const char *name, const void *data, size_t length)
{
    const uint8_t *at = data;
    while (length > 0) {
        ssize_t written = write(file, at, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            die("cannot write %s", name);
        }
        at += written;
        length -= (size_t)written;
    }
}

static uint64_t varint(struct message *message)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (message->at == message->end) {
            fail("%s ends within a number", message->name);
        }
        uint8_t byte = *message->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    fail("%s holds a number of more than 64 bits", message->name);
}

unsigned next_field(struct message *message, uint64_t *value, struct message *part)
{
    if (message->at == message->end) {
        return 0;
    }
    uint64_t tag = varint(message);
    *value = 0;
    *part = (struct message){message->at, message->at, message->name};
    size_t left = (size_t)(message->end - message->at);
    size_t length;
    switch (tag & 7) {
    case 0:
        *value = varint(message);
        return (unsigned)(tag >> 3);
    case 1:
        length = 8;
        break;
    case 2: {
        uint64_t claimed = varint(message);
        left = (size_t)(message->end - message->at);
        length = claimed > left ? left + 1 : (size_t)claimed;
        break;
    }
    case 5:
        length = 4;
        break;
    default:
        fail("%s holds a field of an unknown kind", message->name);
    }
    if (length > left) {
        fail("%s ends within a field", message->name);
    }
    *part = (struct message){message->at, message->at + length, message->name};
    message->at += length;
    return (unsigned)(tag >> 3);
}

bool next_message(struct bytes *image, size_t *offset, const char *name, struct message *message)
{
    if (*offset == image->length) {
        return false;
    }
    uint32_t length;
    if (image->length - *offset < sizeof length) {
        fail("%s ends within a message", name);
    }
    memcpy(&length, image->at + *offset, sizeof length);
    *offset += sizeof length;
    if (length > image->length - *offset) {
        fail("%s ends within a message", name);
    }
    *message = (struct message){image->at + *offset, image->at + *offset + length, name};
    *offset += length;
    return true;
}
