/* SPDX-License-Identifier: MIT */
/*
 * chaos_main.c - the program behind `make chaos` and `make soak`.
 *
 *     chaos chaos|soak [--seconds N] [--seed N]
 *     chaos check FILE
 *
 * Exit status: 0 every promise kept, 1 broken, 2 asked wrongly.
 */
#include "tests/chaos/chaos.h"

#include "load/base/proc.h"

#include <stdlib.h>
#include <string.h>

static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

/* False: an argument that is none. */
static bool read_arguments(int argc, char **argv, struct chaos_options *options)
{
    uint64_t number;
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 == argc || !read_number(argv[i + 1], &number))
            return false;
        if (strcmp(argv[i], "--seconds") == 0 && number <= 1000000)
            options->seconds = (uint32_t)number;
        else if (strcmp(argv[i], "--seed") == 0)
            options->seed = number;
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct chaos_options options;
    const char *what = argc > 1 ? argv[1] : "";
    bool soak = strcmp(what, "soak") == 0;
    if (strcmp(what, "check") == 0 && argc == 3)
        return chaos_check(argv[2], stdout) ? 0 : 1;
    chaos_options_init(&options, soak);
    if ((!soak && strcmp(what, "chaos") != 0) || !read_arguments(argc, argv, &options)) {
        fprintf(stderr, "usage: chaos chaos|soak [--seconds N] [--seed N]\n       chaos check FILE\n");
        return 2;
    }
    proc_clean_on_signals();
    return chaos_run(&options) ? 0 : 1;
}
