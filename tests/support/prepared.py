# SPDX-License-Identifier: MIT
# prepared.py PORT - has MariaDB's client library prepare and run each line of stdin.
import ctypes, sys

library = ctypes.CDLL("libmariadb.so.3")
for name in "mysql_init", "mysql_stmt_init", "mysql_real_connect":
    getattr(library, name).restype = ctypes.c_void_p
link = ctypes.c_void_p(library.mysql_init(None))
port = ctypes.c_uint(int(sys.argv[1]))
if not library.mysql_real_connect(link, b"127.0.0.1", b"root", None, b"test", port, None, ctypes.c_ulong(0)):
    sys.exit("prepared.py: no connection")
for line in sys.stdin.buffer:
    text = line.strip().rstrip(b";")
    statement = ctypes.c_void_p(library.mysql_stmt_init(link))
    if library.mysql_stmt_prepare(statement, text, ctypes.c_ulong(len(text))) or \
            library.mysql_stmt_execute(statement) or library.mysql_stmt_store_result(statement):
        sys.exit("prepared.py: the server refuses " + text.decode())
    library.mysql_stmt_close(statement)
library.mysql_close(link)
