/* SPDX-License-Identifier: MIT */
/*
 * herd.c - starts, watches and ends the generators; see herd.h. What they share is in herd_shared.h.
 *
 *     fork() x generator_count --> all READY --> begin_us --> all ENDED --> reaped --> records merged
 *                    |                 |            |
 *                    +-----------------+------------+--> dead by a signal: told by herd_end()
 */
#include "load/herd/herd.h"

#include "load/base/clock.h"
#include "load/herd/generator.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLACK_MS = 10000, POLL_MS = 1 };

struct herd {
    struct work work;           /* a copy; its texts are not looked at after the start */
    struct herd_shared *shared; /* mapped */
    struct herd_job jobs[WORK_GENERATORS_MAX];
    pid_t pids[WORK_GENERATORS_MAX]; /* 0: none, or reaped */
    int bell;
    uint64_t begin_us; /* of the first round */
    uint64_t next_us,
        due_us; /* of the latest that was held, and when the one after it may begin; 0: not known yet */
    char note[WORK_WHY_BYTES];  /* of the probe */
    char death[WORK_WHY_BYTES]; /* of the first generator that did not end in order */
};

/* ---- start ---- */

/* Memory that forked processes share; what is not touched takes no room. */
static void *map_shared(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

static uint32_t slots_of(const struct work *work, uint32_t index)
{
    if (work->shape == WORK_RATE)
        return (uint32_t)work_part(work_request_count(work), index, work->generator_count);
    return (uint32_t)work_part(work->connection_count, index, work->generator_count) * work->round_count;
}

static size_t mapped_bytes(uint32_t slot_count, size_t size)
{
    return ((size_t)slot_count + 1) * size; /* a rate may have fewer requests than generators */
}

static bool job_init(struct herd *herd, uint32_t index)
{
    struct herd_job *job = &herd->jobs[index];
    uint32_t slot_count = slots_of(&herd->work, index);
    *job = (struct herd_job){
        .work = &herd->work,
        .shared = herd->shared,
        .index = index,
        .bell = herd->bell,
        .slot_count = slot_count,
        .records = map_shared(mapped_bytes(slot_count, sizeof *job->records)),
        .samples = map_shared(sizeof *job->samples),
        .late_us = map_shared(mapped_bytes(slot_count, sizeof *job->late_us)),
    };
    return job->records != NULL && job->samples != NULL && job->late_us != NULL;
}

static void keep_only(int fd)
{
    if (fd > 3)
        close_range(3, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0U, 0);
}

/* In the child. Terminals send their signals to all of us; what they mean is the parent's to decide. */
static _Noreturn void child_run(const struct herd_job *job, pid_t parent)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    keep_only(job->bell);
    generator_run(job);
}

static bool fork_all(struct herd *herd, char *why)
{
    pid_t parent = getpid();
    for (uint32_t i = 0; i < herd->work.generator_count; i++) {
        herd->pids[i] = fork();
        if (herd->pids[i] == 0)
            child_run(&herd->jobs[i], parent);
        if (herd->pids[i] == -1) {
            herd->pids[i] = 0;
            snprintf(why, WORK_WHY_BYTES, "generator %u cannot be started: %s", i, strerror(errno));
            return false;
        }
    }
    return true;
}

static bool herd_init(struct herd *herd, char *why)
{
    herd->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    herd->shared = map_shared(sizeof *herd->shared);
    bool good = herd->bell != -1 && herd->shared != NULL;
    for (uint32_t i = 0; good && i < herd->work.generator_count; i++)
        good = job_init(herd, i);
    if (!good)
        snprintf(why, WORK_WHY_BYTES, "memory to share with the generators: %s", strerror(errno));
    return good;
}

static void kill_generator(struct herd *herd, uint32_t index)
{
    if (herd->pids[index] <= 0)
        return;
    kill(herd->pids[index], SIGKILL);
    waitpid(herd->pids[index], NULL, 0);
    herd->pids[index] = 0;
}

static void herd_free(struct herd *herd)
{
    for (uint32_t i = 0; i < WORK_GENERATORS_MAX; i++) {
        struct herd_job *job = &herd->jobs[i];
        kill_generator(herd, i);
        if (job->records != NULL)
            munmap(job->records, mapped_bytes(job->slot_count, sizeof *job->records));
        if (job->samples != NULL)
            munmap(job->samples, sizeof *job->samples);
        if (job->late_us != NULL)
            munmap(job->late_us, mapped_bytes(job->slot_count, sizeof *job->late_us));
    }
    if (herd->shared != NULL)
        munmap(herd->shared, sizeof *herd->shared);
    if (herd->bell != -1)
        close(herd->bell);
    free(herd);
}

bool herd_start(const struct work *work, struct herd **out, char why[static WORK_WHY_BYTES])
{
    if (!work_check(work, why))
        return false;
    struct herd *herd = calloc(1, sizeof *herd);
    if (herd == NULL) {
        snprintf(why, WORK_WHY_BYTES, "no memory");
        return false;
    }
    herd->work = *work;
    herd->bell = -1;
    herd_limits_choose(&herd->work);
    if (!herd_limits_check(&herd->work, why) || !herd_probe(&herd->work, herd->note, why) ||
        !herd_init(herd, why) || !fork_all(herd, why)) {
        herd_free(herd);
        return false;
    }
    *out = herd;
    return true;
}

const char *herd_note(const struct herd *herd)
{
    return herd->note;
}

/* ---- watching ---- */

/* The first death is the one that is told. */
static void note_death(struct herd *herd, uint32_t index, int status)
{
    const struct herd_post *post = &herd->shared->posts[index];
    uint64_t due = atomic_load(&post->due);
    if (herd->death[0] != '\0' || atomic_load(&post->stage) == HERD_ENDED)
        return;
    if (post->error[0] != '\0')
        snprintf(herd->death, sizeof herd->death, "generator %u gave up: %.200s", index, post->error);
    else
        snprintf(
            herd->death, sizeof herd->death,
            "generator %u was ended by %s %d after %" PRIu64 " of its %u requests; what was recorded is kept",
            index, WIFSIGNALED(status) ? "signal" : "exit",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), due, herd->jobs[index].slot_count);
}

/* Those that have ended are taken in; for the barrier they are no longer missing. Returns how many are left. */
static uint32_t reap(struct herd *herd)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < herd->work.generator_count; i++) {
        int status = 0;
        if (herd->pids[i] == 0)
            continue;
        if (waitpid(herd->pids[i], &status, WNOHANG) == 0) {
            left++;
            continue;
        }
        herd->pids[i] = 0;
        note_death(herd, i, status);
        atomic_store(&herd->shared->posts[i].is_gone, true);
        herd_next_round(herd->shared, &herd->work, atomic_load(&herd->shared->begin_us), herd->bell);
    }
    return left;
}

static bool is_connected(const struct herd *herd)
{
    for (uint32_t i = 0; i < herd->work.generator_count; i++) {
        if (herd->pids[i] != 0 && atomic_load(&herd->shared->posts[i].stage) == HERD_CONNECTING)
            return false;
    }
    return true;
}

/* How long it can last from the barrier on, at most. */
static uint64_t longest_us(const struct work *work)
{
    uint64_t round_ms = (uint64_t)work->request_limit_ms + work->connect_limit_ms + SLACK_MS;
    if (work->shape == WORK_RATE)
        return (work->duration_ms + round_ms) * 1000;
    round_ms += work->holds_rounds ? HERD_HOLD_LIMIT_MS : 0;
    return work->round_count * (round_ms + work->pause_ms + work->every_ms) * 1000;
}

/* A generator that hangs, or was stopped, must not hold up whoever watches. */
static bool is_overdue(const struct herd *herd)
{
    return herd->begin_us != 0 && clock_us() >= herd->begin_us + longest_us(&herd->work);
}

void herd_watch(struct herd *herd, struct herd_progress *out)
{
    *out = (struct herd_progress){.finished = reap(herd) == 0 || is_overdue(herd),
                                  .connected = is_connected(herd)};
    for (uint32_t i = 0; i < herd->work.generator_count; i++) {
        const struct herd_post *post = &herd->shared->posts[i];
        out->due += atomic_load(&post->due);
        out->sent += atomic_load(&post->sent);
        out->answered += atomic_load(&post->answered);
        out->failed += atomic_load(&post->failed);
        out->errors_5xx += atomic_load(&post->errors_5xx);
        if (herd->pids[i] != 0)
            out->open_connections += atomic_load(&post->open_connections);
    }
}

bool herd_release(struct herd *herd, uint64_t *begin_us, char why[static WORK_WHY_BYTES])
{
    uint32_t limit_ms = herd->work.connect_limit_ms + SLACK_MS;
    uint64_t end_us = clock_after_ms(limit_ms);
    while (reap(herd) > 0 && !is_connected(herd) && clock_us() < end_us)
        clock_pause_ms(POLL_MS);
    if (!is_connected(herd)) {
        snprintf(why, WORK_WHY_BYTES, "the generators were not ready within %u ms", limit_ms);
        return false;
    }
    if (reap(herd) == 0) {
        snprintf(why, WORK_WHY_BYTES, "no generator is left; %.200s", herd->death);
        return false;
    }
    herd->begin_us = clock_us() + HERD_AHEAD_US;
    herd->begin_us = herd->next_us > herd->begin_us ? herd->next_us : herd->begin_us;
    herd->next_us = herd->begin_us;
    atomic_store(&herd->shared->begin_us, herd->begin_us);
    herd_ring(herd->bell);
    *begin_us = herd->begin_us;
    return true;
}

uint64_t herd_due_us(struct herd *herd)
{
    if (reap(herd) == 0)
        return 0;
    if (herd->due_us == 0)
        herd->due_us = herd_round_due_us(herd->shared, &herd->work, herd->next_us);
    return herd->due_us;
}

void herd_next(struct herd *herd, uint64_t instant_us)
{
    herd->next_us = instant_us;
    herd->due_us = 0;
    if (herd->begin_us == 0)
        return;
    atomic_store(&herd->shared->begin_us, instant_us);
    herd_ring(herd->bell);
}

void herd_abort(struct herd *herd)
{
    atomic_store(&herd->shared->is_aborted, true);
    herd_ring(herd->bell);
}

/* ---- end ---- */

static void wait_for_all(struct herd *herd)
{
    if (herd->begin_us == 0)
        herd_abort(herd);
    bool is_aborted = atomic_load(&herd->shared->is_aborted);
    uint64_t end_us = is_aborted ? clock_after_ms(SLACK_MS) : herd->begin_us + longest_us(&herd->work);
    while (reap(herd) > 0 && clock_us() < end_us)
        clock_pause_ms(POLL_MS);
    for (uint32_t i = 0; i < herd->work.generator_count; i++) {
        if (herd->pids[i] != 0 && herd->death[0] == '\0')
            snprintf(herd->death, sizeof herd->death,
                     "generator %u did not end in time and was killed; what was recorded is kept", i);
        kill_generator(herd, i);
    }
}

static int by_due(const void *a, const void *b)
{
    const struct record_sample *left = a, *right = b;
    return (left->record.due_us > right->record.due_us) - (left->record.due_us < right->record.due_us);
}

/* Those of requests that are over. A report can do without them: no memory is no error. */
static void gather_samples(const struct herd *herd, struct records *out)
{
    uint32_t generator_count = herd->work.generator_count;
    out->samples = calloc((size_t)generator_count * RECORD_SAMPLES_MAX, sizeof *out->samples);
    for (uint32_t i = 0; out->samples != NULL && i < generator_count; i++) {
        const struct record_samples *samples = herd->jobs[i].samples;
        for (uint32_t j = 0; j < samples->count && j < RECORD_SAMPLES_MAX; j++) {
            if (samples->at[j].record.due_us != 0)
                out->samples[out->sample_count++] = samples->at[j];
        }
    }
    if (out->sample_count > 0)
        qsort(out->samples, out->sample_count, sizeof *out->samples, by_due);
}

static bool merge(struct herd *herd, struct records *out)
{
    struct records parts[WORK_GENERATORS_MAX];
    for (uint32_t i = 0; i < herd->work.generator_count; i++) {
        const struct herd_job *job = &herd->jobs[i];
        parts[i] = (struct records){.at = job->records};
        while (parts[i].count < job->slot_count && job->records[parts[i].count].due_us != 0)
            parts[i].count++;
    }
    return records_merge(parts, herd->work.generator_count, out);
}

/* From the instants at which they were due. */
static void judge(const struct herd *herd, const struct records *records, struct herd_strain *strain)
{
    const uint32_t *list;
    uint32_t count = 0;
    uint32_t *times = malloc((records->count + 1) * sizeof *times);
    for (size_t i = 0; times != NULL && i < records->count; i++) {
        if (records->at[i].outcome == RECORD_ANSWERED)
            times[count++] = records->at[i].end_us + 1;
    }
    list = times;
    strain_judge(&herd->work, records->count, strain_rank(&list, &count, 1, 50),
                 strain_rank(&list, &count, 1, 99), strain);
    free(times);
}

bool herd_end(struct herd **herd, struct records *out, struct herd_strain *strain,
              char why[static WORK_WHY_BYTES])
{
    struct herd *ending = *herd;
    *herd = NULL;
    *out = (struct records){.count = 0};
    *strain = (struct herd_strain){.generator_count = ending->work.generator_count};
    wait_for_all(ending);
    bool good = ending->death[0] == '\0';
    snprintf(why, WORK_WHY_BYTES, "%s", ending->death);
    if (merge(ending, out)) {
        gather_samples(ending, out);
        strain_measure(&ending->work, ending->jobs, out, strain);
        judge(ending, out, strain);
    } else {
        snprintf(why, WORK_WHY_BYTES, "no memory for the records of all generators");
        good = false;
    }
    herd_free(ending);
    return good;
}
