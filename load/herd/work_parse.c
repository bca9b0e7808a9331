/* SPDX-License-Identifier: MIT */
/* work_parse.c - targets and URLs from text; see work.h. */
#include "load/herd/work.h"

#include "load/base/number.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

enum { WEIGHT_MAX = 1000000, DEFAULT_PORT = 80, TLS_PORT = 443, QUOTED_MAX = 100, PATH_SPARE_BYTES = 17 };
static const double DEFAULT_EXPONENT = 0.99, EXPONENT_MAX = 20;

/* ---- targets ---- */

struct host_port {
    char host[112];
    bool is_v6;
    uint64_t port;
};

static bool split_host(const char *text, size_t count, struct host_port *out)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";
    out->is_v6 = count > 2 && text[0] == '[' && text[count - 1] == ']';
    if (out->is_v6) {
        text++;
        count -= 2;
    }
    if (count == 0 || count >= sizeof out->host)
        return false;
    snprintf(out->host, sizeof out->host, "%.*s", (int)count, text);
    return out->is_v6 || strspn(out->host, allowed) == count;
}

static bool split_target(const char *text, size_t count, bool is_tls, struct host_port *out)
{
    size_t host_bytes = count > 0 && text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":");
    out->port = is_tls ? TLS_PORT : DEFAULT_PORT;
    if (host_bytes >= count)
        return split_host(text, count, out);
    const char *rest = text + host_bytes + 1;
    return text[host_bytes] == ':' && number_scan(&rest, UINT16_MAX, &out->port) && out->port > 0 &&
           rest == text + count && split_host(text, host_bytes, out);
}

/* IPv4 first: "localhost" rarely means ::1. */
static int look_up_name(const char *host, const char *port, struct addrinfo **found)
{
    const struct addrinfo v4 = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    const struct addrinfo any = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    if (getaddrinfo(host, port, &v4, found) == 0)
        return 0;
    return getaddrinfo(host, port, &any, found);
}

static bool look_up(const struct host_port *from, struct net_address *out, char *why)
{
    struct addrinfo *found = NULL;
    char port[8];
    if (net_address_init(out, from->host, (uint16_t)from->port))
        return true;
    if (from->is_v6)
        return work_wrong(why, "[%s] is not an IPv6 address", from->host);
    snprintf(port, sizeof port, "%u", (unsigned)from->port);
    int error = look_up_name(from->host, port, &found);
    if (error != 0)
        return work_wrong(why, "host \"%s\" is not found: %s", from->host, gai_strerror(error));
    memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
    out->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

/* What stands before the @ is not repeated. */
static const char *behind_login(const char *text, size_t count)
{
    const char *at = memrchr(text, '@', count);
    return at != NULL ? at + 1 : text;
}

/* True: https. */
static bool strip_scheme(const char **text)
{
    bool is_tls = strncasecmp(*text, "https://", 8) == 0;
    if (is_tls || strncasecmp(*text, "http://", 7) == 0)
        *text += is_tls ? 8 : 7;
    return is_tls;
}

static bool target_parse(const char *text, size_t count, bool is_tls, struct work_target *out, char *why)
{
    struct host_port from;
    struct work_target target = {.is_tls = is_tls};
    const char *shown = behind_login(text, count);
    if (shown != text)
        return work_wrong(why, "no user or password is sent: name \"%.*s\" alone",
                          (int)(text + count - shown), shown);
    if (!split_target(text, count, is_tls, &from))
        return work_wrong(why, "\"%.*s\" is not host:port, such as 127.0.0.1:8080 or [::1]:8080",
                          count < QUOTED_MAX ? (int)count : QUOTED_MAX, text);
    if (!look_up(&from, &target.address, why))
        return false;
    snprintf(target.name, sizeof target.name, from.is_v6 ? "[%s]:%u" : "%s:%u", from.host,
             (unsigned)from.port);
    *out = target;
    return true;
}

bool work_target_parse(const char *text, struct work_target *out, char why[static WORK_WHY_BYTES])
{
    bool is_tls = strip_scheme(&text);
    size_t count = strcspn(text, "/");
    if (text[count] == '/' && text[count + 1] != '\0')
        return work_wrong(why, "\"%.*s\": a target has no path; the path belongs to the URL", QUOTED_MAX,
                          text);
    return target_parse(text, count, is_tls, out, why);
}

/* ---- URLs ---- */

/* @FILE; its keys must leave the path as short as a number does. */
static bool parse_file(const char *text, const char **end, struct work_url *url, char *why)
{
    size_t bytes = strcspn(text, ":}"), around = strlen(url->path) - url->key_bytes;
    *end = text + bytes;
    if (!work_words_read(text, bytes, WORK_PATH_BYTES - PATH_SPARE_BYTES - around, &url->words, why))
        return false;
    url->first = 0;
    url->last = (uint32_t)(url->words->count - 1);
    return true;
}

/* FIRST-LAST or @FILE, which must end at `end`. */
static bool parse_range(const char *text, const char **end, struct work_url *url, char *why)
{
    if (*text == '@')
        return parse_file(text + 1, end, url, why);
    uint64_t first, last;
    if (!number_scan(&text, UINT32_MAX, &first) || *text++ != '-' || !number_scan(&text, UINT32_MAX, &last))
        return false;
    url->first = (uint32_t)first;
    url->last = (uint32_t)last;
    *end = text;
    return first <= last;
}

/* ":1.2", if there is something. */
static bool parse_exponent(const char *text, const char **end, struct work_url *url)
{
    url->exponent = DEFAULT_EXPONENT;
    *end = text;
    if (*text != ':')
        return true;
    *end = text + 1;
    return number_scan_decimal(end, &url->exponent) && url->exponent > 0 && url->exponent <= EXPONENT_MAX;
}

/* What stands between the braces. */
static bool parse_key(const char *text, size_t count, struct work_url *url, char *why)
{
    const char *end = NULL;
    if (strncmp(text, "random}", 7) == 0) {
        url->keys = WORK_RANDOM;
        url->first = 1;
        url->last = INT32_MAX;
        return true;
    }
    bool good;
    if (strncmp(text, "zipf:", 5) == 0) {
        url->keys = WORK_ZIPF;
        good = parse_range(text + 5, &end, url, why) && parse_exponent(end, &end, url) &&
               (url->last - url->first < UINT32_MAX);
    } else if (strncmp(text, "each:", 5) == 0) {
        url->keys = WORK_EACH;
        good = parse_range(text + 5, &end, url, why);
    } else {
        url->keys = WORK_UNIFORM;
        good = parse_range(text, &end, url, why);
    }
    return good && end == text + count;
}

static bool find_key(struct work_url *url, char *why)
{
    const char *open = strchr(url->path, '{'), *close = strchr(url->path, '}');
    if (open == NULL && close == NULL)
        return true;
    if (open == NULL || close == NULL || close < open || strpbrk(open + 1, "{") != NULL ||
        strchr(close + 1, '}') != NULL)
        return work_wrong(why, "\"%.*s\": a path may hold one {...}, and braces for nothing else", QUOTED_MAX,
                          url->path);
    url->key_at = (size_t)(open - url->path);
    url->key_bytes = (size_t)(close - open) + 1;
    why[0] = '\0';
    if (parse_key(open + 1, url->key_bytes - 2, url, why))
        return true;
    if (why[0] != '\0')
        return false;
    return work_wrong(
        why,
        "\"%.*s\": {...} is {1-900}, {zipf:1-900}, {zipf:1-900:1.2}, {each:1-900}, {random}, or @FILE in "
        "place of a range",
        QUOTED_MAX, url->path);
}

/* " weight N" after the path, if anything. */
static bool parse_weight(const char *text, struct work_url *url, char *why)
{
    uint64_t weight;
    const char *given = text;
    url->weight = 1;
    text += strspn(text, " \t");
    if (*text == '\0')
        return true;
    if (strncmp(text, "weight", 6) != 0 || strspn(text + 6, " \t") == 0)
        return work_wrong(why, "only \"weight N\" may follow the path, not \"%.*s\"", QUOTED_MAX, given);
    text += 6;
    text += strspn(text, " \t");
    if (!number_scan(&text, WEIGHT_MAX, &weight) || weight == 0 || text[strspn(text, " \t")] != '\0')
        return work_wrong(why, "a weight is a number from 1 to %d, not \"%.*s\"", WEIGHT_MAX, QUOTED_MAX,
                          given);
    url->weight = (uint32_t)weight;
    return true;
}

static bool parse_path(const char *text, struct work_url *url, char *why)
{
    size_t count = strcspn(text, " \t");
    if (count > WORK_PATH_BYTES - PATH_SPARE_BYTES)
        return work_wrong(why, "\"%.*s...\": a path of %zu bytes; at most %d fit", 40, text, count,
                          WORK_PATH_BYTES - PATH_SPARE_BYTES);
    for (size_t i = 0; i < count; i++) {
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 127 || text[i] == '#')
            return work_wrong(why, "\"%.*s\": byte %zu cannot stand in a request; percent-encode it",
                              QUOTED_MAX, text, i + 1);
    }
    memcpy(url->path, text, count);
    url->path[count] = '\0';
    return find_key(url, why) && parse_weight(text + count, url, why);
}

static bool find_or_add_target(struct work *work, const char *text, size_t count, bool is_tls, int *out,
                               char *why)
{
    struct work_target target;
    if (!target_parse(text, count, is_tls, &target, why))
        return false;
    for (size_t i = 0; i < work->target_count; i++) {
        if (strcmp(work->targets[i].name, target.name) == 0 && work->targets[i].is_tls == is_tls) {
            *out = (int)i;
            return true;
        }
    }
    if (work->target_count == WORK_TARGETS_MAX)
        return work_wrong(why, "\"%s\" is one target too many: at most %d", target.name, WORK_TARGETS_MAX);
    *out = (int)work->target_count;
    work->targets[work->target_count++] = target;
    return true;
}

bool work_url_add(struct work *work, const char *text, char why[static WORK_WHY_BYTES])
{
    struct work_url url = {.target = -1};
    size_t known = work->target_count;
    const char *given = text;
    if (work->url_count == WORK_URLS_MAX)
        return work_wrong(why, "\"%.*s\" is one URL too many: at most %d", QUOTED_MAX, text, WORK_URLS_MAX);
    bool is_tls = strip_scheme(&text);
    if (text == given && *text != '/')
        return work_wrong(why, "\"%.*s\" is neither /path nor http://host:port/path", QUOTED_MAX,
                          behind_login(text, strlen(text)));
    size_t host_bytes = strcspn(text, "/ \t");
    if (text != given && !find_or_add_target(work, text, host_bytes, is_tls, &url.target, why))
        return false;
    const char *path = text + host_bytes;
    if (*path == '/' ? !parse_path(path, &url, why)
                     : !parse_path("/", &url, why) || !parse_weight(path, &url, why)) {
        work->target_count = known;
        work_words_free(&url.words);
        return false;
    }
    work->urls[work->url_count++] = url;
    return true;
}

void work_clear(struct work *work)
{
    for (size_t i = 0; i < work->url_count; i++)
        work_words_free(&work->urls[i].words);
}
