// SPDX-License-Identifier: MIT
// bentocache.mjs - bentocache as its documentation sets it up for several processes: memory, Redis behind it, and
// a bus that keeps the memories in step (bentocache.dev/docs/multi-tier). The lock against a stampede is built in
// and each process's own (bentocache.dev/docs/stampede-protection). With grace and a timeout of 0, the default, an
// expired document is served at once and renewed behind it (bentocache.dev/docs/timeouts).
import { BentoCache, bentostore } from 'bentocache'
import { memoryDriver } from 'bentocache/drivers/memory'
import { redisBusDriver, redisDriver } from 'bentocache/drivers/redis'
import { load, serve, settings } from './serve.mjs'

const bento = new BentoCache({
    default: 'peers',
    prefix: 'bentocache',
    ttl: settings.ttl_s * 1000,
    grace: settings.stale_s * 1000,
    stores: {
        peers: bentostore()
            .useL1Layer(memoryDriver({ maxSize: '10mb' }))
            .useL2Layer(redisDriver({ connection: settings.redis }))
            .useBus(redisBusDriver({ connection: settings.redis }))
    }
})

serve((path) => bento.getOrSet({ key: path, factory: () => load(path) }))
