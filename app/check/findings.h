/* SPDX-License-Identifier: MIT */
/*
 * findings.h - what a check has found, and how it is printed: a line each, or JSON.
 *
 *     ok       database: PostgreSQL 15.18, 93 of 97 connections free
 *     warning  clock: not kept in step with others; run chrony or systemd-timesyncd
 *     wrong    redis: appendonly is yes; CONFIG SET appendonly no: a restart must not bring back what was invalidated
 *
 * Threads: one.
 */
#ifndef APP_FINDINGS_H
#define APP_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum verdict { VERDICT_OK, VERDICT_WARNING, VERDICT_WRONG, VERDICT_COUNT };

struct findings {
    FILE *out;    /* lent; each is printed as it is found; NULL: not */
    json_t *list; /* ours */
    unsigned count[VERDICT_COUNT];
};

void findings_init(struct findings *findings, FILE *out);
void findings_clear(struct findings *findings);

/* What is all right. `format`: what was found. No text of a setting that may hold a password. */
void findings_ok(struct findings *findings, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What may be meant, or what is wrong; advice: what to do about it. */
void findings_add(struct findings *findings, enum verdict verdict, const char *what, const char *advice,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* {"wrong": 1, "warnings": 0, "findings": [{"verdict", "what", "found", "advice"}]} */
bool findings_print_json(const struct findings *findings, FILE *out);

#endif
