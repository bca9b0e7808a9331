/* SPDX-License-Identifier: MIT */
/*
 * fuzz_main.c - the targets under libFuzzer: fuzz TARGET [option of libFuzzer]... [folder]...
 *
 * One program for all, because building and linking them takes longer than a short run. libFuzzer starts itself
 * again for -merge, -fork and -jobs, without the target's name: it goes on in FUZZ_TARGET.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct fuzz_target *chosen;

static void usage(void)
{
    fprintf(stderr, "usage: fuzz TARGET [option of libFuzzer]... [folder]...; TARGET is one of");
    for (const struct fuzz_target *target = fuzz_targets; target->name != NULL; target++)
        fprintf(stderr, " %s", target->name);
    fprintf(stderr, "\n");
    exit(2);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *inherited = getenv("FUZZ_TARGET");
    chosen = fuzz_target(inherited != NULL ? inherited : *argc > 1 ? (*argv)[1] : "");
    if (chosen == NULL)
        usage();
    if (inherited != NULL)
        return 0;
    setenv("FUZZ_TARGET", chosen->name, 1);
    memmove(&(*argv)[1], &(*argv)[2], (size_t)(*argc - 1) * sizeof **argv);
    --*argc;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    chosen->run(data, bytes);
    return 0;
}
