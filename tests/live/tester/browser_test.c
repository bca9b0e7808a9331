/* SPDX-License-Identifier: MIT */
/* browser_test.c - the browser that other tests look through: what nobody hears or sees is no proof that there is
 * nothing. */
#include "tests/support/browser.h"
#include "tests/support/test.h"

#include <string.h>

static struct browser *browser;

static bool up(void)
{
    return browser_open(&browser);
}

static bool down(void)
{
    browser_close(&browser);
    return true;
}

#define PAGE "data:text/html,<meta name=viewport content=width=device-width><title>page</title>"

TEST(what_a_page_complains_of_is_heard_once)
{
    assert_true(browser_go(browser, PAGE "<script>console.error('first');nowhere.to</script>"));
    assert_true(browser_wait(browser, "true"));
    const char *said = browser_complaints(browser);
    assert_non_null(strstr(said, "first\n"));
    assert_non_null(strstr(said, "nowhere is not defined"));
    assert_string_equal(browser_complaints(browser), "");
    assert_null(browser_value(browser, "nowhere.to"));
}

TEST(what_no_page_may_have_is_found)
{
    assert_true(browser_resize(browser, 360, 640));
    assert_true(browser_go(
        browser, PAGE "<p style='width:400px'>wide</p><p style='color:%23888'>pale</p><button></button>"));
    const char *faults = browser_faults(browser);
    assert_non_null(strstr(faults, "the page is 408 wide, the screen 360\n"));
    assert_non_null(strstr(faults, "beyond the screen: <p class=\"\"> \"wide\"\n"));
    assert_non_null(strstr(faults, "contrast of 3.5: <p class=\"\"> \"pale\"\n"));
    assert_non_null(strstr(faults, "without a name: <button"));
    assert_true(browser_go(browser, PAGE "<button>press</button>"));
    assert_string_equal(browser_faults(browser), "");
}

TEST_GROUP(.up = up, .down = down);
