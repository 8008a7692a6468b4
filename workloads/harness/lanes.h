/*
 * Vectors of doubles that fill one register of the machine: wider ones would be split by the
 * compilers, by gcc through memory.
 */
#pragma once

#if defined(__AVX512F__)
enum { LANES = 8 };
#elif defined(__AVX__)
enum { LANES = 4 };
#else
enum { LANES = 2 };
#endif
/* For functions whose arguments are constants or whole vectors, which no call should move. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
/* The same, in memory at any double. */
typedef double lanes_anywhere
    __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));

static inline lanes lanes_load(const double *from) { return *(const lanes_anywhere *)from; }

static inline void lanes_store(double *to, lanes value) { *(lanes_anywhere *)to = value; }

/*
 * The same vector, in a register: where it is used several times, compilers would rather load it
 * each time, and the units that load are then what bounds a product.
 */
static inline lanes lanes_keep(lanes value) {
#if defined(__x86_64__)
    __asm__("" : "+v"(value));
#endif
    return value;
}

/* Lanes moved towards the last by one; the first becomes `first`. */
static inline lanes lanes_up(lanes v, double first) {
    const lanes edge = first - (lanes){0};
#if defined(__AVX512F__)
    return __builtin_shufflevector(edge, v, 7, 8, 9, 10, 11, 12, 13, 14);
#elif defined(__AVX__)
    return __builtin_shufflevector(edge, v, 3, 4, 5, 6);
#else
    return __builtin_shufflevector(edge, v, 1, 2);
#endif
}

/* Lanes moved towards the first by one; the last becomes `last`. */
static inline lanes lanes_down(lanes v, double last) {
    const lanes edge = last - (lanes){0};
#if defined(__AVX512F__)
    return __builtin_shufflevector(v, edge, 1, 2, 3, 4, 5, 6, 7, 8);
#elif defined(__AVX__)
    return __builtin_shufflevector(v, edge, 1, 2, 3, 4);
#else
    return __builtin_shufflevector(v, edge, 1, 2);
#endif
}

/* Transposes a square of numbers. */
static inline void lanes_transpose(lanes square[LANES]) {
#if defined(__AVX512F__)
    /* Squares of 2, then rows and columns of pairs: shuffles that need no table. */
    lanes pairs[8], fours[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = __builtin_shufflevector(square[i], square[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        pairs[i + 1] = __builtin_shufflevector(square[i], square[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const int p = i / 2 * 4 + i % 2;
        fours[p] = __builtin_shufflevector(pairs[p], pairs[p + 2], 0, 1, 4, 5, 8, 9, 12, 13);
        fours[p + 2] = __builtin_shufflevector(pairs[p], pairs[p + 2], 2, 3, 6, 7, 10, 11, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        square[i] = __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 4, 5, 8, 9, 12, 13);
        square[i + 4] = __builtin_shufflevector(fours[i], fours[i + 4], 2, 3, 6, 7, 10, 11, 14, 15);
    }
#elif defined(__AVX__)
    lanes pairs[4];
    for (int i = 0; i < 4; i += 2) {
        pairs[i] = __builtin_shufflevector(square[i], square[i + 1], 0, 4, 2, 6);
        pairs[i + 1] = __builtin_shufflevector(square[i], square[i + 1], 1, 5, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        square[i] = __builtin_shufflevector(pairs[i], pairs[i + 2], 0, 1, 4, 5);
        square[i + 2] = __builtin_shufflevector(pairs[i], pairs[i + 2], 2, 3, 6, 7);
    }
#else
    const lanes first = square[0];
    square[0] = __builtin_shufflevector(first, square[1], 0, 2);
    square[1] = __builtin_shufflevector(first, square[1], 1, 3);
#endif
}
