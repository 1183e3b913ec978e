"""Runs `bailey serve` for a shell script: prints where it listens and a token on one line, and ends
with the reader of that line.

    python3 served.py http|socket
"""

import os
import select
import signal
import sys

from serve import Serve

# The script ends it by a signal: the server must end with it.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

with Serve(http=sys.argv[1] == "http") as server:
    where = server.url if server.port else server.path
    print(where, server.token_for["first"] if server.port else "-", flush=True)
    # The script's end closes the pipe, which is an error on our side of it.
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)
    while not poller.poll(500) and os.getppid() != 1:
        if server.process.poll() is not None:
            print(server.log(), file=sys.stderr)
            sys.exit(1)
