/* SPDX-License-Identifier: MIT */
/* stack.c - what is common to private servers: waiting for them and reading their logs. */
#include "load/stack/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines are counted as they are; the last one may still lack its end. */
uint32_t stack_log_count(const char *log_path, uint64_t mark, const char *text)
{
    char *line = NULL;
    size_t line_bytes = 0;
    uint32_t count = 0;
    FILE *file = fopen(log_path, "re");
    if (file == NULL)
        return 0;
    if (fseek(file, (long)mark, SEEK_SET) == 0) {
        while (getline(&line, &line_bytes, file) != -1)
            count += strstr(line, text) != NULL;
    }
    free(line);
    fclose(file);
    return count;
}
