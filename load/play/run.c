/* SPDX-License-Identifier: MIT */
/* run.c - see run.h. */
#include "load/play/run.h"

#include "load/base/clock.h"
#include "load/base/interrupt.h"
#include "load/base/progress.h"
#include "load/herd/burst.h"
#include "load/herd/herd.h"
#include "load/herd/tls.h"
#include "load/play/cold.h"
#include "load/play/scenario.h"
#include "load/play/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TICK_MS = 2,
    SHOW_EVERY_MS = 100,
    ABORT_LIMIT_MS = 5000,  /* for the herd, after it was told to stop */
    QUIET_LIMIT_MS = 35000, /* commands end themselves before */
    FRESH_MS = 60000,       /* the service's own settings, where a stack does not tell others */
    JITTER_PERCENT = 10
};

_Static_assert((int)SCENARIO_WHY_BYTES >= WORK_WHY_BYTES && (int)SCENARIO_WHY_BYTES >= WITNESS_WHY_BYTES,
               "any reason fits");

/* What a run has in hand. */
struct run {
    struct servers *servers;
    const struct scenario *scenario;
    const char *variant, *name;
    char *why;               /* the caller's, of SCENARIO_WHY_BYTES */
    struct work *work;       /* owned: the scenario's, with targets */
    struct witness *witness; /* owned; NULL: none */
    struct herd *herd;       /* owned until herd_end() */
    struct writer *writers[SCENARIO_WRITES_MAX];
    struct timeline *timeline;            /* owned */
    uint64_t shown_us, shown_count, rate; /* when the rate was last taken, over how many answers; a second */
    uint64_t begin_us, end_us;
    time_t wall_s;

    struct records records; /* owned, like what follows */
    struct herd_strain strain;
    struct witness_view view;
    bool has_view, counts_loads;
    struct result_write *writes;
    size_t write_count, writes_failed;
    char write_why[SCENARIO_WHY_BYTES];
    struct backlog backlog;
    char connecting[BACKLOG_TEXT_BYTES];
    char herd_note[WORK_WHY_BYTES];
    bool is_partial, has_failed; /* has_failed: a round could not be prepared */
    struct cold cold;
};

/* The run in one line, which is the one that stays if `tell` says so. The barrier is named a few milliseconds before
 * it comes. */
static void show(struct run *run, const struct herd_progress *progress, uint64_t loads,
                 void (*tell)(const char *text))
{
    char text[SCENARIO_WHY_BYTES], counted[48] = "";
    uint64_t now_us = clock_us(), at_us = now_us > run->begin_us ? now_us - run->begin_us : 0;
    if (at_us >= run->shown_us + 1000000) {
        run->rate = (progress->answered - run->shown_count) * 1000000 / (at_us - run->shown_us);
        run->shown_us = at_us;
        run->shown_count = progress->answered;
    }
    if (run->counts_loads)
        snprintf(counted, sizeof counted, "  loads %" PRIu64, loads);
    snprintf(text, sizeof text,
             "  %5.1f s  due %" PRIu64 "  answered %" PRIu64 " (%" PRIu64 "/s)  failed %" PRIu64
             "  5xx %" PRIu64 "%s",
             (double)at_us / 1e6, progress->due, progress->answered, run->rate, progress->failed,
             progress->errors_5xx, counted);
    tell(text);
}

/* ---- beginning ---- */

static bool open_witness(struct run *run)
{
    struct witness_options options;
    if (!servers_witness(run->servers, &options))
        return true;
    run->counts_loads = options.way != WITNESS_NONE;
    return witness_open(&options, &run->witness, run->why);
}

/* ---- what is to be in the cache before: requested once each ---- */

enum { BATCH = 500, WARM_CONNECT_MS = 10000, WARM_REQUEST_MS = 60000 };

struct warming {
    const struct work *work;
    const struct work_url *url;
    uint32_t first; /* key of the batch's first request */
    const struct work_target *targets[WORK_TARGETS_MAX];
    size_t target_count;
};

static void path_of(void *context, uint32_t index, char *path)
{
    const struct warming *warming = context;
    work_path(warming->url, warming->first + index, path);
}

static bool ask_batch(struct warming *warming, uint32_t count, char *why)
{
    struct burst *burst = NULL;
    struct burst_summary summary;
    const struct burst_options options = {.whole_targets = warming->targets,
                                          .target_count = warming->target_count,
                                          .ca_file = warming->work->ca_file,
                                          .is_insecure = warming->work->is_insecure,
                                          .connection_count = count,
                                          .connect_limit_ms = WARM_CONNECT_MS,
                                          .request_limit_ms = WARM_REQUEST_MS,
                                          .path_of = path_of,
                                          .path_context = warming};
    if (!burst_open(&options, &burst)) {
        snprintf(why, WORK_WHY_BYTES, "warm %.100s: the target does not take connections",
                 warming->url->path);
        return false;
    }
    bool ran = burst_run(burst);
    burst_summarise(burst, &summary);
    burst_close(&burst);
    uint32_t good = 0;
    for (size_t status = 100; status < 500; status++)
        good += summary.statuses[status];
    if (ran && good == count)
        return true;
    snprintf(why, WORK_WHY_BYTES, "warm %.100s: %u of %u requests got no answer below 500",
             warming->url->path, (unsigned)(count - good), (unsigned)count);
    return false;
}

static bool warm_url(const struct work_url *url, const struct work *work, const struct work *owner, char *why)
{
    struct warming warming = {.work = work, .url = url};
    uint64_t count = url->keys == WORK_EACH ? (uint64_t)url->last - url->first + 1 : 1;
    for (size_t i = 0; i < owner->target_count; i++) {
        if (url->target < 0 || (size_t)url->target == i)
            warming.targets[warming.target_count++] = &owner->targets[i];
    }
    for (uint64_t done = 0; done < count; done += BATCH) {
        warming.first = url->first + (uint32_t)done;
        if (!ask_batch(&warming, (uint32_t)(count - done < BATCH ? count - done : BATCH), why))
            return false;
    }
    return true;
}

/* The URLs of `warm`, of the targets of `work` in turn; {each:...} is asked for each of its keys. */
static bool warm_up(const struct work *warm, const struct work *work, char why[static WORK_WHY_BYTES])
{
    for (size_t i = 0; i < warm->url_count; i++) {
        bool is_absolute = warm->urls[i].target >= 0; /* then it has targets of its own */
        const struct work *owner = is_absolute ? warm : work;
        if (!warm_url(&warm->urls[i], work, owner, why))
            return false;
    }
    return true;
}

static bool warm(struct run *run)
{
    if (run->scenario->warm.url_count == 0)
        return true;
    progress_step("warming up");
    return progress_done(warm_up(&run->scenario->warm, run->work, run->why));
}

/* Until Ctrl-C at the latest; herd_release() reports connections that are never ready. */
static void wait_connected(const struct run *run)
{
    struct herd_progress progress = {.connected = false};
    uint64_t end_us = clock_after_ms(run->work->connect_limit_ms);
    while (!progress.connected && !interrupt_seen() && clock_us() < end_us) {
        herd_watch(run->herd, &progress);
        clock_pause_ms(TICK_MS);
    }
}

/* All clients are connected before anything that expires is warmed up: a TTL does not wait. */
static bool prepare(struct run *run)
{
    backlog_look(run->work, &run->backlog);
    if (!open_witness(run) || !herd_start(run->work, &run->herd, run->why))
        return false;
    snprintf(run->herd_note, sizeof run->herd_note, "%s", herd_note(run->herd));
    if (run->herd_note[0] != '\0')
        progress_note(run->herd_note);
    if (run->scenario->script != NULL)
        progress_note(run->scenario->replay_note);
    wait_connected(run);
    return interrupt_seen() || warm(run);
}

/* False: the next round cannot be prepared. */
static bool hold_round(struct run *run, uint64_t due_us)
{
    uint64_t instant_us;
    enum cold_state state = due_us != 0 ? cold_look(&run->cold, due_us, &instant_us, run->why) : COLD_WAITING;
    if (state == COLD_READY)
        herd_next(run->herd, instant_us);
    return state != COLD_FAILED;
}

/* The first round, that a release begins. */
static bool hold_release(struct run *run)
{
    uint64_t instant_us = 0;
    enum cold_state state = COLD_WAITING;
    if (!run->work->holds_rounds)
        return true;
    while (state == COLD_WAITING && !interrupt_seen()) {
        state = cold_look(&run->cold, 1, &instant_us, run->why);
        clock_pause_ms(state == COLD_WAITING ? TICK_MS : 0);
    }
    herd_next(run->herd, instant_us);
    return state != COLD_FAILED;
}

static bool release(struct run *run)
{
    if (run->witness != NULL && !witness_begin(run->witness, run->why))
        return false;
    run->wall_s = time(NULL);
    if (!hold_release(run) || !herd_release(run->herd, &run->begin_us, run->why))
        return false;
    for (size_t i = 0; i < run->scenario->write_count; i++) {
        run->writers[i] = writer_begin(run->servers, &run->scenario->writes[i]);
        if (run->writers[i] == NULL) {
            snprintf(run->why, SCENARIO_WHY_BYTES, "a writer could not be started");
            return false;
        }
    }
    timeline_begin(run->timeline, run->scenario, run->servers, run->begin_us);
    return true;
}

/* ---- while it runs ---- */

/* The log grows with every statement; it is read often only while an event waits for a load. */
static uint64_t count_loads(const struct run *run, uint64_t known, uint64_t now_us, uint64_t show_at_us)
{
    if (run->witness == NULL || (!timeline_waits_for_load(run->timeline) && now_us < show_at_us))
        return known;
    return witness_loads_now(run->witness);
}

static void watch(struct run *run)
{
    struct herd_progress progress = {.finished = false};
    uint64_t show_at_us = 0, give_up_us = UINT64_MAX, loads = 0;
    while (!progress.finished && clock_us() < give_up_us) {
        uint64_t now_us = clock_us();
        herd_watch(run->herd, &progress);
        loads = count_loads(run, loads, now_us, show_at_us);
        if (!run->is_partial)
            timeline_tick(run->timeline, loads);
        if (now_us >= show_at_us) {
            show(run, &progress, loads, progress_run);
            show_at_us = now_us + (uint64_t)SHOW_EVERY_MS * 1000;
        }
        if (run->work->holds_rounds && !run->is_partial)
            run->has_failed = !hold_round(run, herd_due_us(run->herd));
        if ((interrupt_seen() || run->has_failed) && !run->is_partial) {
            run->is_partial = true;
            herd_abort(run->herd);
            give_up_us = now_us + (uint64_t)ABORT_LIMIT_MS * 1000;
        }
        clock_pause_ms(TICK_MS);
    }
    run->end_us = clock_us();
    show(run, &progress, loads, progress_run_end);
}

/* ---- ending ---- */

static void add_writes(struct run *run, struct result_write *writes, size_t count)
{
    struct result_write *all = realloc(run->writes, (run->write_count + count + 1) * sizeof *all);
    if (all != NULL) {
        if (count > 0)
            memcpy(all + run->write_count, writes, count * sizeof *all);
        run->writes = all;
        run->write_count += count;
    }
    free(writes);
}

static void end_writers(struct run *run)
{
    for (size_t i = 0; i < SCENARIO_WRITES_MAX; i++) {
        struct result_write *writes;
        size_t count, failed;
        char why[SCENARIO_WHY_BYTES];
        if (run->writers[i] == NULL)
            continue;
        writer_end(&run->writers[i], &writes, &count, &failed, why);
        add_writes(run, writes, count);
        if (run->writes_failed == 0 && failed > 0)
            memcpy(run->write_why, why, sizeof run->write_why);
        run->writes_failed += failed;
    }
}

static void wait_for_commands(struct run *run)
{
    uint64_t end_us = clock_after_ms(QUIET_LIMIT_MS);
    while (!timeline_is_quiet(run->timeline) && !interrupt_seen() && clock_us() < end_us)
        clock_pause_ms(TICK_MS);
    timeline_end(run->timeline);
}

/* False: a generator or the witness failed; what there is stays. */
static bool collect(struct run *run)
{
    char why[SCENARIO_WHY_BYTES];
    end_writers(run);
    bool good = herd_end(&run->herd, &run->records, &run->strain, run->why);
    backlog_judge(&run->backlog, run->work, &run->records, run->connecting);
    wait_for_commands(run);
    if (run->witness == NULL)
        return good;
    run->has_view = witness_end(run->witness, &run->view, good ? run->why : why);
    if (run->has_view && run->herd_note[0] != '\0')
        witness_note(&run->view, "%s", run->herd_note);
    return good && run->has_view;
}

/* ---- the result ---- */

static void find_ttl(const struct run *run, uint32_t *ttl_ms, uint32_t *jitter_percent)
{
    const struct scenario *scenario = run->scenario;
    *ttl_ms = scenario->ttl_ms;
    *jitter_percent = scenario->jitter_percent;
    if (scenario->has_ttl || scenario->process_count == 0)
        return;
    *ttl_ms = scenario_number(scenario, run->variant, "FRESH_MS", FRESH_MS);
    *jitter_percent = scenario_number(scenario, run->variant, "JITTER_PERCENT", JITTER_PERCENT);
}

static void check_writes(const struct run *run, struct result *result)
{
    char text[RESULT_TEXT_BYTES];
    if (run->writes_failed == 0)
        return;
    snprintf(text, sizeof text, "%zu of %zu writes were never confirmed: %.90s", run->writes_failed,
             run->writes_failed + run->write_count, run->write_why);
    result_mark(result, RESULT_NOTE, 0, 0, text);
    if (run->write_count > 0 || result->check_count == RESULT_CHECKS_MAX)
        return;
    struct result_check *check = &result->checks[result->check_count++];
    snprintf(check->text, sizeof check->text, "writes happen");
    snprintf(check->measured, sizeof check->measured, "%s", text);
    check->held = false;
}

static bool judge(const struct run *run, struct result *result)
{
    const struct scenario *scenario = run->scenario;
    bool says_failed = scenario_says_failed(scenario, run->variant);
    const struct expect_source source = {.result = result,
                                         .records = &run->records,
                                         .view = run->has_view ? &run->view : NULL,
                                         .begin_us = run->begin_us};
    bool good = true;
    for (size_t i = 0; good && i < scenario->expect_count && result->check_count < RESULT_CHECKS_MAX; i++) {
        const struct expect *expect = &scenario->expects[i];
        bool is_for_all = expect->variant[0] == '\0', is_replaced = expect->is_default && says_failed;
        if (!is_replaced && (is_for_all || strcmp(expect->variant, run->variant) == 0))
            good = expect_judge(expect, &source, &result->checks[result->check_count++]);
    }
    return good;
}

static struct result *make_result(struct run *run)
{
    char what[RESULT_TEXT_BYTES];
    uint64_t drops_us[TIMELINE_ENTRIES_MAX];
    size_t drop_count = timeline_drops(run->timeline, drops_us);
    bool has_drops = true;
    for (size_t i = 0; i < drop_count; i++)
        has_drops = cold_note_drop(&run->cold, drops_us[i]) && has_drops;
    struct result *result = has_drops ? malloc(sizeof *result) : NULL;
    struct result_source source = {.name = run->name,
                                   .what = what,
                                   .work = run->work,
                                   .records = &run->records,
                                   .view = run->has_view ? &run->view : NULL,
                                   .strain = &run->strain,
                                   .writes = run->writes,
                                   .write_count = run->write_count,
                                   .connecting = run->connecting,
                                   .drops_us = run->cold.drops_us,
                                   .drop_count = run->cold.drop_count,
                                   .begin_us = run->begin_us,
                                   .wall_s = (uint64_t)run->wall_s,
                                   .is_partial = run->is_partial};
    settings_describe(run->work, what);
    timeline_faults(run->timeline, &source.fault_from_us, &source.fault_until_us);
    find_ttl(run, &source.ttl_ms, &source.jitter_percent);
    if (result == NULL || !result_make(&source, result)) {
        free(result);
        return NULL;
    }
    result->setting_count = settings_list(run->scenario, run->work, result->settings);
    if (run->herd_note[0] != '\0')
        result_mark(result, RESULT_NOTE, 0, 0, run->herd_note);
    if (run->scenario->script != NULL)
        result_mark(result, RESULT_NOTE, 0, 0, run->scenario->replay_note);
    if (!run->is_partial)
        check_writes(run, result);
    bool judged = run->is_partial || judge(run, result);
    timeline_report(run->timeline, run->end_us, result);
    if (judged)
        return result;
    result_clear(result);
    free(result);
    return NULL;
}

/* ---- the whole ---- */

static void clear(struct run *run)
{
    char ignored[WORK_WHY_BYTES];
    end_writers(run);
    if (run->herd != NULL) {
        herd_abort(run->herd);
        herd_end(&run->herd, &run->records, &run->strain, ignored);
    }
    if (run->witness != NULL)
        witness_close(&run->witness);
    if (run->has_view)
        witness_view_clear(&run->view);
    records_clear(&run->records);
    cold_clear(&run->cold);
    free(run->writes);
    free(run->timeline);
    free(run->work);
}

static enum run_end carry_out(struct run *run, struct result **out)
{
    *run->work = run->scenario->work;
    servers_name_targets(run->servers, run->work);
    if (!tls_check(run->work, run->why))
        return RUN_REFUSED;
    if (!prepare(run) || interrupt_seen())
        return interrupt_seen() ? RUN_INTERRUPTED : RUN_FAILED;
    if (!release(run))
        return RUN_FAILED;
    watch(run);
    bool is_whole = collect(run);
    bool was_interrupted = run->is_partial && !run->has_failed;
    run->is_partial = run->is_partial || !is_whole;
    *out = make_result(run);
    if (*out == NULL) {
        snprintf(run->why, SCENARIO_WHY_BYTES, "no memory for %zu records", run->records.count);
        return RUN_FAILED;
    }
    return was_interrupted ? RUN_INTERRUPTED : is_whole && !run->has_failed ? RUN_OVER : RUN_FAILED;
}

enum run_end run_once(struct servers *servers, const char *variant, const char *name, struct result **out,
                      char why[static SCENARIO_WHY_BYTES])
{
    struct run run = {.servers = servers,
                      .scenario = servers->scenario,
                      .variant = variant,
                      .name = name,
                      .why = why,
                      .cold = {.servers = servers}};
    enum run_end end = RUN_FAILED;
    *out = NULL;
    run.work = calloc(1, sizeof *run.work);
    run.timeline = calloc(1, sizeof *run.timeline);
    if (run.work != NULL && run.timeline != NULL)
        end = carry_out(&run, out);
    else
        snprintf(why, SCENARIO_WHY_BYTES, "no memory");
    clear(&run);
    return end;
}
