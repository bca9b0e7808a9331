/* SPDX-License-Identifier: MIT */
/*
 * redis/error.c - what an error reply of Redis means to the sender of the command, and how people are told.
 *
 * Redis tells errors apart by their first word only, and the older general ones by their sentence. A script
 * passes on the error of a command it ran; before Redis 7 that came wrapped:
 *   ERR Error running script (call to f_8a1c...): @user_script:3: @user_script: 3: -OOM command not ...
 */
#include "types.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { QUOTED_BYTES = 150 };

struct meaning {
    const char *prefix;
    enum redis_error_class class;
    const char *advice; /* what an operator can do; NULL: the error says it, or nothing */
};

/* Whole first words. */
static const struct meaning meanings[] = {
    {"NOSCRIPT", REDIS_ERROR_NOSCRIPT, NULL},
    {"OOM", REDIS_ERROR_FULL, NULL},
    {"READONLY", REDIS_ERROR_READONLY, NULL},
    {"MASTERDOWN", REDIS_ERROR_READONLY, NULL},
    {"LOADING", REDIS_ERROR_LOADING, NULL},
    {"BUSY", REDIS_ERROR_LOADING, NULL},
    {"TRYAGAIN", REDIS_ERROR_MOVING, NULL},
    {"CLUSTERDOWN", REDIS_ERROR_LOADING, NULL},
    {"MISCONF", REDIS_ERROR_REFUSED, NULL},
    {"NOREPLICAS", REDIS_ERROR_FENCED, NULL},
    {"NOAUTH", REDIS_ERROR_DENIED,
     "this Redis wants a password: put it into the URL, redis://[USER]:PASSWORD@HOST"},
    {"WRONGPASS", REDIS_ERROR_DENIED,
     "correct user and password in the URL, or switch the user on (ACL SETUSER ... on)"},
    {"NOPERM", REDIS_ERROR_DENIED, "the user of the URL may do too little: guard/README.md has its ACL line"},
    {"DENIED", REDIS_ERROR_DENIED, "protected mode: give this Redis a password, or reach it over loopback"},
    {"MOVED", REDIS_ERROR_MOVED, NULL},
    {"ASK", REDIS_ERROR_ASK, NULL},
    {"CROSSSLOT", REDIS_ERROR_DENIED, NULL},
    {"EXECABORT", REDIS_ERROR_OTHER, NULL}, /* a transaction: nothing ran */
};

#define NO_PASSWORD_HERE "this Redis has no password: remove it from the URL"
#define NO_SUCH_DATABASE                                                                                     \
    "put another number into the URL, or raise `databases` in the configuration of this Redis"

/* How the sentence goes on after "ERR ". */
static const struct meaning sentences[] = {
    {"max number of clients", REDIS_ERROR_CROWDED,
     "raise `maxclients` of this Redis, or let fewer processes connect"},
    {"invalid password", REDIS_ERROR_DENIED, "correct the password in the URL"}, /* before Redis 6 */
    {"Client sent AUTH, but no password is set", REDIS_ERROR_DENIED, NO_PASSWORD_HERE},
    {"AUTH <password> called without any password configured", REDIS_ERROR_DENIED, NO_PASSWORD_HERE},
    {"invalid DB index", REDIS_ERROR_DENIED, NO_SUCH_DATABASE},
    {"DB index is out of range", REDIS_ERROR_DENIED, NO_SUCH_DATABASE},
    {"SELECT is not allowed in cluster mode", REDIS_ERROR_DENIED,
     "a Cluster has no database but 0: remove the number from the URL"},
};

/* Somewhere in an error of a script. */
static const struct meaning strayed = {"non local key", REDIS_ERROR_STRAYED, NULL};
#define STRAYED_TEXT "attempted to access a non local key in a cluster node"

static const struct meaning unknown = {"", REDIS_ERROR_OTHER, NULL};

enum {
    WORD_COUNT = sizeof meanings / sizeof meanings[0],
    SENTENCE_COUNT = sizeof sentences / sizeof sentences[0]
};

static bool starts_with(const char *text, size_t text_bytes, const char *prefix)
{
    size_t prefix_bytes = strlen(prefix);
    return text_bytes >= prefix_bytes && memcmp(text, prefix, prefix_bytes) == 0;
}

static const struct meaning *find_word(const char *text, size_t text_bytes)
{
    const char *space = memchr(text, ' ', text_bytes);
    size_t word_bytes = space != NULL ? (size_t)(space - text) : text_bytes;
    for (size_t i = 0; i < WORD_COUNT; i++)
        if (word_bytes == strlen(meanings[i].prefix) && memcmp(text, meanings[i].prefix, word_bytes) == 0)
            return &meanings[i];
    return &unknown;
}

static const struct meaning *find_sentence(const char *text, size_t text_bytes)
{
    for (size_t i = 0; i < SENTENCE_COUNT; i++)
        if (starts_with(text, text_bytes, sentences[i].prefix))
            return &sentences[i];
    return &unknown;
}

/* Where the innermost error begins in a script's wrapped one; `end` if it is not wrapped. */
static const char *unwrap(const char *text, const char *end)
{
    static const char mark[] = "@user_script:";
    const char *inner = NULL;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)) != NULL;
         inner = at)
        at += sizeof mark - 1;
    if (inner == NULL)
        return end;
    while (inner < end && strchr(" :-0123456789", *inner) != NULL)
        inner++;
    return inner;
}

static const struct meaning *find_meaning(const char *text, size_t text_bytes)
{
    const char *end = text + text_bytes;
    if (!starts_with(text, text_bytes, "ERR "))
        return find_word(text, text_bytes);
    if (memmem(text, text_bytes, STRAYED_TEXT, sizeof STRAYED_TEXT - 1) != NULL)
        return &strayed;
    const char *inner = unwrap(text, end);
    if (inner < end)
        return find_word(inner, (size_t)(end - inner));
    return find_sentence(text + 4, text_bytes - 4);
}

enum redis_error_class redis_error_classify(const char *text, size_t text_bytes)
{
    return find_meaning(text, text_bytes)->class;
}

/* A command that it has not: it is too old, or has renamed it. */
static bool is_unknown_command(const char *text, size_t text_bytes)
{
    static const char in_script[] = "Unknown Redis command called from";
    return starts_with(text, text_bytes, "ERR unknown command") ||
           memmem(text, text_bytes, in_script, sizeof in_script - 1) != NULL;
}

bool redis_error_is_permanent(const char *text, size_t text_bytes)
{
    return redis_error_classify(text, text_bytes) == REDIS_ERROR_DENIED ||
           is_unknown_command(text, text_bytes);
}

const char *redis_error_name(const char *text, size_t text_bytes)
{
    return find_meaning(text, text_bytes)->prefix;
}

const char *redis_error_advice(const char *text, size_t text_bytes)
{
    const char *advice = find_meaning(text, text_bytes)->advice;
    return advice != NULL ? advice : "";
}

/* ---- a line for people ---- */

/* Printable and short. */
static void quote(const char *text, size_t text_bytes, char out[REDIS_WHY_SIZE])
{
    size_t bytes = text_bytes < REDIS_WHY_SIZE - 1 ? text_bytes : REDIS_WHY_SIZE - 1;
    memcpy(out, text, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (out[i] < ' ' || out[i] > '~')
            out[i] = '?';
    out[bytes] = '\0';
}

void redis_explain(const struct redisReply *reply, const char *what, bool secret, char why[REDIS_WHY_SIZE])
{
    const char *advice = redis_error_advice(reply->str, reply->len);
    char quoted[REDIS_WHY_SIZE];
    const char *name = redis_error_name(reply->str, reply->len);
    if (secret) /* an error that may repeat a password: only what is known to be Redis's own words */
        snprintf(quoted, sizeof quoted, "%s",
                 name[0] != '\0' ? name : "error withheld: it may contain the password");
    else
        quote(reply->str, reply->len, quoted);
    snprintf(why, REDIS_WHY_SIZE, "%s%.*s%s%s", what, QUOTED_BYTES, quoted, advice[0] != '\0' ? "; " : "",
             advice);
}

void redis_explain_problem(const char *what, const char *problem, char why[REDIS_WHY_SIZE])
{
    snprintf(why, REDIS_WHY_SIZE, "%s: %c%s", what, tolower((unsigned char)problem[0]), problem + 1);
}

void redis_explain_errno(const char *what, int error, char why[REDIS_WHY_SIZE])
{
    redis_explain_problem(what, strerror(error), why); /* of glibc >= 2.32 and musl: of any thread */
}
