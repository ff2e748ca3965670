/* Common parts of the test programs: numbers in command lines, and the place of their stacks. */
#ifndef PPMR_OPTIONS_H
#define PPMR_OPTIONS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A whole number with an optional k, m or g (binary). Ends the program with status 2 on anything else. */
static inline uint64_t number_option(const char *program, const char *name, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    int shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
    if (shift != 0)
        end++;
    if (errno != 0 || end == text || *end != '\0' || *text == '-') {
        fprintf(stderr, "%s: %s '%s' is not a number\n", program, name, text);
        exit(2);
    }
    return (uint64_t)value << shift;
}

/* Runs the program in the middle of a page. CRIU streams no process with a stack pointer at the first byte of a
 * page, as one in 256 has. The function must not wait at a greater depth than the next page. */
static inline int run_mid_page(int argc, char **argv, int (*run)(int, char **))
{
    volatile char *middle = __builtin_alloca(((uintptr_t)__builtin_frame_address(0) + 2048) % 4096 + 16);
    middle[0] = 0;
    int status = run(argc, argv);
    /* The array is used once more, so that the space exists until then. */
    middle[0] = 1;
    return status;
}

#endif
