/* SPDX-License-Identifier: MIT */
/* work_test.c - what a run asks: texts, checks, and chance with a seed. */
#include "load/herd/work.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <unistd.h>

enum { DRAWS = 400000, RANKS_MAX = 5000 };

static struct work work; /* the test's */

/* ---- targets ---- */

struct good_target {
    const char *text, *name;
    int family;
    uint16_t port;
};

static const struct good_target good_targets[] = {
    {"127.0.0.1:8080", "127.0.0.1:8080", AF_INET, 8080},
    {"http://127.0.0.1:8080", "127.0.0.1:8080", AF_INET, 8080},
    {"HTTP://127.0.0.1:8080/", "127.0.0.1:8080", AF_INET, 8080},
    {"127.0.0.1", "127.0.0.1:80", AF_INET, 80},
    {"[::1]:65535", "[::1]:65535", AF_INET6, 65535},
    {"[::1]", "[::1]:80", AF_INET6, 80},
    {"localhost:1", "localhost:1", AF_INET, 1},
    {"https://127.0.0.1", "127.0.0.1:443", AF_INET, 443},
    {"HTTPS://[::1]:8443/", "[::1]:8443", AF_INET6, 8443},
};

static uint16_t port_of(const struct net_address *address)
{
    /* Both kinds have it in the same place. */
    return ntohs(((const struct sockaddr_in *)&address->storage)->sin_port);
}

TEST(a_target_is_a_host_and_a_port)
{
    char why[WORK_WHY_BYTES];
    for (size_t i = 0; i < sizeof good_targets / sizeof *good_targets; i++) {
        struct work_target target;
        assert_true(work_target_parse(good_targets[i].text, &target, why));
        assert_string_equal(target.name, good_targets[i].name);
        assert_int_equal(target.address.storage.ss_family, good_targets[i].family);
        assert_int_equal(port_of(&target.address), good_targets[i].port);
    }
}

struct bad_text {
    const char *text, *reason; /* a part of it */
};

static const struct bad_text bad_targets[] = {
    {"", "is not host:port"},
    {":8080", "is not host:port"},
    {"127.0.0.1:", "is not host:port"},
    {"127.0.0.1:0", "is not host:port"},
    {"127.0.0.1:65536", "is not host:port"},
    {"127.0.0.1:99999999999999999999", "is not host:port"},
    {"127.0.0.1:80x", "is not host:port"},
    {"127.0.0.1:80:90", "is not host:port"},
    {"::1", "is not host:port"},
    {"[::1", "is not host:port"},
    {"[]:80", "is not host:port"},
    {"[::1]80", "is not host:port"},
    {"[::g]:80", "not an IPv6 address"},
    {"me@127.0.0.1:80", "no user or password is sent"},
    {"a b:80", "is not host:port"},
    {"http://", "is not host:port"},
    {"ftp://127.0.0.1", "a target has no path"},
    {"127.0.0.1:80/path", "a target has no path"},
    {"no-such-host.invalid:80", "is not found"},
    {"me:hunter2@127.0.0.1:80", "no user or password is sent: name \"127.0.0.1:80\""},
    {"https://me:hunter2@127.0.0.1", "no user or password is sent: name \"127.0.0.1\""},
};

TEST(a_wrong_target_is_refused_with_the_reason)
{
    for (size_t i = 0; i < sizeof bad_targets / sizeof *bad_targets; i++) {
        char why[WORK_WHY_BYTES] = "";
        struct work_target target;
        assert_false(work_target_parse(bad_targets[i].text, &target, why));
        if (strstr(why, bad_targets[i].reason) == NULL || strstr(why, "hunter2") != NULL)
            fail_msg("%s: %s", bad_targets[i].text, why);
    }
}

TEST(a_text_of_any_length_is_refused_within_its_line)
{
    char text[2000], why[WORK_WHY_BYTES];
    struct work_target target;
    work_init(&work);
    for (size_t length = 1; length < sizeof text; length *= 2) {
        memset(text, 'a', length);
        memcpy(text + length, ":x", 3);
        assert_false(work_target_parse(text, &target, why));
        text[0] = '/';
        text[length - 1] = '{';
        assert_false(work_url_add(&work, text, why));
    }
}

/* ---- URLs ---- */

struct good_url {
    const char *text, *path;
    enum work_keys keys;
    uint32_t first, last;
    double exponent;
    uint32_t weight;
    int target;
};

static const struct good_url good_urls[] = {
    {"/", "/", WORK_NO_KEY, 0, 0, 0, 1, -1},
    {"/products/7?a=b&c=%20", "/products/7?a=b&c=%20", WORK_NO_KEY, 0, 0, 0, 1, -1},
    {"/products/{7-900}", "/products/{7-900}", WORK_UNIFORM, 7, 900, 0, 1, -1},
    {"/{0-4294967295}.html weight 3", "/{0-4294967295}.html", WORK_UNIFORM, 0, UINT32_MAX, 0, 3, -1},
    {"/{zipf:1-50000}", "/{zipf:1-50000}", WORK_ZIPF, 1, 50000, 0.99, 1, -1},
    {"/{zipf:5-5:1.2}\t weight\t1000000 ", "/{zipf:5-5:1.2}", WORK_ZIPF, 5, 5, 1.2, 1000000, -1},
    {"/{each:1-2000}", "/{each:1-2000}", WORK_EACH, 1, 2000, 0, 1, -1},
    {"/{1-50_000} weight 1_0", "/{1-50_000}", WORK_UNIFORM, 1, 50000, 0, 10, -1},
    {"/{random}/x", "/{random}/x", WORK_RANDOM, 1, INT32_MAX, 0, 1, -1},
    {"http://127.0.0.1:9/a", "/a", WORK_NO_KEY, 0, 0, 0, 1, 1},
    {"http://127.0.0.1:8/a weight 2", "/a", WORK_NO_KEY, 0, 0, 0, 2, 0},
    {"http://127.0.0.1:9", "/", WORK_NO_KEY, 0, 0, 0, 1, 1},
    {"http://127.0.0.1:9 weight 4", "/", WORK_NO_KEY, 0, 0, 0, 4, 1},
};

static void work_start(void)
{
    char why[WORK_WHY_BYTES];
    work_init(&work);
    assert_true(work_target_parse("127.0.0.1:8", &work.targets[0], why));
    work.target_count = 1;
}

static void add_url(const char *text)
{
    char why[WORK_WHY_BYTES] = "";
    if (!work_url_add(&work, text, why))
        fail_msg("%s: %s", text, why);
}

TEST(a_url_has_a_path_perhaps_a_key_a_target_and_a_weight)
{
    work_start();
    for (size_t i = 0; i < sizeof good_urls / sizeof *good_urls; i++) {
        add_url(good_urls[i].text);
        const struct work_url *url = &work.urls[work.url_count - 1];
        assert_string_equal(url->path, good_urls[i].path);
        assert_int_equal(url->keys, good_urls[i].keys);
        assert_int_equal(url->first, good_urls[i].first);
        assert_int_equal(url->last, good_urls[i].last);
        assert_true(fabs(url->exponent - good_urls[i].exponent) < 1e-12);
        assert_int_equal(url->weight, good_urls[i].weight);
        assert_int_equal(url->target, good_urls[i].target);
    }
    assert_int_equal(work.target_count, 2);
    assert_string_equal(work.targets[1].name, "127.0.0.1:9");
}

static const struct bad_text bad_urls[] = {
    {"", "neither /path nor http"},
    {"products/7", "neither /path nor http"},
    {" /x", "neither /path nor http"},
    {"http:///x", "is not host:port"},
    {"http://127.0.0.1:0/x", "is not host:port"},
    {"http://127.0.0.1:77/a{", "one {...}"},
    {"/a}b{", "one {...}"},
    {"/{1-2}{1-2}", "one {...}"},
    {"/{1-2}}", "one {...}"},
    {"/{{1-2}", "one {...}"},
    {"/{}", "{...} is"},
    {"/{id}", "{...} is"},
    {"/{7}", "{...} is"},
    {"/{9-7}", "{...} is"},
    {"/{-7}", "{...} is"},
    {"/{1-4294967296}", "{...} is"},
    {"/{1-99999999999999999999}", "{...} is"},
    {"/{1-2x}", "{...} is"},
    {"/{1-2:1.2}", "{...} is"},
    {"/{zipf:1-9:}", "{...} is"},
    {"/{zipf:1-9:0}", "{...} is"},
    {"/{zipf:1-9:-1}", "{...} is"},
    {"/{zipf:1-9:nan}", "{...} is"},
    {"/{zipf:1-9:21}", "{...} is"},
    {"/{zipf:1-9:1e0}", "{...} is"},
    {"/{zipf:1-9:1.2x}", "{...} is"},
    {"/{zipf:0-4294967295}", "{...} is"},
    {"/{each:1-9:1.2}", "{...} is"},
    {"/{randomly}", "{...} is"},
    {"/a#b", "byte 3 cannot stand in a request"},
    {"/a\x7f", "byte 3 cannot stand"},
    {"/a\r\nX: y", "byte 3 cannot stand"},
    {"/\xc3\xa4", "byte 2 cannot stand"},
    {"/a 3", "only \"weight N\" may follow"},
    {"/a weight", "only \"weight N\" may follow"},
    {"/a weight3", "only \"weight N\" may follow"},
    {"/a weight 0", "a weight is a number"},
    {"/a weight -1", "a weight is a number"},
    {"/a weight 1000001", "a weight is a number"},
    {"/a weight 3 4", "a weight is a number"},
    {"http://127.0.0.1:77 weight x", "a weight is a number"},
};

TEST(a_wrong_url_is_refused_and_changes_nothing)
{
    work_start();
    for (size_t i = 0; i < sizeof bad_urls / sizeof *bad_urls; i++) {
        char why[WORK_WHY_BYTES] = "";
        if (work_url_add(&work, bad_urls[i].text, why))
            fail_msg("%s was accepted", bad_urls[i].text);
        if (strstr(why, bad_urls[i].reason) == NULL)
            fail_msg("%s: %s", bad_urls[i].text, why);
        assert_int_equal(work.url_count, 0);
        assert_int_equal(work.target_count, 1);
    }
}

TEST(the_longest_path_still_has_room_for_its_number)
{
    char text[WORK_PATH_BYTES + 1], path[WORK_PATH_BYTES], why[WORK_WHY_BYTES];
    work_start();
    memset(text, 'x', sizeof text);
    memcpy(text, "/{random}", 9);
    text[WORK_PATH_BYTES - 17] = '\0';
    assert_true(work_url_add(&work, text, why));
    assert_int_equal(work_path(&work.urls[0], UINT32_MAX, path), strlen(text) - 8 + 10);
    assert_int_equal(strlen(path), strlen(text) + 2);
    text[WORK_PATH_BYTES - 17] = 'x';
    text[WORK_PATH_BYTES - 16] = '\0';
    assert_false(work_url_add(&work, text, why));
}

TEST(no_more_urls_and_targets_are_taken_than_there_is_room_for)
{
    char text[64], why[WORK_WHY_BYTES];
    work_start();
    for (int i = 1; i < WORK_TARGETS_MAX; i++) {
        snprintf(text, sizeof text, "http://127.0.0.1:%d/", 100 + i);
        add_url(text);
    }
    assert_false(work_url_add(&work, "http://127.0.0.1:99/", why));
    assert_non_null(strstr(why, "one target too many"));
    add_url("/");
    assert_int_equal(work.url_count, WORK_URLS_MAX);
    assert_false(work_url_add(&work, "/", why));
    assert_non_null(strstr(why, "one URL too many"));
}

TEST(the_number_takes_the_place_of_the_braces)
{
    char path[WORK_PATH_BYTES];
    work_start();
    add_url("/a/{1-900}/b");
    add_url("/a");
    assert_int_equal(work_path(&work.urls[0], 42, path), 7);
    assert_string_equal(path, "/a/42/b");
    work_path(&work.urls[1], 0, path);
    assert_string_equal(path, "/a");
}

TEST(a_request_is_about_its_key_or_the_last_whole_number_of_its_path)
{
    static const struct {
        const char *path;
        bool has_row;
        uint32_t row;
    } paths[] = {
        {"/item/20", true, 20},         {"/item/20?page=3", true, 20}, {"/shops/3/items/20.json", true, 20},
        {"/items?id=20&x=y", true, 20}, {"/item/{1-9}", true, 7},      {"/item/iphone-15", false, 0},
        {"/item/0x20", false, 0},       {"/item/", false, 0},          {"/item/99999999999", false, 0},
    };
    struct work_script_request logged = {.path = (char[]){"/item/20"}};
    const struct work_script script = {.requests = &logged, .request_count = 1};
    const struct work_url replayed = {.keys = WORK_SCRIPT, .script = &script};
    uint32_t row;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        work_start();
        add_url(paths[i].path);
        assert_int_equal(work_row(&work.urls[0], 7, &row), paths[i].has_row);
        assert_true(!paths[i].has_row || row == paths[i].row);
    }
    assert_true(work_row(&replayed, 0, &row));
    assert_int_equal(row, 20);
}

/* ---- the whole ---- */

static void work_right(void)
{
    work_start();
    add_url("/x");
}

static void refused(const char *reason)
{
    char why[WORK_WHY_BYTES] = "";
    assert_false(work_check(&work, why));
    if (strstr(why, reason) == NULL)
        fail_msg("\"%s\" is not about \"%s\"", why, reason);
}

#define REFUSED(change, reason)                                                                              \
    do {                                                                                                     \
        work_right();                                                                                        \
        change;                                                                                              \
        refused(reason);                                                                                     \
    } while (0)

TEST(work_that_makes_no_sense_is_refused_with_the_reason)
{
    char headers[WORK_HEADERS_BYTES + 10];
    memset(headers, 'x', sizeof headers);
    memcpy(headers, "A: ", 3);
    memcpy(headers + sizeof headers - 3, "\r\n", 3);
    REFUSED(work.target_count = 0, "no target");
    REFUSED(work.url_count = 0, "no URL");
    REFUSED(work.urls[0].target = 1, "a target that does not exist");
    REFUSED(work.urls[0].weight = 0, "weight 0");
    REFUSED(work.connection_count = 0, "connections: 0");
    REFUSED(work.connection_count = WORK_CONNECTIONS_MAX + 1, "connections: 60001");
    REFUSED(work.round_count = 0, "rounds: 0");
    REFUSED(work.round_count = 50001, "requests in all: 50001000");
    REFUSED(work.shape = WORK_RATE, "requests per second: 0");
    REFUSED((work.shape = WORK_RATE, work.per_second = 1), "duration in ms: 0");
    REFUSED((work.shape = WORK_RATE, work.per_second = 1000000, work.duration_ms = 60000), "requests in all");
    REFUSED(work.connect_limit_ms = 0, "limit for connecting");
    REFUSED(work.request_limit_ms = 0, "limit for a request");
    REFUSED(work.request_limit_ms = WORK_LIMIT_MS_MAX + 1, "limit for a request");
    REFUSED(work.leave_percent = 101, "clients that leave");
    REFUSED(work.generator_count = WORK_GENERATORS_MAX + 1, "generators: 17");
    REFUSED((work.generator_count = 3, work.connection_count = 2), "3 generators for 2 connections");
    REFUSED(work.source_count = 255, "source addresses: 255");
    REFUSED(work.method = NULL, "method");
    REFUSED(work.method = "", "method");
    REFUSED(work.method = "GET /", "method");
    REFUSED(work.method = "ABCDEFGHIJKLMNOP", "method");
    REFUSED(work.headers = NULL, "headers");
    REFUSED(work.headers = headers, "headers: at most 4096");
    REFUSED(work.headers = "A: b", "does not end with CR LF");
    REFUSED(work.headers = "A: b\r\nC\r\n", "\"C\" is not");
    REFUSED(work.headers = "\r\n", "is not \"Name: value\"");
    REFUSED(work.headers = ": b\r\n", "is not \"Name: value\"");
    REFUSED(work.headers = "A : b\r\n", "is not \"Name: value\"");
    REFUSED(work.headers = "A: b\nC: d\r\n", "is not \"Name: value\"");
    REFUSED(work.headers = "connection: close\r\n", "cannot be given");
    REFUSED(work.headers = "A: b\r\nContent-Length: 3\r\n", "cannot be given");
    REFUSED(work.version_after = NULL, "before a version");
    REFUSED(work.version_after = headers, "before a version");
}

TEST(the_requests_of_a_run_are_counted_beforehand_and_shared_out)
{
    char why[WORK_WHY_BYTES];
    work_right();
    work.headers = "Host: other\r\nA: b\r\n";
    work.round_count = 3;
    assert_true(work_check(&work, why));
    assert_int_equal(work_request_count(&work), 3000);
    work.shape = WORK_RATE;
    work.per_second = 7;
    work.duration_ms = 1500;
    assert_true(work_check(&work, why));
    assert_int_equal(work_request_count(&work), 10);
    work.duration_ms = 1;
    assert_int_equal(work_request_count(&work), 1);
    assert_int_equal(work_part(10, 0, 3) + work_part(10, 1, 3) + work_part(10, 2, 3), 10);
    assert_int_equal(work_part(10, 0, 3), 4);
    assert_int_equal(work_part(10, 2, 3), 3);
}

/* ---- choosing ---- */

TEST(the_same_seed_chooses_the_same_and_another_one_differently)
{
    work_start();
    add_url("/{zipf:1-50000}");
    add_url("/{1-50000} weight 2");
    struct work_chooser one, same, other, next;
    work_chooser_init(&one, &work, 0, 2);
    work_chooser_init(&same, &work, 0, 2);
    work_chooser_init(&next, &work, 1, 2);
    work.seed++;
    work_chooser_init(&other, &work, 0, 2);
    int other_equal = 0, next_equal = 0;
    for (int i = 0; i < 1000; i++) {
        struct work_choice a = work_choose(&one), b = work_choose(&same);
        assert_true(a.url == b.url && a.key == b.key && a.target == b.target);
        other_equal += a.key == work_choose(&other).key;
        next_equal += a.key == work_choose(&next).key;
    }
    assert_in_range(other_equal, 0, 50);
    assert_in_range(next_equal, 0, 50);
}

/* Sum of (seen - expected)^2 / expected, against four standard deviations of what chance makes of it. */
static void assert_fits(const uint32_t *seen, const double *part, size_t count, uint32_t draws)
{
    double chi_square = 0, rest_seen = 0, rest_expected = 0;
    size_t bins = 0;
    for (size_t i = 0; i < count; i++) {
        rest_seen += seen[i];
        rest_expected += part[i] * draws;
        if (rest_expected < 10 && i + 1 < count)
            continue; /* too few to judge alone */
        if (rest_expected > 0)
            chi_square += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
        bins++;
        rest_seen = rest_expected = 0;
    }
    double freedom = bins > 1 ? (double)bins - 1 : 1;
    if (chi_square > freedom + 4 * sqrt(2 * freedom) + 4)
        fail_msg("chi-square %.1f with %.0f degrees of freedom", chi_square, freedom);
}

TEST(urls_are_asked_by_their_weights)
{
    struct work_chooser chooser;
    const double part[] = {0.5, 0.375, 0.125};
    uint32_t seen[3] = {0};
    work_start();
    add_url("/a weight 4");
    add_url("/b weight 3");
    add_url("/c");
    work_chooser_init(&chooser, &work, 0, 1);
    for (int i = 0; i < DRAWS; i++)
        seen[work_choose(&chooser).url]++;
    assert_fits(seen, part, 3, DRAWS);
    assert_true(fabs(work_target_share(&work, 0) - 1) < 1e-12);
}

TEST(targets_take_turns_but_for_urls_that_name_theirs)
{
    struct work_chooser chooser;
    uint32_t seen[3] = {0}, named = 0;
    work_start();
    add_url("/a");
    add_url("http://127.0.0.1:9/b");
    add_url("http://127.0.0.1:10/c weight 2");
    work_chooser_init(&chooser, &work, 0, 1);
    for (int i = 0; i < DRAWS; i++) {
        struct work_choice choice = work_choose(&chooser);
        named += choice.url != 0;
        assert_true(choice.url == 0 || choice.target == choice.url);
        seen[choice.target] += choice.url == 0;
    }
    assert_int_equal(seen[0] + seen[1] + seen[2] + named, DRAWS);
    assert_in_range(seen[0] - seen[2], 0, 1);
    assert_true(fabs(work_target_share(&work, 0) - 1.0 / 12) < 1e-12);
    assert_true(fabs(work_target_share(&work, 1) - 1.0 / 12 - 0.25) < 1e-12);
    assert_true(fabs(work_target_share(&work, 2) - 1.0 / 12 - 0.5) < 1e-12);
}

TEST(each_number_is_asked_once_by_all_generators_together)
{
    uint8_t seen[2001] = {0};
    work_start();
    add_url("/{each:1-2000}");
    for (uint32_t generator = 0; generator < 3; generator++) {
        struct work_chooser chooser;
        work_chooser_init(&chooser, &work, generator, 3);
        for (uint64_t i = 0; i < work_part(2000, generator, 3); i++)
            seen[work_choose(&chooser).key]++;
    }
    for (int key = 1; key <= 2000; key++)
        assert_int_equal(seen[key], 1);
}

TEST(uniform_keys_are_all_as_likely)
{
    struct work_chooser chooser;
    uint32_t seen[101] = {0};
    double part[101];
    work_start();
    add_url("/{100-200}");
    work_chooser_init(&chooser, &work, 0, 1);
    for (int i = 0; i < DRAWS; i++) {
        uint32_t key = work_choose(&chooser).key;
        assert_in_range(key, 100, 200);
        seen[key - 100]++;
    }
    for (int i = 0; i < 101; i++)
        part[i] = 1.0 / 101;
    assert_fits(seen, part, 101, DRAWS);
}

TEST(random_keys_hardly_ever_repeat)
{
    struct work_chooser chooser;
    work_start();
    add_url("/{random}");
    work_chooser_init(&chooser, &work, 0, 1);
    uint32_t last = 0, repeated = 0;
    for (int i = 0; i < 10000; i++) {
        uint32_t key = work_choose(&chooser).key;
        assert_in_range(key, 1, INT32_MAX);
        repeated += key == last;
        last = key;
    }
    assert_int_equal(repeated, 0);
}

static void check_zipf(uint32_t ranks, double exponent)
{
    static uint32_t seen[RANKS_MAX];
    static double part[RANKS_MAX];
    struct dice_zipf zipf;
    uint64_t random = 1234567;
    double sum = 0;
    memset(seen, 0, sizeof seen);
    dice_zipf_init(&zipf, ranks, exponent);
    for (int i = 0; i < DRAWS; i++) {
        uint32_t rank = dice_zipf_draw(&zipf, &random);
        assert_in_range(rank, 1, ranks);
        seen[rank - 1]++;
    }
    for (uint32_t rank = 1; rank <= ranks; rank++)
        sum += pow(rank, -exponent);
    for (uint32_t rank = 1; rank <= ranks; rank++)
        part[rank - 1] = pow(rank, -exponent) / sum;
    assert_fits(seen, part, ranks, DRAWS);
}

TEST(zipf_keys_have_the_shape_of_the_law)
{
    const uint32_t ranks[] = {1, 2, 3, 10, 1000, RANKS_MAX};
    const double exponents[] = {0.01, 0.5, 0.99, 1, 1.0000000001, 1.2, 2, 3.5, 20};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        for (size_t j = 0; j < sizeof exponents / sizeof *exponents; j++)
            check_zipf(ranks[i], exponents[j]);
    }
}

TEST(zipf_over_all_numbers_of_32_bits_needs_no_table)
{
    struct dice_zipf zipf;
    uint64_t random = 7;
    uint32_t low = 0;
    dice_zipf_init(&zipf, UINT32_MAX, 1);
    for (int i = 0; i < DRAWS; i++) {
        uint32_t rank = dice_zipf_draw(&zipf, &random);
        assert_true(rank >= 1);
        low += rank <= 65535;
    }
    /* The sum of 1/r over the first 2^16 of 2^32 ranks: (16 ln 2 + Euler's constant) of (32 ln 2 + ...). */
    double expected = (16 * log(2) + 0.5772157) / (32 * log(2) + 0.5772157) * DRAWS;
    assert_true(fabs(low - expected) < 4 * sqrt(expected));
}

/* ---- keys from a file ---- */

static char why_ignored[WORK_WHY_BYTES];
static char words_path[] = "/tmp/work_test.XXXXXX";

static void write_words(const char *text)
{
    strcpy(words_path + strlen(words_path) - 6, "XXXXXX");
    close(mkstemp(words_path));
    file_write(words_path, text);
}

TEST(a_line_of_the_file_takes_the_place_of_the_braces)
{
    static const char *const ways[][2] = {
        {"/p/{", "}/x"}, {"/p/{zipf:", "}/x"}, {"/p/{zipf:", ":1.2}/x"}, {"/p/{each:", "}/x"}};
    char text[128], path[WORK_PATH_BYTES];
    write_words("red-shoe\r\n\n2f1c8a44-9f6b-4d6e-8a53-0c1d2e3f4a5b\nit's");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct work_chooser chooser;
        unsigned seen = 0;
        work_start();
        snprintf(text, sizeof text, "%s@%s%s", ways[i][0], words_path, ways[i][1]);
        add_url(text);
        work_chooser_init(&chooser, &work, 0, 1);
        for (int j = 0; j < 1000; j++) {
            uint32_t key = work_choose(&chooser).key;
            assert_in_range(key, 0, 2);
            seen |= 1U << key;
        }
        assert_int_equal(seen, 7);
        assert_int_equal(work_path(&work.urls[0], 0, path), strlen("/p/red-shoe/x"));
        assert_string_equal(path, "/p/red-shoe/x");
        work_path(&work.urls[0], 2, path);
        assert_string_equal(path, "/p/it's/x");
        work_clear(&work);
    }
    unlink(words_path);
}

TEST(files_that_hold_no_keys_are_refused_by_line)
{
    static char long_key[600];
    static const struct {
        const char *text, *reason;
    } files[] = {
        {"", ":1: no key is in it"},           {"\n\n", ":1: no key is in it"},
        {"a\nb c\n", ":2: a key with a byte"}, {"a\n\n\xc3\xa4\n", ":3: a key with a byte"},
        {"a#b", ":1: a key with a byte"},      {long_key, ":1: a key of 599 bytes; at most "},
    };
    char text[128];
    memset(long_key, 'x', sizeof long_key - 1);
    work_start();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char why[WORK_WHY_BYTES] = "";
        write_words(files[i].text);
        snprintf(text, sizeof text, "/{@%s}", words_path);
        assert_false(work_url_add(&work, text, why));
        if (strstr(why, files[i].reason) == NULL)
            fail_msg("%s: %s", files[i].reason, why);
        unlink(words_path);
        assert_false(work_url_add(&work, text, why));
        assert_non_null(strstr(why, "No such file"));
    }
    write_words("a");
    snprintf(text, sizeof text, "/{@%s:1.2}", words_path); /* an exponent of no law */
    assert_false(work_url_add(&work, text, why_ignored));
    snprintf(text, sizeof text, "/{each:@%s} weight 0", words_path);
    assert_false(work_url_add(&work, text, why_ignored));
    assert_int_equal(work.url_count, 0);
    unlink(words_path);
}
