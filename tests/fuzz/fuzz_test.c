/* SPDX-License-Identifier: MIT */
/*
 * fuzz_test.c - every fuzz target on its corpus, and on mutations of it from a fixed seed.
 *
 * What libFuzzer finds is kept in corpus/TARGET/ and stays found, with any compiler; what led it to new code is a
 * line each of corpus/TARGET.base64. Run from the project's folder.
 */
#include "load/base/dice.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/test.h"

#include <dirent.h>

enum { FILE_MAX_BYTES = 16384, MUTATIONS_OF_EACH = 500 };

struct sample {
    uint8_t data[FILE_MAX_BYTES];
    size_t bytes;
};

static bool read_sample(const char *folder, const char *name, struct sample *sample)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = name[0] != '.' ? fopen(path, "rb") : NULL;
    if (file == NULL)
        return false;
    sample->bytes = fread(sample->data, 1, sizeof sample->data, file);
    fclose(file);
    return true;
}

/* A few bytes set, a piece copied over another one, or the end cut off. */
static void mutate(struct sample *sample, uint64_t *random)
{
    uint64_t dice = dice_next(random);
    size_t count = 1 + dice % 4;
    if (sample->bytes == 0)
        return;
    for (size_t i = 0; i < count; i++)
        sample->data[dice_next(random) % sample->bytes] = (uint8_t)dice_next(random);
    size_t from = dice_next(random) % sample->bytes, to = dice_next(random) % sample->bytes;
    size_t room = sample->bytes - (from > to ? from : to);
    if ((dice & 0x100) != 0)
        memmove(sample->data + to, sample->data + from, room);
    if ((dice & 0x600) == 0)
        sample->bytes = dice_next(random) % (sample->bytes + 1);
}

static void run_exactly(const struct fuzz_target *target, const struct sample *sample)
{
    uint8_t *data = malloc(sample->bytes + (sample->bytes == 0)); /* just this size: a byte too far is seen */
    assert_non_null(data);
    memcpy(data, sample->data, sample->bytes);
    target->run(data, sample->bytes);
    free(data);
}

static void run_with_mutations(const struct fuzz_target *target, const struct sample *sample)
{
    uint64_t random = sample->bytes;
    struct sample mutated = *sample;
    run_exactly(target, sample);
    for (int i = 0; i < MUTATIONS_OF_EACH; i++) {
        mutate(&mutated, &random);
        run_exactly(target, &mutated);
        if (i % 8 == 7)
            mutated = *sample;
    }
}

static unsigned run_files(const struct fuzz_target *target)
{
    static struct sample sample;
    unsigned count = 0;
    char folder[256];
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", target->name);
    DIR *corpus = opendir(folder);
    assert_non_null(corpus);
    for (struct dirent *entry = readdir(corpus); entry != NULL; entry = readdir(corpus)) {
        if (!read_sample(folder, entry->d_name, &sample))
            continue;
        run_with_mutations(target, &sample);
        count++;
    }
    closedir(corpus);
    return count;
}

/* Up to the padding. */
static void decode_base64(const char *line, struct sample *sample)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, count = 0;
    for (sample->bytes = 0; strchr("=\n", *line) == NULL; line++) {
        const char *digit = strchr(DIGITS, *line);
        assert_non_null(digit);
        bits = bits << 6 | (uint32_t)(digit - DIGITS);
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        assert_true(sample->bytes < sizeof sample->data);
        sample->data[sample->bytes++] = (uint8_t)(bits >> count);
    }
}

static unsigned run_lines(const struct fuzz_target *target)
{
    static struct sample sample;
    unsigned count = 0;
    char path[256], *line = NULL;
    size_t line_bytes = 0;
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s.base64", target->name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; getline(&line, &line_bytes, file) > 0; count++) {
        decode_base64(line, &sample);
        run_with_mutations(target, &sample);
    }
    free(line);
    fclose(file);
    return count;
}

static void survives_its_corpus(const char *name)
{
    const struct fuzz_target *target = fuzz_target(name);
    assert_non_null(target);
    assert_true(run_files(target) > 0);
    assert_true(run_lines(target) > 0);
    target->run((const uint8_t *)"", 0);
}

TEST(replies_of_any_server_are_read_the_same_however_they_are_cut, P57)
{
    survives_its_corpus("reply");
}

TEST(a_line_of_an_access_log_is_a_request_or_left_out)
{
    survives_its_corpus("replay");
}

TEST(what_passes_through_the_proxy_is_told_once_at_most)
{
    survives_its_corpus("proxy");
}

TEST(a_map_of_slots_stays_true_of_itself_whatever_nodes_say)
{
    survives_its_corpus("cluster");
}

TEST(messages_of_strangers_are_ignored)
{
    survives_its_corpus("message");
}

TEST(an_entry_comes_back_as_it_was_written_or_not_at_all)
{
    survives_its_corpus("envelope");
}

TEST(two_keys_never_share_a_spelling, P21)
{
    survives_its_corpus("key");
}

TEST(an_address_is_complete_or_refused)
{
    survives_its_corpus("address");
}

TEST(whatever_happens_everybody_is_answered_once)
{
    survives_its_corpus("core");
}

TEST(whatever_happens_to_locks_every_request_is_answered_once)
{
    survives_its_corpus("locks");
}

TEST(a_row_has_one_target_and_one_key)
{
    survives_its_corpus("route");
}

TEST(settings_are_sound_or_refused_with_a_reason)
{
    survives_its_corpus("settings");
}

TEST(a_response_is_read_the_same_however_it_is_cut)
{
    survives_its_corpus("http");
}

TEST(a_head_is_accepted_if_it_is_one_of_rfc_9112, P90)
{
    survives_its_corpus("head");
}

TEST(what_a_request_says_of_itself_stays_where_it_is_put)
{
    survives_its_corpus("trace");
}
