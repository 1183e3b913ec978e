/*
 * broker/pins.c - which processors a box's runs are spread to.
 *
 * Runs in: bailey-broker.
 * Input: the processor limit of a box (checked).
 * Owns: the count of boxes on each processor (struct broker.cpu_boxes).
 *
 * Only a limit of whole processors is pinned, so that the affinity a program
 * sees equals its limit; a fraction of a processor may run on any.
 */
#include "broker.h"

uint64_t
pins_take(struct broker *b, uint32_t cpus_milli)
{
	uint32_t whole = policy_whole_cpus(cpus_milli), n = b->settings.host_cpus;
	uint64_t mask = 0;

	if (!probe_local(b) || n > ARRAY_LEN(b->cpu_boxes) || whole >= n || cpus_milli % 1000)
		return 0;
	for (uint32_t i = 0; i < whole; i++) {
		uint32_t best = n;

		for (uint32_t c = 0; c < n; c++)
			if (!(mask >> c & 1) && (best == n || b->cpu_boxes[c] < b->cpu_boxes[best]))
				best = c;
		mask |= UINT64_C(1) << best;
	}
	for (uint32_t c = 0; c < n; c++)
		b->cpu_boxes[c] += (uint32_t)(mask >> c & 1);
	return mask;
}

uint64_t
pins_take_again(struct broker *b, uint64_t mask)
{
	for (uint32_t c = 0; c < ARRAY_LEN(b->cpu_boxes); c++)
		b->cpu_boxes[c] += (uint32_t)(mask >> c & 1);
	return mask;
}

void
pins_give(struct broker *b, uint64_t mask)
{
	for (uint32_t c = 0; c < ARRAY_LEN(b->cpu_boxes); c++)
		b->cpu_boxes[c] -= (uint32_t)(mask >> c & 1);
}
