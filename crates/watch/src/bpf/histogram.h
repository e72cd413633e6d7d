/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
#ifndef UNSTARVE_HISTOGRAM_H
#define UNSTARVE_HISTOGRAM_H

#include "counted.h"
#include "log2.h"

/* 1 or 0, without a branch; of numbers below 2^63. */
#define NOT_BELOW(number, bound) (u32)(((bound) - 1 - (number)) >> 63)

/* `step` of histogram.rs. */
static __always_inline u32 step(u64 ns)
{
	u64 units, mantissa;
	u32 power, step;

	if (ns >= 1ULL << 33)
		units = (ns >> 10) * 1152921505ULL >> 20;
	else
		units = ns * 1152921505ULL >> 30;
	if (units < 1024)
		return 0;
	if (ns >= 1ULL << 37)
		return STEPS - 1;
	power = log2_of(units);
	mantissa = units << ((62 - power) & 63);
	step = (power - 10) * 4 + 1 + NOT_BELOW(mantissa, 0x4C1BF828C6DC54B8ULL) + NOT_BELOW(mantissa, 0x5A827999FCEF3242ULL) +
	       NOT_BELOW(mantissa, 0x6BA27E656B4EB57AULL);
	return step < STEPS ? step : STEPS - 1;
}

#endif
