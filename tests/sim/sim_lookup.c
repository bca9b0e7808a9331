/* SPDX-License-Identifier: MIT */
/*
 * sim_lookup.c - the lookup on a server loop, as guard/run/lookup.c makes it: PTTL and GETEX in one write, over a
 * connection that is not the core's. A request that finds no hit goes on to the core.
 *
 * Every lookup is on its own here: two of one key may be answered in the other order, as on two loops.
 */
#include "guard/base/load_id.h"
#include "guard/core/keep.h"
#include "guard/wire/envelope.h"
#include "sim.h"
#include <stdio.h>
#include <string.h>

static void at_process(struct sim *sim, uint32_t index, uint64_t at_us, enum event_kind kind)
{
    const struct request *request = &sim->request[index];
    sim_at(
        sim, at_us,
        (struct event){.kind = kind, .process = request->process, .life = request->life, .subject = index});
}

/* Its reply, or the end of its time. */
static void answer_at(struct sim *sim, uint32_t index, uint64_t at_us, bool answered)
{
    uint64_t limit_us = sim->lookup[index].sent_us + (uint64_t)sim->params.redis_limit_ms * 1000;
    at_us = outage_back_us(&sim->process[sim->request[index].process], at_us);
    bool in_time = answered && at_us < limit_us;
    at_process(sim, index, in_time ? at_us : limit_us, in_time ? EVENT_LOOKUP_REPLY : EVENT_LOOKUP_LIMIT);
}

bool lookup_is_cut_off(const struct sim *sim, const struct process *process, const struct request *request)
{
    uint32_t shard = process->map[request->key];
    return !process->link[shard].up || (sim->params.tagged && !process->link[shard_of_tags(sim)].up);
}

bool lookup_send(struct sim *sim, struct process *process, uint32_t index)
{
    struct request *request = &sim->request[index];
    struct lookup_model *lookup = &sim->lookup[index];
    struct core_key key = process_key(request->key);
    uint32_t shard = process->map[request->key];
    if (lookup_is_cut_off(sim, process, request) ||
        request->deadline_us - request->start_us < (uint64_t)sim->params.redis_limit_ms * 1000)
        return false;
    request->looking = true;
    process->looking++;
    *lookup = (struct lookup_model){
        .sent_us = sim->course.now_us, .shard = shard, .at_former = process->link[shard].loop_at_former};
    lookup->tags_at_former = sim->params.tagged && process->link[shard_of_tags(sim)].loop_at_former;
    lookup->near = near_look_up(process->near, key.encoded, key.encoded_bytes, process_now_us(process));
    sim_trace(sim, "p%u  look up k%u for #%u", process->index, request->key, index);
    if (sim->params.kept_ms > 0)
        at_process(sim, index, sim->course.now_us + (uint64_t)sim->params.redis_limit_ms * 500,
                   EVENT_LOOKUP_LATE);
    if (sim_fault(sim, FAULT_COMMAND_LOST, 60))
        answer_at(sim, index, 0, false);
    else
        sim_at(sim, sim->course.now_us + net_latency(sim),
               (struct event){.kind = EVENT_LOOKUP_PTTL, .subject = index});
    return true;
}

/* ---- at Redis ---- */

/* A lookup that is not answered ends its connection. */
static bool is_stopped(struct sim *sim, uint32_t index)
{
    const struct lookup_model *lookup = &sim->lookup[index];
    struct link_model *link = &sim->process[sim->request[index].process].link[lookup->shard];
    bool stopped = lookup->at_former && sim->redis.server[lookup->shard].former == FORMER_STOPPED;
    link->loop_at_former = link->loop_at_former && !stopped;
    return stopped;
}

static bool is_away(struct sim *sim, uint32_t index)
{
    const struct server_model *server = &sim->redis.server[sim->lookup[index].shard];
    const struct server_model *tags = sim->params.tagged ? &sim->redis.server[shard_of_tags(sim)] : server;
    bool away = server->hung || server->down || tags->hung || tags->down || is_stopped(sim, index) ||
                outage_is_cut(sim, &sim->process[sim->request[index].process]);
    if (away)
        answer_at(sim, index, 0, false);
    return away || !sim->request[index].looking;
}

/* True: both halves are asked again, at the master that has the key. */
static bool is_redirected(struct sim *sim, uint32_t index)
{
    enum { REDIRECTIONS = 5 };
    struct lookup_model *lookup = &sim->lookup[index];
    const struct request *request = &sim->request[index];
    uint32_t home = sim->redis.home[request->key];
    if (home == lookup->shard || lookup->at_former)
        return false;
    struct process *process = &sim->process[request->process];
    const struct link_model *link = &process->link[process->map[request->key] = home];
    lookup->shard = home;
    lookup->at_former = link->loop_at_former;
    sim->seen[SEEN_REDIRECTED]++;
    if (!link->up || ++lookup->redirections > REDIRECTIONS || sim_fault(sim, FAULT_COMMAND_LOST, 20))
        answer_at(sim, index, 0, false);
    else
        sim_at(sim, sim->course.now_us + 2 * net_latency(sim),
               (struct event){.kind = EVENT_LOOKUP_PTTL, .subject = index});
    return true;
}

/* At a former master what has expired there is not looked for. */
static const struct stored_value *entry_of(const struct sim *sim, uint32_t index)
{
    const struct slot *slots = sim->lookup[index].at_former ? sim->redis.former : sim->redis.slot;
    return &slots[sim->request[index].key].value;
}

void lookup_pttl(struct sim *sim, uint32_t index)
{
    enum { BETWEEN_US = 100 };
    uint32_t key = sim->request[index].key;
    if (is_away(sim, index) || is_redirected(sim, index))
        return;
    const struct stored_value *entry = entry_of(sim, index);
    redis_expire(sim, key);
    sim->lookup[index].pttl_ms = entry->there ? entry->expires_ms - redis_now_ms(sim) : -2;
    sim->lookup[index].asked = sim->params.tagged && sim_one_in(sim, 2);
    if (sim->lookup[index].asked)
        sim->lookup[index].epochs = tags_ask_at(sim, key, sim->lookup[index].tags_at_former);
    if (sim_one_in(sim, 4))
        sim_at(sim, sim->course.now_us + sim_between(sim, 0, BETWEEN_US),
               (struct event){.kind = EVENT_LOOKUP_GET, .subject = index});
    else
        lookup_get(sim, index);
}

/* A loop may be busy with others. */
static uint64_t reply_us(struct sim *sim)
{
    uint64_t half_us = (uint64_t)sim->params.redis_limit_ms * 500;
    bool busy = sim->params.near_ms > 0 && !sim->params.calm && sim_one_in(sim, 4);
    return net_latency(sim) + (busy ? sim_between(sim, 0, half_us) : 0);
}

/* An event that would make its answer one that must not be kept. */
static void disturb(struct sim *sim, uint32_t index)
{
    const struct request *request = &sim->request[index];
    sim_moment(sim, request->key, EVENT_WRITE);
    if (sim_fault(sim, FAULT_SUBSCRIPTION, 40))
        net_unsubscribe(sim, &sim->process[request->process]);
}

/* By a former master. */
static bool is_refused_there(const struct sim *sim, uint32_t shard)
{
    bool fenced = sim->redis.server[shard].former == FORMER_FENCED;
    bool by_get = sim->mutant == MUTANT_LOOKUP_UNFENCED || (fenced && sim->mutant == MUTANT_HITS_BY_GET);
    return !redis_former_serves(sim, shard) && !by_get;
}

void lookup_get(struct sim *sim, uint32_t index)
{
    struct lookup_model *lookup = &sim->lookup[index];
    uint32_t key = sim->request[index].key;
    if (is_away(sim, index) || is_redirected(sim, index))
        return;
    redis_expire(sim, key);
    lookup->entry = *entry_of(sim, index);
    lookup->refused = lookup->at_former && is_refused_there(sim, lookup->shard);
    sim->seen[SEEN_FENCED] += lookup->refused;
    if (!lookup->asked)
        lookup->epochs = tags_ask_at(sim, key, lookup->tags_at_former);
    lookup->epoch = sim->redis.server[lookup->shard].epoch;
    lookup->tags_epoch = sim->redis.server[shard_of_tags(sim)].epoch;
    if (sim->params.near_ms > 0)
        disturb(sim, index);
    const bool lost = sim_fault(sim, FAULT_REPLY_LOST, 60);
    answer_at(sim, index, sim->course.now_us + reply_us(sim), !lost);
}

/* ---- its answer ---- */

static bool is_over(struct process *process, struct request *request)
{
    bool over = !request->looking;
    process->looking -= !over;
    request->looking = false;
    return over;
}

static struct guard_result result_of(const struct lookup_model *lookup, bool is_stale)
{
    const struct stored_value *entry = &lookup->entry;
    return (struct guard_result){
        .status = entry->absent ? GUARD_ABSENT : GUARD_OK,
        .source = is_stale ? GUARD_FROM_STALE : GUARD_FROM_CACHE,
        .age_ms = (uint32_t)((int64_t)entry->px_ms - lookup->pttl_ms),
        .left_ms = is_stale ? 0 : (uint32_t)(lookup->pttl_ms - (int64_t)entry->stale_ms),
        .stored = true,
        .load = load_id_of_uuid(entry->filler),
    };
}

/* Its validator is the number of the lookup, which tells later where it comes from. An absent one has only its tags;
 * NULL if it has none. */
static struct value *value_of(const struct sim *sim, const struct stored_value *entry, uint32_t index)
{
    char validator[16];
    const char *tags = tags_of_key(sim, entry->key);
    if (entry->absent && entry->tagged)
        return value_new("", 0, "", 0, tags, strlen(tags));
    snprintf(validator, sizeof validator, "%u", index);
    return body_of_entry(sim, entry, validator);
}

static void refresh_behind(struct sim *sim, struct process *process, uint32_t key, const char *filler)
{
    const struct core_refresh refresh = {
        .key = process_key(key), .policy = keep_policy(sim, process->index), .filler = filler};
    core_refresh(process->core, process_now_us(process), &refresh);
}

/* As answer_entry() there. False: no hit. */
static bool answer_entry(struct sim *sim, struct process *process, uint32_t index)
{
    const struct lookup_model *lookup = &sim->lookup[index];
    const struct stored_value *entry = &lookup->entry;
    struct request *request = &sim->request[index];
    struct envelope envelope = {
        .absent = entry->absent || entry->mark, .px_ms = entry->px_ms, .stale_ms = entry->stale_ms};
    enum envelope_age age = envelope_judge(&envelope, lookup->pttl_ms, sim->redis.max_value_ms);
    if (age == ENVELOPE_DOUBTFUL)
        return false;
    bool is_stale = age == ENVELOPE_STALE;
    request->waiter.passes = entry->mark;
    sim->seen[SEEN_MARKS] += entry->mark;
    if (entry->mark)
        return false;
    struct value *value = value_of(sim, entry, index);
    struct guard_result result = result_of(lookup, is_stale);
    result.value = value != NULL && !entry->absent ? &value->public : NULL;
    sim_near_found(sim, process, request, value, &result);
    enum hit_verdict verdict = hit_judge(&sim->params.policy, keep_hit_age(entry, is_stale), entry->load_us,
                                         result.left_ms, &sim->course.chance);
    if (verdict == HIT_NONE) {
        value_unref(&value);
        return false;
    }
    sim->seen[SEEN_LOOKUPS]++;
    request->waiter.result = result;
    if (entry->absent)
        value_unref(&value);
    process_answered(sim, request);
    if (verdict != HIT_ANSWER)
        refresh_behind(sim, process, request->key, verdict == HIT_EARLY ? entry->filler : NULL);
    return true;
}

/* A fenced master is still one. */
static bool is_left_then(const struct sim *sim, uint32_t shard)
{
    return sim->redis.server[shard].former != FORMER_FENCED;
}

void lookup_reply(struct sim *sim, struct process *process, uint32_t index)
{
    struct request *request = &sim->request[index];
    const struct lookup_model *lookup = &sim->lookup[index];
    const struct stored_value *entry = &lookup->entry;
    if (is_over(process, request))
        return;
    uint32_t shard = lookup->shard, tags_shard = shard_of_tags(sim);
    bool answered = lookup->epoch == sim->redis.server[shard].epoch &&
                    (!sim->params.tagged || lookup->tags_epoch == sim->redis.server[tags_shard].epoch);
    bool former_spoke = lookup->at_former && lookup->refused && is_left_then(sim, shard);
    bool tags_unanswered =
        lookup->tags_at_former && !lookup->epochs.answered && is_left_then(sim, tags_shard);
    process->link[shard].loop_at_former = process->link[shard].loop_at_former && !former_spoke;
    process->link[tags_shard].loop_at_former = process->link[tags_shard].loop_at_former && !tags_unanswered;
    bool of_use = keep_is_of_use(sim, process->index, entry);
    bool sound = !lookup->refused && entry->there && !entry->damaged && entry->key == request->key && of_use;
    sim->seen[entry->meta ? SEEN_FOREIGN : SEEN_LACKING] += entry->there && !of_use;
    enum tags_verdict verdict =
        sound && entry->tagged ? tags_verdict_of(sim, entry, &lookup->epochs) : TAGS_GOOD;
    bool outdated = verdict == TAGS_OUTDATED;
    answered = answered && verdict != TAGS_UNANSWERED;
    request->waiter.lookup_unanswered = !answered;
    request->waiter.lookup_answered = answered && !lookup->refused;
    if (request->waiter.lookup_answered)
        outage_told(sim, process, request->key);
    if (answered && outdated)
        memcpy(request->waiter.refused, entry->filler, sizeof entry->filler);
    if (answered && sound && !outdated && lookup->pttl_ms > 0 && answer_entry(sim, process, index))
        process_drain(sim, process);
    else
        process_enter(sim, process, index);
}

void lookup_limit(struct sim *sim, struct process *process, uint32_t index)
{
    struct request *request = &sim->request[index];
    if (is_over(process, request))
        return;
    request->waiter.lookup_unanswered = true;
    process_enter(sim, process, index);
}

/* What is kept does not wait for all of it. */
void lookup_late(struct sim *sim, struct process *process, uint32_t index)
{
    struct request *request = &sim->request[index];
    if (request->looking && outage_answers(sim, process, request))
        is_over(process, request);
}

void lookup_end(struct sim *sim, struct request *request, enum guard_status status)
{
    is_over(&sim->process[request->process], request);
    request->waiter.result = (struct guard_result){.status = status};
    process_answered(sim, request);
    process_drain(sim, &sim->process[request->process]);
}

void lookup_end_all(struct sim *sim, struct process *process)
{
    for (uint32_t i = 0; i < sim->requests && process->looking > 0; i++)
        if (sim->request[i].life == process->life && sim->request[i].looking)
            lookup_end(sim, &sim->request[i], GUARD_CLOSING);
}
