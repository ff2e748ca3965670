/* CRIU's image files: messages of protobuf, one after the other. */
#ifndef PPMR_PAGES_IMAGES_H
#define PPMR_PAGES_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file's bytes. */
struct bytes {
    uint8_t *at;
    size_t length;
};

/* A part of a protobuf message that is being read. */
struct message {
    const uint8_t *at;
    const uint8_t *end;
    const char *name;
};

struct bytes read_file(int directory, const char *name);
void write_all(int file, const char *name, const void *data, size_t length);

/* The next field's number, or 0 at the end. A number is in value, what has a length in part. */
unsigned next_field(struct message *message, uint64_t *value, struct message *part);

/* The next message of an image file: 32 bits of length before each; false at the file's end. */
bool next_message(struct bytes *image, size_t *offset, const char *name, struct message *message);

#endif
