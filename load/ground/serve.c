/* SPDX-License-Identifier: MIT */
/* serve.c - see serve.h. */
#include "load/ground/serve.h"

#include "load/base/progress.h"
#include "load/ground/web.h"

#include <stdio.h>

enum {
    COULD_NOT_RUN = 3,
    TURN_MS = 20,
    POPULAR = 100, /* products of the line to try: after some loads most requests are hits */
};

static struct ground ground;
static struct state state;
static struct web web;

static bool start(uint32_t product_count, uint16_t port)
{
    story_init(&ground.story);
    if (!site_open(&ground.site, product_count, &ground.story) || !jobs_open(&ground.jobs, &ground.site))
        return false;
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        if (!reader_open(&ground.readers[i], ground.site.ops_ports[i]))
            return false;
    }
    return state_open(&state, &ground) && web_open(&web, &state, &ground, port);
}

/* A crowd that is under way keeps what it uses: the program ends next, and its servers with it. */
static void stop(void)
{
    web_close(&web);
    state_close(&state);
    for (size_t i = 0; i < DEED_PROCESSES; i++)
        reader_close(&ground.readers[i]);
    if (jobs_close(&ground.jobs))
        site_close(&ground.site);
}

/* They work when they are pasted: the ETag that If-Match wants is asked for on the way. */
static void invite_to_write(unsigned port)
{
    printf("\n  # a price by PUT, with the ETag of the product as it is; then a purchase that may be "
           "repeated\n");
    printf("  curl -i -X PUT http://127.0.0.1:%u/products/7 -H 'Content-Type: application/json' \\\n", port);
    printf("      -H \"If-Match: $(curl -si http://127.0.0.1:%u/products/7 | sed -n 's/^ETag: //p' | tr -d "
           "'\\r')\" \\\n",
           port);
    printf("      -d '{\"name\": \"Kettle\", \"description\": \"Whistles.\", \"price_cents\": 2999, "
           "\"stock\": 50}'\n");
    printf("  curl -i http://127.0.0.1:%u/products/7/purchase -H 'Content-Type: application/json' \\\n",
           port);
    printf("      -H 'Idempotency-Key: order-1' -d '{\"quantity\": 2}'\n");
}

static void invite(const struct site *site)
{
    const struct servers *servers = &site->servers;
    unsigned a = site->ports[DEED_A], b = site->ports[DEED_B], ops = site->ops_ports[DEED_A];
    printf("\nThe playground: http://127.0.0.1:%u/#%s\n", (unsigned)web.port, web.token);
    printf("(for this machine only; what follows the # is its key)\n");
    printf("\nTwo catalogd are up; their logs: %s %s\n\n", servers->catalogd[DEED_A].log_path,
           servers->catalogd[DEED_B].log_path);
    printf("  curl -i http://127.0.0.1:%u/products/7\n", a);
    printf("  curl -i http://127.0.0.1:%u/categories/30\n", b);
    printf("  curl -s http://127.0.0.1:%u/catalog | head -c 400\n", a);
    printf("  curl -X POST 'http://127.0.0.1:%u/invalidate?key=product:7'\n", ops);
    printf("  curl -s http://127.0.0.1:%u/metrics\n", ops);
    printf("  build/stampede --target 127.0.0.1:%u --target 127.0.0.1:%u --url '/products/{zipf:1-%u}' "
           "--rate 1000 --for 10s\n",
           a, b, (unsigned)(site->product_count < POPULAR ? site->product_count : POPULAR));
    if (site->owns_postgres)
        printf("  psql %s\n", servers->postgres.url);
    if (site->owns_redis)
        printf("  redis-cli -p %u\n", (unsigned)servers->redis.port);
    if (site->has_writes)
        invite_to_write(a);
    else
        printf("\nWrites are off: WRITE_DATABASE_URL names no login for your database.\n");
    printf("\nEvery setting of catalogd but the addresses works here, for instance: LOAD_DELAY_MS=2000 make "
           "run. Ctrl-C ends it.\n");
    fflush(stdout);
}

int serve(uint32_t product_count, uint32_t port)
{
    if (start(product_count, (uint16_t)port)) {
        invite(&ground.site);
        while (site_turn(&ground.site, TURN_MS))
            continue;
        fprintf(stderr, "stampede: a process did not come back: the playground ends\n");
    }
    stop();
    return COULD_NOT_RUN;
}
