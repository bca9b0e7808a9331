/* SPDX-License-Identifier: MIT */
/* chaos.c - see chaos.h. */
#include "tests/chaos/chaos.h"

#include "tests/chaos/check.h"
#include "tests/chaos/crowd.h"
#include "tests/chaos/loads.h"
#include "tests/chaos/nemesis.h"
#include "tests/chaos/scene.h"
#include "tests/chaos/soak.h"
#include "tests/chaos/stall.h"

#include "load/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEAL_LIMIT_MS = 30000,
    QUIET_LIMIT_MS = 30000,
    /* the last load that a fault met has ended, and its failure is forgotten */
    SETTLE_MS = SCENE_LOAD_LIMIT_MS + SCENE_FAILURE_MS + 300,
    CALM_MS = 2500, /* most of the loads in it have no fault for an excuse */
    COLD_KEYS = 12, /* of a round */
    COLD_REQUESTS = 40,
    STATUS_MAX = 600,
    UNJUDGED_MAX = 8, /* rounds in a row; on a crowded machine every fifth calm has a stall */
};

struct totals {
    uint64_t gets, edits, confirmed, unconfirmed, loads, overlapping, allowed, kept, kept_old;
    uint32_t statuses[STATUS_MAX], outcomes[HTTP_BAD + 1], faults[FAULT_KINDS];
    uint32_t violations[CHECK_KINDS];
    uint64_t stalls;
    uint32_t most_at_a_time, rounds, heal_most_ms, longest_stall_ms, allowed_late_ms;
};

struct chaos {
    const struct chaos_options *options;
    struct scene scene;
    struct soak *soak; /* NULL: none */
    struct totals totals;
    struct nemesis_plan plan;
    uint64_t confirmed[SCENE_KEYS + SCENE_PAGES + 1]; /* versions, by key, from the rounds before */
    uint32_t next_cold;
    uint32_t unjudged; /* rounds, the last ones in a row */
};

void chaos_options_init(struct chaos_options *options, bool soak)
{
    *options = (struct chaos_options){
        .seed = 1,
        .seconds = 60,
        .storm_ms = soak ? 40000 : 9000,
        .gap_ms = soak ? 1500 : 250,
        .client_count = soak ? 12 : 24,
        .writer_count = soak ? 2 : 4,
        .client_pause_ms = soak ? 10 : 4,
        .writer_pause_ms = soak ? 100 : 50,
        .soak = soak,
        .keep_in = "build",
        .out = stdout,
    };
}

/* ---- one round ---- */

static bool idle(void *context)
{
    struct chaos *chaos = context;
    if (chaos->soak != NULL)
        soak_sample(chaos->soak, &chaos->scene);
    return scene_all_alive(&chaos->scene);
}

/* What holds from before: as an edit and an invalidation before all others. The row's version is asked of
 * PostgreSQL, for edits of unknown fate may have moved it. */
static bool carry_over(struct chaos *chaos, struct history *history)
{
    for (uint32_t key = 1; key <= scene_key_count(&chaos->scene); key++) {
        uint64_t version = scene_version(&chaos->scene, key);
        if (version == 0)
            return false;
        if (version > 1)
            history_add_edit(history,
                             &(struct history_edit){.key = key, .committed = true, .version = version});
        if (chaos->confirmed[key] > 0)
            history_add_invalidation(history,
                                     &(struct history_invalidation){
                                         .key = key, .confirmed = true, .version = chaos->confirmed[key]});
    }
    return true;
}

static bool pause_and_watch(struct chaos *chaos, uint32_t pause_ms)
{
    uint64_t end_us = clock_after_ms(pause_ms);
    while (clock_us() < end_us) {
        if (!idle(chaos))
            return false;
        clock_pause_ms(20);
    }
    return true;
}

static bool heal(struct chaos *chaos, struct history *history)
{
    uint64_t begin_us = clock_us();
    if (!scene_wait_healthy(&chaos->scene, HEAL_LIMIT_MS))
        return false;
    uint32_t took_ms = (uint32_t)((clock_us() - begin_us) / 1000);
    if (took_ms > chaos->totals.heal_most_ms)
        chaos->totals.heal_most_ms = took_ms;
    uint64_t settle_us = clock_us();
    if (!pause_and_watch(chaos, SETTLE_MS) || !scene_wait_healthy(&chaos->scene, HEAL_LIMIT_MS))
        return false; /* again, for we may have stood still meanwhile */
    history->settle_us = settle_us;
    history->calm_us = clock_us();
    return pause_and_watch(chaos, CALM_MS);
}

static bool storm(struct chaos *chaos, struct history *history)
{
    const struct chaos_options *options = chaos->options;
    const uint64_t seed = options->seed * 1000 + chaos->totals.rounds;
    struct crowd *crowd = NULL;
    struct stall *stall = NULL;
    const struct crowd_options crowd_options = {
        .scene = &chaos->scene,
        .history = history,
        .seed = seed,
        .client_count = options->client_count,
        .writer_count = options->writer_count,
        .client_pause_ms = options->client_pause_ms,
        .writer_pause_ms = options->writer_pause_ms,
    };
    nemesis_plan(&(struct nemesis_options){.seed = seed,
                                           .span_ms = options->storm_ms,
                                           .gap_ms = options->gap_ms,
                                           .topology = chaos->scene.options.topology,
                                           .first_mortal = options->soak ? SOAK_PROCESSES : 0},
                 &chaos->plan);
    if (!stall_begin(history, &stall) || !crowd_open(&crowd_options, &crowd)) {
        stall_end(&stall);
        return false;
    }
    bool good = nemesis_run(&chaos->plan, options->storm_ms, &chaos->scene, history, idle, chaos) &&
                heal(chaos, history);
    crowd_close(&crowd);
    stall_end(&stall);
    return scene_wait_quiet(&chaos->scene, QUIET_LIMIT_MS) && good;
}

/* ---- cold keys ---- */

static uint32_t loads_of(const struct history *history, uint32_t key)
{
    uint32_t count = 0;
    for (size_t i = 0; i < history->loads.count; i++)
        count += history->loads.items[i].key == key;
    return count;
}

/* After all that: forty requests on each of a dozen keys that nobody has asked for, one load each; one in each
 * process if they could not hear of each other because we stood still. */
static bool ask_cold(struct chaos *chaos)
{
    struct history history;
    struct stall *stall = NULL;
    uint64_t mark = stack_postgres_mark(&chaos->scene.postgres);
    uint32_t first = chaos->next_cold;
    if (first + COLD_KEYS > SCENE_PRODUCTS)
        chaos->next_cold = first = SCENE_KEYS + 1; /* so long ago that they are cold again */
    chaos->next_cold += COLD_KEYS;
    history_init(&history);
    bool good = stall_begin(&history, &stall);
    for (uint32_t i = 0; i < COLD_KEYS; i++)
        good = scene_burst(&chaos->scene, first + i, COLD_REQUESTS) >= 0 && good;
    stall_end(&stall);
    const uint32_t most = history.stalls.count > 0 ? SCENE_PROCESSES : 1;
    good =
        loads_read(&history, chaos->scene.postgres.log_path, mark, chaos->scene.epoch_us, clock_us()) && good;
    for (uint32_t i = 0; i < COLD_KEYS; i++) {
        uint32_t loads = loads_of(&history, first + i);
        if (loads >= 1 && loads <= most)
            continue;
        fprintf(stderr, "chaos: cold key %" PRIu32 ": %" PRIu32 " loads\n", first + i, loads);
        good = false;
    }
    history_clear(&history);
    return good;
}

/* ---- verdicts ---- */

static void add_up(struct totals *totals, const struct history *history, const struct check_report *report)
{
    totals->gets += history->gets.count;
    totals->edits += history->edits.count;
    totals->loads += history->loads.count;
    totals->overlapping += report->overlapping;
    totals->allowed += report->allowed;
    totals->kept += report->kept;
    totals->kept_old += report->kept_old;
    if (report->allowed_late_ms > totals->allowed_late_ms)
        totals->allowed_late_ms = report->allowed_late_ms;
    if (report->most_at_a_time > totals->most_at_a_time)
        totals->most_at_a_time = report->most_at_a_time;
    for (size_t i = 0; i < history->gets.count; i++) {
        const struct history_get *get = &history->gets.items[i];
        totals->outcomes[get->outcome]++;
        totals->statuses[get->status < STATUS_MAX ? get->status : 0] += get->outcome == HTTP_ANSWERED;
    }
    for (size_t i = 0; i < history->invalidations.count; i++) {
        totals->confirmed += history->invalidations.items[i].confirmed;
        totals->unconfirmed += !history->invalidations.items[i].confirmed;
    }
    for (size_t i = 0; i < history->faults.count; i++)
        totals->faults[history->faults.items[i].kind]++;
    totals->stalls += history->stalls.count;
    for (size_t i = 0; i < history->stalls.count; i++) {
        const struct history_stall *stall = &history->stalls.items[i];
        uint32_t took_ms = (uint32_t)((stall->end_us - stall->begin_us) / 1000);
        totals->longest_stall_ms = took_ms > totals->longest_stall_ms ? took_ms : totals->longest_stall_ms;
    }
    for (size_t i = 0; i < CHECK_KINDS; i++)
        totals->violations[i] += report->violations[i];
}

static void print_report(const struct check_report *report, FILE *out)
{
    uint32_t shown = report->violation_count < CHECK_TEXTS ? report->violation_count : CHECK_TEXTS;
    for (uint32_t i = 0; i < shown; i++)
        fprintf(out, "  %s\n", report->texts[i]);
    if (report->violation_count > shown)
        fprintf(out, "  and %" PRIu32 " more\n", report->violation_count - shown);
}

static void keep(const struct chaos *chaos, const struct history *history)
{
    char path[256];
    mkdir(chaos->options->keep_in, 0755);
    snprintf(path, sizeof path, "%s/chaos-%" PRIu64 "-round-%" PRIu32 ".history", chaos->options->keep_in,
             chaos->options->seed, chaos->totals.rounds);
    if (history_write(history, path))
        fprintf(chaos->options->out, "  the history is kept: %s\n", path);
    else
        perror(path);
}

/* Half of the answers in the calm were held to its rule. */
static bool is_judged(const struct check_report *report)
{
    return report->judged_calm > 0 && report->judged_calm >= report->answered_in_calm / 2;
}

/* False: too often; the machine is too slow to show anything. */
static bool count_unjudged(struct chaos *chaos, const struct check_report *report)
{
    FILE *out = chaos->options->out;
    chaos->unjudged = is_judged(report) ? 0 : chaos->unjudged + 1;
    if (chaos->unjudged == 0)
        return true;
    fprintf(out, "  only %" PRIu32 " of %" PRIu32 " answers in the calm met no stall: %s\n",
            report->judged_calm, report->answered_in_calm,
            chaos->unjudged < UNJUDGED_MAX ? "the round is repeated" : "this machine stands still too often");
    return chaos->unjudged < UNJUDGED_MAX;
}

static bool judge(struct chaos *chaos, struct history *history, bool ran)
{
    struct check_report report;
    bool kept = check_history(history, &scene_rules, &report);
    add_up(&chaos->totals, history, &report);
    for (uint32_t key = 1; key <= scene_key_count(&chaos->scene); key++) {
        uint64_t version = check_confirmed(history, key);
        if (version > chaos->confirmed[key])
            chaos->confirmed[key] = version;
    }
    fprintf(chaos->options->out, "round %" PRIu32 ": %zu faults, %zu stalls, %zu requests, %zu loads: %s\n",
            chaos->totals.rounds, history->faults.count, history->stalls.count, history->gets.count,
            history->loads.count, kept && ran ? "kept" : "BROKEN");
    fflush(chaos->options->out);
    if (kept && ran)
        return count_unjudged(chaos, &report);
    scene_show_logs(&chaos->scene);
    print_report(&report, chaos->options->out);
    keep(chaos, history);
    return false;
}

/* PostgreSQL appends to its log, so it may be cut while nothing runs; an hour's would fill the disk. */
static void cut_log(struct chaos *chaos)
{
    if (truncate(chaos->scene.postgres.log_path, 0) != 0)
        perror(chaos->scene.postgres.log_path);
}

static bool run_round(struct chaos *chaos)
{
    struct history history;
    history_init(&history);
    uint64_t mark = stack_postgres_mark(&chaos->scene.postgres);
    bool ran = carry_over(chaos, &history) && storm(chaos, &history);
    ran =
        loads_read(&history, chaos->scene.postgres.log_path, mark, chaos->scene.epoch_us, clock_us()) && ran;
    ran = ran && ask_cold(chaos);
    bool good = judge(chaos, &history, ran);
    history_clear(&history);
    cut_log(chaos);
    chaos->totals.rounds++;
    return good;
}

static void print_totals(const struct chaos *chaos)
{
    static const char *const outcomes[] = {"answered", "refused", "reset", "left", "not HTTP"};
    const struct totals *totals = &chaos->totals;
    FILE *out = chaos->options->out;
    fprintf(out, "faults  ");
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        fprintf(out, " %s %" PRIu32 "%s", fault_trait((enum fault_kind)kind)->name, totals->faults[kind],
                kind % 5 == 4 && kind + 1 < FAULT_KINDS ? "\n        " : "");
    fprintf(out,
            "\nproxy    commands run late on %" PRIu64 " connections, replies cut on %" PRIu64
            ", bytes lost on %" PRIu64 "\n",
            proxy_hits(chaos->scene.proxy, PROXY_LATE), proxy_hits(chaos->scene.proxy, PROXY_CUT),
            proxy_hits(chaos->scene.proxy, PROXY_DROP));
    fprintf(out, "stalls   %" PRIu64 " of this machine, the longest %" PRIu32 " ms\n", totals->stalls,
            totals->longest_stall_ms);
    fprintf(out, "requests %" PRIu64 ":", totals->gets);
    for (int status = 1; status < STATUS_MAX; status++) {
        if (totals->statuses[status] > 0)
            fprintf(out, " %d %" PRIu32, status, totals->statuses[status]);
    }
    for (int outcome = 1; outcome <= HTTP_BAD; outcome++) {
        if (totals->outcomes[outcome] > 0)
            fprintf(out, " %s %" PRIu32, outcomes[outcome], totals->outcomes[outcome]);
    }
    fprintf(out, "\nwrites   %" PRIu64 ", invalidations confirmed %" PRIu64 ", not confirmed %" PRIu64 "\n",
            totals->edits, totals->confirmed, totals->unconfirmed);
    if (chaos->scene.options.topology != FAULT_ONE_REDIS)
        fprintf(out,
                "stale    %" PRIu64 " within what a lost master is allowed, the last begun %" PRIu32
                " ms after the other one was there\n",
                totals->allowed, totals->allowed_late_ms);
    fprintf(out,
            "kept     %" PRIu64 " answers while Redis was away, %" PRIu64
            " of them without what another process had changed\n",
            totals->kept, totals->kept_old);
    fprintf(out,
            "loads    %" PRIu64 ", %" PRIu64 " beside another of their key, at most %" PRIu32 " at a time\n",
            totals->loads, totals->overlapping, totals->most_at_a_time);
    fprintf(out, "healthy  at most %" PRIu32 " ms after the last fault\n", totals->heal_most_ms);
}

static bool run_rounds(struct chaos *chaos)
{
    uint64_t end_us = clock_us() + (uint64_t)chaos->options->seconds * 1000000;
    uint64_t round_us = (uint64_t)chaos->options->storm_ms * 1000;
    bool good = true;
    do
        good = run_round(chaos);
    while (good && (chaos->unjudged > 0 || clock_us() + round_us <= end_us));
    print_totals(chaos);
    if (chaos->soak != NULL)
        good = soak_judge(chaos->soak, chaos->options->out) && good;
    return good;
}

bool chaos_run(const struct chaos_options *options)
{
    struct chaos *chaos = calloc(1, sizeof *chaos);
    if (chaos == NULL)
        return false;
    chaos->options = options;
    chaos->next_cold = SCENE_KEYS + 1;
    fprintf(options->out, "chaos: seed %" PRIu64 ", %" PRIu32 " s, %d processes\n", options->seed,
            options->seconds, SCENE_PROCESSES);
    bool good = scene_open(&chaos->scene,
                           &(struct scene_options){.seed = options->seed, .topology = options->topology}) &&
                (!options->soak || (scene_ask_for_all(&chaos->scene) && soak_open(&chaos->soak))) &&
                run_rounds(chaos);
    soak_close(&chaos->soak);
    good = scene_close(&chaos->scene) && good;
    fprintf(options->out, "verdict  seed %" PRIu64 ": %s\n", options->seed,
            good ? "every promise kept" : "BROKEN");
    free(chaos);
    return good;
}

bool chaos_check(const char *path, FILE *out)
{
    struct history history;
    struct check_report report = {.violation_count = 0};
    history_init(&history);
    bool good = history_read(&history, path);
    if (!good)
        perror(path);
    good = good && check_history(&history, &scene_rules, &report);
    print_report(&report, out);
    fprintf(out, "%s\n", good ? "every promise kept" : "BROKEN");
    history_clear(&history);
    return good;
}
