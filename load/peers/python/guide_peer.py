# SPDX-License-Identifier: MIT
"""The plain pattern, by the guide of Redis itself (redis.io/docs/latest/develop/use-cases/cache-aside/redis-py):
on a miss one request takes a lock with SET NX PX and a token of its own, loads, stores, and gives the lock back by
a script that compares the token; the others look again every 25 ms, and load for themselves when the lock's 2 s
are over. A document is one field of a hash, as there. It knows no stale documents.
"""
import secrets
import time

import redis

import serve

LOCK_MS = 2000
POLL_S = 0.025

client = redis.Redis(**serve.REDIS)
release = client.register_script(
    "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"
)


def fill(path, key):
    body = serve.load(path)
    with client.pipeline() as pipeline:
        pipeline.hset(key, "body", body)
        pipeline.expire(key, serve.TTL_S)
        pipeline.execute()
    return body


def poll(path, key):
    end_s = time.monotonic() + LOCK_MS / 1000
    while time.monotonic() < end_s:
        time.sleep(POLL_S)
        body = client.hget(key, "body")
        if body is not None:
            return body
    return serve.load(path)


def get(path):
    key, lock, token = "guide:" + path, "guide:lock:" + path, secrets.token_hex(8)
    body = client.hget(key, "body")
    if body is not None:
        return body
    if not client.set(lock, token, nx=True, px=LOCK_MS):
        return poll(path, key)
    try:
        return fill(path, key)
    finally:
        release(keys=[lock], args=[token])


serve.serve(get)
