/* SPDX-License-Identifier: MIT */
/* result_json_test.c - reports into JSON and back, what is no report, and the terminal's table. */
#include "load/base/dice.h"
#include "load/report/result.h"
#include "tests/support/files.h"
#include "tests/support/sample.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files in a folder of the test's own ---- */

static char folder[64];

static bool make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/result_json_test.XXXXXX");
    return mkdtemp(folder) != NULL;
}

/* By a link, so that a writer that replaces what it should write to harms nobody. */
static void make_link(const char *name, const char *device, char path[static 128])
{
    snprintf(path, 128, "%s/%s", folder, name);
    assert_int_equal(symlink(device, path), 0);
}

static size_t files_in_folder(bool removes)
{
    char path[512];
    struct dirent *entry;
    size_t count = 0;
    DIR *stream = opendir(folder);
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (removes)
            remove(path);
    }
    closedir(stream);
    return count;
}

static bool remove_folder(void)
{
    files_in_folder(true);
    return rmdir(folder) == 0;
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ---- there and back ---- */

/* Every number of a struct gets bytes that no default has. */
static void fill_text(char *text, size_t bytes, char letter)
{
    memset(text, letter, bytes - 1);
    text[bytes - 1] = '\0';
}

static void fill_texts(struct result *result)
{
    fill_text(result->name, sizeof result->name, 'n');
    fill_text(result->what, sizeof result->what, 'w');
    fill_text(result->when, sizeof result->when, 'W');
    fill_text(result->way, sizeof result->way, 'y');
    fill_text(result->caveat, sizeof result->caveat, 'c');
    fill_text(result->strain.verdict, sizeof result->strain.verdict, 'v');
    for (size_t i = 0; i < RESULT_MARKS_MAX; i++) {
        fill_text(result->marks[i].text, sizeof result->marks[i].text, 'm');
        result->marks[i].kind = (enum result_mark_kind)(i % 3);
    }
    for (size_t i = 0; i < RESULT_CHECKS_MAX; i++) {
        fill_text(result->checks[i].text, sizeof result->checks[i].text, 't');
        fill_text(result->checks[i].measured, sizeof result->checks[i].measured, 'M');
    }
    for (size_t i = 0; i < RESULT_SAMPLES_MAX; i++) {
        fill_text(result->samples[i].kind, sizeof result->samples[i].kind, 'k');
        fill_text(result->samples[i].url, sizeof result->samples[i].url, 'u');
        fill_text(result->samples[i].text, sizeof result->samples[i].text, 'b');
    }
    for (size_t i = 0; i < RESULT_SETTINGS_MAX; i++) {
        fill_text(result->settings[i].name, sizeof result->settings[i].name, 's');
        fill_text(result->settings[i].value, sizeof result->settings[i].value, 'S');
    }
    fill_text(result->ttl_doubt, sizeof result->ttl_doubt, 'd');
    for (size_t i = 0; i < RESULT_HOT_MAX; i++)
        fill_text(result->hot[i].key, sizeof result->hot[i].key, 'k');
    for (size_t i = 0; i < RESULT_WORST_MAX; i++)
        fill_text(result->worst[i].key, sizeof result->worst[i].key, 'K');
    for (size_t i = 0; i < WITNESS_COMMANDS_MAX; i++)
        fill_text(result->commands[i].name, sizeof result->commands[i].name, 'C');
}

/* All of the struct is 0x01, which is true, a count, and a double; then it is numbered through where it is a count
 * of uint64_t, so that nothing lands in its neighbour. */
static struct result *full_result(void)
{
    struct result *result = malloc(sizeof *result);
    assert_non_null(result);
    memset(result, 1, sizeof *result);
    fill_texts(result);
    for (size_t i = 0; i < 600; i++)
        result->statuses[i] = i < 100 && i > 0 ? 0 : i + 1;
    for (size_t i = 0; i < RECORD_OUTCOMES; i++)
        result->outcomes[i] = i + 1;
    for (size_t i = 0; i < RECORD_CACHES; i++)
        result->caches[i] = 10 * i + 1;
    result->mark_count = RESULT_MARKS_MAX;
    result->check_count = RESULT_CHECKS_MAX;
    result->hot_count = RESULT_HOT_MAX;
    result->setting_count = RESULT_SETTINGS_MAX;
    result->worst_count = RESULT_WORST_MAX;
    result->command_count = WITNESS_COMMANDS_MAX;
    result->slice_count = RESULT_SLICES_MAX;
    result->slices = malloc(RESULT_SLICES_MAX * sizeof *result->slices);
    result->block_count = RESULT_BLOCKS_MAX;
    result->blocks = malloc(RESULT_BLOCKS_MAX * sizeof *result->blocks);
    result->round_count = RESULT_ROUNDS_MAX;
    result->rounds = calloc(RESULT_ROUNDS_MAX, sizeof *result->rounds);
    result->sample_count = RESULT_SAMPLES_MAX;
    assert_non_null(result->slices);
    assert_non_null(result->blocks);
    assert_non_null(result->rounds);
    for (size_t i = 0; i < RESULT_ROUNDS_MAX; i++)
        result->rounds[i] = (struct result_round){.at_ms = (uint32_t)i,
                                                  .due = 7,
                                                  .answer_count = RESULT_STEPS_MAX,
                                                  .load_count = 1,
                                                  .answers[RESULT_STEPS_MAX - 1] = {3, 4},
                                                  .loads[0] = {5, (uint32_t)i}};
    for (size_t i = 0; i < RESULT_SLICES_MAX * sizeof *result->slices / sizeof(uint32_t); i++)
        memcpy((uint32_t *)(void *)result->slices + i, &(uint32_t){(uint32_t)i}, sizeof(uint32_t));
    for (size_t i = 0; i < (size_t)RESULT_BLOCKS_MAX * RESULT_BUCKETS; i++)
        result->blocks[i / RESULT_BUCKETS][i % RESULT_BUCKETS] = (uint32_t)(i % 7 * i);
    return result;
}

/* What is read is written once more: the two files are the same. */
static void assert_survives(const struct report *report, struct report *read)
{
    char why[RESULT_WHY_BYTES] = "";
    if (!report_write(report, path_of("once.json"), why) || !report_read(read, path_of("once.json"), why) ||
        !report_write(read, path_of("twice.json"), why))
        fail_msg("%s", why);
    char *once = file_read(path_of("once.json"), NULL), *twice = file_read(path_of("twice.json"), NULL);
    assert_string_equal(once, twice);
    free(once);
    free(twice);
}

TEST(nothing_is_lost_on_the_way_to_a_file_and_back)
{
    struct report report = {.result_count = 0}, read;
    fill_text(report.title, sizeof report.title, 'T');
    fill_text(report.about, sizeof report.about, 'A');
    report.about[100] = '\n';
    fill_text(report.command, sizeof report.command, 'C');
    fill_text(report.machine, sizeof report.machine, 'M');
    report_add(&report, full_result());
    report_add(&report, full_result());
    report.results[1]->all.p99_us = INT64_MAX;
    assert_survives(&report, &read);
    assert_int_equal(read.result_count, 2);
    assert_int_equal(read.results[1]->all.p99_us, INT64_MAX);
    assert_int_equal(read.results[0]->slices[7].needed, report.results[0]->slices[7].needed);
    assert_memory_equal(read.results[0]->rounds, report.results[0]->rounds,
                        RESULT_ROUNDS_MAX * sizeof(struct result_round));
    assert_memory_equal(&read, &report, offsetof(struct report, results));
    report_clear(&read);
    report_clear(&report);
}

TEST(what_was_not_measured_is_null, P105)
{
    struct report report = {.result_count = 0}, read;
    struct result *result = calloc(1, sizeof *result);
    assert_non_null(result);
    result->all = (struct result_quantiles){
        .count = 900, .min_us = 1, .p50_us = 5, .p99_us = 50, .p999_us = 99, .p9999_us = 99, .max_us = 99};
    result->requests = 900;
    report_add(&report, result);
    assert_survives(&report, &read);
    char *text = file_read(path_of("once.json"), NULL);
    static const char *const there[] = {
        "\"p99_us\": 50,",          "\"p999_us\": null,",     "\"p9999_us\": null,",
        "\"max_us\": 99,",          "\"loads\": null,",       "\"expiries\": null,",
        "\"offered_per_s\": null,", "\"recovery_ms\": null,", "\"received_bytes\": 0,"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        if (strstr(text, there[i]) == NULL)
            fail_msg("no %s", there[i]);
    }
    assert_int_equal(read.results[0]->all.p9999_us, 0);
    free(text);
    report_clear(&read);
    report_clear(&report);
}

TEST(a_run_looks_the_same_from_its_file)
{
    struct report report, read;
    char *tables[2];
    sample_rate_report(&report);
    assert_survives(&report, &read);
    for (size_t i = 0; i < 2; i++) {
        FILE *out = fopen(path_of("table"), "we");
        assert_non_null(out);
        report_table(i == 0 ? &report : &read, out, false);
        fclose(out);
        tables[i] = file_read(path_of("table"), NULL);
    }
    assert_string_equal(tables[0], tables[1]);
    free(tables[0]);
    free(tables[1]);
    report_clear(&read);
    report_clear(&report);
}

TEST(text_that_is_cut_within_a_character_is_still_written)
{
    struct report report = {.title = "Wei\xc3"}, read;
    char why[RESULT_WHY_BYTES] = "";
    struct result *result = calloc(1, sizeof *result);
    assert_non_null(result);
    report_add(&report, result);
    result->check_count = 1;
    memset(result->checks[0].text, 'x', sizeof result->checks[0].text); /* without an end */
    snprintf(result->checks[0].measured, sizeof result->checks[0].measured, "\x1b[2J\xff");
    assert_true(report_write(&report, path_of("cut.json"), why));
    assert_true(report_read(&read, path_of("cut.json"), why));
    assert_string_equal(read.title, "Wei?");
    assert_string_equal(read.results[0]->checks[0].measured, "?[2J?");
    assert_int_equal(strlen(read.results[0]->checks[0].text), RESULT_TEXT_BYTES - 1);
    report_clear(&read);
    report_clear(&report);
}

/* ---- what is no report ---- */

static void assert_refused(const char *path, const char *expected)
{
    struct report read;
    char why[RESULT_WHY_BYTES] = "";
    assert_false(report_read(&read, path, why));
    if (strncmp(why, path, strlen(path)) != 0 || strstr(why, expected) == NULL)
        fail_msg("\"%s\" does not name the file and \"%s\"", why, expected);
    assert_int_equal(read.result_count, 0);
}

TEST(what_is_no_report_is_refused_with_its_reason)
{
    static const char *const foreign[][2] = {
        {"", "line 1, column 0: is not JSON"},
        {"{\"a\": 1,\n \"b\" 2}", "line 2, column 6: is not JSON"},
        {"{\"a\": 1, \"a\": 2}", "duplicate"},
        {"[1, 2]", "not a report of this tool"},
        {"{\"version\": 1}", "not a report of this tool"},
        {"{\"stampede_report\": \"1\"}", "not a report of this tool"},
        {"{\"stampede_report\": 99}",
         "version 99, and this tool reads version 3: read it with the tool that wrote it"},
        {"{\"stampede_report\": 1}", "version 1, and this tool reads version 3"},
        {"{\"stampede_report\": 3}", "title is missing"},
        {"{\"stampede_report\": 3, \"title\": 3}", "title must be text"},
        {"{\"stampede_report\": 3, \"title\": \"\", \"about\": \"\", \"command\": \"\", \"machine\": \"\", "
         "\"results\": {}}",
         "results must be a list"},
        {"{\"stampede_report\": 3, \"title\": \"\", \"about\": \"\", \"command\": \"\", \"machine\": \"\", "
         "\"results\": [7]}",
         "results[0] must be an object"},
    };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        file_write(path_of("foreign"), foreign[i][0]);
        assert_refused(path_of("foreign"), foreign[i][1]);
    }
    remove(path_of("foreign"));
    assert_refused(path_of("foreign"), "cannot be read: No such file");
    assert_refused(folder, "is not a file");
    assert_refused("/dev/zero", "is not a file");
}

/* One thing is changed in a good file. */
TEST(one_wrong_value_is_named_with_its_place)
{
    static const char *const changes[][3] = {
        {"\"at_ms\": 4000", "\"at_ms\": -1", "results[0].marks["},
        {"\"at_ms\": 4000", "\"at_ms\": -1", "].at_ms must be a whole number, not negative"},
        {"\"kind\": \"fault\"", "\"kind\": \"crash\"", ".kind must be \"expiry\", \"fault\" or \"note\""},
        {"\"slice_ms\": 50", "\"slice_ms\": 0", "results[0].slices are there, but slice_ms is 0"},
        {"\"slice_ms\": 50", "\"slice_ms\": 4294967296", "results[0].slice_ms must be at most 4294967295"},
        {"\"duration_ms\": ", "\"duration\": ", "results[0].duration_ms is missing"},
        {"\"held\": true", "\"held\": 1", "results[0].checks[0].held must be true or false"},
        {"\"busiest\": 0", "\"busiest\": -0", "results[0].strain.busiest must be a number, not negative"},
        {"\"answered\": 20000", "\"answered\": 1.5", "results[0].outcomes.answered must be a whole number"},
        {"\"answered\": 20000", "\"eaten\": 20000", "results[0].outcomes has a name that nobody knows"},
        {"\"statuses\": {", "\"statuses\": {\"99999\": 1,",
         "results[0].statuses has a name that nobody knows"},
        {"\"p99_us\": ", "\"p99\": ", "results[0].latency.p99_us is missing"},
        {"\"blocks\": [\n    {\n     \"", "\"blocks\": [\n    {\n     \"8999", "results[0].blocks[0].8999"},
        {"\"blocks\": [", "\"blocks\": [{},", "results[0].blocks has more than 20 items"},
        {"\"slices\": [", "\"slices\": [false,", "results[0].slices[0] must be an object"},
        {"\"hot\": [", "\"hots\": [", "results[0].hot is missing"},
        {"\"name\": \"local\"", "\"name\": null", "results[1].name must be text"},
    };
    struct report report;
    char why[RESULT_WHY_BYTES] = "";
    sample_rate_report(&report);
    assert_true(report_write(&report, path_of("good.json"), why));
    report_clear(&report);
    char *good = file_read(path_of("good.json"), NULL);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *at = strstr(good, changes[i][0]);
        assert_non_null(at);
        FILE *file = fopen(path_of("bad.json"), "we");
        assert_non_null(file);
        fprintf(file, "%.*s%s%s", (int)(at - good), good, changes[i][1], at + strlen(changes[i][0]));
        fclose(file);
        assert_refused(path_of("bad.json"), changes[i][2]);
    }
    free(good);
}

TEST(lists_longer_than_their_room_are_refused)
{
    struct report report = {.result_count = 0};
    char why[RESULT_WHY_BYTES] = "";
    struct result *result = calloc(1, sizeof *result);
    assert_non_null(result);
    report_add(&report, result);
    result->hot_count = RESULT_HOT_MAX;
    assert_true(report_write(&report, path_of("long.json"), why));
    report_clear(&report);
    char *good = file_read(path_of("long.json"), NULL), *at = strstr(good, "\"hot\": [");
    assert_non_null(at);
    FILE *file = fopen(path_of("long.json"), "we");
    assert_non_null(file);
    fprintf(file, "%.*s{\"key\": \"\", \"loads\": 1},%s", (int)(at + 8 - good), good, at + 8);
    fclose(file);
    free(good);
    assert_refused(path_of("long.json"), "results[0].hot has more than 10 items");
}

/* Whatever a damaged file says, reading it ends without harm: it is cut, and bytes of it are changed. */
TEST(a_damaged_file_does_no_harm)
{
    struct report report, read;
    char why[RESULT_WHY_BYTES] = "";
    size_t taken = 0;
    uint64_t seed = 1;
    sample_burst_report(&report);
    result_clear(report.results[2]);
    free(report.results[2]);
    report.result_count = 2;
    assert_true(report_write(&report, path_of("whole.json"), why));
    report_clear(&report);
    char *whole = file_read(path_of("whole.json"), NULL);
    size_t bytes = strlen(whole);
    for (size_t i = 0; i < 640; i++) {
        char *damaged = strdup(whole);
        assert_non_null(damaged);
        const uint64_t random = dice_next(&seed);
        if (i % 3 == 0)
            damaged[(random >> 20) % bytes] = '\0';
        for (size_t j = 0; j < 1 + i % 4; j++)
            damaged[(random >> (8 * j)) % bytes] = (char)('0' + j % 10);
        file_write(path_of("damaged.json"), damaged);
        free(damaged);
        if (report_read(&read, path_of("damaged.json"), why)) {
            taken++;
            report_table(&read, stderr, false);
            report_clear(&read);
        }
    }
    free(whole);
    assert_in_range(taken, 1, 400);
}

/* ---- files ---- */

TEST(a_report_takes_the_place_of_an_earlier_one_and_leaves_nothing_else)
{
    struct report report = {.title = "second"}, read;
    char why[RESULT_WHY_BYTES] = "";
    files_in_folder(true);
    file_write(path_of("same.json"), "something else");
    assert_true(report_write(&report, path_of("same.json"), why));
    assert_true(report_read(&read, path_of("same.json"), why));
    assert_string_equal(read.title, "second");
    assert_int_equal(files_in_folder(false), 1);
    report_clear(&read);
}

TEST(a_place_that_cannot_be_written_is_named)
{
    struct report report = {.title = "nowhere"};
    char why[RESULT_WHY_BYTES] = "", path[8192];
    assert_false(report_write(&report, "/nonexistent/r.json", why));
    assert_non_null(strstr(why, "/nonexistent/r.json: cannot be written: No such file"));
    assert_false(report_write(&report, folder, why));
    assert_non_null(strstr(why, "cannot be written: Is a directory"));
    make_link("full", "/dev/full", path);
    assert_false(report_write(&report, path, why));
    assert_non_null(strstr(why, "/full: cannot be written: No space left"));
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_false(report_write(&report, path, why));
    assert_non_null(strstr(why, "the path is too long"));
}

TEST(what_is_no_file_is_written_to_and_not_replaced)
{
    struct report report = {.title = "to nobody"};
    char why[RESULT_WHY_BYTES] = "";
    char path[128];
    struct stat stat_of;
    make_link("null", "/dev/null", path);
    assert_true(report_write(&report, path, why));
    assert_int_equal(lstat(path, &stat_of), 0);
    assert_true(S_ISLNK(stat_of.st_mode));
}

TEST_GROUP(.up = make_folder, .down = remove_folder);
