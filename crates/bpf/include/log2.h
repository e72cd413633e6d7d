/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
#ifndef UNSTARVE_LOG2_H
#define UNSTARVE_LOG2_H

/* By the upper six bits of (2^(n+1) - 1) * 0x03f6eaf2cd271461, which are different for each n. */
static const u8 LOG2[64] = {
	0, 58, 1, 59, 47, 53, 2, 60, 39, 48, 27, 54, 33, 42, 3, 61,
	51, 37, 40, 49, 18, 28, 20, 55, 30, 34, 11, 43, 14, 22, 4, 62,
	57, 46, 52, 38, 26, 32, 41, 50, 36, 17, 19, 29, 10, 13, 21, 56,
	45, 25, 31, 35, 16, 9, 12, 44, 24, 15, 8, 23, 7, 6, 5, 63,
};

/*
 * The power of two at or below a number that is not 0. Without branches: the verifier would have to look at both ways of each, and the
 * processor guesses those by the length of a wait wrong.
 */
static __always_inline u32 log2_of(u64 number)
{
	number |= number >> 1;
	number |= number >> 2;
	number |= number >> 4;
	number |= number >> 8;
	number |= number >> 16;
	number |= number >> 32;
	return LOG2[number * 0x03f6eaf2cd271461ULL >> 58];
}

#endif
