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

#include <jansson.h>

#include <stdio.h>

enum { PATH_BYTES = 4096 };

static json_t *json_of_figure(const struct spread *spread)
{
    json_t *samples = json_array();
    for (size_t i = 0; i < spread->count; i++)
        json_array_append_new(samples, json_real(spread->at[i]));
    return json_pack("{s:f, s:o}", "median", spread_median(spread), "samples", samples);
}

static json_t *json_of_score(const struct peer *peer, const struct score *score)
{
    json_t *statuses = json_object(), *unanswered = json_object(), *figures = json_object();
    for (unsigned status = 0; status < SCORE_STATUSES; status++) {
        char key[16];
        snprintf(key, sizeof key, "%u", status);
        if (score->statuses[status] > 0)
            json_object_set_new(statuses, key, json_integer((json_int_t)score->statuses[status]));
    }
    for (size_t i = 0; i < RECORD_OUTCOMES; i++) {
        if (score->unanswered[i] > 0)
            json_object_set_new(unanswered, record_outcome_name((enum record_outcome)i),
                                json_integer((json_int_t)score->unanswered[i]));
    }
    for (size_t i = 0; i < FIGURE_COUNT; i++) {
        if (score->figures[i].count > 0)
            json_object_set_new(figures, figure_text((enum figure)i)->key,
                                json_of_figure(&score->figures[i]));
    }
    return json_pack("{s:s, s:I, s:I, s:i, s:s, s:o, s:o, s:o}", "peer", peer->name, "asked",
                     (json_int_t)score->asked, "wrong_bodies", (json_int_t)score->wrong_bodies, "strained",
                     (int)score->strained_count, "strain", score->strain, "statuses", statuses, "unanswered",
                     unanswered, "figures", figures);
}

static json_t *json_of_contest(const struct outcome *outcome, size_t contest)
{
    const struct contest *about = outcome->contests[contest];
    json_t *scores = json_array();
    for (size_t i = 0; i < outcome->peer_count; i++) {
        const struct score *score = &outcome->scores[contest][i];
        if (score->asked > 0)
            json_array_append_new(scores, json_of_score(outcome->peers[i], score));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:o}", "name", about->name, "title", about->title, "ttl_ms",
                     (int)about->terms.ttl_ms, "stale_ms", (int)about->terms.stale_ms, "scores", scores);
}

static json_t *json_of(const struct outcome *outcome)
{
    json_t *peers = json_array(), *contests = json_array();
    for (size_t i = 0; i < outcome->peer_count; i++) {
        const struct peer *peer = outcome->peers[i];
        json_t *json =
            json_pack("{s:s, s:s, s:s}", "name", peer->name, "what", peer->what, "version", peer->version);
        if (peer->why_not[0] != '\0')
            json_object_set_new(json, "not_run", json_string(peer->why_not));
        json_array_append_new(peers, json);
    }
    for (size_t i = 0; i < outcome->contest_count; i++)
        json_array_append_new(contests, json_of_contest(outcome, i));
    return json_pack("{s:s, s:o, s:o}", "machine", outcome->machine, "peers", peers, "contests", contests);
}

bool outcome_write(const struct outcome *outcome, const char *path)
{
    char unfinished[PATH_BYTES];
    int bytes = snprintf(unfinished, sizeof unfinished, "%s.unfinished", path);
    if (bytes < 0 || (size_t)bytes >= sizeof unfinished)
        return false;
    json_t *json = json_of(outcome);
    bool good = json != NULL &&
                json_dump_file(json, unfinished, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0 &&
                rename(unfinished, path) == 0;
    if (!good) {
        perror(path);
        remove(unfinished);
    }
    json_decref(json);
    return good;
}
