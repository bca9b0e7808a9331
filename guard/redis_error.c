/* SPDX-License-Identifier: MIT */
/*
 * redis_error.c - what an error reply of Redis means for whoever sent the command.
 *
 * Redis tells errors apart by their first word only, and the older general ones by their sentence. A script
 * passes on the error of a command it ran; before Redis 7 that came wrapped:
 *   ERR Error running script (call to f_8a1c...): @user_script:3: @user_script: 3: -OOM command not ...
 */
#include "redis.h"
#include <string.h>

struct meaning {
    const char *prefix;
    enum redis_error_class class;
};

/* Whole first words. */
static const struct meaning meanings[] = {
    {"NOSCRIPT", REDIS_ERROR_NOSCRIPT}, {"OOM", REDIS_ERROR_FULL},
    {"READONLY", REDIS_ERROR_READONLY}, {"MASTERDOWN", REDIS_ERROR_READONLY},
    {"LOADING", REDIS_ERROR_LOADING},   {"BUSY", REDIS_ERROR_LOADING},
    {"TRYAGAIN", REDIS_ERROR_LOADING},  {"CLUSTERDOWN", REDIS_ERROR_LOADING},
    {"MISCONF", REDIS_ERROR_REFUSED},   {"NOREPLICAS", REDIS_ERROR_FENCED},
    {"NOAUTH", REDIS_ERROR_DENIED},     {"WRONGPASS", REDIS_ERROR_DENIED},
    {"NOPERM", REDIS_ERROR_DENIED},     {"DENIED", REDIS_ERROR_DENIED}, /* protected mode */
    {"MOVED", REDIS_ERROR_DENIED},      {"ASK", REDIS_ERROR_DENIED},
    {"CROSSSLOT", REDIS_ERROR_DENIED},  {"EXECABORT", REDIS_ERROR_OTHER}, /* a transaction: nothing ran */
};

/* How the sentence goes on after "ERR ". */
static const struct meaning sentences[] = {
    {"max number of clients", REDIS_ERROR_CROWDED},
    {"invalid password", REDIS_ERROR_DENIED}, /* before Redis 6 */
    {"Client sent AUTH, but no password is set", REDIS_ERROR_DENIED},
    {"AUTH <password> called without any password configured", REDIS_ERROR_DENIED},
    {"invalid DB index", REDIS_ERROR_DENIED},
    {"DB index is out of range", REDIS_ERROR_DENIED},
    {"SELECT is not allowed in cluster mode", REDIS_ERROR_DENIED},
};

static const char *const class_names[] = {
    [REDIS_ERROR_NOSCRIPT] = "noscript", [REDIS_ERROR_FULL] = "full",
    [REDIS_ERROR_READONLY] = "readonly", [REDIS_ERROR_LOADING] = "loading",
    [REDIS_ERROR_REFUSED] = "refused",   [REDIS_ERROR_FENCED] = "fenced",
    [REDIS_ERROR_DENIED] = "denied",     [REDIS_ERROR_CROWDED] = "crowded",
    [REDIS_ERROR_OTHER] = "other",
};

enum {
    WORD_COUNT = sizeof meanings / sizeof meanings[0],
    SENTENCE_COUNT = sizeof sentences / sizeof sentences[0]
};

static bool starts_with(const char *text, size_t text_bytes, const char *prefix)
{
    size_t prefix_bytes = strlen(prefix);

    return text_bytes >= prefix_bytes && memcmp(text, prefix, prefix_bytes) == 0;
}

static enum redis_error_class classify_word(const char *text, size_t text_bytes)
{
    const char *space = memchr(text, ' ', text_bytes);
    size_t word_bytes = space != NULL ? (size_t)(space - text) : text_bytes;

    for (size_t i = 0; i < WORD_COUNT; i++)
        if (word_bytes == strlen(meanings[i].prefix) && memcmp(text, meanings[i].prefix, word_bytes) == 0)
            return meanings[i].class;
    return REDIS_ERROR_OTHER;
}

static enum redis_error_class classify_sentence(const char *text, size_t text_bytes)
{
    for (size_t i = 0; i < SENTENCE_COUNT; i++)
        if (starts_with(text, text_bytes, sentences[i].prefix))
            return sentences[i].class;
    return REDIS_ERROR_OTHER;
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

enum redis_error_class redis_error_classify(const char *text, size_t text_bytes)
{
    const char *end = text + text_bytes;

    if (!starts_with(text, text_bytes, "ERR "))
        return classify_word(text, text_bytes);

    const char *inner = unwrap(text, end);
    if (inner < end)
        return classify_word(inner, (size_t)(end - inner));
    return classify_sentence(text + 4, text_bytes - 4);
}

const char *redis_error_class_name(enum redis_error_class class)
{
    size_t index = (size_t) class;

    return index < sizeof class_names / sizeof class_names[0] ? class_names[index] : "other";
}
