/* SPDX-License-Identifier: MIT */
/* story.c - see story.h. */
#include "tests/chaos/story.h"

#include "tests/chaos/loads.h"

#include "load/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
    CLIENTS = 8,
    WRITERS = 3,
    CLIENT_PAUSE_MS = 4,
    WRITER_PAUSE_MS = 40,
    WARM_MS = 500, /* every value is in the cache, and in those of the replicas */
    LOOK_EVERY_MS = 5,
    QUIET_LIMIT_MS = 20000
};

bool story_begin(struct story *story, struct scene *scene, const char *name)
{
    *story = (struct story){.scene = scene, .name = name, .mark = stack_postgres_mark(&scene->postgres)};
    const struct crowd_options options = {.scene = scene,
                                          .history = &story->history,
                                          .seed = scene->options.seed,
                                          .client_count = CLIENTS,
                                          .writer_count = WRITERS,
                                          .client_pause_ms = CLIENT_PAUSE_MS,
                                          .writer_pause_ms = WRITER_PAUSE_MS};
    uint32_t took_ms;
    history_init(&story->history);
    for (uint32_t key = 1; key <= scene_key_count(scene); key++) {
        uint64_t version = scene_version(scene, key);
        if (version > 1)
            history_add_edit(&story->history,
                             &(struct history_edit){.key = key, .committed = true, .version = version});
    }
    return stall_begin(&story->history, &story->stall) && crowd_open(&options, &story->crowd) &&
           story_wait_hits(story, STORY_LIMIT_MS, &took_ms) && story_watch(story, WARM_MS);
}

bool story_watch(struct story *story, uint32_t span_ms)
{
    for (uint64_t end_us = clock_after_ms(span_ms); clock_us() < end_us; clock_pause_ms(LOOK_EVERY_MS)) {
        if (!scene_all_alive(story->scene))
            return false;
    }
    return true;
}

/* ---- hits ---- */

static double hits_of(struct story *story, size_t process)
{
    return scene_metric(story->scene, process, "guard_gets_total{outcome=\"hit\"}");
}

bool story_wait_hits(struct story *story, uint32_t limit_ms, uint32_t *took_ms)
{
    const uint64_t begin_us = clock_us(), end_us = clock_after_ms(limit_ms);
    double before[SCENE_PROCESSES];
    for (size_t i = 0; i < SCENE_PROCESSES; i++)
        before[i] = hits_of(story, i);
    for (size_t i = 0; i < SCENE_PROCESSES; i++) {
        while (hits_of(story, i) <= before[i]) {
            if (clock_us() >= end_us || !scene_all_alive(story->scene)) {
                fprintf(stderr, "%s: process %zu has no hit after %" PRIu32 " ms; its log ends:\n",
                        story->name, i, limit_ms);
                proc_show_tail(story->scene->catalogd[i].log_path);
                return false;
            }
            clock_pause_ms(LOOK_EVERY_MS);
        }
    }
    *took_ms = (uint32_t)((clock_us() - begin_us) / 1000);
    return true;
}

/* ---- what befalls ---- */

static void note_most(uint32_t *most, uint32_t value)
{
    *most = value > *most ? value : *most;
}

bool story_strikes(struct story *story, enum fault_kind kind, unsigned slot)
{
    crowd_quiet_writers(story->crowd, false);
    bool good = masters_strike(&story->masters, story->scene, kind, slot);
    crowd_quiet_writers(story->crowd, kind == FAULT_REPLICA_BEHIND);
    return good;
}

bool story_recovers(struct story *story)
{
    struct masters *masters = &story->masters;
    uint32_t took_ms = 0;
    if (!masters_wait_switch(masters))
        return false;
    bool good = story_wait_hits(story, STORY_LIMIT_MS, &took_ms);
    note_most(&story->switch_most_ms, (uint32_t)((masters->switched_us - masters->struck_us) / 1000));
    note_most(&story->hits_again_most_ms, took_ms);
    history_add_fault(&story->history, &(struct fault){.kind = masters->kind,
                                                       .side = FAULT_OF_MASTERS,
                                                       .process = FAULT_EVERYBODY,
                                                       .begin_us = masters->struck_us,
                                                       .end_us = clock_us()});
    return masters_mend(masters) && good;
}

bool story_befalls(struct story *story, enum fault_kind kind, unsigned slot)
{
    return story_strikes(story, kind, slot) && story_recovers(story);
}

/* ---- the end ---- */

static void keep(const struct story *story)
{
    char path[128];
    mkdir("build", 0755);
    snprintf(path, sizeof path, "build/story-%s.history", story->name);
    if (history_write(&story->history, path))
        fprintf(stderr, "%s: the history is kept: %s\n", story->name, path);
}

static void count_writes(struct story *story)
{
    for (size_t i = 0; i < story->history.invalidations.count; i++) {
        story->confirmed += story->history.invalidations.items[i].confirmed;
        story->unconfirmed += !story->history.invalidations.items[i].confirmed;
    }
}

static void print(const struct story *story, bool good)
{
    const struct check_report *report = &story->report;
    uint32_t shown = report->violation_count < CHECK_TEXTS ? report->violation_count : CHECK_TEXTS;
    printf("%s: %zu requests, %" PRIu32 " invalidations confirmed, %" PRIu32 " not; stale %" PRIu32
           ", within the allowance %" PRIu32 " (until %" PRIu32 " ms); %zu loads, %" PRIu32
           " at a time; another master after %" PRIu32 " ms, hits %" PRIu32 " ms after that: %s\n",
           story->name, story->history.gets.count, story->confirmed, story->unconfirmed,
           report->violations[CHECK_STALE], report->allowed, report->allowed_late_ms,
           story->history.loads.count, report->most_at_a_time, story->switch_most_ms,
           story->hits_again_most_ms, good ? "holds" : "BROKEN");
    for (uint32_t i = 0; i < shown; i++)
        printf("  %s\n", report->texts[i]);
    fflush(stdout);
}

bool story_end(struct story *story)
{
    crowd_close(&story->crowd);
    stall_end(&story->stall);
    bool good = scene_wait_quiet(story->scene, QUIET_LIMIT_MS);
    good = loads_read(&story->history, story->scene->postgres.log_path, story->mark, story->scene->epoch_us,
                      clock_us()) &&
           good;
    good = check_history(&story->history, &scene_rules, &story->report) && good;
    count_writes(story);
    print(story, good);
    if (!good)
        keep(story);
    history_clear(&story->history);
    return good;
}

bool story_tell(struct scene *scene, const char *name, enum fault_kind kind, unsigned slot, unsigned count,
                uint32_t watch_ms)
{
    struct story story;
    bool good = story_begin(&story, scene, name);
    for (unsigned i = 0; good && i < count; i++)
        good = story_befalls(&story, kind, slot) && story_watch(&story, watch_ms);
    return story_end(&story) && good && story.confirmed > 0;
}
