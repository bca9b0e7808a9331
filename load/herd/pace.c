/* SPDX-License-Identifier: MIT */
/* pace.c - see pace.h. */
#include "load/herd/pace.h"

#include "load/base/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONNECT_LIMIT_MS = 5000 };

static bool add_port(const struct pace *pace, struct work *work, uint16_t port, char *why)
{
    char target[32], url[WORK_PATH_BYTES];
    snprintf(target, sizeof target, "127.0.0.1:%u", (unsigned)port);
    if (!work_target_parse(target, &work->targets[work->target_count++], why))
        return false;
    snprintf(url, sizeof url, "http://%s%s", target, pace->path);
    bool good = true;
    for (uint32_t i = 0; good && i < pace->walks; i++)
        good = work_url_add(work, url, why);
    return good;
}

static bool make_work(const struct pace *pace, struct work *work, char *why)
{
    work_init(work);
    work->shape = WORK_RATE;
    work->per_second = pace->per_second;
    work->duration_ms = pace->duration_ms;
    work->connection_count = pace->connection_count;
    work->connect_limit_ms = CONNECT_LIMIT_MS;
    work->request_limit_ms = pace->limit_ms;
    work->generator_count = 1;
    bool good = true;
    for (size_t i = 0; good && i < pace->port_count; i++)
        good = add_port(pace, work, pace->ports[i], why);
    return good && (pace->walks > 0 || work_url_add(work, pace->path, why));
}

bool pace_begin(const struct pace *pace, struct herd **out, uint64_t *begin_us,
                char why[static WORK_WHY_BYTES])
{
    static struct work work; /* the herd takes a copy */
    struct records records = {0};
    struct herd_strain strain;
    char ignored[WORK_WHY_BYTES];
    if (!make_work(pace, &work, why) || !herd_start(&work, out, why))
        return false;
    if (herd_release(*out, begin_us, why))
        return true;
    herd_abort(*out);
    herd_end(out, &records, &strain, ignored);
    records_clear(&records);
    return false;
}

bool pace_run(const struct pace *pace, struct records *records, struct herd_strain *strain,
              char why[static WORK_WHY_BYTES])
{
    struct herd *herd = NULL;
    uint64_t begin_us;
    *records = (struct records){0};
    return pace_begin(pace, &herd, &begin_us, why) && herd_end(&herd, records, strain, why);
}

/* What so few cannot show is no number, which reaches no goal. */
static double rank_ms(const uint64_t *sorted_us, size_t count, double percent)
{
    if (count < rank_percentile_least(percent))
        return NAN;
    return (double)rank_percentile(sorted_us, count, percent) / 1e3;
}

bool pace_latencies(const struct records *records, struct latencies *out)
{
    uint64_t *times_us = calloc(records->count + 1, sizeof *times_us);
    size_t count = 0;
    if (times_us == NULL)
        abort();
    for (size_t i = 0; i < records->count; i++) {
        const struct record *record = &records->at[i];
        if (record->outcome == RECORD_ANSWERED && record->status == 200)
            times_us[count++] = record->end_us;
    }
    rank_sort(times_us, count);
    *out = (struct latencies){.count = count,
                              .p50_ms = rank_ms(times_us, count, 50),
                              .p99_ms = rank_ms(times_us, count, 99),
                              .p999_ms = rank_ms(times_us, count, 99.9),
                              .max_ms = rank_ms(times_us, count, 100)};
    free(times_us);
    return count > 0 && count == records->count;
}
