# SPDX-License-Identifier: MIT
"""The HTTP server around a cache in Python: GET /ping is a constant, everything else is a document of the origin
through the cache. What the environment says stands in peer_scripts.c.

waitress, with a thread for each request of a burst: one that waits for a lock holds its thread.
"""
import http.client
import os
import urllib.parse

import waitress

TTL_S = int(os.environ["TTL_S"])
STALE_S = int(os.environ["STALE_S"])
REDIS = {"host": "127.0.0.1", "port": int(os.environ["REDIS_PORT"])}
THREADS = 512

_origin = urllib.parse.urlsplit(os.environ["ORIGIN"])


def load(path):
    """The document of this path, bytes."""
    connection = http.client.HTTPConnection(_origin.hostname, _origin.port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the origin answers {answer.status}")
    return body


def serve(get):
    """`get` has the document of a path from the cache, or has it loaded."""

    def application(environ, start_response):
        path = environ["PATH_INFO"]
        status, kind, body = "200 OK", "application/json", b"pong\n"
        if environ["REQUEST_METHOD"] != "GET":
            status, kind, body = "405 Method Not Allowed", "text/plain", b"GET only\n"
        elif path != "/ping":
            try:
                body = get(path)
            except Exception as error:  # the client is told; the traceback would say no more
                status, kind, body = "503 Service Unavailable", "text/plain", f"{error}\n".encode()
        start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    waitress.serve(
        application,
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
        threads=THREADS,
        connection_limit=4096,
        backlog=4096,
        channel_timeout=300,
        asyncore_use_poll=True,
        _quiet=True,
    )
