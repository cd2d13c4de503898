/* SPDX-License-Identifier: Apache-2.0
 *
 * ciphers.c - what protects payloads over TCP, one thread: the checksum beside both ciphers.
 *
 * usage: bench-ciphers [--quick]
 *
 * Blocks of 64 KiB, as a link cuts them, in the cache: written with its proof, then checked or
 * opened. Processor time of the thread; samples of all kinds are taken in turns, so that they share
 * the machine's bad moments; medians, and the time of each as a multiple of ChaCha20's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "bench/common/clock.h"
#include "bench/common/median.h"
#include "transport/secure/seal.h"

enum { ROUNDS = 41, ROUNDS_QUICK = 9, SAMPLE_BLOCKS = 200 };
enum { KIND_CRC, KIND_CHACHA, KIND_AES, KIND_COUNT };

static const char *const names[] = {"crc32c", "chacha20-poly1305", "aes-256-gcm"};

/* Seconds for a block there and back. */
static double sample(int kind, uint8_t *plain, uint8_t *wire)
{
    static const uint8_t key[TT_SEAL_KEY_BYTES] = {1};
    uint8_t tag[TT_SEAL_TAG_BYTES];
    uint8_t trailer[TT_SEAL_CRC_BYTES];
    tt_seal there, back;
    const tt_seal_cipher cipher = kind == KIND_AES ? TT_SEAL_AES256 : TT_SEAL_CHACHA20;
    bool is_good = tt_seal_init_with(&there, key, cipher) == TT_OK &&
                   tt_seal_init_with(&back, key, cipher) == TT_OK;
    const int64_t begin_ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < SAMPLE_BLOCKS; i++) {
        if (kind == KIND_CRC) {
            tt_seal_crc_encode(tt_seal_crc_add(0, plain, TT_SEAL_BLOCK_BYTES_MAX), trailer);
            const uint32_t crc = tt_seal_crc_add(0, plain, TT_SEAL_BLOCK_BYTES_MAX);
            is_good = is_good && tt_seal_crc_check(crc, trailer) == TT_OK;
        } else {
            (void)tt_seal_payload_block(&there, plain, TT_SEAL_BLOCK_BYTES_MAX, wire, tag);
            is_good = is_good && tt_open_payload_block(&back, wire, TT_SEAL_BLOCK_BYTES_MAX, tag,
                                                       plain) == TT_OK;
        }
    }
    const int64_t end_ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!is_good) {
        (void)fprintf(stderr, "bench-ciphers: %s did not open what it sealed\n", names[kind]);
        exit(1);
    }
    return (double)(end_ns - begin_ns) * 1e-9 / SAMPLE_BLOCKS;
}

int main(int argc, char **argv)
{
    static uint8_t plain[TT_SEAL_BLOCK_BYTES_MAX], wire[TT_SEAL_BLOCK_BYTES_MAX];
    static double samples[KIND_COUNT][ROUNDS];
    const int rounds = argc > 1 && strcmp(argv[1], "--quick") == 0 ? ROUNDS_QUICK : ROUNDS;
    const int kinds = tt_seal_has_aes() ? KIND_COUNT : KIND_AES;
    for (int round = 0; round < rounds; round++) {
        for (int kind = 0; kind < kinds; kind++) {
            samples[kind][round] = sample(kind, plain, wire);
        }
    }
    for (int kind = 0; kind < kinds; kind++) {
        bench_sort(samples[kind], (size_t)rounds);
    }
    for (int kind = 0; kind < kinds; kind++) {
        const double median_s = samples[kind][rounds / 2];
        printf("%-20s %6.2f GB/s there and back, %.2f of chacha20's time\n", names[kind],
               TT_SEAL_BLOCK_BYTES_MAX / median_s / 1e9,
               median_s / samples[KIND_CHACHA][rounds / 2]);
    }
    return 0;
}
