/* SPDX-License-Identifier: MIT */
/* result_sheet.c - see result_sheet.h. What a row shows is said by data: where in a result it stands, and what kind
 * of number it is. */
#include "load/report/result_sheet.h"

#include "load/report/result_text.h"

#include <stdio.h>
#include <string.h>

enum { STATUSES_SHOWN = 16, COMMANDS_SHOWN = 6 };

enum kind {
    COUNT_64,
    COUNT_32,
    MS_32,      /* milliseconds, shown as seconds */
    US_64,      /* microseconds, shown as milliseconds */
    PER_SECOND, /* double */
    HUNDREDTHS, /* double */
    SHARE,      /* double, shown as percent */
    PERCENTILE, /* of a result_quantiles */
    COMMAND,    /* of Redis, by its name */
    YES,
};

/* Who has a value at all. */
enum owner {
    EVERYBODY,
    LOADS,
    EXPIRIES,
    LOADS_BY_KEY,
    SAMPLES,
    REDIS,
    WRITES,
    RATES,
    BURSTS,
    STRAIN,
    PARTIAL
};

struct figure {
    const char *label;
    enum sheet_weight weight;
    enum owner owner;
    enum kind kind;
    size_t offset;      /* in struct result */
    uint32_t per_10000; /* PERCENTILE: which; 0: the maximum */
};

#define AT(member) offsetof(struct result, member)

static const struct figure loads[] = {
    {"loads per expiry", SHEET_HEADLINE, EXPIRIES, HUNDREDTHS, AT(loads_per_expiry), 0},
    {"queries", SHEET_WHOLE, LOADS, COUNT_64, AT(loads), 0},
    {"expiries", SHEET_PART, EXPIRIES, COUNT_64, AT(expiries), 0},
    {"different keys", SHEET_PART, LOADS_BY_KEY, COUNT_64, AT(loaded_keys), 0},
    {"at the same time, most", SHEET_PART, SAMPLES, COUNT_32, AT(peak_running), 0},
    {"samples that failed", SHEET_PART, SAMPLES, COUNT_32, AT(gaps), 0},
};

static const struct figure requests[] = {
    {"interrupted", SHEET_WHOLE, PARTIAL, YES, AT(is_partial), 0},
    {"seconds until the last answer", SHEET_WHOLE, EVERYBODY, MS_32, AT(duration_ms), 0},
    {"offered per second", SHEET_WHOLE, RATES, PER_SECOND, AT(offered_per_s), 0},
    {"answered per second", SHEET_WHOLE, RATES, PER_SECOND, AT(answered_per_s), 0},
    {"stale answers after a write", SHEET_WHOLE, WRITES, COUNT_64, AT(stale_answers), 0},
};

static const struct figure latency[] = {
    {"p50", SHEET_PART, EVERYBODY, PERCENTILE, AT(all), 5000},
    {"p90", SHEET_PART, EVERYBODY, PERCENTILE, AT(all), 9000},
    {"p99", SHEET_PART, EVERYBODY, PERCENTILE, AT(all), 9900},
    {"p99.9", SHEET_PART, EVERYBODY, PERCENTILE, AT(all), 9990},
    {"p99.99", SHEET_PART, EVERYBODY, PERCENTILE, AT(all), 9999},
    {"max", SHEET_PART, EVERYBODY, PERCENTILE, AT(all), 0},
};

static const struct figure error_latency[] = {
    {"p50", SHEET_PART, EVERYBODY, PERCENTILE, AT(errors), 5000},
    {"p99", SHEET_PART, EVERYBODY, PERCENTILE, AT(errors), 9900},
    {"max", SHEET_PART, EVERYBODY, PERCENTILE, AT(errors), 0},
};

static const struct figure strain[] = {
    {"busiest, of one core", SHEET_PART, STRAIN, SHARE, AT(strain.busiest), 0},
    {"ready but without a core", SHEET_PART, STRAIN, SHARE, AT(strain.starved), 0},
    {"left later than 1 ms after due", SHEET_PART, RATES, COUNT_64, AT(strain.late_count), 0},
    {"waited for a connection", SHEET_PART, RATES, COUNT_64, AT(strain.waited_count), 0},
    {"first to last sent, ms", SHEET_PART, BURSTS, US_64, AT(strain.spread_us), 0},
};

struct rows {
    struct sheet *sheet;
    const struct report *report;
};

/* ---- values ---- */

static bool owns(const struct result *result, enum owner owner)
{
    bool has_strain = result->strain.generator_count > 0, is_rate = result->offered_per_s > 0;
    const bool owned[] = {
        [EVERYBODY] = true,
        [LOADS] = result->has_loads,
        [EXPIRIES] = result->has_loads && result->expiries > 0,
        [LOADS_BY_KEY] = result->has_loads && result->loaded_keys > 0,
        [SAMPLES] = result->has_samples,
        [REDIS] = result->has_redis,
        [WRITES] = result->has_writes,
        [RATES] = is_rate,
        [BURSTS] = has_strain && !is_rate,
        [STRAIN] = has_strain,
        [PARTIAL] = result->is_partial,
    };
    return owned[owner];
}

static uint64_t percentile(const struct result_quantiles *quantiles, uint32_t per_10000)
{
    switch (per_10000) {
    case 5000:
        return quantiles->p50_us;
    case 9000:
        return quantiles->p90_us;
    case 9900:
        return quantiles->p99_us;
    case 9990:
        return quantiles->p999_us;
    case 9999:
        return quantiles->p9999_us;
    default:
        return quantiles->max_us;
    }
}

static uint64_t calls_of(const struct result *result, const char *name)
{
    for (size_t i = 0; i < result->command_count; i++) {
        if (strcmp(result->commands[i].name, name) == 0)
            return result->commands[i].calls;
    }
    return 0;
}

/* False: no value. Zero is one. */
static bool show(const struct result *result, const struct figure *figure,
                 char cell[static TEXT_NUMBER_BYTES])
{
    const void *at = (const char *)result + figure->offset;
    const struct result_quantiles *quantiles = at;
    if (!owns(result, figure->owner))
        return false;
    switch (figure->kind) {
    case COUNT_64:
        return text_count(cell, *(const uint64_t *)at) != NULL;
    case COUNT_32:
        return text_count(cell, *(const uint32_t *)at) != NULL;
    case MS_32:
        return text_decimal(cell, *(const uint32_t *)at / 1e3, *(const uint32_t *)at < 10000 ? 2 : 1) != NULL;
    case US_64:
        return text_ms(cell, *(const uint64_t *)at) != NULL;
    case PER_SECOND:
        return text_decimal(cell, *(const double *)at, *(const double *)at < 100) != NULL;
    case HUNDREDTHS:
        return text_decimal(cell, *(const double *)at, 2) != NULL;
    case SHARE:
        return snprintf(cell, TEXT_NUMBER_BYTES, "%.0f %%", *(const double *)at * 100) > 0;
    case PERCENTILE:
        text_ms(cell, percentile(quantiles, figure->per_10000));
        return figure->per_10000 > 0 ? result_supports(quantiles->count, figure->per_10000)
                                     : quantiles->count > 0;
    case COMMAND:
        return text_count(cell, calls_of(result, figure->label)) != NULL;
    case YES:
        return snprintf(cell, TEXT_NUMBER_BYTES, "yes") > 0;
    }
    return false;
}

/* ---- rows ---- */

static struct sheet_row *new_row(struct rows *rows, enum sheet_weight weight, const char *label)
{
    if (rows->sheet->row_count == SHEET_ROWS_MAX)
        return NULL;
    struct sheet_row *row = &rows->sheet->rows[rows->sheet->row_count];
    memset(row, 0, sizeof *row);
    row->weight = weight;
    text_clean(row->label, sizeof row->label, label, SIZE_MAX, false);
    return row;
}

/* The row stays if anybody has a value; a part of something only if somebody's is not zero. True: it stays. */
static bool add(struct rows *rows, const struct figure *figure)
{
    struct sheet_row *row = new_row(rows, figure->weight, figure->label);
    bool stays = false;
    for (size_t i = 0; row != NULL && i < rows->report->result_count; i++) {
        char cell[TEXT_NUMBER_BYTES] = "-";
        bool has = show(rows->report->results[i], figure, cell);
        stays = stays || (has && (figure->weight != SHEET_PART || strpbrk(cell, "123456789") != NULL));
        snprintf(row->cells[i], SHEET_CELL_BYTES, "%.*s", SHEET_CELL_BYTES - 1, has ? cell : "-");
    }
    rows->sheet->row_count += stays;
    return stays;
}

static void add_all(struct rows *rows, const struct figure *figures, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add(rows, &figures[i]);
}

/* A heading below which nothing is added is not there. */
static void add_below(struct rows *rows, const char *heading, const struct figure *figures, size_t count)
{
    if (new_row(rows, SHEET_WHOLE, heading) == NULL)
        return;
    size_t with_heading = ++rows->sheet->row_count;
    add_all(rows, figures, count);
    if (rows->sheet->row_count == with_heading)
        rows->sheet->row_count--;
}

static void add_requests(struct rows *rows)
{
    struct figure figure = {"requests", SHEET_WHOLE, EVERYBODY, COUNT_64, AT(requests), 0};
    size_t shown = 0;
    add(rows, &figure);
    figure.weight = SHEET_PART;
    for (size_t status = 0; status < 600 && shown < STATUSES_SHOWN; status++) {
        char label[32];
        snprintf(label, sizeof label, status > 0 ? "answered %zu" : "answered 600 or more", status);
        figure.label = label;
        figure.offset = AT(statuses) + status * sizeof(uint64_t);
        shown += add(rows, &figure);
    }
    for (size_t i = RECORD_ANSWERED + 1; i < RECORD_OUTCOMES; i++) {
        figure.label = record_outcome_name((enum record_outcome)i);
        figure.offset = AT(outcomes) + i * sizeof(uint64_t);
        add(rows, &figure);
    }
    add_all(rows, requests, sizeof requests / sizeof *requests);
}

static void add_caches(struct rows *rows)
{
    struct figure figures[RECORD_CACHES];
    bool has_any = false;
    for (size_t i = 0; i < rows->report->result_count; i++) {
        const struct result *result = rows->report->results[i];
        has_any = has_any || result->caches[RECORD_CACHE_NONE] < result->outcomes[RECORD_ANSWERED];
    }
    for (size_t i = 0; i < RECORD_CACHES; i++)
        figures[i] = (struct figure){i == RECORD_CACHE_NONE ? "no such header"
                                                            : record_cache_name((enum record_cache)i),
                                     SHEET_PART,
                                     EVERYBODY,
                                     COUNT_64,
                                     AT(caches) + i * sizeof(uint64_t),
                                     0};
    if (has_any)
        add_below(rows, "Cache-Status", figures, RECORD_CACHES);
}

static bool is_shown(const struct rows *rows, size_t first_row, const char *label)
{
    for (size_t row = first_row; row < rows->sheet->row_count; row++) {
        if (strcmp(rows->sheet->rows[row].label, label) == 0)
            return true;
    }
    return false;
}

/* The most frequent of all results that is not shown yet; NULL: none. */
static const struct witness_command *next_command(const struct rows *rows, size_t first_row)
{
    const struct witness_command *most = NULL;
    for (size_t i = 0; i < rows->report->result_count; i++) {
        const struct result *result = rows->report->results[i];
        for (size_t j = 0; j < result->command_count; j++) {
            const struct witness_command *command = &result->commands[j];
            if (command->calls > (most != NULL ? most->calls : 0) &&
                !is_shown(rows, first_row, command->name))
                most = command;
        }
    }
    return most;
}

static void add_commands(struct rows *rows)
{
    struct figure figure = {"Redis commands", SHEET_WHOLE, REDIS, COUNT_64, AT(command_sum), 0};
    size_t first_row = rows->sheet->row_count;
    const struct witness_command *command;
    add(rows, &figure);
    figure.weight = SHEET_PART;
    figure.kind = COMMAND;
    for (size_t i = 0; i < COMMANDS_SHOWN && (command = next_command(rows, first_row)) != NULL; i++) {
        figure.label = command->name;
        if (!add(rows, &figure))
            return;
    }
}

void sheet_fill(struct sheet *sheet, const struct report *report)
{
    struct rows rows = {.sheet = sheet, .report = report};
    sheet->row_count = 0;
    if (report->result_count == 0)
        return;
    add_all(&rows, loads, sizeof loads / sizeof *loads);
    add_requests(&rows);
    add_below(&rows, "latency, ms", latency, sizeof latency / sizeof *latency);
    add_below(&rows, "latency of 5xx answers, ms", error_latency,
              sizeof error_latency / sizeof *error_latency);
    add_caches(&rows);
    add_commands(&rows);
    add_below(&rows, "generator", strain, sizeof strain / sizeof *strain);
}

size_t sheet_columns(const struct report *report, size_t first)
{
    size_t left = report->result_count - first;
    return left < SHEET_COLUMNS ? left : SHEET_COLUMNS;
}

/* ---- texts that results share ---- */

const char *sheet_what_of(const struct result *result)
{
    return result->what;
}

const char *sheet_verdict_of(const struct result *result)
{
    return result->strain.verdict;
}

const char *sheet_caveat_of(const struct result *result)
{
    return result->caveat;
}

bool sheet_is_first(const struct report *report, size_t index, sheet_text text)
{
    const char *mine = text(report->results[index]);
    for (size_t i = 0; i < index; i++) {
        if (strcmp(text(report->results[i]), mine) == 0)
            return false;
    }
    return mine[0] != '\0';
}

void sheet_who(const struct report *report, size_t index, sheet_text text, char *who, size_t who_bytes)
{
    size_t used = 0, count = 0;
    who[0] = '\0';
    for (size_t i = 0; i < report->result_count && used < who_bytes; i++) {
        if (strcmp(text(report->results[i]), text(report->results[index])) != 0)
            continue;
        used += (size_t)snprintf(who + used, who_bytes - used, "%s%s", used > 0 ? ", " : "",
                                 report->results[i]->name);
        count++;
    }
    if (count == report->result_count)
        who[0] = '\0';
}
