/* SPDX-License-Identifier: MIT */
/* page_text.c - foreign text in a page; see page_html.h. */
#include "load/report/page_html.h"
#include "load/report/result_text.h"

#include <string.h>

enum { CLEAN_BYTES = 1400 };

static void print_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

void html_text(const struct page *page, const char *text, size_t text_bytes)
{
    char clean[CLEAN_BYTES];
    text_clean(clean, sizeof clean, text, text_bytes, false);
    print_escaped(page->out, clean);
}

void html_lines(const struct page *page, const char *text, size_t text_bytes)
{
    char clean[CLEAN_BYTES];
    text_clean(clean, sizeof clean, text, text_bytes, true);
    print_escaped(page->out, clean);
}

void html_paragraphs(const struct page *page, const char *text, size_t text_bytes)
{
    char clean[CLEAN_BYTES];
    text_clean(clean, sizeof clean, text, text_bytes, true);
    for (char *rest = clean, *end; *rest != '\0'; rest = end) {
        end = strstr(rest, "\n\n");
        end = end != NULL ? end : rest + strlen(rest);
        size_t bytes = (size_t)(end - rest);
        end += strspn(end, "\n");
        char kept = rest[bytes];
        rest[bytes] = '\0';
        fputs("<p>", page->out);
        print_escaped(page->out, rest);
        fputs("</p>\n", page->out);
        rest[bytes] = kept;
    }
}

void html_swatch(const struct page *page, size_t index)
{
    fprintf(
        page->out,
        "<svg class=\"swatch\" viewBox=\"0 0 30 10\" aria-hidden=\"true\"><line x1=\"0\" y1=\"6\" x2=\"30\" "
        "y2=\"6\" stroke=\"var(--plot-%u)\" stroke-width=\"4\" stroke-dasharray=\"%s\"/></svg>",
        plot_series(page->report, index), plot_strokes[plot_dash(index)]);
}

void html_name(const struct page *page, size_t index)
{
    const char *name = page->report->results[index]->name;
    if (name[0] != '\0')
        html_text(page, name, RESULT_TEXT_BYTES);
    else
        fprintf(page->out, "result %zu", index + 1);
}
