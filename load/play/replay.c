/* SPDX-License-Identifier: MIT */
/* replay.c - see replay.h. */
#include "load/play/replay.h"

#include "load/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum { SECOND_US = 1000000, QUOTED_MAX = 60 };

/* Before it is sorted and cut. */
struct entry {
    uint64_t at_us; /* since 1970 */
    size_t line;    /* of the file: entries of one instant stay in its order */
    uint32_t request;
};

struct request {
    char *name; /* owned: "GET /path" */
    uint32_t index;
    UT_hash_handle hh;
};

_Static_assert((int)ACCESS_PATH_BYTES <= (int)WORK_PATH_BYTES, "the path of a line is one of work_path()");

struct reading {
    const struct replay *replay;
    struct request *requests; /* a hash table by name */
    size_t request_count;
    struct entry *entries; /* owned */
    size_t entry_count, entry_room;
    bool has_fractions; /* of seconds */

    size_t line_count, other_methods, too_long, unreadable, after_span;
    size_t first_unreadable; /* line number */
    char quoted[QUOTED_MAX + 1];
};

/* ---- the file ---- */

static bool index_of(struct reading *reading, const struct access_line *hit, uint32_t *index)
{
    char name[ACCESS_METHOD_BYTES + WORK_PATH_BYTES];
    struct request *request = NULL;
    size_t bytes = (size_t)snprintf(name, sizeof name, "%s %s", hit->method, hit->path);
    HASH_FIND(hh, reading->requests, name, bytes, request);
    if (request == NULL) {
        request = calloc(1, sizeof *request);
        char *copy = strdup(name);
        if (request == NULL || copy == NULL) {
            free(request);
            free(copy);
            return false;
        }
        request->name = copy;
        request->index = (uint32_t)reading->request_count++;
        HASH_ADD_KEYPTR(hh, reading->requests, request->name, bytes, request);
    }
    *index = request->index;
    return true;
}

static bool keep(struct reading *reading, const struct access_line *hit)
{
    struct entry *entries =
        list_grow(reading->entries, reading->entry_count, &reading->entry_room, sizeof *entries);
    if (entries == NULL)
        return false;
    reading->entries = entries;
    struct entry *entry = &reading->entries[reading->entry_count];
    *entry = (struct entry){.at_us = hit->at_us, .line = reading->line_count};
    if (reading->entry_count == WORK_REQUESTS_MAX || !index_of(reading, hit, &entry->request))
        return false;
    reading->entry_count++;
    reading->has_fractions = reading->has_fractions || hit->has_fraction;
    return true;
}

static bool is_wanted(const struct reading *reading, const char *method)
{
    const char *wanted = reading->replay->method;
    return strcmp(method, wanted) == 0 || (strcmp(wanted, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static void complain_of_line(struct reading *reading, const char *line)
{
    if (reading->unreadable++ > 0)
        return;
    reading->first_unreadable = reading->line_count;
    snprintf(reading->quoted, sizeof reading->quoted, "%s", line);
    for (char *at = reading->quoted; *at != '\0'; at++)
        *at = isprint((unsigned char)*at) ? *at : '?';
}

/* False: no memory. */
static bool read_line(struct reading *reading, const char *line)
{
    struct access_line hit = {.at_us = 0};
    const char *begin = line + strspn(line, " \t");
    reading->line_count++;
    if (*begin == '\0')
        return true;
    if (!access_line_read(begin, &hit))
        complain_of_line(reading, begin);
    else if (!is_wanted(reading, hit.method))
        reading->other_methods++;
    else if (hit.is_too_long)
        reading->too_long++;
    else
        return keep(reading, &hit);
    return true;
}

/* The program that unpacks it, by how it begins; NULL: no line of a log begins so. */
static const char *reader_of_compressed(FILE *file)
{
    int first = getc(file);
    ungetc(first, file);
    return first == 0x1f ? "zcat" : first == 0x28 ? "zstdcat" : first == 0xfd ? "xzcat" : NULL;
}

static bool read_file(struct reading *reading, char *why)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t count;
    FILE *file = strcmp(reading->replay->path, "-") == 0 ? stdin : fopen(reading->replay->path, "re");
    if (file == NULL) {
        snprintf(why, WORK_WHY_BYTES, "%.150s: cannot be read: %s", reading->replay->path, strerror(errno));
        return false;
    }
    const char *cat = reader_of_compressed(file);
    bool good = cat == NULL;
    if (!good)
        snprintf(why, WORK_WHY_BYTES, "%.150s is compressed: %s FILE | stampede ... --replay -",
                 reading->replay->path, cat);
    while (good && (count = getline(&line, &room, file)) != -1) {
        while (count > 0 && (line[count - 1] == '\n' || line[count - 1] == '\r'))
            line[--count] = '\0';
        good = read_line(reading, line);
    }
    if (!good && cat == NULL)
        snprintf(why, WORK_WHY_BYTES, "%.150s: too many requests, or no memory for them",
                 reading->replay->path);
    if (good && ferror(file)) {
        snprintf(why, WORK_WHY_BYTES, "%.150s: cannot be read: %s", reading->replay->path, strerror(errno));
        good = false;
    }
    free(line);
    if (file != stdin)
        fclose(file);
    return good;
}

/* ---- the script ---- */

static int by_time(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    if (left->at_us != right->at_us)
        return left->at_us > right->at_us ? 1 : -1;
    return (left->line > right->line) - (left->line < right->line);
}

/* Times that are whole seconds: those of one are spread over it. */
static void spread(struct reading *reading)
{
    size_t until;
    for (size_t from = 0; !reading->has_fractions && from < reading->entry_count; from = until) {
        until = from;
        while (until < reading->entry_count &&
               reading->entries[until].at_us / SECOND_US == reading->entries[from].at_us / SECOND_US)
            until++;
        for (size_t i = until; i > from; i--)
            reading->entries[i - 1].at_us += (uint64_t)(i - 1 - from) * SECOND_US / (until - from);
    }
}

static bool allocate(struct work_script *script, const struct reading *reading)
{
    script->lines = calloc(reading->entry_count, sizeof *script->lines);
    script->requests = calloc(reading->request_count, sizeof *script->requests);
    return script->lines != NULL && script->requests != NULL;
}

/* The table's names become the script's. */
static void take_requests(struct work_script *script, struct reading *reading)
{
    struct request *request = reading->requests, *next;
    HASH_CLEAR(hh, reading->requests);
    for (; request != NULL; request = next) {
        next = request->hh.next;
        char *space = strchr(request->name, ' ');
        bool is_head = strncmp(request->name, "HEAD ", 5) == 0;
        memmove(request->name, space + 1, strlen(space + 1) + 1);
        script->requests[request->index] =
            (struct work_script_request){.path = request->name, .is_head = is_head};
        script->request_count++;
        free(request);
    }
}

static void take_lines(struct work_script *script, struct reading *reading)
{
    const struct replay *replay = reading->replay;
    uint64_t first_us = reading->entries[0].at_us, span_us = (uint64_t)replay->span_ms * 1000;
    for (size_t i = 0; i < reading->entry_count; i++) {
        uint64_t at_us = (uint64_t)((double)(reading->entries[i].at_us - first_us) / replay->speed);
        if (replay->span_ms > 0 && at_us >= span_us) {
            reading->after_span = reading->entry_count - i;
            break;
        }
        script->lines[script->line_count++] =
            (struct work_script_line){.at_us = at_us, .request = reading->entries[i].request};
    }
}

/* ---- what is said of it ---- */

static void add_count(char *text, const char *what, size_t count)
{
    size_t used = strlen(text);
    if (count > 0)
        snprintf(text + used, WORK_WHY_BYTES - used, "%s%zu %s", used > 0 ? ", " : "", count, what);
}

const char *replay_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(path, "-") == 0 ? "standard input" : slash != NULL ? slash + 1 : path;
}

static void describe(const struct reading *reading, const struct work_script *script, char *note)
{
    const struct replay *replay = reading->replay;
    char left_out[WORK_WHY_BYTES] = "", speed[32] = "";
    add_count(left_out, strcmp(replay->method, "GET") == 0 ? "neither GET nor HEAD" : "of another method",
              reading->other_methods);
    add_count(left_out, "unreadable", reading->unreadable);
    add_count(left_out, "with a longer path than fits", reading->too_long);
    add_count(left_out, "after that time", reading->after_span);
    if (replay->speed < 1 || replay->speed > 1)
        snprintf(speed, sizeof speed, " at %.3g times its speed", replay->speed);
    snprintf(note, WORK_WHY_BYTES, "replay of %.60s%s: %zu of %zu lines, %zu different requests%s%.90s",
             replay_name(replay->path), speed, script->line_count, reading->line_count, script->request_count,
             left_out[0] != '\0' ? "; left out: " : "", left_out);
}

static bool refuse_empty(const struct reading *reading, char *why)
{
    if (reading->unreadable > 0)
        snprintf(
            why, WORK_WHY_BYTES,
            "%.60s: line %zu is neither of the combined format nor JSON with time, method and path: \"%s\"",
            reading->replay->path, reading->first_unreadable, reading->quoted);
    else
        snprintf(why, WORK_WHY_BYTES, "%.60s: none of its %zu lines is a request that is wanted (%s)",
                 reading->replay->path, reading->line_count,
                 strcmp(reading->replay->method, "GET") == 0 ? "GET or HEAD" : reading->replay->method);
    return false;
}

static void reading_clear(struct reading *reading)
{
    struct request *request = reading->requests, *next;
    HASH_CLEAR(hh, reading->requests);
    for (; request != NULL; request = next) {
        next = request->hh.next;
        free(request->name);
        free(request);
    }
    free(reading->entries);
}

bool replay_read(const struct replay *replay, struct work_script **out, char note[static WORK_WHY_BYTES],
                 char why[static WORK_WHY_BYTES])
{
    struct reading reading = {.replay = replay};
    struct work_script *script = calloc(1, sizeof *script);
    bool good = script != NULL && read_file(&reading, why) &&
                (reading.entry_count > 0 || refuse_empty(&reading, why));
    if (script == NULL || (good && !allocate(script, &reading))) {
        snprintf(why, WORK_WHY_BYTES, "no memory");
        good = false;
    }
    if (good) {
        qsort(reading.entries, reading.entry_count, sizeof *reading.entries, by_time);
        spread(&reading);
        take_requests(script, &reading);
        take_lines(script, &reading);
        describe(&reading, script, note);
        *out = script;
    } else {
        replay_free(&script);
    }
    reading_clear(&reading);
    return good;
}

void replay_free(struct work_script **script)
{
    if (*script == NULL)
        return;
    for (size_t i = 0; i < (*script)->request_count; i++)
        free((*script)->requests[i].path);
    free((*script)->requests);
    free((*script)->lines);
    free(*script);
    *script = NULL;
}
