/* SPDX-License-Identifier: MIT */
/* outcome.c - the tables: a row for each figure, a column for each peer. All from the samples. */
#include "load/peers/peers.h"

#include "load/report/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 29, PEER_COLUMNS = 11, LINE_COLUMNS = 118, CELL_BYTES = 48, SENTENCE_BYTES = 512 };

static const struct {
    const char *name; /* of its row */
    const char *unit;
    unsigned decimals;
    bool is_decisive; /* its smallest and largest sample are printed, too */
} texts[FIGURE_COUNT] = {
    [FIGURE_ORIGIN_CALLS] = {"origin calls", "", 0, true},
    [FIGURE_CALLS_PER_EXPIRY] = {"origin calls per expiry", "", 2, true},
    [FIGURE_GOOD] = {"answered, 200", "%", 1, false},
    [FIGURE_P50] = {"p50", "ms", 2, false},
    [FIGURE_P99] = {"p99", "ms", 2, true},
    [FIGURE_P999] = {"p99.9", "ms", 2, false},
    [FIGURE_MAX] = {"slowest answer", "ms", 2, true},
    [FIGURE_SPAN] = {"last after first answer", "ms", 1, true},
    [FIGURE_RATE] = {"answers per second", "1/s", 0, false},
    [FIGURE_CPU] = {"CPU per request", "us", 1, false},
    [FIGURE_REDIS] = {"    of it in Redis", "us", 1, false},
    [FIGURE_FULL_RATE] = {"wrk, one instance", "1/s", 0, true},
    [FIGURE_FULL_CPU] = {"CPU per request", "us", 1, false},
    [FIGURE_FULL_REDIS] = {"    of it in Redis", "us", 1, false},
    [FIGURE_KILLED_CALLS] = {"worker killed: origin calls", "", 0, true},
    [FIGURE_KILLED_GOOD] = {"    answered, 200", "%", 1, false},
    [FIGURE_KILLED_MAX] = {"    slowest answer", "ms", 1, true},
    [FIGURE_EXPIRED_GOOD] = {"origin dead, expired: 200", "%", 1, false},
    [FIGURE_EXPIRED_MAX] = {"    slowest answer", "ms", 1, false},
    [FIGURE_DEAD_CALLS] = {"origin dead, cold: its calls", "", 0, true},
    [FIGURE_DEAD_MAX] = {"    slowest answer", "ms", 1, true},
    [FIGURE_PURGE_OLD] = {"purge: old answers after it", "", 0, true},
    [FIGURE_PURGE_CALLS] = {"    origin calls", "", 0, true},
};

static bool has_run(const struct score *score)
{
    return score->asked > 0;
}

/* ---- one table ---- */

/* A label, and a cell for each peer that the contest is for. */
struct line {
    const char *cells[PEERS_MAX + 1];
    char texts[PEERS_MAX][CELL_BYTES];
    size_t count;
};

static void print_line(const struct line *line)
{
    struct table_column columns[PEERS_MAX + 1] = {{0, LABEL_COLUMNS, TABLE_LEFT, false}};
    for (size_t i = 1; i < line->count; i++)
        columns[i] = (struct table_column){0, PEER_COLUMNS, TABLE_RIGHT, false};
    table_row(stdout, columns, line->count, line->cells);
}

static void print_head(const struct outcome *outcome, size_t contest)
{
    struct line line = {.cells = {""}, .count = 1};
    for (size_t i = 0; i < outcome->peer_count; i++) {
        if (contest_is_for(outcome->contests[contest], outcome->peers[i]))
            line.cells[line.count++] = outcome->peers[i]->name;
    }
    printf("\n%s\n", outcome->contests[contest]->title);
    print_line(&line);
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
    struct line line = {.cells = {label}, .count = 1};
    for (size_t i = 0; i < outcome->peer_count; i++) {
        if (!contest_is_for(outcome->contests[contest], outcome->peers[i]))
            continue;
        format(&outcome->scores[contest][i].figures[figure], decimals, line.texts[i]);
        line.cells[line.count++] = line.texts[i];
    }
    print_line(&line);
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

/* Where the generator could not ask in time, the latencies are partly its own. */
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
