# SPDX-License-Identifier: MIT
"""Memcached's own answer to a stampede, the meta commands (docs/protocol.txt, "Anti-Dogpile" under "meta get"; in use as
docs.memcached.org/protocols/meta describes): a get that misses makes the item (N) and wins it (W); a get that finds it
with less than the stale time left (R) wins it likewise. A winner loads and stores; meanwhile all others get the old
document, or, where there is none, look again every 25 ms, and load for themselves when the winner's 2 s are over.
"""
import socket
import threading
import time

import serve

LEASE_S = 2
POLL_S = 0.025
RECACHE = f" R{serve.STALE_S}" if serve.STALE_S > 0 else ""

own = threading.local()


def ask(command, body=None):
    """The first word of the reply, its flags, and the document, b"" if it has none."""
    if not hasattr(own, "stream"):
        own.socket = socket.create_connection(("127.0.0.1", serve.MEMCACHED_PORT))
        own.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.stream = own.socket.makefile("rwb")
    own.stream.write(command.encode() + b"\r\n" + (b"" if body is None else body + b"\r\n"))
    own.stream.flush()
    word, *flags = own.stream.readline().split()
    if word != b"VA":
        return word, flags, b""
    document = own.stream.read(int(flags[0]) + 2)[:-2]
    return word, flags[1:], document


def fill(path, key):
    body = serve.load(path)
    ask(f"ms {key} {len(body)} T{serve.TTL_S + serve.STALE_S}", body)
    return body


def get(path):
    key, end_s = "peer:" + path, time.monotonic() + LEASE_S
    while time.monotonic() < end_s:
        _, flags, body = ask(f"mg {key} v N{LEASE_S}{RECACHE}")
        if b"W" in flags:
            return fill(path, key)
        if body:
            return body
        time.sleep(POLL_S)
    return serve.load(path)


serve.serve(get)
