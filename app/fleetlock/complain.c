/* SPDX-License-Identifier: MIT */
/* complain.c - see complain.h. */
#include "app/fleetlock/complain.h"

#include "guard/guard.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_uint lost; /* lines, since one was written */

void complain(const char *format, ...)
{
    char text[1024], line[1280], before[64] = "";
    const unsigned count = atomic_exchange(&lost, 0);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (count > 0)
        snprintf(before, sizeof before, "(%u lines before this one could not be written) ", count);
    const int bytes = snprintf(line, sizeof line, "fleetlock: %s%s\n", before, text);
    if (!guard_write_stderr(line, (size_t)bytes))
        atomic_fetch_add(&lost, count + 1);
}
