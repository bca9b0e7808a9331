/* SPDX-License-Identifier: MIT */
/* work_choose.c - which request is next, the same for the same seed; see work.h. */
#include "load/herd/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void work_chooser_init(struct work_chooser *chooser, const struct work *work, uint32_t generator,
                       uint32_t generator_count)
{
    *chooser = (struct work_chooser){
        .work = work,
        .random = work->seed ^ ((uint64_t)generator << 32),
        .index = generator,
        .count = generator_count,
        .turn = generator,
    };
    chooser->random = dice_next(&chooser->random); /* seeds that are close must not give similar sequences */
    for (size_t i = 0; i < work->url_count; i++) {
        const struct work_url *url = &work->urls[i];
        chooser->weight_sum += url->weight;
        if (url->keys == WORK_ZIPF)
            dice_zipf_init(&chooser->zipf[i], url->last - url->first + 1, url->exponent);
    }
}

static uint16_t choose_url(struct work_chooser *chooser)
{
    uint16_t url = 0;
    if (chooser->work->url_count == 1)
        return 0;
    uint64_t place = dice_below(&chooser->random, chooser->weight_sum);
    while (place >= chooser->work->urls[url].weight)
        place -= chooser->work->urls[url++].weight;
    return url;
}

static uint32_t choose_key(struct work_chooser *chooser, uint16_t index)
{
    const struct work_url *url = &chooser->work->urls[index];
    uint64_t count = (uint64_t)url->last - url->first + 1;
    switch (url->keys) {
    case WORK_NO_KEY:
        return 0;
    case WORK_ZIPF:
        return url->first - 1 + dice_zipf_draw(&chooser->zipf[index], &chooser->random);
    case WORK_EACH:
        return (uint32_t)(url->first +
                          (chooser->index + chooser->each_turn[index]++ * chooser->count) % count);
    case WORK_UNIFORM:
    case WORK_RANDOM:
        break;
    }
    return (uint32_t)(url->first + dice_below(&chooser->random, count));
}

struct work_choice work_choose(struct work_chooser *chooser)
{
    struct work_choice choice = {.url = choose_url(chooser)};
    const struct work_url *url = &chooser->work->urls[choice.url];
    choice.key = choose_key(chooser, choice.url);
    choice.target =
        (uint8_t)(url->target != -1 ? (uint64_t)url->target : chooser->turn++ % chooser->work->target_count);
    return choice;
}

size_t work_path(const struct work_url *url, uint32_t key, char path[static WORK_PATH_BYTES])
{
    int count = url->keys == WORK_NO_KEY
                    ? snprintf(path, WORK_PATH_BYTES, "%s", url->path)
                    : snprintf(path, WORK_PATH_BYTES, "%.*s%" PRIu32 "%s", (int)url->key_at, url->path, key,
                               url->path + url->key_at + url->key_bytes);
    return (size_t)count; /* a number is no longer than its {...} and the room a path must leave */
}
