/* SPDX-License-Identifier: MIT */
/* fuzz.c - the table of targets and what they share. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct fuzz_target fuzz_targets[] = {
    {"reply", fuzz_reply},       {"message", fuzz_message},
    {"envelope", fuzz_envelope}, {"key", fuzz_key},
    {"address", fuzz_address},   {"core", fuzz_core},
    {"locks", fuzz_locks},       {"route", fuzz_route},
    {"settings", fuzz_settings}, {"http", fuzz_http},
    {"head", fuzz_head},         {"trace", fuzz_trace},
    {"cluster", fuzz_cluster},   {"replay", fuzz_replay},
    {"proxy", fuzz_proxy},       {NULL, NULL},
};

const struct fuzz_target *fuzz_target(const char *name)
{
    for (const struct fuzz_target *target = fuzz_targets; target->name != NULL; target++)
        if (strcmp(target->name, name) == 0)
            return target;
    return NULL;
}

uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

uint32_t fuzz_u32(struct fuzz_input *input)
{
    uint32_t number = 0;
    for (int i = 0; i < 4; i++)
        number = number << 8 | fuzz_byte(input);
    return number;
}

char *fuzz_text(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    assert(text != NULL);
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
    return text;
}
