/* SPDX-License-Identifier: MIT */
/*
 * scenario_read.c - a scenario out of its file; see scenario.h.
 *
 *     physical lines --> joined where one ends with a backslash --> ${NAME} --> words --> scenario_take()
 *
 * A mistake does not stop the reading: the next line is taken as if there had been none, so that all are reported.
 */
#include "load/play/scenario.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* As words_split() says it. */
static const char TOO_LONG[] = "the line is too long: at most 4095 bytes";

enum { TOLD_MISTAKES = 20 }; /* a file that is no scenario at all has one in each line */

struct reading {
    FILE *file; /* owned */
    FILE *complaints;
    const char *path;
    const struct scenario_set *sets;
    size_t set_count;
    struct scenario *scenario;
    unsigned line; /* the last one read */
    size_t mistakes;
    bool is_used[SCENARIO_LETS_MAX * 4]; /* of sets */
};

static void complain(void *context, unsigned line, const char *text)
{
    struct reading *reading = context;
    if (++reading->mistakes > TOLD_MISTAKES)
        return;
    if (line > 0)
        fprintf(reading->complaints, "%s:%u: %s\n", reading->path, line, text);
    else
        fprintf(reading->complaints, "%s: %s\n", reading->path, text);
}

static void complain_about(struct reading *reading, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void complain_about(struct reading *reading, unsigned line, const char *format, ...)
{
    char text[SCENARIO_WHY_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    complain(reading, line, text);
}

/* ---- lines ---- */

/* Reads what is left of an overlong line. */
static void skip_line(FILE *file)
{
    int byte;
    do
        byte = fgetc(file);
    while (byte != '\n' && byte != EOF);
}

/* One physical line without its end; false: there is none. */
static bool read_physical(struct reading *reading, char *text, size_t text_bytes)
{
    if (fgets(text, (int)text_bytes, reading->file) == NULL)
        return false;
    reading->line++;
    size_t bytes = strlen(text);
    if (bytes + 1 == text_bytes && text[bytes - 1] != '\n') {
        complain_about(reading, reading->line, TOO_LONG);
        skip_line(reading->file);
    }
    text[strcspn(text, "\r\n")] = '\0';
    return true;
}

/* Lines that end with a backslash are joined; *first is the number of the first of them. */
static bool read_logical(struct reading *reading, char *text, size_t text_bytes, unsigned *first)
{
    size_t used = 0;
    while (read_physical(reading, text + used, text_bytes - used)) {
        if (used == 0)
            *first = reading->line;
        used += strlen(text + used);
        if (used == 0 || text[used - 1] != '\\')
            return true;
        text[--used] = '\0';
        if (used + 2 >= text_bytes) {
            complain_about(reading, *first, TOO_LONG);
            return true;
        }
    }
    return used > 0;
}

/* ---- names ---- */

/* Replaces every ${NAME}; false: complained. */
static bool expand(struct reading *reading, unsigned line, const char *from, char *to, size_t to_bytes)
{
    size_t used = 0;
    while (*from != '\0') {
        const char *end = from[0] == '$' && from[1] == '{' ? strchr(from, '}') : NULL;
        const char *text = from;
        size_t bytes = 1;
        if (end != NULL) {
            const struct scenario_let *let =
                scenario_find_let(reading->scenario, from + 2, (size_t)(end - from) - 2);
            if (let == NULL) {
                complain_about(reading, line, "%.*s: there is no line \"let %.*s VALUE\" above",
                               (int)(end - from) + 1, from, (int)(end - from) - 2, from + 2);
                return false;
            }
            text = let->value;
            bytes = strlen(text);
        }
        if (used + bytes >= to_bytes) {
            complain_about(reading, line, TOO_LONG);
            return false;
        }
        memcpy(to + used, text, bytes);
        used += bytes;
        from = end != NULL ? end + 1 : from + 1;
    }
    to[used] = '\0';
    return true;
}

/* A value from outside takes the place of the line's. */
static void set_let(struct reading *reading, struct scenario_let *let)
{
    for (size_t i = 0; i < reading->set_count; i++) {
        if (strcmp(reading->sets[i].name, let->name) != 0)
            continue;
        reading->is_used[i] = true;
        snprintf(let->value, sizeof let->value, "%s", reading->sets[i].value);
    }
}

/* Only this variant, or another value of a setting. */
static bool set_stack(struct scenario *scenario, const struct scenario_set *set)
{
    if (strcmp(scenario->vary, set->name) == 0 && strlen(set->value) < SCENARIO_NAME_BYTES) {
        snprintf(scenario->variants[0], SCENARIO_NAME_BYTES, "%s", set->value);
        scenario->variant_count = 1;
        return true;
    }
    return scenario_setting(scenario, set->name) != NULL &&
           scenario_set_setting(scenario, set->name, set->value);
}

static void take_sets(struct reading *reading)
{
    char known[SCENARIO_WHY_BYTES / 2] = "";
    size_t used = 0;
    const struct scenario *scenario = reading->scenario;
    for (size_t i = 0; i < scenario->let_count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, " %s", scenario->lets[i].name);
    for (size_t i = 0; i < scenario->setting_count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, " %.*s",
                                 (int)strcspn(scenario->settings[i], "="), scenario->settings[i]);
    for (size_t i = 0; i < reading->set_count; i++) {
        if (!reading->is_used[i] && !set_stack(reading->scenario, &reading->sets[i]))
            complain_about(reading, 0, "--set %.40s: the scenario has no such name; it has:%s",
                           reading->sets[i].name, known[0] != '\0' ? known : " none");
    }
}

/* ---- directives ---- */

/* A title, and what it is about, are text to the end of the line: it may hold an apostrophe. */
static bool split_text(const char *line, struct words *words)
{
    line += strspn(line, " \t");
    bool is_text = strncmp(line, "title", 5) == 0 || strncmp(line, "about", 5) == 0;
    if (!is_text || line[5] == '\0' || strchr(" \t", line[5]) == NULL)
        return false;
    const char *text = line + 5 + strspn(line + 5, " \t");
    int bytes = snprintf(words->text, sizeof words->text, "%.5s%c%s", line, '\0', text);
    while (bytes > 6 && strchr(" \t", words->text[bytes - 1]) != NULL)
        words->text[--bytes] = '\0';
    words->at[0] = 0;
    words->at[1] = 6;
    words->count = text[0] != '\0' ? 2 : 1;
    words->next = 0;
    return true;
}

static void take_line(struct reading *reading, unsigned line, const char *text)
{
    static struct words words; /* large; there is one thread */
    struct scenario *scenario = reading->scenario;
    char expanded[WORDS_LINE_BYTES / 2], why[SCENARIO_WHY_BYTES] = "";
    size_t let_count = scenario->let_count;
    if (!expand(reading, line, text, expanded, sizeof expanded))
        return;
    const char *wrong = split_text(expanded, &words) ? NULL : words_split(&words, expanded);
    if (wrong != NULL)
        complain(reading, line, wrong);
    else if (!scenario_take(scenario, &words, line, why))
        complain(reading, line, why);
    else if (scenario->let_count > let_count)
        set_let(reading, &scenario->lets[let_count]);
}

static void read_lines(struct reading *reading)
{
    char text[WORDS_LINE_BYTES / 2];
    unsigned first = 0;
    while (read_logical(reading, text, sizeof text, &first)) {
        const char *start = text + strspn(text, " \t");
        if (*start != '#' && *start != '\0')
            take_line(reading, first, text);
    }
}

/* "load/scenarios/cold-burst.scenario" is "cold-burst". */
static void name_it(struct scenario *scenario, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t bytes = dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base);
    snprintf(scenario->path, sizeof scenario->path, "%s", path);
    snprintf(scenario->name, sizeof scenario->name, "%.*s", (int)bytes, base);
    if (scenario->title[0] == '\0')
        snprintf(scenario->title, sizeof scenario->title, "%s", scenario->name);
}

bool scenario_read(const char *path, const struct scenario_set *sets, size_t set_count, FILE *complaints,
                   struct scenario **out)
{
    struct reading reading = {.complaints = complaints, .path = path, .sets = sets, .set_count = set_count};
    reading.file = fopen(path, "re");
    if (reading.file == NULL || set_count > sizeof reading.is_used / sizeof *reading.is_used) {
        if (reading.file == NULL)
            complain_about(&reading, 0, "cannot be read: %s", strerror(errno));
        else
            complain(&reading, 0, "at most 64 --set may be given");
        if (reading.file != NULL)
            fclose(reading.file);
        return false;
    }
    reading.scenario = scenario_new();
    if (reading.scenario != NULL) {
        read_lines(&reading);
        name_it(reading.scenario, path);
        take_sets(&reading);
        scenario_complete(reading.scenario, complain, &reading);
    }
    if (reading.scenario == NULL || ferror(reading.file))
        complain(&reading, 0, reading.scenario == NULL ? "no memory" : "cannot be read");
    else if (reading.mistakes == 0)
        scenario_check(reading.scenario, complain, &reading);
    if (reading.mistakes > TOLD_MISTAKES)
        fprintf(complaints, "%s: %zu more mistakes\n", path, reading.mistakes - TOLD_MISTAKES);
    fclose(reading.file);
    if (reading.mistakes > 0)
        scenario_free(&reading.scenario);
    else
        *out = reading.scenario;
    return reading.mistakes == 0;
}
