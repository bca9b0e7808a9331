/* SPDX-License-Identifier: MIT */
/* witness_view.c - see witness_view.h. */
#include "load/witness/witness_view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void witness_note(struct witness_view *view, const char *format, ...)
{
    size_t used = strlen(view->caveat), begin = used > 0 ? used + 2 : 0;
    va_list arguments;
    if (begin >= sizeof view->caveat)
        return;
    va_start(arguments, format);
    int count = vsnprintf(view->caveat + begin, sizeof view->caveat - begin, format, arguments);
    va_end(arguments);
    bool fits = count >= 0 && (size_t)count < sizeof view->caveat - begin;
    if (fits && used > 0)
        memcpy(view->caveat + used, "; ", 2);
    else if (!fits)
        view->caveat[used] = '\0';
}

void witness_view_clear(struct witness_view *view)
{
    free(view->loads);
    *view = (struct witness_view){.way = WITNESS_NONE};
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

bool witness_most_at_once(const struct witness_load *loads, size_t count, uint64_t cut_us, uint32_t *most)
{
    uint64_t *ends = calloc(count + 1, sizeof *ends);
    *most = count > 0;
    if (ends == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        ends[i] = loads[i].end_us > loads[i].at_us ? loads[i].end_us : loads[i].at_us;
    qsort(ends, count, sizeof *ends, by_number);
    for (size_t begun = 1, ended = 0; begun <= count; begun++) {
        while (ended < count && ends[ended] <= loads[begun - 1].at_us + cut_us)
            ended++;
        if (begun > ended + *most)
            *most = (uint32_t)(begun - ended);
    }
    free(ends);
    return true;
}
