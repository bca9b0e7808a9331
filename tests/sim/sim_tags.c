/* SPDX-License-Identifier: MIT */
/*
 * sim_tags.c - tags in the model: guard/wire/scripts/tag_*.lua in C, and what guard/run/calls.c does around a
 * command.
 *
 * k0 has t0, k1 has both, k2 has t1. Eras are numbers that never come again, as Redis's time in microseconds is
 * assumed to be.
 */
#include "sim.h"
#include <string.h>

const char *tags_of_key(const struct sim *sim, uint32_t key)
{
    static const char *const texts[SIM_KEYS] = {"t0", "t0 t1", "t1"};
    return sim->params.tagged ? texts[key] : "";
}

bool tags_has(uint32_t key, uint32_t tag)
{
    return key == 1 || key == 2 * tag;
}

bool tags_touched(const struct write *write, uint32_t key)
{
    return write->of_tag ? tags_has(key, write->tag) : key == write->key;
}

struct core_key tags_name(uint32_t tag)
{
    static const char *const names[SIM_TAGS] = {"t0", "t1"};
    return (struct core_key){names[tag], 2, names[tag], 2};
}

/* ---- scripts ---- */

static bool is_there(const struct sim *sim, const struct stored_clock *stored)
{
    return stored->there && !redis_has_expired(sim, stored->expires_ms);
}

static bool put(struct sim *sim, struct stored_clock *stored, struct tags_clock clock)
{
    if (sim->redis.oom || sim->redis.readonly)
        return false;
    *stored = (struct stored_clock){
        .there = true, .clock = clock, .expires_ms = redis_now_ms(sim) + (int64_t)sim->redis.max_value_ms};
    return true;
}

static struct tags_clock new_era(struct sim *sim)
{
    sim->redis.eras++;
    return (struct tags_clock){sim->mutant == MUTANT_CLOCK_RESTARTS ? 1 : sim->redis.eras, 1};
}

/* Of the master where this runs. */
static uint64_t reign_here(const struct sim *sim)
{
    return sim->redis.server[shard_of_tags(sim)].reign - sim->redis.at_former;
}

static bool leaps(const struct sim *sim)
{
    bool never = sim->mutant == MUTANT_CLOCK_COUNTS_ON;
    return !never && sim->redis.tags.reign != reign_here(sim);
}

/* In milliseconds: later than what the masters before and beside this one have counted. */
static uint64_t time_here(const struct sim *sim)
{
    const uint64_t began_ms = UINT64_C(20000000000); /* this world */
    return began_ms + (uint64_t)redis_now_ms(sim);
}

/* What it shows after so many steps, or after a leap. */
static uint64_t count_after(const struct sim *sim, uint64_t steps)
{
    enum { SPAN = 1 << 20 };
    uint64_t count = sim->redis.tags.clock.clock.count, time = time_here(sim);
    bool goes_with_time = (steps > 0 || leaps(sim)) && time > count;
    if (sim->mutant == MUTANT_CLOCK_LEAPS_AGAIN)
        return count + (leaps(sim) ? SPAN : 0) + steps;
    goes_with_time = goes_with_time && sim->mutant != MUTANT_CLOCK_COUNTS_ON;
    return (goes_with_time ? time : count) + steps;
}

/* The first of a new era if there is none, or if under another reign it is not behind the time. */
static struct tags_clock clock_after(struct sim *sim, uint64_t steps)
{
    const struct stored_clock *stored = &sim->redis.tags.clock;
    uint64_t count = count_after(sim, steps);
    if (!is_there(sim, stored) || (leaps(sim) && count == stored->clock.count + steps))
        return new_era(sim);
    return (struct tags_clock){stored->clock.era, count};
}

/* Without memory there is no clock: the next one is of another era. */
static bool store_clock(struct sim *sim, struct tags_clock clock)
{
    struct stored_tags *tags = &sim->redis.tags;
    bool stored = put(sim, &tags->clock, clock);
    bool kept = stored || sim->redis.readonly || sim->mutant == MUTANT_FULL_KEEPS_EPOCH;
    tags->clock.there = tags->clock.there && kept;
    sim->seen[SEEN_LEAPS] += stored && tags->reign != reign_here(sim);
    if (stored)
        tags->reign = reign_here(sim);
    return stored;
}

/* The clock; not known: it could not be begun. */
static struct tags_clock read_clock(struct sim *sim)
{
    struct stored_clock *clock = &sim->redis.tags.clock;
    bool stands = is_there(sim, clock) && !leaps(sim);
    if (!stands && !store_clock(sim, clock_after(sim, 0)))
        return (struct tags_clock){0, 0};
    return clock->clock;
}

static bool is_same_era(const struct stored_clock *epoch, const struct tags_clock *clock)
{
    return epoch->clock.era == clock->era;
}

static bool keep(struct sim *sim, const struct command *command)
{
    const struct tags_clock clock = read_clock(sim), born = command->action.born;
    bool good = clock.era != 0 && !sim->redis.readonly;
    for (uint32_t tag = 0; tag < SIM_TAGS && good; tag++) {
        struct stored_clock *epoch = &sim->redis.tags.epoch[tag];
        if (!tags_has(command->key, tag))
            continue;
        bool stands = is_there(sim, epoch) && is_same_era(epoch, &clock);
        if (!stands && !put(sim, epoch, sim->mutant == MUTANT_KEEP_BACKDATES ? born : clock))
            return false;
        good = epoch->clock.era == born.era && epoch->clock.count <= born.count;
    }
    return good;
}

bool tags_invalidate(struct sim *sim, const struct command *command)
{
    struct stored_tags *tags = &sim->redis.tags;
    uint32_t tag = command->key;
    if (sim->redis.readonly)
        return false;
    struct tags_clock clock = clock_after(sim, sim->mutant != MUTANT_CLOCK_STANDS);
    bool stored = store_clock(sim, clock) && put(sim, &tags->epoch[tag], clock);
    if (!stored && sim->mutant != MUTANT_FULL_KEEPS_EPOCH)
        tags->epoch[tag].there = false;
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        bool is_told = tags_has(key, tag) && command->versions[key] > tags->told[key];
        tags->told[key] = is_told ? command->versions[key] : tags->told[key];
        sim->row[key].changes += tags_has(key, tag);
    }
    sim->seen[SEEN_TAGGED]++;
    return true;
}

/* ---- beside commands ---- */

static bool stores(enum core_action_kind kind)
{
    return kind == CORE_FILL || kind == CORE_TOUCH;
}

bool tags_companion(const struct sim *sim, const struct command *command)
{
    const struct core_action *action = &command->action;
    if (!sim->params.tagged)
        return false;
    return (action->kind == CORE_ACQUIRE && action->lookup != LOOKUP_PEEK) ||
           ((stores(action->kind) || action->shares) && command->value != NULL &&
            command->value->tags_bytes > 0);
}

void tags_run_companion(struct sim *sim, struct command *command)
{
    if (command->action.kind != CORE_ACQUIRE)
        command->kept = keep(sim, command);
    else
        command->clock = read_clock(sim);
}

struct tags_clock tags_born(const struct sim *sim, const struct core_action *action)
{
    const struct stored_clock *clock = &sim->redis.tags.clock;
    bool late = sim->mutant == MUTANT_CLOCK_LATE && is_there(sim, clock);
    return late ? clock->clock : action->born;
}

static struct tags_epochs epochs_in(const struct sim *sim, const struct stored_tags *tags, uint32_t key)
{
    struct tags_epochs epochs = {.answered = true};
    for (uint32_t tag = 0; tag < SIM_TAGS; tag++) {
        const struct stored_clock *epoch = &tags->epoch[tag];
        bool lost = tags_has(key, tag) && !is_there(sim, epoch);
        if (tags_has(key, tag) && !(lost && sim->mutant == MUTANT_EPOCH_LOST_GOOD))
            epochs.of[epochs.count++] = lost ? (struct tags_clock){0, 0} : epoch->clock;
    }
    return epochs;
}

struct tags_epochs tags_ask(const struct sim *sim, uint32_t key)
{
    return epochs_in(sim, &sim->redis.tags, key);
}

struct tags_epochs tags_ask_at(struct sim *sim, uint32_t key, bool at_former)
{
    if (!at_former)
        return tags_ask(sim, key);
    if (sim->mutant == MUTANT_EPOCHS_UNFENCED || redis_former_serves(sim, shard_of_tags(sim)))
        return epochs_in(sim, &sim->redis.tags_former, key);
    sim->seen[SEEN_FENCED]++;
    return (struct tags_epochs){.answered = false};
}

enum tags_verdict tags_verdict_of(const struct sim *sim, const struct stored_value *value,
                                  const struct tags_epochs *epochs)
{
    size_t count = tags_count(tags_of_key(sim, value->key), strlen(tags_of_key(sim, value->key)));
    if (sim->mutant == MUTANT_EPOCH_LOST_GOOD)
        count = epochs->count;
    if (sim->mutant == MUTANT_TAGS_BLIND)
        return TAGS_GOOD;
    return tags_judge(epochs, count, &value->born);
}

bool tags_good_now(const struct sim *sim, uint32_t key)
{
    const struct stored_value *value = &sim->redis.slot[key].value;
    const struct tags_epochs epochs = tags_ask(sim, key);
    return !value->tagged || tags_verdict_of(sim, value, &epochs) == TAGS_GOOD;
}
