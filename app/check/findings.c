/* SPDX-License-Identifier: MIT */
/* findings.c - see findings.h. */
#include "app/check/findings.h"

#include <stdarg.h>

enum { FOUND_BYTES = 512 };

static const char *const NAMES[VERDICT_COUNT] = {
    [VERDICT_OK] = "ok", [VERDICT_WARNING] = "warning", [VERDICT_WRONG] = "wrong"};

void findings_init(struct findings *findings, FILE *out)
{
    *findings = (struct findings){.out = out, .list = json_array()};
}

void findings_clear(struct findings *findings)
{
    json_decref(findings->list);
    findings->list = NULL;
}

/* What others said, or a path, may be no UTF-8, which JSON must be. */
static json_t *found_json(const char *found)
{
    json_t *whole = json_string(found);
    char plain[FOUND_BYTES];

    if (whole != NULL)
        return whole;
    snprintf(plain, sizeof(plain), "%s", found);
    for (char *at = plain; *at != '\0'; at++)
        *at = (*at & 0x80) != 0 ? '?' : *at;
    return json_string(plain);
}

__attribute__((format(printf, 5, 0))) static void take(struct findings *findings, enum verdict verdict,
                                                       const char *what, const char *advice,
                                                       const char *format, va_list arguments)
{
    char found[FOUND_BYTES];

    vsnprintf(found, sizeof(found), format, arguments);
    findings->count[verdict]++;
    json_array_append_new(findings->list,
                          json_pack("{s:s, s:s, s:o, s:s*}", "verdict", NAMES[verdict], "what", what, "found",
                                    found_json(found), "advice", advice));
    if (findings->out == NULL)
        return;
    fprintf(findings->out, "%-8s %s: %s%s%s\n", NAMES[verdict], what, found, advice != NULL ? "; " : "",
            advice != NULL ? advice : "");
    fflush(findings->out);
}

void findings_ok(struct findings *findings, const char *what, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    take(findings, VERDICT_OK, what, NULL, format, arguments);
    va_end(arguments);
}

void findings_add(struct findings *findings, enum verdict verdict, const char *what, const char *advice,
                  const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    take(findings, verdict, what, advice, format, arguments);
    va_end(arguments);
}

bool findings_print_json(const struct findings *findings, FILE *out)
{
    json_t *whole = json_pack("{s:i, s:i, s:O}", "wrong", (int)findings->count[VERDICT_WRONG], "warnings",
                              (int)findings->count[VERDICT_WARNING], "findings", findings->list);
    const bool printed =
        whole != NULL && json_dumpf(whole, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF;

    json_decref(whole);
    return printed;
}
