// SPDX-License-Identifier: MIT
// dedupe.mjs - async-cache-dedupe with its Redis storage, as its README has it: requests for one document share
// one load within a process, and for `stale` seconds after `ttl` the old one is served while one load renews it.
import { createCache } from 'async-cache-dedupe'
import { Redis } from 'ioredis'
import { load, serve, settings } from './serve.mjs'

const cache = createCache({
    ttl: settings.ttl_s,
    stale: settings.stale_s,
    storage: { type: 'redis', options: { client: new Redis(settings.redis) } }
})
cache.define('document', (path) => load(path))

serve((path) => cache.document(path))
