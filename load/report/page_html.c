/* SPDX-License-Identifier: MIT */
/* page_html.c - the page around the plots; see page_parts.h. */
#include "load/report/page_html.h"
#include "load/report/result_sheet.h"
#include "load/report/result_text.h"

enum { TEXT_OF_SHEET_BYTES = 600 };

/* ---- plots with their legends ---- */

static void print_plot(const struct page *page, const struct page_plot *plot)
{
    for (size_t shape = 0; shape < PAGE_SHAPES; shape++)
        fprintf(page->out, "<div class=\"%s\">%s</div>\n", plot_shapes[shape].name, plot->svg[shape]);
}

static void print_legend(const struct page *page)
{
    fputs("<ul class=\"legend\">\n", page->out);
    for (size_t i = 0; i < page->report->result_count; i++) {
        fputs("<li>", page->out);
        html_swatch(page, i);
        html_name(page, i);
        fputs("</li>\n", page->out);
    }
    fputs("</ul>\n", page->out);
}

/* ---- the head ---- */

static void print_verdict(const struct page *page)
{
    size_t all = 0, held = 0;
    for (size_t i = 0; i < page->report->result_count; i++) {
        const struct result *result = page->report->results[i];
        all += result->check_count;
        for (size_t j = 0; j < result->check_count; j++)
            held += result->checks[j].held;
    }
    if (all == 0)
        fputs("<p class=\"verdict none\">Nothing was asked to hold</p>\n", page->out);
    else if (held == all)
        fprintf(page->out, "<p class=\"verdict good\">\xe2\x9c\x93 %s</p>\n",
                all == 1 ? "What had to hold did" : "Everything that had to hold did");
    else
        fprintf(page->out, "<p class=\"verdict bad\">\xe2\x9c\x97 %zu of %zu checks did not hold</p>\n",
                all - held, all);
}

static void print_fact(const struct page *page, const char *what, const char *text, size_t text_bytes)
{
    if (text[0] == '\0')
        return;
    fprintf(page->out, "<dt>%s</dt><dd>", what);
    html_text(page, text, text_bytes);
    fputs("</dd>\n", page->out);
}

static void print_shared(const struct page *page, const char *what, sheet_text text)
{
    for (size_t i = 0; i < page->report->result_count; i++) {
        char who[TEXT_OF_SHEET_BYTES];
        if (!sheet_is_first(page->report, i, text))
            continue;
        sheet_who(page->report, i, text, who, sizeof who);
        fprintf(page->out, "<dt>%s</dt><dd>", what);
        html_text(page, who, sizeof who);
        fputs(who[0] != '\0' ? ": " : "", page->out);
        html_text(page, text(page->report->results[i]), TEXT_OF_SHEET_BYTES);
        fputs("</dd>\n", page->out);
    }
}

static void print_head(const struct page *page)
{
    const struct report *report = page->report;
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          page->out);
    html_text(page, report->title, sizeof report->title);
    fputs(" \xe2\x80\x93 stampede report</title>\n<style>\n", page->out);
    for (const char *const *line = style_lines; *line != NULL; line++)
        fprintf(page->out, "%s\n", *line);
    fputs("</style>\n</head>\n<body>\n<header>\n<h1>", page->out);
    html_text(page, report->title, sizeof report->title);
    fputs("</h1>\n", page->out);
    html_paragraphs(page, report->about, sizeof report->about);
    print_verdict(page);
    fputs("\n<dl class=\"facts\">\n", page->out);
    print_shared(page, "Asked", sheet_what_of);
    if (report->result_count > 0)
        print_fact(page, "When", report->results[0]->when, sizeof report->results[0]->when);
    print_fact(page, "Machine", report->machine, sizeof report->machine);
    fputs("</dl>\n</header>\n<main>\n", page->out);
}

/* ---- at a glance ---- */

static void print_number(const struct page *page, const char *what, const char *number, const char *unit)
{
    fprintf(page->out, "<dt>%s</dt><dd>%s%s</dd>\n", what, number, unit);
}

static void print_card_numbers(const struct page *page, const struct result *result)
{
    char text[TEXT_NUMBER_BYTES];
    fputs("<dl>\n", page->out);
    if (result->has_loads)
        print_number(page, "queries", text_count(text, result->loads), "");
    print_number(page, "requests", text_count(text, result->requests), "");
    if (result_supports(result->all.count, 5000))
        print_number(page, "p50", text_ms(text, result->all.p50_us), " ms");
    if (result_supports(result->all.count, 9900))
        print_number(page, "p99", text_ms(text, result->all.p99_us), " ms");
    if (result->all.count > 0)
        print_number(page, "slowest", text_ms(text, result->all.max_us), " ms");
    uint64_t failed = result_failed(result);
    fprintf(page->out, "<dt>failed</dt><dd%s>%s</dd>\n", failed > 0 ? " class=\"bad\"" : "",
            text_count(text, failed));
    if (result->has_writes)
        print_number(page, "stale answers", text_count(text, result->stale_answers), "");
    fputs("</dl>\n", page->out);
}

static void print_card(const struct page *page, size_t index)
{
    const struct result *result = page->report->results[index];
    char text[TEXT_NUMBER_BYTES];
    fprintf(page->out, "<article class=\"card\" style=\"--series:var(--plot-%u)\">\n<h3>",
            plot_series(page->report, index));
    html_name(page, index);
    fputs("</h3>\n", page->out);
    if (result->is_partial)
        fputs("<p class=\"bad\">interrupted: what there is until then</p>\n", page->out);
    if (result->has_loads && result->expiries > 0)
        fprintf(page->out, "<p class=\"big\">%s <small>loads per expiry</small></p>\n",
                text_decimal(text, result->loads_per_expiry, 2));
    else if (result_supports(result->all.count, 9900))
        fprintf(page->out, "<p class=\"big\">%s ms <small>99 %% were answered within</small></p>\n",
                text_ms(text, result->all.p99_us));
    print_card_numbers(page, result);
    fputs("</article>\n", page->out);
}

static void print_cards(const struct page *page)
{
    fputs("<section class=\"cards\" aria-label=\"At a glance\">\n", page->out);
    for (size_t i = 0; i < page->report->result_count; i++)
        print_card(page, i);
    fputs("</section>\n", page->out);
}

/* ---- plots ---- */

static void print_event(const struct page *page, const struct result_mark *mark)
{
    fprintf(page->out, "<li><span class=\"when\">%.2f s", mark->at_ms / 1e3);
    if (mark->until_ms > mark->at_ms)
        fprintf(page->out, " \xe2\x80\x93 %.2f s", mark->until_ms / 1e3);
    fputs("</span>", page->out);
    html_text(page, mark->text, sizeof mark->text);
    fputs("</li>\n", page->out);
}

static void print_events(const struct page *page, const struct result *result)
{
    size_t events = 0;
    for (size_t i = 0; i < result->mark_count; i++) {
        if (!timeline_is_event(&result->marks[i]))
            continue;
        if (events == 0)
            fputs("<ol class=\"events\">\n", page->out);
        if (++events <= PAGE_EVENTS_MAX)
            print_event(page, &result->marks[i]);
    }
    if (events > 0)
        fputs("</ol>\n", page->out);
    size_t more = (events > PAGE_EVENTS_MAX ? events - PAGE_EVENTS_MAX : 0) + result->marks_left_out;
    if (more > 0)
        fprintf(page->out, "<p class=\"soft\">and %zu more that are not drawn</p>\n", more);
}

static void print_timeline(const struct page *page, size_t index)
{
    const struct result *result = page->report->results[index];
    char text[TEXT_NUMBER_BYTES];
    if (page->plots->timelines[index].svg[0] == NULL)
        return;
    fputs("<figure>\n<figcaption><h3>", page->out);
    html_swatch(page, index);
    html_name(page, index);
    fprintf(page->out, "</h3>%s",
            timeline_is_burst(result) ? "requests that still wait; those of a burst are due at one instant"
                                      : "latency of the requests due at each instant");
    if (result->has_loads)
        fprintf(page->out, "; %s %s", text_count(text, result->expiries),
                result->expiries == 1 ? "expiry" : "expiries");
    fputs("</figcaption>\n", page->out);
    print_plot(page, &page->plots->timelines[index]);
    print_events(page, result);
    fputs("</figure>\n", page->out);
}

static void print_timelines(const struct page *page)
{
    bool has_any = false, has_latency = false;
    for (size_t i = 0; i < page->report->result_count; i++) {
        has_any = has_any || page->plots->timelines[i].svg[0] != NULL;
        has_latency = has_latency || !timeline_is_burst(page->report->results[i]);
    }
    if (!has_any)
        return;
    fprintf(page->out,
            "<h2>%s over time</h2>\n<p class=\"soft\">%sDotted lines: a value expired and was loaded. Shaded "
            "bands and numbered bars: what was done to it. Crosses: requests failed.</p>\n",
            has_latency ? "Latency" : "Waiting",
            has_latency ? "Thick line: p50; thin line: p99; shaded up to the slowest. " : "");
    for (size_t i = 0; i < page->report->result_count; i++)
        print_timeline(page, i);
}

static void print_curves(const struct page *page)
{
    if (page->plots->loads.svg[0] != NULL) {
        fputs(
            "<h2>Queries per second</h2>\n<figure>\n<figcaption>as the database began them, on a logarithmic "
            "scale</figcaption>\n",
            page->out);
        print_legend(page);
        print_plot(page, &page->plots->loads);
        fputs("</figure>\n", page->out);
    }
    if (page->plots->curve.svg[0] != NULL) {
        fputs("<h2>Distribution of latency</h2>\n<figure>\n<figcaption>so many percent of the answers took "
              "no longer, "
              "both scales logarithmic; the end of a line is its slowest answer</figcaption>\n",
              page->out);
        print_legend(page);
        print_plot(page, &page->plots->curve);
        fputs("</figure>\n", page->out);
    }
}

/* ---- the end ---- */

static void print_end(const struct page *page)
{
    const struct report *report = page->report;
    fputs("<h2>How far to trust it</h2>\n<dl class=\"facts\">\n", page->out);
    print_shared(page, "Generator", sheet_verdict_of);
    print_shared(page, "Counting", sheet_caveat_of);
    fputs("<dt>Latency</dt><dd>from the instant at which a request was due to the end of its answer, whether "
          "it could "
          "leave then or not; percentiles by nearest rank over all answers, and none that so few answers "
          "cannot "
          "support</dd>\n</dl>\n",
          page->out);
    if (report->command[0] != '\0') {
        fputs("<h2>Again</h2>\n<pre><code>", page->out);
        html_lines(page, report->command, sizeof report->command);
        fputs("</code></pre>\n", page->out);
    }
    fputs("</main>\n</body>\n</html>\n", page->out);
}

void html_write(FILE *out, const struct report *report, const struct page_plots *plots)
{
    const struct page page = {.out = out, .report = report, .plots = plots};
    print_head(&page);
    print_cards(&page);
    html_checks(&page);
    print_timelines(&page);
    print_curves(&page);
    html_sheet(&page);
    html_hot(&page);
    print_end(&page);
}
