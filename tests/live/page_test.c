/* SPDX-License-Identifier: MIT */
/*
 * page_test.c - pages of reports with the real gnuplot, looked at in a real browser: chromium without a window.
 *
 * A page is shown in two frames of a page of the test's own, 390 and 1280 pixels wide, whose script measures what it
 * sees there and writes it down; the same run takes a picture and prints. The picture is read by the browser, too.
 */
#include "load/base/proc.h"
#include "load/report/page.h"
#include "tests/support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { BROWSER_LIMIT_MS = 60000, PHONE_PIXELS = 390, DESKTOP_PIXELS = 1280, FRAME_PIXELS = 2400 };

static char folder[PROC_PATH_BYTES];
static char why[RESULT_WHY_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return proc_folder("page-test", NULL, folder) ? 0 : -1;
}

/* Four at a time; lent. */
static const char *path_of(const char *name)
{
    static char paths[4][PROC_PATH_BYTES + 32];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Yours, from malloc(). */
static char *bytes_of(const char *path, size_t *count)
{
    struct stat stat_of;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        fail_msg("%s is not there", path);
    assert_int_equal(fstat(fileno(file), &stat_of), 0);
    *count = (size_t)stat_of.st_size;
    char *bytes = calloc(*count + 1, 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    fclose(file);
    return bytes;
}

static char *text_of(const char *path)
{
    size_t count;
    return bytes_of(path, &count);
}

static char *write_page(const struct report *report)
{
    if (!page_write(report, path_of("page.html"), why))
        fail_msg("%s", why);
    return text_of(path_of("page.html"));
}

/* ---- the browser ---- */

enum wanted { DOM, PICTURE, PRINT };

/* Opens the file; what its page has become is in "dom" afterwards, the picture or the print beside it. */
static void browse(const char *path, bool is_dark, enum wanted wanted)
{
    char profile[PROC_PATH_BYTES], flags[3][PROC_PATH_BYTES + 64];
    int status = -1;
    assert_true(proc_folder("browser", NULL, profile));
    snprintf(flags[0], sizeof flags[0], "--user-data-dir=%s", profile);
    snprintf(flags[1], sizeof flags[1], "file://%s", path);
    if (wanted == PICTURE)
        snprintf(flags[2], sizeof flags[2], "--screenshot=%s", path_of("picture.png"));
    else
        snprintf(flags[2], sizeof flags[2], wanted == PRINT ? "--print-to-pdf=%s" : "--no-first-run",
                 path_of("print.pdf"));
    const char *const argv[] = {"chromium",
                                "--headless",
                                "--no-sandbox",
                                "--disable-gpu",
                                "--disable-quic",
                                "--no-first-run",
                                "--disable-background-networking",
                                "--disable-component-update",
                                "--disable-sync",
                                "--hide-scrollbars",
                                "--force-device-scale-factor=1",
                                "--no-pdf-header-footer",
                                "--window-size=1690,2400",
                                "--dump-dom",
                                flags[0],
                                flags[2],
                                is_dark ? "--force-dark-mode" : "--no-first-run",
                                flags[1],
                                NULL};
    unlink(path_of("dom"));
    const struct proc_options options = {.argv = argv, .output_path = path_of("dom")};
    pid_t pid = proc_start(&options);
    bool ended = pid != -1 && proc_wait(pid, BROWSER_LIMIT_MS, &status);
    if (!ended || status != 0) {
        proc_kill_tree(&pid);
        proc_show_tail(path_of("dom"));
        fail_msg("chromium could not be run; is it there? sh load/deps.sh page-test");
    }
    proc_remove(profile);
}

static void print_attribute(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&' || *text == '"')
            fputs(*text == '&' ? "&amp;" : "&quot;", out);
        else
            fputc(*text, out);
    }
}

/* Counts what would be wrong, and what should be there. */
static const char measuring[] =
    "<script>onload=function(){let said='';for(const name of ['phone','desktop']){\n"
    "const frame=document.getElementById(name),d=frame.contentDocument,width=frame.clientWidth;\n"
    "const say=(what,number)=>said+=name+' '+what+' '+number+';\\n';\n"
    "const seen=e=>e.getBoundingClientRect().width>0;\n"
    "const inSvg=e=>e.ownerSVGElement!==null&&e.ownerSVGElement!==undefined;\n"
    "const plots=[...d.querySelectorAll('figure svg[role=img]')].filter(seen);\n"
    "const texts=plots.flatMap(p=>[...p.querySelectorAll('text')]);\n"
    "const within=(a,b)=>a.left>=b.left-1&&a.right<=b.right+1&&a.top>=b.top-1&&a.bottom<=b.bottom+1;\n"
    "const rect=e=>e.getBoundingClientRect();\n"
    "const ids=[...d.querySelectorAll('[id]')].map(e=>e.id);\n"
    "say('width',d.documentElement.scrollWidth);\n"
    "say('wider',[...d.querySelectorAll('body *')].filter(e=>seen(e)&&!inSvg(e)&&(rect(e).right>width+0.5||"
    "rect(e).left<-0.5)).length);\n"
    "say('plots',plots.length);\n"
    "say('unlabelled',plots.filter(p=>!p.getAttribute('aria-label')).length);\n"
    "say('flat',plots.filter(p=>rect(p).height<150||rect(p).width<width*0.75).length);\n"
    "const "
    "series=p=>[...p.querySelectorAll('path')].filter(l=>/--plot-(1[6-9]|2[0-9])/"
    ".test(l.getAttribute('stroke')));\n"
    "say('undrawn',plots.filter(p=>!series(p).some(l=>getComputedStyle(l).stroke!=='none'&&rect(l).width+"
    "rect(l).height>50)).length);\n"
    "const mute=p=>{const b=rect(p),t=[...p.querySelectorAll('text')].map(rect);return "
    "t.filter(r=>r.top>b.bottom-"
    "b.height*0.16).length<2||t.filter(r=>r.left<b.left+b.width*0.12).length<2};\n"
    "say('mute',plots.filter(mute).length);\n"
    "say('unresolved',[...d.querySelectorAll('figure "
    "path')].filter(l=>(l.getAttribute('stroke')||'').startsWith("
    "'var')&&getComputedStyle(l).stroke==='none').length);\n"
    "say('clipped',texts.filter(t=>!within(rect(t),rect(t.ownerSVGElement))).length);\n"
    "say('tiny',texts.filter(t=>parseFloat(getComputedStyle(t).fontSize)*t.ownerSVGElement.getScreenCTM().a<"
    "10)"
    ".length);\n"
    "say('words',texts.length);\n"
    "say('same',ids.length-new Set(ids).size);\n"
    "say('dangling',[...d.querySelectorAll('use')].filter(u=>!d.querySelector(u.getAttribute('xlink:href')))."
    "length);\n"
    "say('headless',[...d.querySelectorAll('table')].filter(t=>!t.tHead||t.querySelectorAll('th[scope]')."
    "length===0)"
    ".length);\n"
    "say('scripts',d.scripts.length);\n"
    "say('images',d.images.length+d.querySelectorAll('link,iframe,object,embed').length);\n"
    "say('alarm',typeof frame.contentWindow.alarm==='undefined'?0:1);\n"
    "}document.getElementById('said').textContent=said}</script>\n";

static void show_in_frames(const char *page, bool is_dark, enum wanted wanted)
{
    FILE *out = fopen(path_of("frames.html"), "we");
    assert_non_null(out);
    fprintf(out, "<!DOCTYPE html><meta charset=\"utf-8\">%s<body style=\"margin:0;white-space:nowrap\">",
            measuring);
    for (size_t i = 0; i < 2; i++) {
        fprintf(out, "<iframe id=\"%s\" style=\"border:0;width:%dpx;height:%dpx\" srcdoc=\"",
                i == 0 ? "phone" : "desktop", i == 0 ? PHONE_PIXELS : DESKTOP_PIXELS, FRAME_PIXELS);
        print_attribute(out, page);
        fputs("\"></iframe>", out);
    }
    fputs("<pre id=\"said\"></pre>", out);
    assert_int_equal(fclose(out), 0);
    browse(path_of("frames.html"), is_dark, wanted);
}

/* What the script said of "phone plots" and the like. */
static long said(const char *what)
{
    char *dom = text_of(path_of("dom")), *at = strstr(dom, "<pre id=\"said\">");
    long number = -1;
    at = at != NULL ? strstr(at, what) : NULL;
    if (at != NULL)
        number = strtol(at + strlen(what), NULL, 10);
    free(dom);
    if (at == NULL)
        fail_msg("the page said nothing about \"%s\"", what);
    return number;
}

static void assert_looks_right(long plots)
{
    static const char *const wrong[] = {"wider",      "unlabelled", "flat",   "undrawn", "mute",
                                        "unresolved", "clipped",    "tiny",   "same",    "dangling",
                                        "headless",   "scripts",    "images", "alarm"};
    static const char *const screens[] = {"phone", "desktop"};
    char what[64];
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < sizeof wrong / sizeof *wrong; j++) {
            snprintf(what, sizeof what, "%s %s", screens[i], wrong[j]);
            if (said(what) != 0)
                fail_msg("%s: %ld", what, said(what));
        }
        snprintf(what, sizeof what, "%s plots", screens[i]);
        assert_int_equal(said(what), plots);
    }
    assert_int_equal(said("phone width"), PHONE_PIXELS);
    assert_int_equal(said("desktop width"), DESKTOP_PIXELS);
    assert_true(plots == 0 || said("phone words") > 5 * plots);
}

/* ---- the picture ---- */

static void print_base64(FILE *out, const unsigned char *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < count ? bytes[i + 2] : 0;
        fputc(digits[three >> 18], out);
        fputc(digits[three >> 12 & 63], out);
        fputc(i + 1 < count ? digits[three >> 6 & 63] : '=', out);
        fputc(i + 2 < count ? digits[three & 63] : '=', out);
    }
}

/* Pixels of exactly these colours, left of x = PHONE_PIXELS and right of it. */
static void count_pixels(const char *colours)
{
    size_t count;
    char *picture = bytes_of(path_of("picture.png"), &count);
    FILE *out = fopen(path_of("pixels.html"), "we");
    assert_non_null(out);
    fprintf(out,
            "<!DOCTYPE html><script>onload=function(){const "
            "i=document.images[0],c=document.createElement('canvas');\n"
            "c.width=i.naturalWidth;c.height=i.naturalHeight;const x=c.getContext('2d');x.drawImage(i,0,0);\n"
            "let said='';for(const [name,left,width] of [['phone',0,%d],['desktop',%d,%d]]){\n"
            "const p=x.getImageData(left,0,width,c.height).data,n={};\n"
            "for(let k=0;k<p.length;k+=4){const v=p[k]<<16|p[k+1]<<8|p[k+2];n[v]=(n[v]||0)+1}\n"
            "for(const h of '%s'.split(' '))said+=name+' #'+h+' '+(n[parseInt(h,16)]||0)+';\\n'}\n"
            "document.getElementById('said').textContent=said}</script><pre id=\"said\"></pre>"
            "<img src=\"data:image/png;base64,",
            PHONE_PIXELS, PHONE_PIXELS, DESKTOP_PIXELS, colours);
    print_base64(out, (const unsigned char *)picture, count);
    fputs("\">", out);
    assert_int_equal(fclose(out), 0);
    free(picture);
    browse(path_of("pixels.html"), false, DOM);
}

static void assert_seen(const char *colour, long least)
{
    static const char *const screens[] = {"phone", "desktop"};
    for (size_t i = 0; i < 2; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s #%s", screens[i], colour);
        if (said(what) < least)
            fail_msg("%s: %ld pixels", what, said(what));
    }
}

/* ---- tests ---- */

static void a_rate_with_faults_fits_a_phone_and_a_desk(void **state)
{
    (void)state;
    struct report report;
    sample_rate_report(&report);
    char *page = write_page(&report);
    show_in_frames(page, false, PICTURE);
    assert_looks_right(5); /* three over time, queries, distribution */
    count_pixels("ffffff d55e00 0072b2 008a63 12151a");
    assert_seen("ffffff", 300000);
    assert_seen("d55e00", 800);
    assert_seen("0072b2", 800);
    assert_seen("008a63", 800);
    assert_int_equal(said("phone #12151a"), 0);
    free(page);
    report_clear(&report);
}

static void a_burst_in_the_dark_is_drawn_in_colours_for_it(void **state)
{
    (void)state;
    struct report report;
    sample_burst_report(&report);
    char *page = write_page(&report);
    show_in_frames(page, true, PICTURE);
    assert_looks_right(5);
    count_pixels("12151a ff8a33 4fb3f0 2bc795 ffffff");
    assert_seen("12151a", 300000);
    assert_seen("ff8a33", 800);
    assert_seen("4fb3f0", 400);
    assert_seen("2bc795", 400);
    free(page);
    report_clear(&report);
}

static void a_page_is_printed_on_white_with_its_plots(void **state)
{
    (void)state;
    struct report report;
    size_t count, pages = 0;
    sample_rate_report(&report);
    free(write_page(&report));
    browse(path_of("page.html"), true, PRINT);
    char *print = bytes_of(path_of("print.pdf"), &count);
    assert_memory_equal(print, "%PDF-", 5);
    for (size_t i = 0; i + 12 < count; i++)
        pages += memcmp(print + i, "/Type /Page\n", 12) == 0;
    assert_in_range(pages, 3, 8);
    free(print);
    report_clear(&report);
}

static void nothing_is_fetched_from_anywhere(void **state)
{
    (void)state;
    static const char *const never[] = {"http:", "https:", "<script",     "<link",  "<img",    "@import",
                                        " src=", "//cdn",  "javascript:", "onload", "url(http"};
    struct report report;
    sample_rate_report(&report);
    char *page = write_page(&report);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        assert_null(strstr(page, never[i]));
    for (const char *at = page; (at = strstr(at, "href=")) != NULL; at++)
        assert_true(at[6] == '#');
    assert_non_null(strstr(page, "<!DOCTYPE html>\n<html lang=\"en\">"));
    assert_non_null(strstr(page, "</html>"));
    free(page);
    report_clear(&report);
}

#define EVIL "</style></h1><script>alarm=1</script><b id=x onclick='alarm=1'>\"&amp; \xe2\x80\xae"

static void spoil(struct result *result)
{
    snprintf(result->name, sizeof result->name, EVIL);
    snprintf(result->what, sizeof result->what, EVIL);
    snprintf(result->caveat, sizeof result->caveat, EVIL);
    snprintf(result->strain.verdict, sizeof result->strain.verdict, EVIL);
    snprintf(result->hot[0].key, sizeof result->hot[0].key, "%.60s", EVIL);
    snprintf(result->commands[0].name, sizeof result->commands[0].name, "<b>\"'&");
    for (size_t i = 0; i < result->check_count; i++) {
        snprintf(result->checks[i].text, RESULT_TEXT_BYTES, EVIL);
        snprintf(result->checks[i].measured, RESULT_TEXT_BYTES, EVIL);
    }
    result_mark(result, RESULT_FAULT, 1, 9, EVIL "\"\nset output; system \"touch evil\"\n");
}

static void foreign_text_stays_text(void **state)
{
    (void)state;
    struct report report;
    sample_rate_report(&report);
    snprintf(report.title, sizeof report.title, EVIL);
    snprintf(report.about, sizeof report.about, EVIL "\n\n" EVIL);
    snprintf(report.command, sizeof report.command, EVIL);
    snprintf(report.machine, sizeof report.machine, EVIL);
    for (size_t i = 0; i < report.result_count; i++)
        spoil(report.results[i]);
    char *page = write_page(&report);
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<b"
                             " id"));
    assert_null(strstr(page, "\xe2\x80\xae"));
    assert_non_null(strstr(page,
                           "<h1>&lt;/style&gt;&lt;/h1&gt;&lt;script&gt;alarm=1&lt;/script&gt;&lt;b id=x "
                           "onclick=&#39;alarm=1&#39;&gt;&quot;&amp;amp; ?</h1>"));
    show_in_frames(page, false, DOM);
    assert_looks_right(5);
    free(page);
    report_clear(&report);
}

static void sixteen_results_with_endless_words_fit_a_phone(void **state)
{
    (void)state;
    struct report report = {.title = "x"};
    memset(report.title, 'T', sizeof report.title - 1);
    memset(report.about, 'a', sizeof report.about - 1);
    memset(report.command, 'c', sizeof report.command - 1);
    memset(report.machine, 'm', sizeof report.machine - 1);
    for (size_t i = 0; i < REPORT_RESULTS_MAX; i++) {
        struct sample sample = {.name = "n",
                                .seed = i,
                                .per_second = 200,
                                .duration_ms = 1000,
                                .ttl_ms = 200,
                                .fault_at_ms = 100,
                                .fault_until_ms = 500};
        struct result *result = sample_result(&sample);
        report_add(&report, result);
        memset(result->name, 'n', sizeof result->name - 1);
        memset(result->hot[0].key, 'k', sizeof result->hot[0].key - 1);
        for (uint32_t at_ms = 0; at_ms < 60; at_ms++)
            result_mark(result, RESULT_FAULT, at_ms * 10, at_ms * 10 + 300, report.about);
        result->check_count = 1;
        memset(result->checks[0].text, 'c', RESULT_TEXT_BYTES);
        memset(result->checks[0].measured, 'm', RESULT_TEXT_BYTES);
    }
    char *page = write_page(&report);
    show_in_frames(page, false, DOM);
    assert_looks_right(REPORT_RESULTS_MAX + 2);
    free(page);
    report_clear(&report);
}

static void a_report_with_little_in_it_is_a_page(void **state)
{
    (void)state;
    struct report report = {.title = ""};
    char *page = write_page(&report); /* no result at all */
    assert_non_null(strstr(page, "Nothing was asked to hold"));
    free(page);
    report_add(&report, calloc(1, sizeof(struct result))); /* nothing was asked */
    assert_non_null(report.results[0]);
    struct sample one = {.name = "one", .seed = 1, .round_count = 1, .connection_count = 1};
    report_add(&report, sample_result(&one)); /* one request */
    struct sample failed = {.name = "failed", .seed = 1, .per_second = 500, .duration_ms = 1000};
    struct result *result = sample_result(&failed);
    for (size_t i = 0; i < result->slice_count; i++)
        result->slices[i] = (struct result_slice){.due = 10, .failed = 10};
    memset(&result->all, 0, sizeof result->all);
    result->curve_count = 0;
    report_add(&report, result); /* no answer, no queries with instants */
    page = write_page(&report);
    show_in_frames(page, false, DOM);
    assert_int_equal(said("phone wider"), 0);
    assert_int_equal(said("phone clipped"), 0);
    assert_int_equal(said("phone plots"), 3); /* two over time, and the one query */
    free(page);
    report_clear(&report);
}

static void without_gnuplot_it_says_what_to_install_and_leaves_the_earlier_page(void **state)
{
    (void)state;
    struct report report;
    char *path = strdup(getenv("PATH"));
    assert_non_null(path);
    sample_burst_report(&report);
    free(write_page(&report));
    setenv("PATH", folder, 1);
    bool written = page_write(&report, path_of("page.html"), why);
    setenv("PATH", path, 1);
    free(path);
    assert_false(written);
    assert_non_null(strstr(why, "install the Debian package gnuplot-nox"));
    char *page = text_of(path_of("page.html"));
    assert_non_null(strstr(page, "</html>"));
    free(page);
    assert_false(page_write(&report, "/nonexistent/page.html", why));
    assert_non_null(strstr(why, "/nonexistent/page.html: cannot be written"));
    report_clear(&report);
}

/* A gnuplot that is broken: there is no way to make the real one fail. */
static void a_gnuplot_that_fails_is_named_with_its_complaint(void **state)
{
    (void)state;
    static const char *const scripts[][2] = {
        {"echo 'line 1: warning: no matter' >&2; echo '\"script\" line 3: unknown terminal' >&2; exit 1",
         "gnuplot failed: \"script\" line 3: unknown terminal"},
        {"exit 0", "gnuplot did not draw the plot timeline-0"},
        {"for i in 0 1 2; do echo '<svg' >timeline-$i-wide.svg; done",
         "gnuplot did not draw the plot timeline-0"},
    };
    struct report report;
    char path[PROC_PATH_BYTES * 2], *before = strdup(getenv("PATH"));
    assert_non_null(before);
    sample_burst_report(&report);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", folder);
    setenv("PATH", path, 1);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        FILE *script = fopen(path_of("gnuplot"), "we");
        assert_non_null(script);
        fprintf(script, "#!/bin/sh\n%s\n", scripts[i][0]);
        assert_int_equal(fclose(script), 0);
        assert_int_equal(chmod(path_of("gnuplot"), 0755), 0);
        assert_false(page_write(&report, path_of("never.html"), why));
        if (strstr(why, scripts[i][1]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", why, scripts[i][1]);
        assert_int_equal(access(path_of("never.html"), F_OK), -1);
    }
    unlink(path_of("gnuplot"));
    setenv("PATH", before, 1);
    free(before);
    report_clear(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_with_faults_fits_a_phone_and_a_desk),
        cmocka_unit_test(a_burst_in_the_dark_is_drawn_in_colours_for_it),
        cmocka_unit_test(a_page_is_printed_on_white_with_its_plots),
        cmocka_unit_test(nothing_is_fetched_from_anywhere),
        cmocka_unit_test(foreign_text_stays_text),
        cmocka_unit_test(sixteen_results_with_endless_words_fit_a_phone),
        cmocka_unit_test(a_report_with_little_in_it_is_a_page),
        cmocka_unit_test(without_gnuplot_it_says_what_to_install_and_leaves_the_earlier_page),
        cmocka_unit_test(a_gnuplot_that_fails_is_named_with_its_complaint),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
