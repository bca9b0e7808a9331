/* SPDX-License-Identifier: MIT */
/*
 * page_svg.c - what gnuplot drew becomes part of a page; see page_parts.h.
 *
 *     before <svg          left out: it is a file's head
 *     namespaces           left out: HTML knows them, and the page shall not hold any address
 *     <title>, <desc>      left out: a browser would show them when the mouse is still
 *     id, href, url(#)     get the prefix, so that several plots in one page do not share their symbols
 *     rgb(250, 0, N)       var(--plot-N)
 *     empty groups         left out: they are most of the file
 */
#include "load/report/page_parts.h"

#include <stdlib.h>
#include <string.h>

struct copying {
    const char *from;
    FILE *out;
    const char *prefix;
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Skips to behind the text; the end if it is not there. */
static void skip_past(struct copying *copying, const char *text)
{
    const char *at = strstr(copying->from, text);
    copying->from = at != NULL ? at + strlen(text) : copying->from + strlen(copying->from);
}

static bool leave_out(struct copying *copying)
{
    static const char *const parts[][2] = {
        {"<title>", "</title>"}, {"<desc>", "</desc>"}, {"xmlns:xlink=\"", "\""}, {"xmlns=\"", "\""}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!begins(copying->from, parts[i][0]))
            continue;
        copying->from += strlen(parts[i][0]);
        skip_past(copying, parts[i][1]);
        return true;
    }
    return false;
}

/* "<g ...>" and nothing but space until "</g>". */
static bool leave_out_group(struct copying *copying)
{
    const char *end;
    if (!begins(copying->from, "<g ") || (end = strchr(copying->from, '>')) == NULL)
        return false;
    end += 1 + strspn(end + 1, " \t\r\n");
    if (!begins(end, "</g>"))
        return false;
    copying->from = end + strlen("</g>");
    return true;
}

static bool copy_name(struct copying *copying)
{
    static const char *const befores[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};
    for (size_t i = 0; i < sizeof befores / sizeof *befores; i++) {
        if (!begins(copying->from, befores[i]))
            continue;
        fprintf(copying->out, "%s%s", befores[i], copying->prefix);
        copying->from += strlen(befores[i]);
        return true;
    }
    return false;
}

static bool copy_colour(struct copying *copying)
{
    unsigned red, green, number;
    int used = 0;
    if (!begins(copying->from, "rgb(") ||
        sscanf(copying->from, "rgb(%3u,%3u,%3u)%n", &red, &green, &number, &used) != 3 || used == 0 ||
        red != 0xfa || green != 0)
        return false;
    fprintf(copying->out, "var(--plot-%u)", number);
    copying->from += used;
    return true;
}

/* Runs of white space become one. */
static bool copy_space(struct copying *copying)
{
    size_t count = strspn(copying->from, " \t\r\n");
    if (count < 2)
        return false;
    fputc(memchr(copying->from, '\n', count) != NULL ? '\n' : ' ', copying->out);
    copying->from += count;
    return true;
}

static void copy(struct copying *copying)
{
    while (*copying->from != '\0') {
        if (leave_out(copying) || leave_out_group(copying) || copy_name(copying) || copy_colour(copying) ||
            copy_space(copying))
            continue;
        fputc(*copying->from++, copying->out);
    }
}

char *svg_adopt(const char *drawn, const char *prefix, const char *label)
{
    char *text = NULL;
    size_t bytes = 0;
    const char *begin = strstr(drawn, "<svg"), *end = strstr(drawn, "</svg>");
    if (begin == NULL || end == NULL)
        return NULL;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    struct copying copying = {.from = begin + strlen("<svg"), .out = out, .prefix = prefix};
    fprintf(out, "<svg role=\"img\" aria-label=\"%s\"", label);
    copy(&copying);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
