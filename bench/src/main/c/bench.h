/* What the benchmark's programs share: options in bytes, the clock, and an end with a message. */
#ifndef PPMR_BENCH_H
#define PPMR_BENCH_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static inline long long number(const char *text, const char *what)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || value < 0)
        die("%s '%s' is not a number", what, text);
    return value;
}

static inline long long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

#endif
