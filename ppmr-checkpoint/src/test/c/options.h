/* Reading numbers out of command lines, for the test programs. */
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

#endif
