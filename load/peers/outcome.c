/* SPDX-License-Identifier: MIT */
/*
 * outcome.c - the tables: a row for each figure, a column for each peer. All from the samples; and the same as a
 * file:
 *
 *     {"machine": ..., "peers": [{"name", "what", "version", "not_run"}, ...],
 *      "contests": [{"name", "title", "ttl_ms", "stale_ms",
 *                    "scores": [{"peer", "asked", "wrong_bodies", "strained", "strain",
 *                                "statuses": {"200": n}, "unanswered": {"reset": n},
 *                                "figures": {"p99_ms": {"median", "samples": [...]}, ...}}]}]}
 */
#include "load/peers/peers.h"

#include "load/report/format.h"
#include "load/report/result_fields.h"
#include "load/report/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 24, PEER_COLUMNS = 13, LINE_COLUMNS = 118, CELL_BYTES = 48, SENTENCE_BYTES = 512 };

static const struct {
    const char *key;  /* in JSON */
    const char *name; /* of its row */
    const char *unit;
    unsigned decimals;
    bool is_decisive; /* its smallest and largest sample are printed, too */
} texts[FIGURE_COUNT] = {
    [FIGURE_ORIGIN_CALLS] = {"origin_calls", "origin calls", "", 0, true},
    [FIGURE_CALLS_PER_EXPIRY] = {"origin_calls_per_expiry", "origin calls per expiry", "", 2, true},
    [FIGURE_GOOD] = {"good_percent", "answered, 200", "%", 1, false},
    [FIGURE_P50] = {"p50_ms", "p50", "ms", 2, false},
    [FIGURE_P99] = {"p99_ms", "p99", "ms", 2, true},
    [FIGURE_P999] = {"p999_ms", "p99.9", "ms", 2, false},
    [FIGURE_MAX] = {"max_ms", "slowest answer", "ms", 2, true},
    [FIGURE_RATE] = {"answers_per_s", "answers per second", "1/s", 0, false},
    [FIGURE_CPU] = {"cpu_us", "CPU per request", "us", 1, false},
    [FIGURE_REDIS] = {"redis_cpu_us", "    of it in Redis", "us", 1, false},
    [FIGURE_FULL_RATE] = {"wrk_per_s", "wrk, one instance", "1/s", 0, true},
    [FIGURE_FULL_CPU] = {"wrk_cpu_us", "CPU per request", "us", 1, false},
    [FIGURE_FULL_REDIS] = {"wrk_redis_cpu_us", "    of it in Redis", "us", 1, false},
};

static bool has_run(const struct score *score)
{
    return score->asked > 0;
}

/* ---- one table ---- */

/* A label, and a cell for each peer. */
struct line {
    const char *cells[PEERS_MAX + 1];
    char texts[PEERS_MAX][CELL_BYTES];
};

static void print_line(const struct outcome *outcome, const struct line *line)
{
    struct table_column columns[PEERS_MAX + 1] = {{0, LABEL_COLUMNS, TABLE_LEFT, false}};
    for (size_t i = 0; i < outcome->peer_count; i++)
        columns[1 + i] = (struct table_column){0, PEER_COLUMNS, TABLE_RIGHT, false};
    table_row(stdout, columns, 1 + outcome->peer_count, line->cells);
}

static void print_head(const struct outcome *outcome, size_t contest)
{
    struct line line = {.cells = {""}};
    for (size_t i = 0; i < outcome->peer_count; i++)
        line.cells[1 + i] = outcome->peers[i]->name;
    printf("\n%s\n", outcome->contests[contest]->title);
    print_line(outcome, &line);
}

/* Short enough for two of them in one column: 1.23, 12.3, 123, 12k. */
static void format_short(double value, unsigned decimals, char *text, size_t text_bytes)
{
    unsigned fitting = value < 10 ? 2 : value < 100 ? 1 : 0;
    if (value >= 10000)
        snprintf(text, text_bytes, "%.0fk", value / 1000);
    else
        snprintf(text, text_bytes, "%.*f", (int)(decimals < fitting ? decimals : fitting), value);
}

static void format_median(const struct samples *samples, unsigned decimals, char text[CELL_BYTES])
{
    snprintf(text, CELL_BYTES, samples->count > 0 ? "%.*f" : "-", (int)decimals, samples_median(samples));
}

static void format_spread(const struct samples *samples, unsigned decimals, char text[CELL_BYTES])
{
    char smallest[CELL_BYTES / 3], largest[CELL_BYTES / 3];
    text[0] = '\0';
    if (samples->count == 0)
        return;
    format_short(samples_smallest(samples), decimals, smallest, sizeof smallest);
    format_short(samples_largest(samples), decimals, largest, sizeof largest);
    snprintf(text, CELL_BYTES, "%s..%s", smallest, largest);
}

static void print_figure(const struct outcome *outcome, size_t contest, enum figure figure, const char *label,
                         void format(const struct samples *samples, unsigned decimals, char text[CELL_BYTES]))
{
    const unsigned decimals = texts[figure].decimals;
    struct line line = {.cells = {label}};
    for (size_t i = 0; i < outcome->peer_count; i++) {
        const struct samples *samples = &outcome->scores[contest][i].figures[figure];
        line.cells[1 + i] = line.texts[i];
        format(samples, decimals, line.texts[i]);
    }
    print_line(outcome, &line);
}

/* The medians; below those of a decisive figure the smallest and the largest sample. */
static void print_row(const struct outcome *outcome, size_t contest, enum figure figure)
{
    char label[CELL_BYTES];
    snprintf(label, sizeof label, "%s%s%s", texts[figure].name, texts[figure].unit[0] != '\0' ? ", " : "",
             texts[figure].unit);
    print_figure(outcome, contest, figure, label, format_median);
    if (texts[figure].is_decisive)
        print_figure(outcome, contest, figure, "    smallest..largest", format_spread);
}

/* ---- what was not as it must be ---- */

/* What was not a right answer, of each peer that gave such. */
static void print_failures(const struct outcome *outcome, size_t contest)
{
    for (size_t i = 0; i < outcome->peer_count; i++) {
        const struct score *score = &outcome->scores[contest][i];
        if (!has_run(score) || score->statuses[200] - score->wrong_bodies == score->asked)
            continue;
        printf("  %s: of %" PRIu64 " requests", outcome->peers[i]->name, score->asked);
        for (unsigned status = 0; status < SCORE_STATUSES; status++) {
            if (score->statuses[status] > 0)
                printf(", status %u x %" PRIu64, status, score->statuses[status]);
        }
        for (size_t k = 0; k < RECORD_OUTCOMES; k++) {
            if (score->unanswered[k] > 0)
                printf(", %s x %" PRIu64, record_outcome_name((enum record_outcome)k), score->unanswered[k]);
        }
        if (score->wrong_bodies > 0)
            printf(", another body x %" PRIu64, score->wrong_bodies);
        printf("\n");
    }
}

/* Where the generator could not ask in time, the latencies are partly its own; how much stands in the JSON. */
static void print_strain(const struct outcome *outcome, size_t contest)
{
    char text[SENTENCE_BYTES] = "";
    size_t used = 0;
    for (size_t i = 0; i < outcome->peer_count && used < sizeof text; i++) {
        const struct score *score = &outcome->scores[contest][i];
        if (score->strained_count > 0)
            used += (size_t)snprintf(
                text + used, sizeof text - used, "%s%s (%" PRIu32 " of %zu)",
                used > 0 ? ", " : "The generator lagged, so the latencies contain its lag, for: ",
                outcome->peers[i]->name, score->strained_count, score->figures[FIGURE_P99].count);
    }
    if (used == 0)
        return;
    printf("  ");
    table_words(stdout, text, LINE_COLUMNS, 2, 6);
}

static bool anybody_ran(const struct outcome *outcome, size_t contest)
{
    for (size_t i = 0; i < outcome->peer_count; i++) {
        if (has_run(&outcome->scores[contest][i]))
            return true;
    }
    return false;
}

static void print_contest(const struct outcome *outcome, size_t contest)
{
    if (!anybody_ran(outcome, contest)) {
        printf("\n%s\n  not run\n", outcome->contests[contest]->title);
        return;
    }
    print_head(outcome, contest);
    for (const enum figure *figure = outcome->contests[contest]->figures; *figure != FIGURE_COUNT; figure++)
        print_row(outcome, contest, *figure);
    printf("\n");
    print_failures(outcome, contest);
    print_strain(outcome, contest);
}

static bool has_any_score(const struct outcome *outcome, size_t peer)
{
    for (size_t i = 0; i < outcome->contest_count; i++) {
        if (has_run(&outcome->scores[i][peer]))
            return true;
    }
    return false;
}

static void print_peers(const struct outcome *outcome)
{
    printf("\n%s\n", outcome->machine);
    for (size_t i = 0; i < outcome->peer_count; i++) {
        const struct peer *peer = outcome->peers[i];
        printf("  %-*s%s%s%s\n", PEER_COLUMNS, peer->name, peer->what, peer->version[0] != '\0' ? "; " : "",
               peer->version);
        if (peer->why_not[0] != '\0')
            printf("  %-*s%s: %s\n", PEER_COLUMNS, "", has_any_score(outcome, i) ? "failed" : "not run",
                   peer->why_not);
    }
}

void outcome_print(const struct outcome *outcome)
{
    print_peers(outcome);
    for (size_t i = 0; i < outcome->contest_count; i++)
        print_contest(outcome, i);
    fflush(stdout);
}

/* ---- as a file ---- */

#define SCORE(key, member, is) .name = (key), .kind = (is), .offset = offsetof(struct score, member)

static const struct field fields_of_score[] = {
    {SCORE("asked", asked, FIELD_U64)},
    {SCORE("wrong_bodies", wrong_bodies, FIELD_U64)},
    {SCORE("strained", strained_count, FIELD_U32)},
    {SCORE("strain", strain, FIELD_TEXT), .bytes = SCORE_STRAIN_BYTES},
    {SCORE("statuses", statuses, FIELD_COUNTS), .most = SCORE_STATUSES, .name_of = field_status_name},
    {SCORE("unanswered", unanswered, FIELD_COUNTS), .most = RECORD_OUTCOMES, .name_of = field_outcome_name},
    {.name = NULL},
};

static json_t *json_of_figure(const struct samples *samples)
{
    json_t *list = json_array();
    for (size_t i = 0; i < samples->count; i++)
        json_append(&list, json_real(samples->at[i]));
    return json_pack("{s:f, s:o}", "median", samples_median(samples), "samples", list);
}

static json_t *json_of_score(const struct peer *peer, const struct score *score)
{
    json_t *json = json_pack("{s:s}", "peer", peer->name), *figures = json_object();
    for (size_t i = 0; i < FIGURE_COUNT; i++) {
        if (score->figures[i].count > 0)
            json_put(&figures, texts[i].key, json_of_figure(&score->figures[i]));
    }
    json_put_fields(&json, fields_of_score, score);
    json_put(&json, "figures", figures);
    return json;
}

static json_t *json_of_contest(const struct outcome *outcome, size_t contest)
{
    const struct contest *about = outcome->contests[contest];
    json_t *scores = json_array();
    for (size_t i = 0; i < outcome->peer_count; i++) {
        const struct score *score = &outcome->scores[contest][i];
        if (score->asked > 0)
            json_append(&scores, json_of_score(outcome->peers[i], score));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:o}", "name", about->name, "title", about->title, "ttl_ms",
                     (int)about->terms.ttl_ms, "stale_ms", (int)about->terms.stale_ms, "scores", scores);
}

static json_t *json_of_peer(const struct peer *peer)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s}", "name", peer->name, "what", peer->what, "version", peer->version);
    if (peer->why_not[0] != '\0')
        json_put(&json, "not_run", json_string(peer->why_not));
    return json;
}

/* NULL: no memory. */
static json_t *json_of(const struct outcome *outcome)
{
    json_t *peers = json_array(), *contests = json_array();
    for (size_t i = 0; i < outcome->peer_count; i++)
        json_append(&peers, json_of_peer(outcome->peers[i]));
    for (size_t i = 0; i < outcome->contest_count; i++)
        json_append(&contests, json_of_contest(outcome, i));
    return json_pack("{s:s, s:o, s:o}", "machine", outcome->machine, "peers", peers, "contests", contests);
}

bool outcome_write(const struct outcome *outcome, const char *path)
{
    struct result_file file;
    char why[RESULT_WHY_BYTES] = "no memory for the report";
    json_t *json = json_of(outcome);
    bool good = json != NULL && result_file_open(&file, path, why);
    if (good) {
        json_dumpf(json, file.out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        good = result_file_close(&file, true, why);
    }
    if (!good)
        fprintf(stderr, "%s\n", why);
    json_decref(json);
    return good;
}
