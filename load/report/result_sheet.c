/* SPDX-License-Identifier: MIT */
/* result_sheet.c - see result_sheet.h. Which rows there are is said in result_fields.c, but for those whose labels
 * are names of counts: statuses, outcomes, Cache-Status, Redis commands. */
#include "load/report/result_sheet.h"

#include "load/report/result_text.h"

#include <stdio.h>
#include <string.h>

enum { STATUSES_SHOWN = 16, COMMANDS_SHOWN = 6 };

struct rows {
    struct sheet *sheet;
    const struct report *report;
};

/* ---- values ---- */

bool field_is_owned(const struct result *result, enum field_owner owner)
{
    bool has_strain = result->strain.generator_count > 0, is_rate = result->offered_per_s > 0;
    const bool owned[] = {
        [EVERYBODY] = true,
        [COUNTED] = true,
        [RECEIVED] = result->received_bytes > 0,
        [LOADS] = result->has_loads,
        [EXPIRIES] = result->has_loads && result->expiries > 0,
        [LOADS_BY_KEY] = result->has_loads && result->loaded_keys > 0,
        [PEAK] = result->has_peak,
        [REDIS] = result->has_redis,
        [WRITES] = result->has_writes,
        [RECOVERY] = result->has_recovery,
        [RATES] = is_rate,
        [BURSTS] = has_strain && !is_rate,
        [STRAIN] = has_strain,
        [PARTIAL] = result->is_partial,
    };
    return owned[owner];
}

static uint64_t calls_of(const struct result *result, const char *name)
{
    for (size_t i = 0; i < result->command_count; i++) {
        if (strcmp(result->commands[i].name, name) == 0)
            return result->commands[i].calls;
    }
    return 0;
}

static void text_loads(char cell[static TEXT_NUMBER_BYTES], const struct result *result)
{
    char number[TEXT_NUMBER_BYTES];
    snprintf(cell, TEXT_NUMBER_BYTES, "%s%.20s", result->misses_loads ? "at least " : "",
             text_count(number, result->loads));
}

static void show_count(const struct field *field, const void *at, char cell[static TEXT_NUMBER_BYTES])
{
    uint64_t count = field->kind == FIELD_U32 ? *(const uint32_t *)at : *(const uint64_t *)at;
    if (field->row.show == SHOW_SECONDS || field->row.show == SHOW_RECOVERY)
        text_decimal(cell, (double)count / 1e3, count < 10000 ? 2 : 1);
    else if (field->row.show == SHOW_MS)
        text_ms(cell, count);
    else if (field->row.show == SHOW_MB)
        text_mb(cell, (double)count);
    else
        text_count(cell, count);
}

static void show_double(const struct field *field, double number, char cell[static TEXT_NUMBER_BYTES])
{
    if (field->row.show == SHOW_PERCENT)
        snprintf(cell, TEXT_NUMBER_BYTES, "%.0f %%", number * 100);
    else if (field->row.show == SHOW_MS)
        text_ms(cell, (uint64_t)(number + 0.5));
    else if (field->row.show == SHOW_MB)
        text_mb(cell, number);
    else if (field->row.show == SHOW_EACH)
        text_each(cell, number);
    else
        text_decimal(cell, number, number < 100);
}

/* `field` by its place in a result. False: no value. Zero is one. */
static bool show(const struct result *result, const struct field *field, char cell[static TEXT_NUMBER_BYTES])
{
    const char *at = (const char *)result + field->offset;
    if (!field_is_owned(result, field->row.owner))
        return false;
    if (field->row.show == SHOW_YES)
        snprintf(cell, TEXT_NUMBER_BYTES, "yes");
    else if (field->row.show == SHOW_COMMAND)
        text_count(cell, calls_of(result, field->row.label));
    else if (field->row.show == SHOW_LOADS)
        text_loads(cell, result);
    else if (field->row.show == SHOW_RECOVERY && !result->has_recovered)
        snprintf(cell, TEXT_NUMBER_BYTES, "never");
    else if (field->kind == FIELD_DOUBLE)
        show_double(field, *(const double *)(const void *)at, cell);
    else
        show_count(field, at, cell);
    return true;
}

/* ---- rows ---- */

static struct sheet_row *new_row(struct rows *rows, enum field_weight weight, const char *label)
{
    if (rows->sheet->row_count == SHEET_ROWS_MAX)
        return NULL;
    struct sheet_row *row = &rows->sheet->rows[rows->sheet->row_count];
    memset(row, 0, sizeof *row);
    row->weight = weight;
    text_clean(row->label, sizeof row->label, label, SIZE_MAX, false);
    return row;
}

/* A member of the struct that stands at `base` of a result. The row stays if any result has a value; a part of
 * something only if a value is not zero. True: it stays. */
static bool add(struct rows *rows, const struct field *member, size_t base)
{
    struct sheet_row *row = new_row(rows, member->row.weight, member->row.label);
    struct field field = *member;
    bool stays = false;
    field.offset += base;
    for (size_t i = 0; row != NULL && i < rows->report->result_count; i++) {
        const struct result *result = rows->report->results[i];
        char cell[TEXT_NUMBER_BYTES] = "-";
        bool has = show(result, &field, cell);
        if (field.row.owner == COUNTED)
            has = field_is_supported((const void *)((const char *)result + base), member);
        stays = stays || (has && (field.row.weight != FIELD_PART || strpbrk(cell, "123456789") != NULL));
        snprintf(row->cells[i], SHEET_CELL_BYTES, "%.*s", SHEET_CELL_BYTES - 1, has ? cell : "-");
    }
    rows->sheet->row_count += stays;
    return stays;
}

struct section {
    const struct field *fields;
    size_t base; /* where their struct stands in a result */
    unsigned place;
    bool is_brief;
};

static void add_section(struct rows *rows, const struct section *section)
{
    for (unsigned place = section->place; place < section->place + PLACES_EACH; place++) {
        for (const struct field *field = section->fields; field->name != NULL; field++) {
            if (field->row.place == place && (field->is_brief || !section->is_brief))
                add(rows, field, section->base);
        }
    }
}

/* A heading below which nothing is added is not there. */
static bool begin_heading(struct rows *rows, const char *heading, size_t *with_heading)
{
    if (new_row(rows, FIELD_WHOLE, heading) == NULL)
        return false;
    *with_heading = ++rows->sheet->row_count;
    return true;
}

static void end_heading(struct rows *rows, size_t with_heading)
{
    if (rows->sheet->row_count == with_heading)
        rows->sheet->row_count--;
}

static void add_below(struct rows *rows, const char *heading, const struct section *section)
{
    size_t with_heading;
    if (!begin_heading(rows, heading, &with_heading))
        return;
    add_section(rows, section);
    end_heading(rows, with_heading);
}

/* ---- rows whose labels are names ---- */

static bool add_count(struct rows *rows, const char *label, size_t offset)
{
    const struct field field = {.kind = FIELD_U64, .offset = offset, .row.label = label};
    return add(rows, &field, 0);
}

static void add_requests(struct rows *rows)
{
    const struct field requests = {.kind = FIELD_U64,
                                   .offset = offsetof(struct result, requests),
                                   .row = {.label = "requests", .weight = FIELD_WHOLE}};
    size_t shown = 0;
    add(rows, &requests, 0);
    for (size_t status = 0; status < RESULT_STATUSES && shown < STATUSES_SHOWN; status++) {
        char label[32];
        snprintf(label, sizeof label, status > 0 ? "answered %zu" : "answered 600 or more", status);
        shown += add_count(rows, label, offsetof(struct result, statuses) + status * sizeof(uint64_t));
    }
    for (size_t i = RECORD_ANSWERED + 1; i < RECORD_OUTCOMES; i++)
        add_count(rows, record_outcome_name((enum record_outcome)i),
                  offsetof(struct result, outcomes) + i * sizeof(uint64_t));
}

/* Where each had one load there is nothing to see. */
static void add_expiry_classes(struct rows *rows)
{
    size_t with_heading;
    uint64_t most = 0;
    for (size_t i = 0; i < rows->report->result_count; i++)
        most = rows->report->results[i]->most_per_expiry > most ? rows->report->results[i]->most_per_expiry
                                                                : most;
    if (most <= 1 || !begin_heading(rows, "expiries by their loads", &with_heading))
        return;
    for (size_t i = 0; i < RESULT_PER_EXPIRY; i++) {
        char label[32];
        snprintf(label, sizeof label, "%s load%s", field_expiry_class(i), i > 0 ? "s" : "");
        add_count(rows, label, offsetof(struct result, per_expiry) + i * sizeof(uint64_t));
    }
    end_heading(rows, with_heading);
}

static void add_caches(struct rows *rows)
{
    size_t with_heading;
    bool has_any = false;
    for (size_t i = 0; i < rows->report->result_count; i++) {
        const struct result *result = rows->report->results[i];
        has_any = has_any || result->caches[RECORD_CACHE_NONE] < result->outcomes[RECORD_ANSWERED];
    }
    if (!has_any || !begin_heading(rows, "Cache-Status", &with_heading))
        return;
    for (size_t i = 0; i < RECORD_CACHES; i++)
        add_count(rows, i == RECORD_CACHE_NONE ? "no such header" : record_cache_name((enum record_cache)i),
                  offsetof(struct result, caches) + i * sizeof(uint64_t));
    end_heading(rows, with_heading);
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
    struct field field = {.kind = FIELD_U64,
                          .offset = offsetof(struct result, command_sum),
                          .row = {.label = "Redis commands", .weight = FIELD_WHOLE, .owner = REDIS}};
    size_t first_row = rows->sheet->row_count;
    const struct witness_command *command;
    add(rows, &field, 0);
    field.row.weight = FIELD_PART;
    field.row.show = SHOW_COMMAND;
    for (size_t i = 0; i < COMMANDS_SHOWN && (command = next_command(rows, first_row)) != NULL; i++) {
        field.row.label = command->name;
        if (!add(rows, &field, 0))
            return;
    }
}

const char *sheet_worst(const struct result *result, char text[static SHEET_WORST_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < result->worst_count; i++) {
        const struct result_hot *worst = &result->worst[i];
        char loads[TEXT_NUMBER_BYTES];
        used += (size_t)snprintf(text + used, SHEET_WORST_BYTES - used, "%s%s%s%s at %.2f s",
                                 i > 0 ? ", " : "", text_count(loads, worst->loads),
                                 worst->key[0] != '\0' ? " of key " : "", worst->key, worst->at_ms / 1e3);
    }
    return text;
}

void sheet_fill(struct sheet *sheet, const struct report *report)
{
    static const struct section
        loads = {fields_of_result, 0, PLACE_LOADS, false},
        requests = {fields_of_result, 0, PLACE_REQUESTS, false},
        latency = {fields_of_quantiles, offsetof(struct result, all), PLACE_LATENCY, false},
        errors = {fields_of_quantiles, offsetof(struct result, errors), PLACE_LATENCY, true},
        first = {fields_of_quantiles, offsetof(struct result, first), PLACE_LATENCY, true},
        connect = {fields_of_quantiles, offsetof(struct result, connect), PLACE_LATENCY, true},
        strain = {fields_of_strain, offsetof(struct result, strain), PLACE_STRAIN, false};
    struct rows rows = {.sheet = sheet, .report = report};
    sheet->row_count = 0;
    if (report->result_count == 0)
        return;
    add_section(&rows, &loads);
    add_expiry_classes(&rows);
    add_requests(&rows);
    add_section(&rows, &requests);
    add_below(&rows, "latency, ms", &latency);
    add_below(&rows, "latency of 5xx answers, ms", &errors);
    add_below(&rows, "time to the first byte, ms", &first);
    add_below(&rows, "time to connect, ms", &connect);
    add_caches(&rows);
    add_commands(&rows);
    add_below(&rows, "generator", &strain);
}
