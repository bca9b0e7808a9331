# SPDX-License-Identifier: MIT
"""dogpile.cache on Redis as its documentation has it for several processes: a lock in Redis that is not
thread-local, and a lifetime in Redis longer than dogpile's own, so that one request renews what has expired while
the others are served the old (dogpilecache.sqlalchemy.org, api.html, Redis Backends).
"""
from dogpile.cache import make_region

import serve

region = make_region().configure(
    "dogpile.cache.redis",
    expiration_time=serve.TTL_S,
    arguments={
        **serve.REDIS,
        "redis_expiration_time": serve.TTL_S + serve.STALE_S,
        "distributed_lock": True,
        "thread_local_lock": False,
    },
)


def get(path):
    return region.get_or_create("dogpile:" + path, lambda: serve.load(path))


serve.serve(get)
