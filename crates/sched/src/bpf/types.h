/* SPDX-License-Identifier: GPL-2.0-only */

/* Integers under the kernel's names, for the BPF programs, for bindgen and for tests on the host.
 */
#ifndef STAYPUT_TYPES_H
#define STAYPUT_TYPES_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#endif
