/* SPDX-License-Identifier: MIT */
/*
 * chaos_main.c - the program behind `make chaos` and `make soak`.
 *
 *     chaos chaos|soak [--seconds N] [--seed N] [--redis one|sentinel|cluster]
 *     chaos check FILE
 *
 * Exit status: 0 every promise kept, 1 broken, 2 asked wrongly.
 */
#include "tests/chaos/chaos.h"

#include "load/base/number.h"
#include "load/base/proc.h"

#include <string.h>

static bool read_topology(const char *text, enum fault_topology *out)
{
    static const struct {
        const char *name;
        enum fault_topology topology;
    } known[] = {{"one", FAULT_ONE_REDIS}, {"sentinel", FAULT_SENTINELS}, {"cluster", FAULT_CLUSTER}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(text, known[i].name) == 0) {
            *out = known[i].topology;
            return true;
        }
    }
    return false;
}

/* False: an argument that is none. */
static bool read_arguments(int argc, char **argv, struct chaos_options *options)
{
    for (int i = 2; i < argc; i += 2) {
        const char *text = i + 1 < argc ? argv[i + 1] : "";
        bool good = false;
        if (strcmp(argv[i], "--seconds") == 0)
            good = number_read(text, 0, 1000000, &options->seconds);
        else if (strcmp(argv[i], "--seed") == 0)
            good = number_scan(&text, UINT64_MAX, &options->seed) && *text == '\0';
        else if (strcmp(argv[i], "--redis") == 0)
            good = read_topology(text, &options->topology);
        if (!good)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct chaos_options options;
    const char *what = argc > 1 ? argv[1] : "";
    proc_begin();
    bool soak = strcmp(what, "soak") == 0;
    if (strcmp(what, "check") == 0 && argc == 3)
        return chaos_check(argv[2], stdout) ? 0 : 1;
    chaos_options_init(&options, soak);
    if ((!soak && strcmp(what, "chaos") != 0) || !read_arguments(argc, argv, &options)) {
        fprintf(stderr, "usage: chaos chaos|soak [--seconds N] [--seed N] [--redis one|sentinel|cluster]\n"
                        "       chaos check FILE\n");
        return 2;
    }
    proc_clean_on_signals();
    return chaos_run(&options) ? 0 : 1;
}
