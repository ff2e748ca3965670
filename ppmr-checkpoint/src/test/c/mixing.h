/* The computation that the test jobs share: every pass changes every byte of memory from its former state. */
#ifndef PPMR_MIXING_H
#define PPMR_MIXING_H

#include <stddef.h>
#include <stdint.h>

#define LANES 8

/* splitmix64: a word that looks random, from a counter. Vigna's constants. */
static inline uint64_t splitmix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* Updates words [from, to) and folds each into the lanes. from and to are multiples of LANES. Each step is a
 * bijection of the word and of the lane, so one flipped bit in memory always reaches the result. */
static inline void mix_words(uint64_t *words, size_t from, size_t to, uint64_t salt, uint64_t *lanes)
{
    uint64_t lane[LANES];
    for (int k = 0; k < LANES; k++)
        lane[k] = lanes[k];
    for (size_t i = from; i < to; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            uint64_t x = words[i + (size_t)k] * 0xd1342543de82ef95ULL + (salt ^ (i + (size_t)k));
            x ^= x >> 29;
            words[i + (size_t)k] = x;
            lane[k] = (lane[k] ^ x) * 0x9fb21c651e98df25ULL;
            lane[k] ^= lane[k] >> 32;
        }
    }
    for (int k = 0; k < LANES; k++)
        lanes[k] = lane[k];
}

/* Folds words into the lanes without changing them, as the final check of the memory. */
static inline void fold_words(const uint64_t *words, size_t count, uint64_t *lanes)
{
    for (size_t i = 0; i < count; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            lanes[k] = (lanes[k] ^ words[i + (size_t)k]) * 0x9fb21c651e98df25ULL;
            lanes[k] ^= lanes[k] >> 32;
        }
    }
}

static inline uint64_t lanes_hash(const uint64_t *lanes)
{
    uint64_t hash = 0;
    for (int k = 0; k < LANES; k++)
        hash = splitmix(hash ^ lanes[k]);
    return hash;
}

static inline void fill_words(uint64_t *words, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        words[i] = splitmix(seed + i * 0x9e3779b97f4a7c15ULL);
}

#endif
