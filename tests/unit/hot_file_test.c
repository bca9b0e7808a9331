/* SPDX-License-Identifier: MIT */
/* hot_file_test.c - the list of hot keys: whole, damaged in every way, and replaced under a reader's eyes. */
#include "app/catalog/hot_file.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/hot_file_test.XXXXXX";
static char path[sizeof folder + 8];
static struct hot_keys keys;
static struct hot_file_damage damage;

static bool make_folder(void)
{
    if (mkdtemp(folder) == NULL)
        return false;
    snprintf(path, sizeof path, "%s/hot", folder);
    return true;
}

static bool remove_folder(void)
{
    unlink(path);
    return rmdir(folder) == 0;
}

static bool forget(void)
{
    keys.count = 0;
    return true;
}

static void parse(const char *text, size_t bytes)
{
    keys.count = 0;
    hot_file_parse(text, bytes, &keys, &damage);
}

static const char WHOLE[] = "catalogd hot keys 1\n"
                            "products product:7\n"
                            "catalog catalog\n"
                            "categories category:3:after:120\n"
                            "offers offers:7\n"
                            "end 4\n";

static void add_four(void)
{
    static const char *const four[] = {"product:7", "catalog", "category:3:after:120", "offers:7"};
    for (size_t i = 0; i < 4; i++)
        hot_keys_add(&keys, four[i]);
}

TEST(a_list_is_written_as_it_is_read)
{
    char *text = NULL;
    size_t bytes = 0;
    add_four();
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    hot_file_print(&keys, out);
    fclose(out);
    assert_string_equal(text, WHOLE);
    free(text);
    parse(WHOLE, sizeof WHOLE - 1);
    assert_int_equal(keys.count, 4);
    assert_string_equal(keys.keys[2], "category:3:after:120");
    assert_false(damage.is_foreign);
    assert_int_equal(damage.lines, 0);
}

TEST(only_keys_of_ours_are_taken_each_once_and_no_more_than_there_is_room_for)
{
    char key[32];
    hot_keys_add(&keys, "product:7\nend 1");
    hot_keys_add(&keys, "product:07");
    hot_keys_add(&keys, "user:7");
    hot_keys_add(&keys, "");
    assert_int_equal(keys.count, 0);
    for (int i = 1; i <= HOT_KEYS_MAX + 9; i++) {
        snprintf(key, sizeof key, "product:%d", i);
        hot_keys_add(&keys, key);
        hot_keys_add(&keys, key);
    }
    assert_int_equal(keys.count, HOT_KEYS_MAX);
}

/* Whatever is cut off, what stands is read; and what is missing is known. */
TEST(a_file_cut_short_anywhere_costs_what_was_cut)
{
    for (size_t bytes = 0; bytes < sizeof WHOLE - 2; bytes++) {
        parse(WHOLE, bytes);
        assert_true(keys.count <= 4);
        assert_true(damage.is_foreign || damage.lines > 0);
        assert_int_equal(damage.is_foreign, bytes < strlen("catalogd hot keys 1"));
    }
}

/* A bit that flips in a digit makes another key of ours: it is loaded in vain, and nothing else. */
TEST(a_flipped_bit_costs_one_line_at_most)
{
    char text[sizeof WHOLE];
    for (size_t bit = 8 * strlen("catalogd hot keys 1\n"); bit < 8 * (sizeof WHOLE - 1); bit++) {
        memcpy(text, WHOLE, sizeof WHOLE);
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        parse(text, sizeof WHOLE - 1);
        assert_true(keys.count >= 2);
        for (size_t i = 0; i < keys.count; i++)
            assert_true(document_key_valid(keys.keys[i]));
    }
}

TEST(lines_that_are_not_ours_are_left_out)
{
    static const char text[] = "catalogd hot keys 1\n"
                               "products product:7\n"
                               "categories product:8\n" /* of another kind */
                               "products  product:9\n"
                               "products product:10 \n"
                               "products\n"
                               "\n"
                               "products product:1\0\n"
                               "user user:1\n"
                               "catalog catalog\n"
                               "end 2\n";
    parse(text, sizeof text - 1);
    assert_int_equal(keys.count, 2);
    assert_int_equal(damage.lines, 7);
    parse("catalogd hot keys 1\nend 5\n", 26);
    assert_int_equal(damage.lines, 5);
    parse("catalogd hot keys 2\nproduct product:7\nend 1\n", 44);
    assert_true(damage.is_foreign);
    assert_int_equal(keys.count, 0);
}

TEST(a_line_of_any_length_is_survived)
{
    static char text[HOT_FILE_BYTES_MAX];
    memset(text, 'x', sizeof text);
    memcpy(text, "catalogd hot keys 1\n", 20);
    parse(text, sizeof text);
    assert_int_equal(keys.count, 0);
    assert_int_equal(damage.lines, 2);
}

TEST(a_file_is_replaced_whole_and_nothing_is_left_beside_it)
{
    size_t entries = 0;
    assert_false(hot_file_read(path, &keys, &damage));
    assert_int_equal(errno, ENOENT);
    add_four();
    assert_true(hot_file_write(path, &keys));
    FILE *reader = fopen(path, "re"); /* of the old one, until the end */
    assert_non_null(reader);
    keys.count = 0;
    hot_keys_add(&keys, "product:8");
    assert_true(hot_file_write(path, &keys));
    char text[sizeof WHOLE];
    assert_int_equal(fread(text, 1, sizeof text, reader), sizeof WHOLE - 1);
    fclose(reader);
    keys.count = 0;
    assert_true(hot_file_read(path, &keys, &damage));
    assert_int_equal(keys.count, 1);
    DIR *opened = opendir(folder);
    assert_non_null(opened);
    for (const struct dirent *entry = readdir(opened); entry != NULL; entry = readdir(opened))
        entries += entry->d_name[0] != '.';
    closedir(opened);
    assert_int_equal(entries, 1);
}

TEST(a_file_that_cannot_be_written_stays_as_it_was)
{
    char nowhere[sizeof path + 16];
    snprintf(nowhere, sizeof nowhere, "%s/absent/hot", folder);
    hot_keys_add(&keys, "product:8");
    assert_false(hot_file_write(nowhere, &keys));
    assert_int_equal(errno, ENOENT);
    assert_false(hot_file_read(folder, &keys, &damage)); /* a folder */
    assert_int_equal(errno, EISDIR);
    assert_int_equal(keys.count, 1);
}

TEST_GROUP(.up = make_folder, .down = remove_folder, .before = forget);
