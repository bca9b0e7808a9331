/* SPDX-License-Identifier: MIT */
/* golden.c - see golden.h. */
#include "tests/support/golden.h"

#include "load/base/home.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <unistd.h>

static void assert_same_lines(const char *name, const char *known, const char *text)
{
    for (unsigned line = 1; *known != '\0' || *text != '\0'; line++) {
        const size_t known_bytes = strcspn(known, "\n"), bytes = strcspn(text, "\n");
        if (known_bytes != bytes || memcmp(known, text, bytes) != 0)
            fail_msg("tests/golden/%s:%u\n  is    %.*s\n  known %.*s\nIf that is meant, run `make golden` "
                     "and say why in the commit.",
                     name, line, (int)bytes, text, (int)known_bytes, known);
        known += known_bytes + (known[known_bytes] != '\0');
        text += bytes + (text[bytes] != '\0');
    }
}

void golden_open(struct golden *golden)
{
    *golden = (struct golden){.out = NULL};
    golden->out = open_memstream(&golden->text, &golden->bytes);
    assert_non_null(golden->out);
}

void golden_close(struct golden *golden, const char *name)
{
    char file[64], path[HOME_PATH_BYTES];
    snprintf(file, sizeof file, "tests/golden/%s", name);
    home_path(file, path);
    assert_int_equal(fclose(golden->out), 0);
    if (getenv("GOLDEN") != NULL)
        file_write(path, golden->text);
    char *known = access(path, R_OK) == 0 ? file_read(path, NULL) : strdup("");
    assert_same_lines(name, known, golden->text);
    free(known);
    free(golden->text);
}
