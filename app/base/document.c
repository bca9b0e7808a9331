/* SPDX-License-Identifier: MIT */
/* document.c - see document.h. */
#include "app/base/document.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define TREE "catalog"
#define CATEGORY "category:"
#define AFTER ":after:"
#define PRODUCT "product:"
#define OFFERS "offers:"
#define LISTING "listing:"
#define TARGET_TAG "tag:"

_Static_assert(sizeof(CATEGORY) + sizeof(AFTER) + 2 * NUMBER_DIGITS <= DOCUMENT_KEY_SIZE,
               "the longest key fits");

uint64_t document_id(const char *text, size_t bytes)
{
    uint64_t id = 0;

    return text[0] != '0' && number_parse(text, bytes, NUMBER_DIGITS_MAX, &id) ? id : 0;
}

size_t document_key_print(const struct document_key *key, char out[DOCUMENT_KEY_SIZE])
{
    static const char *const words[DOCUMENT_KIND_COUNT] = {[DOCUMENT_TREE] = TREE,
                                                           [DOCUMENT_CATEGORY] = CATEGORY,
                                                           [DOCUMENT_PRODUCT] = PRODUCT,
                                                           [DOCUMENT_OFFERS] = OFFERS};

    assert(key->kind < DOCUMENT_KIND_COUNT);
    char *at = stpcpy(out, words[key->kind]);
    if (key->kind != DOCUMENT_TREE)
        at += number_digits(key->id, at);
    if (key->kind == DOCUMENT_CATEGORY && key->after != 0) {
        at = stpcpy(at, AFTER);
        at += number_digits(key->after, at);
    }
    *at = '\0';
    return (size_t)(at - out);
}

/* What follows `word` at the front of the text; NULL: something else stands there. */
static const char *after_word(const char *text, const char *word)
{
    const size_t bytes = strlen(word);

    return strncmp(text, word, bytes) == 0 ? text + bytes : NULL;
}

static bool parse_page(const char *text, struct document_key *out)
{
    const size_t id_bytes = number_span(text);
    const char *after = after_word(text + id_bytes, AFTER);

    *out = (struct document_key){.kind = DOCUMENT_CATEGORY, .id = document_id(text, id_bytes)};
    if (after == NULL)
        return out->id != 0 && text[id_bytes] == '\0';
    out->after = document_id(after, strlen(after));
    return out->id != 0 && out->after != 0;
}

bool document_key_parse(const char *text, struct document_key *out)
{
    const char *product = after_word(text, PRODUCT), *offers = after_word(text, OFFERS);
    const char *id = product != NULL ? product : offers, *page = after_word(text, CATEGORY);

    if (id != NULL) {
        *out = (struct document_key){.kind = product != NULL ? DOCUMENT_PRODUCT : DOCUMENT_OFFERS,
                                     .id = document_id(id, strlen(id))};
        return out->id != 0;
    }
    if (page != NULL)
        return parse_page(page, out);
    *out = (struct document_key){.kind = DOCUMENT_TREE};
    return strcmp(text, TREE) == 0;
}

bool document_key_valid(const char *text)
{
    struct document_key ignored;

    return document_key_parse(text, &ignored);
}

const char *document_kind_name(enum document_kind kind)
{
    static const char *const names[DOCUMENT_KIND_COUNT] = {[DOCUMENT_TREE] = "catalog",
                                                           [DOCUMENT_CATEGORY] = "categories",
                                                           [DOCUMENT_PRODUCT] = "products",
                                                           [DOCUMENT_OFFERS] = "offers"};

    return names[kind];
}

/* ---- tags ---- */

void tag_category(const char *id, char out[TAG_SIZE])
{
    snprintf(out, TAG_SIZE, CATEGORY "%s", id);
}

void tag_listing(const char *id, char out[TAG_SIZE])
{
    snprintf(out, TAG_SIZE, LISTING "%s", id);
}

bool tag_valid(const char *text)
{
    const char *listing = after_word(text, LISTING);
    const char *id = listing != NULL ? listing : after_word(text, CATEGORY);

    return id != NULL && document_id(id, strlen(id)) != 0;
}

const char *target_tag(const char *target)
{
    return after_word(target, TARGET_TAG);
}

bool target_valid(const char *target)
{
    const char *tag = target_tag(target);

    return tag != NULL ? tag_valid(tag) : document_key_valid(target);
}
