/* SPDX-License-Identifier: MIT */
/*
 * outcome_json.c - everything that one run showed, as a file:
 *
 *     {"machine": ..., "peers": [{"name", "what", "version", "not_run"}, ...],
 *      "contests": [{"name", "title", "ttl_ms", "stale_ms",
 *                    "scores": [{"peer", "asked", "wrong_bodies", "strained", "strain",
 *                                "statuses": {"200": n}, "unanswered": {"reset": n},
 *                                "figures": {"p99_ms": {"median", "samples": [...]}, ...}}]}]}
 */
#include "load/peers/peers.h"

#include "load/report/result_fields.h"
#include "load/report/result_file.h"

#include <jansson.h>

#include <stdio.h>

#define SCORE(key, member, is) .name = (key), .kind = (is), .offset = offsetof(struct score, member)

static const struct field fields_of_score[] = {
    {SCORE("asked", asked, FIELD_U64)},
    {SCORE("wrong_bodies", wrong_bodies, FIELD_U64)},
    {SCORE("strained", strained_count, FIELD_U32)},
    {SCORE("strain", strain, FIELD_TEXT), .bytes = SCORE_STRAIN_BYTES},
    {SCORE("statuses", statuses, FIELD_COUNTS), .most = SCORE_STATUSES, .name_of = field_status_name},
    {SCORE("unanswered", unanswered, FIELD_COUNTS), .most = RECORD_OUTCOMES, .name_of = field_outcome_name},
    {.name = NULL},
};

static json_t *json_of_figure(const struct samples *samples)
{
    json_t *list = json_array();
    for (size_t i = 0; i < samples->count; i++)
        json_append(&list, json_real(samples->at[i]));
    return json_pack("{s:f, s:o}", "median", samples_median(samples), "samples", list);
}

static json_t *json_of_score(const struct peer *peer, const struct score *score)
{
    json_t *json = json_pack("{s:s}", "peer", peer->name), *figures = json_object();
    for (size_t i = 0; i < FIGURE_COUNT; i++) {
        if (score->figures[i].count > 0)
            json_put(&figures, figure_text((enum figure)i)->key, json_of_figure(&score->figures[i]));
    }
    json_put_fields(&json, fields_of_score, score);
    json_put(&json, "figures", figures);
    return json;
}

static json_t *json_of_contest(const struct outcome *outcome, size_t contest)
{
    const struct contest *about = outcome->contests[contest];
    json_t *scores = json_array();
    for (size_t i = 0; i < outcome->peer_count; i++) {
        const struct score *score = &outcome->scores[contest][i];
        if (score->asked > 0)
            json_append(&scores, json_of_score(outcome->peers[i], score));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:o}", "name", about->name, "title", about->title, "ttl_ms",
                     (int)about->terms.ttl_ms, "stale_ms", (int)about->terms.stale_ms, "scores", scores);
}

static json_t *json_of_peer(const struct peer *peer)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s}", "name", peer->name, "what", peer->what, "version", peer->version);
    if (peer->why_not[0] != '\0')
        json_put(&json, "not_run", json_string(peer->why_not));
    return json;
}

/* NULL: no memory. */
static json_t *json_of(const struct outcome *outcome)
{
    json_t *peers = json_array(), *contests = json_array();
    for (size_t i = 0; i < outcome->peer_count; i++)
        json_append(&peers, json_of_peer(outcome->peers[i]));
    for (size_t i = 0; i < outcome->contest_count; i++)
        json_append(&contests, json_of_contest(outcome, i));
    return json_pack("{s:s, s:o, s:o}", "machine", outcome->machine, "peers", peers, "contests", contests);
}

bool outcome_write(const struct outcome *outcome, const char *path)
{
    struct result_file file;
    char why[RESULT_WHY_BYTES] = "no memory for the report";
    json_t *json = json_of(outcome);
    bool good = json != NULL && result_file_open(&file, path, why);
    if (good) {
        json_dumpf(json, file.out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        good = result_file_close(&file, true, why);
    }
    if (!good)
        fprintf(stderr, "%s\n", why);
    json_decref(json);
    return good;
}
