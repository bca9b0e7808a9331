/* SPDX-License-Identifier: MIT */
/* witness_line.c - see witness_log.h. */
#include "load/witness/witness_log.h"

#include <string.h>

enum { PREFIX_MAX_BYTES = 400, WORD_MAX_BYTES = 10 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- numbers and times in a prefix ---- */

struct cursor {
    const char *at, *end;
};

static size_t digits_at(struct cursor cursor)
{
    size_t count = 0;
    while (cursor.at + count < cursor.end && is_digit(cursor.at[count]))
        count++;
    return count;
}

static uint64_t number_at(const char *at, size_t digits)
{
    uint64_t number = 0;
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (uint64_t)(at[i] - '0');
    return number;
}

/* Days since 1970 of the proleptic Gregorian calendar; the year begins in March, so that leap days come last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

/* "0000-00-00 00:00:00": the digits are where the pattern has them. */
static bool matches(struct cursor cursor, const char *pattern)
{
    for (; *pattern != '\0'; pattern++, cursor.at++) {
        if (cursor.at == cursor.end || (*pattern == '0' ? !is_digit(*cursor.at) : *cursor.at != *pattern))
            return false;
    }
    return true;
}

/* ".123" and no further digit. */
static bool has_ms(struct cursor cursor)
{
    return matches(cursor, ".000") && (cursor.at + 4 == cursor.end || !is_digit(cursor.at[4]));
}

/* " UTC", " CET", " +0530": part of the time, not of what follows. */
static size_t zone_bytes(struct cursor cursor)
{
    size_t count = 0;
    if (cursor.at == cursor.end || *cursor.at != ' ')
        return 0;
    for (const char *at = cursor.at + 1; at < cursor.end; at++, count++) {
        if (!is_letter(*at) && !is_digit(*at) && *at != '+' && *at != '-' && !(*at == ':' && count > 1))
            break;
    }
    bool is_zone = count > 0 && !is_digit(cursor.at[1]);
    return is_zone ? count + 1 : 0;
}

static bool is_utc_zone(const char *zone, size_t bytes)
{
    return bytes == 4 && (memcmp(zone, " UTC", 4) == 0 || memcmp(zone, " GMT", 4) == 0);
}

/* %m, %t and %s; only the first has milliseconds, and counts. Returns the bytes of it, 0 if it is none. */
static size_t read_calendar(struct cursor cursor, struct witness_line *out, bool *has_time)
{
    static const char pattern[] = "0000-00-00 00:00:00";
    const char *at = cursor.at;
    if (!matches(cursor, pattern))
        return 0;
    int64_t days =
        days_of((int64_t)number_at(at, 4), (int64_t)number_at(at + 5, 2), (int64_t)number_at(at + 8, 2));
    uint64_t seconds = number_at(at + 11, 2) * 3600 + number_at(at + 14, 2) * 60 + number_at(at + 17, 2);
    cursor.at += sizeof pattern - 1;
    if (has_ms(cursor) && !*has_time && days >= 0) {
        out->stamp_us = ((uint64_t)days * 86400 + seconds) * 1000000 + number_at(cursor.at + 1, 3) * 1000;
        cursor.at += 4;
        out->is_utc = is_utc_zone(cursor.at, zone_bytes(cursor));
        *has_time = true;
    }
    cursor.at += zone_bytes(cursor);
    return (size_t)(cursor.at - at);
}

/* %n: seconds since 1970 and milliseconds. */
static size_t read_epoch(struct cursor cursor, struct witness_line *out, bool *has_time)
{
    size_t digits = digits_at(cursor);
    const char *at = cursor.at;
    cursor.at += digits;
    if (digits < 9 || digits > 11 || !has_ms(cursor))
        return 0;
    if (!*has_time) {
        out->stamp_us = number_at(at, digits) * 1000000 + number_at(at + digits + 1, 3) * 1000;
        out->is_utc = true;
    }
    *has_time = true;
    return digits + 4;
}

/* A number that stands alone: not part of a name, an address, or a session's id. */
static bool stands_alone(struct cursor whole, const char *at, size_t digits)
{
    char before = at > whole.at ? at[-1] : ' ', after = at + digits < whole.end ? at[digits] : ' ';
    return digits > 0 && digits <= 10 && !is_letter(before) && !is_letter(after) && before != '_' &&
           after != '_' && before != '.' && after != '.' && before != '-' && before != '+';
}

/* True: it has a time with milliseconds and a process. A number in brackets is preferred. */
static bool read_prefix(struct cursor whole, struct witness_line *out)
{
    bool has_time = false, has_process = false, in_brackets = false;
    struct cursor cursor = whole;
    while (cursor.at < cursor.end) {
        size_t digits = digits_at(cursor), used = 0;
        if (digits > 0 && (cursor.at == whole.at || !is_digit(cursor.at[-1])))
            used = read_calendar(cursor, out, &has_time);
        if (digits > 0 && used == 0)
            used = read_epoch(cursor, out, &has_time);
        if (used == 0 && !in_brackets && stands_alone(whole, cursor.at, digits)) {
            in_brackets = cursor.at > whole.at && cursor.at[-1] == '[';
            if (in_brackets || !has_process)
                out->process = number_at(cursor.at, digits);
            has_process = true;
        }
        cursor.at += used > 0 ? used : (digits > 0 ? digits : 1);
    }
    return has_time && has_process;
}

/* ---- severity ---- */

static const struct {
    const char *word;
    enum witness_line_kind kind;
} severities[] = {
    {"LOG", WITNESS_LINE_LOG},         {"DETAIL", WITNESS_LINE_DETAIL},
    {"ERROR", WITNESS_LINE_OTHER},     {"STATEMENT", WITNESS_LINE_STATEMENT},
    {"FATAL", WITNESS_LINE_OTHER},     {"PANIC", WITNESS_LINE_OTHER},
    {"WARNING", WITNESS_LINE_OTHER},   {"NOTICE", WITNESS_LINE_OTHER},
    {"INFO", WITNESS_LINE_OTHER},      {"DEBUG", WITNESS_LINE_OTHER},
    {"HINT", WITNESS_LINE_OTHER},      {"QUERY", WITNESS_LINE_OTHER},
    {"CONTEXT", WITNESS_LINE_OTHER},   {"LOCATION", WITNESS_LINE_OTHER},
    {"BACKTRACE", WITNESS_LINE_OTHER},
};

enum witness_line_kind witness_line_severity(const char *word, size_t bytes)
{
    for (size_t i = 0; i < sizeof severities / sizeof *severities; i++) {
        if (strlen(severities[i].word) == bytes && memcmp(word, severities[i].word, bytes) == 0)
            return severities[i].kind;
    }
    return WITNESS_LINE_RUBBISH;
}

/* The word that ends here, at its colon. */
static enum witness_line_kind severity_before(const char *line, size_t colon, size_t *word_bytes)
{
    size_t count = 0;
    while (count < colon && count < WORD_MAX_BYTES && is_letter(line[colon - 1 - count]))
        count++;
    *word_bytes = count;
    return witness_line_severity(line + colon - count, count);
}

/* Severities end with a colon and two spaces. */
static enum witness_line_kind find_severity(const char *line, size_t bytes, struct witness_line *out)
{
    size_t limit = bytes < PREFIX_MAX_BYTES ? bytes : PREFIX_MAX_BYTES, word_bytes;
    for (size_t i = 0; i + 2 < limit; i++) {
        if (line[i] != ':' || line[i + 1] != ' ' || line[i + 2] != ' ')
            continue;
        enum witness_line_kind kind = severity_before(line, i, &word_bytes);
        if (kind == WITNESS_LINE_RUBBISH)
            continue;
        out->prefix_bytes = i - word_bytes;
        out->text = line + i + 3;
        out->text_bytes = bytes - i - 3;
        return kind;
    }
    return WITNESS_LINE_RUBBISH;
}

/* log_error_verbosity=verbose: "00000: statement: ..." */
static void skip_sqlstate(struct witness_line *line)
{
    size_t count = 0;
    while (count < line->text_bytes && (is_digit(line->text[count]) || is_letter(line->text[count])))
        count++;
    bool is_state = count == 5 && line->text_bytes >= 7 && memcmp(line->text + 5, ": ", 2) == 0;
    if (is_state && is_digit(line->text[0])) {
        line->text += 7;
        line->text_bytes -= 7;
    }
}

/* PostgreSQL writes a capital from 16 on. */
const char *witness_line_parameters(const char *text, size_t bytes)
{
    static const char word[] = "arameters: ";
    bool is_one = bytes >= sizeof word && (text[0] == 'p' || text[0] == 'P') &&
                  memcmp(text + 1, word, sizeof word - 1) == 0;
    return is_one ? text + sizeof word : NULL;
}

void witness_line_read(const char *line, size_t bytes, struct witness_line *out)
{
    *out = (struct witness_line){.text = line, .text_bytes = bytes};
    if (bytes > 0 && line[0] == '\t') {
        *out = (struct witness_line){.kind = WITNESS_LINE_GOES_ON, .text = line + 1, .text_bytes = bytes - 1};
        return;
    }
    out->kind = find_severity(line, bytes, out);
    size_t prefix = out->kind != WITNESS_LINE_RUBBISH ? out->prefix_bytes : bytes;
    bool is_dated = read_prefix(
        (struct cursor){line, line + (prefix < PREFIX_MAX_BYTES ? prefix : PREFIX_MAX_BYTES)}, out);
    if (out->kind == WITNESS_LINE_RUBBISH && is_dated)
        out->kind = WITNESS_LINE_WORDLESS;
    else if (out->kind != WITNESS_LINE_RUBBISH && !is_dated)
        out->kind = WITNESS_LINE_UNDATED;
    skip_sqlstate(out);
}

bool witness_line_date(const char *text, size_t bytes, struct witness_line *out, size_t *used)
{
    bool has_time = false;
    *used = read_calendar((struct cursor){text, text + bytes}, out, &has_time);
    return has_time;
}

uint64_t witness_line_wall_us(const struct witness_line *line, uint64_t wall_us)
{
    const int64_t quarter_us = (int64_t)900 * 1000000;
    if (line->is_utc)
        return line->stamp_us;
    int64_t off_us = (int64_t)(line->stamp_us - wall_us);
    int64_t quarters = (off_us + (off_us >= 0 ? quarter_us / 2 : -quarter_us / 2)) / quarter_us;
    return line->stamp_us - (uint64_t)(quarters * quarter_us);
}
