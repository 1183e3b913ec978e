#!/usr/bin/env python3
"""HTTP peers that send slowly or nothing. It waits for the server's timers, and hardly anything
else, so it goes on beside other tests (CMakeLists.txt)."""

import pathlib
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from serve import Http, Serve  # noqa: E402


class Slow(unittest.TestCase):
    def test_slow_and_half_open_peers_are_ended_and_others_served(self):
        with Serve(http=True) as server:
            client = Http(server)
            connect = lambda: socket.create_connection(("127.0.0.1", server.port), 60)  # noqa: E731
            slow_head, slow_body, silent = connect(), connect(), connect()
            slow_head.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            slow_body.sendall(f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {client.token}\r\n"
                              f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 1000\r\n\r\n".encode())
            ends = {}

            def drip(name, s, seconds):
                began = time.monotonic()
                s.settimeout(0.5)
                while time.monotonic() - began < seconds:
                    try:
                        s.sendall(b"x")
                        if s.recv(4096) == b"":
                            break
                    except TimeoutError:
                        continue
                    except OSError:
                        break
                ends[name] = time.monotonic() - began

            threads = [threading.Thread(target=drip, args=a) for a in (("head", slow_head, 20), ("body", slow_body, 45))]
            for t in threads:
                t.start()
            for _ in range(5):
                self.assertEqual(client.call("execute_code", {"language": "bash", "code": "echo x"})["stdout"], "x\n")
            for t in threads:
                t.join()
            self.assertLess(ends["head"], 10)
            self.assertLess(ends["body"], 40)
            silent.close()


if __name__ == "__main__":
    tap.main()
