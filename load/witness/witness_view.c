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
    free(view->samples);
    *view = (struct witness_view){.way = WITNESS_NONE};
}
