/*
 * CRC32C by the crc32 instruction of SSE 4.2. It computes three strands at a time, which hides the instruction's
 * latency. Tables that append zeros to a CRC combine the strands. Intel, "Fast CRC Computation for iSCSI Polynomial
 * Using CRC32 Instruction".
 */
#ifndef PPMR_BENCH_CRC32C_H
#define PPMR_BENCH_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CRC32C_STRAND = 4096 };

static uint32_t crc32c_zeros[4][256];

/* The CRC after one more byte of zeros, without tables. */
static uint32_t crc32c_zero_byte(uint32_t crc)
{
    for (int bit = 0; bit < 8; bit++)
        crc = crc & 1 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
    return crc;
}

/* Fills the tables. Called once, before any thread computes a CRC. */
static void crc32c_init(void)
{
    for (int place = 0; place < 4; place++) {
        for (uint32_t bit = 1; bit < 256; bit <<= 1) {
            uint32_t crc = bit << (8 * place);
            for (int i = 0; i < CRC32C_STRAND; i++)
                crc = crc32c_zero_byte(crc);
            crc32c_zeros[place][bit] = crc;
        }
        for (uint32_t value = 1; value < 256; value++) {
            uint32_t lowest = value & -value;
            crc32c_zeros[place][value] = crc32c_zeros[place][lowest] ^ crc32c_zeros[place][value ^ lowest];
        }
    }
}

static inline uint32_t crc32c_append_strand(uint32_t crc)
{
    return crc32c_zeros[0][crc & 255] ^ crc32c_zeros[1][crc >> 8 & 255] ^ crc32c_zeros[2][crc >> 16 & 255] ^
           crc32c_zeros[3][crc >> 24];
}

__attribute__((target("sse4.2"), unused)) static uint32_t crc32c(const void *data, size_t length)
{
    const uint8_t *at = data;
    uint64_t crc = 0xFFFFFFFFu;
    while (length >= 3 * CRC32C_STRAND) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < CRC32C_STRAND; i += 8) {
            uint64_t a, b, c;
            memcpy(&a, at + i, 8);
            memcpy(&b, at + CRC32C_STRAND + i, 8);
            memcpy(&c, at + 2 * CRC32C_STRAND + i, 8);
            crc = __builtin_ia32_crc32di(crc, a);
            second = __builtin_ia32_crc32di(second, b);
            third = __builtin_ia32_crc32di(third, c);
        }
        crc = crc32c_append_strand((uint32_t)crc) ^ second;
        crc = crc32c_append_strand((uint32_t)crc) ^ third;
        at += 3 * CRC32C_STRAND;
        length -= 3 * CRC32C_STRAND;
    }
    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; length > 0; at++, length--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

#endif
