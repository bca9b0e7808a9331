/* SPDX-License-Identifier: MIT */
/*
 * sim_outage.h - Redis away, for one process or for all, from a millisecond to minutes, and what is answered meanwhile: in
 * worlds of their own, seeds from SIM_OF_OUTAGES on (sim outages). The others have none, and stay as they are.
 */
#ifndef SIM_OUTAGE_H
#define SIM_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct event;
struct process;
struct request;
struct load_model;

enum { OUTAGE_KEYS = 3, OUTAGE_CANARIES = 8 };

/* Of a process. */
struct outage_of_process {
    uint64_t cut_until_us;             /* nothing goes to Redis before, and nothing comes from there */
    uint64_t messages_until_us;        /* on their way: none overtakes another */
    uint64_t canaries;                 /* sent so far */
    uint64_t sent_us[OUTAGE_CANARIES]; /* each of the last ones; 0: it is back, or forgotten */
    uint64_t touch_us;                 /* when the last one that is back was sent, by the world's clock */
};

bool outage_is_world(const struct sim *sim);
void outage_choose(struct sim *sim);
void outage_schedule(struct sim *sim);
/* A process begins. */
void outage_open(struct sim *sim, const struct process *process);
/* EVENT_OUTAGE: the next one begins. */
void outage_happens(struct sim *sim, const struct event *event);
/* That of all is over, at this master. */
void outage_ends(struct sim *sim, uint32_t shard);
/* All are over. */
void outage_heal(struct sim *sim);

/* ---- the way to Redis and back ---- */

bool outage_is_cut(const struct sim *sim, const struct process *process);
/* What a process that is cut off has sent: when it arrives after all; 0: never. */
uint64_t outage_resent_us(const struct sim *sim, const struct process *process);
/* When a reply or message that would arrive then does: not before the way is free. */
uint64_t outage_back_us(const struct process *process, uint64_t at_us);
/* A message is on its way to this process, behind those before it. */
uint64_t outage_in_order_us(const struct sim *sim, struct process *process, uint64_t at_us);
/* EVENT_CANARY: it is time for one; EVENT_CANARY_HEARD: Redis has it; EVENT_CANARY_BACK. */
void outage_canary(struct sim *sim, struct process *process);
void outage_canary_heard(struct sim *sim, const struct event *event);
void outage_canary_back(struct process *process, const struct event *event);

#endif
