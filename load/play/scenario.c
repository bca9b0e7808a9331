/* SPDX-License-Identifier: MIT */
/* scenario.c - a scenario's defaults and its settings; see scenario.h. */
#include "load/play/scenario.h"

#include "load/base/number.h"
#include "load/play/replay.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCT_COUNT = 5000 };

struct scenario *scenario_new(void)
{
    struct scenario *scenario = calloc(1, sizeof *scenario);
    if (scenario == NULL)
        return NULL;
    scenario->product_count = PRODUCT_COUNT;
    scenario->replay_speed = 1;
    strcpy(scenario->method, "GET");
    work_init(&scenario->work);
    work_init(&scenario->warm);
    scenario->work.method = scenario->method;
    scenario->work.headers = scenario->headers;
    scenario->work.ca_file = scenario->ca_file;
    scenario->work.version_after = scenario->version_after;
    return scenario;
}

void scenario_free(struct scenario **scenario)
{
    if (*scenario != NULL) {
        replay_free(&(*scenario)->script);
        work_clear(&(*scenario)->work);
        work_clear(&(*scenario)->warm);
        for (size_t i = 0; i < SCENARIO_WRITES_MAX; i++)
            work_words_free(&(*scenario)->writes[i].words);
    }
    free(*scenario);
    *scenario = NULL;
}

bool scenario_says_failed(const struct scenario *scenario, const char *variant)
{
    for (size_t i = 0; i < scenario->expect_count; i++) {
        const struct expect *expect = &scenario->expects[i];
        if (expect->figure == EXPECT_FAILED && !expect->is_default &&
            (expect->variant[0] == '\0' || strcmp(expect->variant, variant) == 0))
            return true;
    }
    return false;
}

/* There is always room for one more, see SCENARIO_EXPECTS_MAX. */
static void expect_no_failure(struct scenario *scenario)
{
    static struct words words; /* large; there is one thread */
    char why[EXPECT_WHY_BYTES];
    struct expect *expect = &scenario->expects[scenario->expect_count];
    if (words_split(&words, "failed = 0") != NULL || !expect_parse(&words, expect, why))
        return;
    expect->is_default = true;
    scenario->expect_lines[scenario->expect_count++] = 0;
}

static bool sends_sql(const struct scenario *scenario)
{
    for (size_t i = 0; i < scenario->event_count; i++) {
        if (scenario->events[i].action.verb == SCENARIO_SQL)
            return true;
    }
    return scenario->write_count > 0;
}

/* A database is to be counted in, unless it only takes statements. Reads are loads where nothing else is said. */
static void count_by_default(struct scenario *scenario)
{
    bool has_text = scenario->statement[0] != '\0';
    if (scenario->process_count == 0 && !scenario->has_count && scenario->database_url[0] != '\0' &&
        (has_text || !sends_sql(scenario)))
        scenario->way = WITNESS_LOG;
    if (!has_text && (scenario->way == WITNESS_LOG || scenario->way == WITNESS_STATEMENTS))
        snprintf(scenario->statement, sizeof scenario->statement, "SELECT");
}

void scenario_complete(struct scenario *scenario, scenario_complain *complain, void *context)
{
    bool wants_unserved = false;
    scenario_settle(scenario, complain, context);
    count_by_default(scenario);
    if (!scenario_says_failed(scenario, ""))
        expect_no_failure(scenario);
    for (size_t i = 0; i < scenario->expect_count; i++)
        wants_unserved = wants_unserved || expect_wants_unserved(&scenario->expects[i]);
    for (size_t i = 0; i < scenario->expect_count; i++)
        scenario->expects[i].takes_unserved = wants_unserved;
}

enum scenario_verb scenario_opposite(enum scenario_verb verb)
{
    switch (verb) {
    case SCENARIO_KILL:
    case SCENARIO_STOP:
        return SCENARIO_START;
    case SCENARIO_PAUSE:
        return SCENARIO_RESUME;
    case SCENARIO_FAULT:
        return SCENARIO_HEAL;
    default:
        return SCENARIO_VERBS;
    }
}

/* ---- names and settings ---- */

const struct scenario_let *scenario_find_let(const struct scenario *scenario, const char *name, size_t bytes)
{
    for (size_t i = 0; i < scenario->let_count; i++) {
        if (strlen(scenario->lets[i].name) == bytes && strncmp(scenario->lets[i].name, name, bytes) == 0)
            return &scenario->lets[i];
    }
    return NULL;
}

static char *find_setting(const struct scenario *scenario, const char *name)
{
    size_t bytes = strlen(name);
    for (size_t i = 0; i < scenario->setting_count; i++) {
        const char *setting = scenario->settings[i];
        if (strncmp(setting, name, bytes) == 0 && setting[bytes] == '=')
            return (char *)setting;
    }
    return NULL;
}

const char *scenario_setting(const struct scenario *scenario, const char *name)
{
    const char *setting = find_setting(scenario, name);
    return setting != NULL ? setting + strlen(name) + 1 : NULL;
}

bool scenario_set_setting(struct scenario *scenario, const char *name, const char *value)
{
    char *setting = find_setting(scenario, name);
    if (setting == NULL && scenario->setting_count < SCENARIO_SETTINGS_MAX)
        setting = scenario->settings[scenario->setting_count++];
    if (setting == NULL)
        return false;
    return (size_t)snprintf(setting, SCENARIO_SETTING_BYTES, "%s=%s", name, value) < SCENARIO_SETTING_BYTES;
}

uint32_t scenario_number(const struct scenario *scenario, const char *variant, const char *name,
                         uint32_t fallback)
{
    const char *value = strcmp(scenario->vary, name) == 0 ? variant : scenario_setting(scenario, name);
    uint32_t number;
    return value != NULL && number_read(value, 0, UINT32_MAX, &number) ? number : fallback;
}
