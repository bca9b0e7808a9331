/* SPDX-License-Identifier: MIT */
/*
 * failing_memory.h - the n-th allocation fails. For programs linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc.
 *
 *     until_failure = n; failures = 0; what takes memory; until_failure = 0; failures says whether it came to that
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

static bool counting = true;   /* false: what is taken now is the test's own */
static unsigned until_failure; /* 0: none fails */
static unsigned failures;

static bool fails(void)
{
    if (!counting || until_failure == 0 || --until_failure > 0)
        return false;
    failures++;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __real_realloc(old, bytes);
}
