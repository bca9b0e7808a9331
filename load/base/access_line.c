/* SPDX-License-Identifier: MIT */
/* access_line.c - see access_line.h. */
#include "load/base/access_line.h"

#include "load/base/number.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SECOND_US = 1000000, PATH_SPARE_BYTES = 17 };

/* ---- paths ---- */

static bool is_plain(unsigned char byte)
{
    return byte > ' ' && byte < 127 && byte != '"' && byte != '#' && byte != '\\';
}

/* A byte as it stands in a request, %NN if it cannot, \xNN too; how much of the text it was. */
static size_t take_byte(const char *text, char piece[static 4])
{
    bool is_escaped = text[0] == '\\' && text[1] == 'x' && isxdigit((unsigned char)text[2]) &&
                      isxdigit((unsigned char)text[3]);
    if (is_escaped)
        snprintf(piece, 4, "%%%c%c", text[2], text[3]);
    else
        snprintf(piece, 4, is_plain((unsigned char)*text) ? "%c" : "%%%02X", (unsigned)(unsigned char)*text);
    return is_escaped ? 4 : 1;
}

/* To the space or the end. */
static bool take_path(const char *text, size_t count, struct access_line *hit)
{
    const char *end = text + count, *slash = strstr(text, "://");
    size_t used = 0;
    if (slash != NULL && slash < end && text[0] != '/') /* as proxies are asked */
        text = memchr(slash + 3, '/', (size_t)(end - slash - 3));
    if (text == NULL || text >= end || *text != '/')
        return false;
    while (text < end && *text != ' ') {
        char piece[4];
        size_t taken = take_byte(text, piece);
        hit->is_too_long = used + strlen(piece) + PATH_SPARE_BYTES > sizeof hit->path;
        if (hit->is_too_long)
            return true;
        used += (size_t)snprintf(hit->path + used, sizeof piece, "%s", piece);
        text += taken;
    }
    hit->path[used] = '\0';
    return true;
}

static bool take_method(const char *text, size_t count, struct access_line *hit)
{
    for (size_t i = 0; i < count; i++) {
        if (!isalpha((unsigned char)text[i]) && text[i] != '-' && text[i] != '_')
            return false;
    }
    snprintf(hit->method, sizeof hit->method, "%.*s",
             (int)(count < ACCESS_METHOD_BYTES ? count : ACCESS_METHOD_BYTES), text);
    return count > 0 && count < ACCESS_METHOD_BYTES;
}

/* "GET /path HTTP/1.1" */
static bool take_request(const char *text, size_t count, struct access_line *hit)
{
    const char *space = memchr(text, ' ', count);
    if (space == NULL || !take_method(text, (size_t)(space - text), hit))
        return false;
    return take_path(space + 1, count - (size_t)(space + 1 - text), hit);
}

/* ---- times ---- */

/* "+0200", "+02:00", "Z"; seconds east of Greenwich. */
static bool take_zone(const char *text, long *east_s)
{
    int hours = 0, minutes = 0;
    *east_s = 0;
    if (*text == 'Z' || *text == 'z')
        return true;
    if ((*text != '+' && *text != '-') || (sscanf(text + 1, "%2d:%2d", &hours, &minutes) != 2 &&
                                           sscanf(text + 1, "%2d%2d", &hours, &minutes) != 2))
        return false;
    *east_s = (hours * 60L + minutes) * 60 * (*text == '-' ? -1 : 1);
    return true;
}

static bool take_instant(struct tm *parts, const char *zone, uint64_t fraction_us, struct access_line *hit)
{
    long east_s;
    if (!take_zone(zone, &east_s))
        return false;
    time_t at_s = timegm(parts) - east_s;
    if (at_s < 0)
        return false;
    hit->at_us = (uint64_t)at_s * SECOND_US + fraction_us;
    return true;
}

/* "10/Oct/2000:13:55:36 -0700" */
static bool take_date(const char *text, struct access_line *hit)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm parts = {.tm_isdst = 0};
    char month[4], zone[8];
    if (sscanf(text, "%2d/%3[A-Za-z]/%4d:%2d:%2d:%2d %7[-+:0-9Z]", &parts.tm_mday, month, &parts.tm_year,
               &parts.tm_hour, &parts.tm_min, &parts.tm_sec, zone) != 7)
        return false;
    const char *found = strstr(months, month);
    if (found == NULL || (found - months) % 3 != 0)
        return false;
    parts.tm_mon = (int)(found - months) / 3;
    parts.tm_year -= 1900;
    return take_instant(&parts, zone, 0, hit);
}

/* "2026-11-23T04:35:11.123456Z"; without a zone it is UTC */
static bool take_iso(const char *text, struct access_line *hit)
{
    struct tm parts = {.tm_isdst = 0};
    uint64_t fraction_us = 0, weight = SECOND_US;
    int used = 0;
    if (sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
               &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &used) != 6)
        return false;
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    text += used;
    hit->has_fraction = *text == '.' || *text == ',';
    for (text += hit->has_fraction; hit->has_fraction && isdigit((unsigned char)*text); text++) {
        weight /= 10;
        fraction_us += (uint64_t)(*text - '0') * weight;
    }
    text += strspn(text, " ");
    return take_instant(&parts, *text != '\0' ? text : "Z", fraction_us, hit);
}

/* Since 1970: seconds, or milliseconds where it is too far for seconds. */
static bool take_epoch(double number, struct access_line *hit)
{
    double seconds = number > 1e11 ? number / 1e3 : number;
    if (!isfinite(number) || number < 0 || seconds > 1e11)
        return false;
    hit->has_fraction = number > 1e11 || floor(number) < number;
    hit->at_us = (uint64_t)(seconds * SECOND_US + 0.5);
    return true;
}

/* ---- lines ---- */

/* 127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /path HTTP/1.1" 200 2326 ... */
static bool read_combined(const char *line, struct access_line *hit)
{
    const char *date = strchr(line, '['), *close = date != NULL ? strstr(date, "] \"") : NULL;
    if (close == NULL || !take_date(date + 1, hit))
        return false;
    const char *request = close + 3, *quote = strchr(request, '"');
    return quote != NULL && take_request(request, (size_t)(quote - request), hit);
}

static json_t *first_of(json_t *object, const char *const *names)
{
    for (; *names != NULL; names++) {
        json_t *value = json_object_get(object, *names);
        if (value != NULL)
            return value;
    }
    return NULL;
}

static bool take_json_time(const json_t *value, struct access_line *hit)
{
    double number;
    if (json_is_number(value))
        return take_epoch(json_number_value(value), hit);
    const char *text = json_string_value(value);
    if (text == NULL)
        return false;
    if (number_read_decimal(text, &number))
        return take_epoch(number, hit);
    return take_iso(text, hit) || take_date(text, hit);
}

static bool take_json(json_t *object, struct access_line *hit)
{
    static const char *const times[] = {"time",         "timestamp",  "@timestamp",
                                        "time_iso8601", "time_local", "date",
                                        "msec",         "ts",         NULL},
                             *const paths[] = {"path", "request_uri", "uri", "url", "target", NULL},
                             *const methods[] = {"method", "request_method", NULL};
    const char *path = json_string_value(first_of(object, paths));
    const char *method = json_string_value(first_of(object, methods));
    const char *request = json_string_value(json_object_get(object, "request"));
    if (!take_json_time(first_of(object, times), hit))
        return false;
    if (path != NULL && method != NULL)
        return take_method(method, strlen(method), hit) && take_path(path, strlen(path), hit);
    return request != NULL && take_request(request, strlen(request), hit);
}

static bool read_json(const char *line, struct access_line *hit)
{
    json_t *object = json_loads(line, 0, NULL);
    bool good = json_is_object(object) && take_json(object, hit);
    json_decref(object);
    return good;
}

bool access_line_read(const char *text, struct access_line *out)
{
    *out = (struct access_line){.at_us = 0};
    return *text == '{' ? read_json(text, out) : read_combined(text, out);
}
