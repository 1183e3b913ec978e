"""Streamable HTTP of both eras: the real frontend on a TCP connection, a scripted broker."""

import json
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import http_rig  # noqa: E402
import pace  # noqa: E402
import tap  # noqa: E402
from frontend_rig import ENVELOPE  # noqa: E402
from http_rig import HttpRig, MODERN, TOKEN  # noqa: E402

BASH = {"language": "bash", "code": "echo hi"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(id=1, token=None, **arguments):
    params = {"name": "execute_code", "arguments": dict(BASH, **arguments)}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def finish(rig, submitted, out=b"hi\n"):
    rig.grant(submitted["call"])
    rig.output(submitted["call"], out)
    rig.end(submitted["call"], guest={"stdout_bytes": len(out)})


class Legacy(unittest.TestCase):
    def test_session(self):
        with HttpRig() as rig:
            session = rig.initialize("2025-06-18")
            self.assertRegex(session, "^[0-9a-f]{48}$")
            self.assertEqual(rig.post(INITIALIZED, session=session).status, 202)
            answer = rig.post(PING, session=session, version="2025-06-18")
            self.assertEqual((answer.status, answer.json["result"]), (200, {}))
            self.assertEqual(answer.headers["content-type"], "application/json")
            self.assertEqual(rig.post({"jsonrpc": "2.0", "id": 9, "result": {}},
                                      session=session).status, 202)

    def test_every_revision(self):
        for revision in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            with self.subTest(revision=revision), HttpRig() as rig:
                answer = rig.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                    "protocolVersion": revision, "capabilities": {}, "clientInfo": {}}})
                self.assertEqual(answer.json["result"]["protocolVersion"], revision)

    def test_without_a_session(self):
        with HttpRig() as rig:
            for message in (PING, INITIALIZED, {"jsonrpc": "2.0", "id": 1, "result": {}}):
                answer = rig.post(message)
                self.assertEqual((answer.status, answer.error), (400, -32600))
                self.assertNotIn("mcp-session-id", answer.headers)

    def test_unknown_sessions(self):
        with HttpRig() as rig, HttpRig() as other:
            session = rig.initialize()
            for bad in ("0" * 48, "x", session.upper(), session[:-1], session + "0"):
                answer = rig.post(PING, session=bad)
                self.assertEqual(answer.status, 404, bad)
            self.assertEqual(other.post(PING, session=session, token="other-token").status, 404)
            self.assertEqual(rig.post(PING, session=session).status, 200)

    def test_session_on_another_connection(self):
        with HttpRig() as one, HttpRig() as two:
            session = one.initialize("2025-03-26")
            self.assertEqual(two.post(PING, session=session).status, 200)
            # its revision came along: batches are of this one
            answer = two.post([PING, INITIALIZED, dict(PING, id=2)], session=session)
            self.assertEqual([m["id"] for m in answer.json], [1, 2])
            self.assertEqual(two.post([INITIALIZED], session=session).status, 202)

    def test_delete(self):
        with HttpRig() as rig:
            session = rig.initialize()
            rig.send_raw(rig.raw_head("DELETE", session=session))
            self.assertEqual(rig.answer().status, 200)
            self.assertEqual(rig.post(PING, session=session).status, 404)
            rig.send_raw(rig.raw_head("DELETE", session=session))
            self.assertEqual(rig.answer().status, 404)
            rig.send_raw(rig.raw_head("DELETE"))
            self.assertEqual(rig.answer().status, 400)

    def test_version_header(self):
        with HttpRig() as rig:
            session = rig.initialize("2025-06-18")
            for version, status in (("2025-06-18", 200), ("2025-11-25", 200), ("1999-01-01", 400),
                                    ("", 400), (MODERN, 400)):  # the last one closes
                answer = rig.post(PING, session=session, version=version)
                self.assertEqual(answer.status, status, version)

    def test_errors_in_their_answer(self):
        with HttpRig() as rig:
            session = rig.initialize()
            cases = ((b"{", 400, -32700), (b"[]", 400, -32600), (b"", 400, -32700),
                     (b"7", 400, -32600), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
                     ({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, 200, -32601),
                     ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "x"}},
                      200, -32602),
                     ([PING], 400, -32600))
            for message, status, code in cases:
                answer = rig.post(message, session=session)
                self.assertEqual((answer.status, answer.error), (status, code), message)

    def test_batch_has_no_initialize(self):
        with HttpRig() as rig:
            session = rig.initialize("2025-03-26")
            answer = rig.post([{"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {
                "protocolVersion": "2025-03-26"}}], session=session)
            self.assertEqual(answer.json[0]["error"]["code"], -32600)


class Calls(unittest.TestCase):
    def test_json_where_nothing_was_said_before(self):
        with HttpRig() as rig:
            session = rig.initialize()
            rig.begin(call(), session=session)
            submitted = rig.submitted()
            self.assertEqual(submitted["tag"], session + ":1")
            self.assertTrue(rig.quiet(0.1))
            finish(rig, submitted)
            answer = rig.answer()
            self.assertEqual((answer.status, answer.headers["content-type"]),
                             (200, "application/json"))
            self.assertEqual(answer.json["result"]["structuredContent"]["stdout"], "hi\n")

    def test_stream_with_progress(self):
        with HttpRig() as rig:
            session = rig.initialize()
            rig.begin(call(id="a", token=7), session=session)
            submitted = rig.submitted()
            rig.grant(submitted["call"])
            rig.output(submitted["call"], b"one\n")
            answer = rig.head()
            self.assertEqual(answer.headers["content-type"], "text/event-stream")
            self.assertEqual(answer.headers["x-accel-buffering"], "no")
            note = rig.event(answer)
            self.assertEqual(note["method"], "notifications/progress")
            self.assertEqual(note["params"]["progressToken"], 7)
            rig.end(submitted["call"], guest={"stdout_bytes": 4})
            while rig.event(answer) is not None:
                pass
            self.assertEqual(answer.json["id"], "a")
            self.assertEqual(answer.json["result"]["structuredContent"]["status"], "ok")
            self.assertEqual(rig.post(PING, session=session).status, 200)

    def test_cancel_from_another_connection(self):
        for early in (False, True):
            with self.subTest(granted=not early), HttpRig() as rig, HttpRig() as other:
                session = rig.initialize()
                rig.begin(call(id=5), session=session)
                submitted = rig.submitted()
                if not early:
                    rig.grant(submitted["call"])
                answer = other.post({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                     "params": {"requestId": 5}}, session=session)
                self.assertEqual(answer.status, 202)
                tag = other.broker_row("cancel_tag")[1]["tag"]
                self.assertEqual(tag, submitted["tag"])
                rig.end(submitted["call"], "cancelled")
                answer = rig.answer()  # ends, without a message
                self.assertEqual((answer.status, answer.headers["content-type"], answer.events),
                                 (200, "text/event-stream", []))
                self.assertEqual(rig.post(PING, session=session).status, 200)

    def test_end_of_the_connection_cancels(self):
        for modern in (False, True):
            with self.subTest(modern=modern), HttpRig() as rig:
                if modern:
                    rig.begin_modern("tools/call", {"name": "execute_code", "arguments": BASH})
                else:
                    rig.begin(call(), session=rig.initialize())
                submitted = rig.submitted()
                self.assertEqual(submitted["tag"] != "", not modern)
                rig.grant(submitted["call"])
                with pace.within(self, 1.0, "the end"):
                    rig.sock.close()
                    row = rig.broker_row("call_cancel")[1]
                    self.assertEqual(row["call"], submitted["call"])
                    self.assertEqual(rig.wait(), 0)

    def test_half_closed_is_gone(self):
        with HttpRig() as rig:
            rig.begin(call(), session=rig.initialize())
            submitted = rig.submitted()
            rig.sock.shutdown(1)
            self.assertEqual(rig.broker_row("call_cancel")[1]["call"], submitted["call"])
            self.assertEqual(rig.wait(), 0)

    def test_reset_while_a_call_runs(self):
        with HttpRig() as rig:
            rig.begin(call(), session=rig.initialize())
            submitted = rig.submitted()
            rig.sock.setsockopt(http_rig.socket.SOL_SOCKET, http_rig.socket.SO_LINGER,
                                b"\1\0\0\0\0\0\0\0")
            rig.sock.close()
            self.assertEqual(rig.broker_row("call_cancel")[1]["call"], submitted["call"])
            self.assertEqual(rig.wait(), 0)

    def test_new_broker_is_told_the_token_first(self):
        with HttpRig() as rig:
            session = rig.initialize()
            rig.begin(call(), session=session)
            rig.submitted()
            rig.answers_itself = False
            rig.broker.close()
            rig.new_broker()
            name, row = rig.broker_row()
            self.assertEqual((name, row["token"]), ("token_check", TOKEN.encode()))
            rig.answers_itself = True
            rig._answer(name, row)
            submitted = rig.submitted()
            finish(rig, submitted)
            self.assertEqual(rig.answer().json["result"]["structuredContent"]["status"], "ok")

    def test_big_answer_to_a_slow_reader(self):
        with HttpRig() as rig:
            rig.begin(call(token="t"), session=rig.initialize())
            submitted = rig.submitted()
            rig.grant(submitted["call"])
            for _ in range(200):
                rig.output(submitted["call"], b"x" * 32768)
                time.sleep(0.001)
            rig.end(submitted["call"], guest={"stdout_bytes": 200 * 32768})
            answer = rig.answer()
            self.assertEqual(answer.json["result"]["structuredContent"]["stdout_bytes"],
                             200 * 32768)

    def test_stop_answers_what_runs(self):
        with HttpRig() as rig:
            rig.begin(call(), session=rig.initialize())
            rig.submitted()
            rig._supervise("stop", grace_ms=2000)
            answer = rig.answer()
            self.assertEqual(answer.json["result"]["structuredContent"]["status"], "cancelled")
            self.assertEqual(rig.wait(), 0)


class Modern(unittest.TestCase):
    def test_needs_no_session(self):
        with HttpRig() as rig:
            answer = rig.post_modern("server/discover")
            self.assertEqual(answer.json["result"]["supportedVersions"], [MODERN])
            answer = rig.post_modern("tools/list", session="whatever",
                                     headers=[("Last-Event-ID", "7")])
            self.assertEqual(answer.status, 200)
            self.assertNotIn("mcp-session-id", answer.headers)

    def test_call(self):
        with HttpRig() as rig:
            rig.begin_modern("tools/call", {"name": "execute_code", "arguments": BASH})
            submitted = rig.submitted()
            self.assertEqual(submitted["tag"], "")
            finish(rig, submitted)
            result = rig.answer().json["result"]
            self.assertEqual((result["resultType"], result["structuredContent"]["status"]),
                             ("complete", "ok"))

    def test_statuses(self):
        bad_meta = {"io.modelcontextprotocol/clientCapabilities": 7}
        cases = (("no/such", {}, {}, 404, -32601),
                 ("initialize", {"protocolVersion": "2025-11-25"}, {}, 404, -32601),
                 ("ping", {}, {}, 404, -32601),
                 ("tools/call", {"name": "no_such", "arguments": {}}, {}, 200, -32602),
                 ("tools/list", {"cursor": "x"}, {}, 200, -32602),
                 ("tools/list", {"_meta": bad_meta}, {}, 400, -32602),
                 ("tools/list", {"_meta": dict(ENVELOPE, **{"io.modelcontextprotocol/logLevel": "loud"})}, {}, 400, -32602),
                 ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "x"}},
                  {"version": "x"}, 400, -32022))
        with HttpRig() as rig:
            for method, params, more, status, code in cases:
                answer = rig.post_modern(method, params, **more)
                self.assertEqual((answer.status, answer.error), (status, code), (method, more))
            answer = rig.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, version=MODERN,
                              headers=[("Mcp-Method", "tools/list")])
            self.assertEqual((answer.status, answer.error), (400, -32602))

    def mismatch(self, rig, answer):
        self.assertEqual((answer.status, answer.error), (400, -32020))
        self.assertTrue(rig.closed())  # others may read differently what follows

    def test_headers_repeat_the_message(self):
        name = {"name": "execute_code", "arguments": {"language": "none", "code": ""}}
        for headers in ([("Mcp-Method", "tools/list")], [("Mcp-Method", "TOOLS/CALL")],
                        [("Mcp-Name", "other")], [("Mcp-Name", "")],
                        [("Mcp-Name", "=?base64?!!?=")]):
            with self.subTest(headers=headers), HttpRig() as rig:
                self.mismatch(rig, rig.post_modern("tools/call", name, headers=headers))
        for version in (None, "2025-11-25"):
            with self.subTest(version=version), HttpRig() as rig:
                self.mismatch(rig, rig.post_modern("tools/list", version=version))
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": dict(name, _meta=ENVELOPE)}
        for headers in ([], [("Mcp-Method", "tools/call")], [("Mcp-Name", "execute_code")]):
            with self.subTest(only=headers), HttpRig() as rig:
                self.mismatch(rig, rig.post(body, version=MODERN, headers=headers))

    def test_names_as_headers_carry_them(self):
        name = {"name": "execute_code", "arguments": {"language": "none", "code": ""}}
        with HttpRig() as rig:
            for headers in ([("mcp-NAME", "  execute_code \t")],
                            [("Mcp-Name", "=?base64?ZXhlY3V0ZV9jb2Rl?=")]):
                self.assertEqual(rig.post_modern("tools/call", name, headers=headers).status, 200)

    def test_get_and_delete(self):
        with HttpRig() as rig:
            rig.post_modern("server/discover")
            for method in ("GET", "DELETE"):
                rig.send_raw(rig.raw_head(method, version=MODERN))
                self.assertEqual(rig.answer().status, 405)


class Strangers(unittest.TestCase):
    def refused(self, rig, status, closed=True):
        answer = rig.answer()
        self.assertEqual(answer.status, status)
        self.assertIn("message", json.loads(answer.body)["error"])
        if closed:
            self.assertEqual(answer.headers["connection"], "close")
            self.assertTrue(rig.closed())
        return answer

    def test_no_token(self):
        with HttpRig() as rig:
            rig.begin(PING, token=None)
            answer = self.refused(rig, 401)
            self.assertEqual(answer.headers["www-authenticate"], 'Bearer realm="bailey"')
            self.assertTrue(rig.broker_silent())
            rig.sock.close()
            self.assertEqual(rig.wait(), 0)

    def test_wrong_token(self):
        for bad in ("bad-token", TOKEN + "x", TOKEN[:-1], TOKEN.upper()):
            with self.subTest(token=bad), HttpRig() as rig:
                rig.begin(PING, token=bad)
                self.refused(rig, 401)
                self.assertTrue(rig.broker_silent(0.05))

    def test_token_elsewhere(self):
        for target in (f"/mcp?token={TOKEN}", f"/mcp?access_token={TOKEN}"):
            with self.subTest(target=target), HttpRig() as rig:
                rig.begin(PING, token=None, target=target)
                self.refused(rig, 404)

    def test_another_token_later(self):
        with HttpRig() as rig:
            session = rig.initialize()
            rig.begin(PING, session=session, token="other-token")
            self.refused(rig, 401)
            self.assertTrue(rig.broker_silent(0.05))

    def test_host(self):
        good = (f"127.0.0.1:{http_rig.PORT}", f"LocalHost:{http_rig.PORT}")
        bad = ("evil.example.com", "127.0.0.1", "localhost:1", "127.0.0.1:8080.evil.example",
               "", "127.0.0.1:8080@evil")
        for host in good + bad:
            with self.subTest(host=host), HttpRig() as rig:
                rig.begin(PING, headers=[("Host", host)])
                if host in good:
                    self.assertEqual(rig.answer().status, 400)  # for its session
                else:
                    self.refused(rig, 403)
                    self.assertTrue(rig.broker_silent(0.05))

    def test_origin(self):
        good = (f"http://127.0.0.1:{http_rig.PORT}", f"http://localhost:{http_rig.PORT}")
        bad = ("http://evil.example.com", "null", f"https://localhost:{http_rig.PORT}",
               "http://localhost", "")
        for method in ("POST", "GET", "DELETE", "OPTIONS"):
            for origin in good + bad:
                with self.subTest(method=method, origin=origin), HttpRig() as rig:
                    rig.send_raw(rig.raw_head(method, length=0, headers=[("Origin", origin)]))
                    answer = rig.answer()
                    self.assertEqual(answer.status == 403, origin in bad)
                    self.assertFalse([h for h in answer.headers if h.startswith("access-control")])

    def test_other_addresses(self):
        with HttpRig() as rig:
            rig.initialize()
            for method in ("GET", "POST"):
                for target in ("/", "/sse", "/register", "/.well-known/oauth-protected-resource",
                               "/.well-known/oauth-authorization-server/mcp", "/mcp/", "//mcp"):
                    rig.send_raw(rig.raw_head(method, target, token=None, length=0))
                    self.refused(rig, 404, closed=False)

    def test_strangers_are_not_kept(self):
        """Whoever has shown no good token cannot hold a connection by asking for nothing here."""
        for method, target, token, status in (("GET", "/", None, 404), ("POST", "/x", TOKEN, 404),
                                              ("GET", "/mcp", None, 405),
                                              ("GET", "/mcp", TOKEN, 405)):
            with self.subTest(method=method, target=target, token=token), HttpRig() as rig:
                rig.send_raw(rig.raw_head(method, target, token=token, length=0))
                self.refused(rig, status)
                self.assertTrue(rig.broker_silent(0.05))

    def test_methods(self):
        for method in ("GET", "PUT", "OPTIONS", "TRACE", "HEAD"):
            with self.subTest(method=method), HttpRig() as rig:
                rig.send_raw(rig.raw_head(method, drop=["Content-Type"]))
                answer = self.refused(rig, 405)
                self.assertEqual(answer.headers["allow"], "POST, DELETE")

    def test_types(self):
        with HttpRig() as rig:
            rig.initialize()
            for headers, status in (([("Content-Type", "text/plain")], 415),
                                    ([("Accept", "application/json")], 406),
                                    ([("Accept", "text/html")], 406),
                                    ([("Content-Encoding", "gzip")], 415),
                                    ([("Accept", "*/*")], 400)):
                rig.begin(PING, headers=headers)
                self.refused(rig, status, closed=False)
            rig.begin(PING, drop=["Accept"])
            self.refused(rig, 406, closed=False)


class Hostile(unittest.TestCase):
    HEAD = (f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{http_rig.PORT}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\n").encode()

    def test_two_readings(self):
        """What a proxy in front might read differently is refused, and nothing behind it read."""
        inner = self.HEAD + b"Content-Length: 2\r\n\r\n{}"
        cases = {
            "both lengths": (self.HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
                             b"0\r\n\r\n" + inner, 400),
            "chunked": (self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, 411),
            "odd coding": (self.HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 411),
            "two lengths": (self.HEAD + b"Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}", 400),
            "list of lengths": (self.HEAD + b"Content-Length: 2,2\r\n\r\n{}", 400),
            "bare LF": (self.HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 2\n\n{}", 400),
            "one bare LF": (self.HEAD + b"X: a\nContent-Length: 2\r\n\r\n{}", 400),
            "bare CR": (self.HEAD + b"X: a\rContent-Length: 2\r\n\r\n{}", 400),
            "folded": (self.HEAD + b"X: a\r\n Content-Length: 2\r\n\r\n{}", 400),
            "blank before colon": (self.HEAD + b"Content-Length : 2\r\n\r\n{}", 400),
            "NUL": (self.HEAD + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}", 400),
            "two hosts": (self.HEAD + b"Host: evil\r\nContent-Length: 2\r\n\r\n{}", 400),
            "two names": (self.HEAD + b"Mcp-Name: a\r\nMcp-Name: b\r\nContent-Length: 2\r\n\r\n{}", 400),
            "two tokens": (self.HEAD + b"Authorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}", 400),
            "absolute": (self.HEAD.replace(b" /mcp ", b" http://evil.example/mcp ") +
                         b"Content-Length: 2\r\n\r\n{}", 400),
            "HTTP/1.0": (self.HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") +
                         b"Content-Length: 2\r\n\r\n{}", 505),
            "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
            "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
            "body with GET": (self.HEAD.replace(b"POST", b"GET") + b"Content-Length: 2\r\n\r\n{}",
                              400),
            "long head": (self.HEAD + b"X: " + b"a" * 17000 + b"\r\n\r\n", 431),
            "many lines": (self.HEAD + b"X: a\r\n" * 70 + b"\r\n", 431),
            "endless line": (b"A" * 20000, 431),
            "big body": (self.HEAD + b"Content-Length: 8388609\r\n\r\n", 413),
            "huge number": (self.HEAD + b"Content-Length: 18446744073709551618\r\n\r\n{}", 413),
        }
        for name, (data, status) in cases.items():
            with self.subTest(case=name), HttpRig() as rig:
                rig.send_raw(data)
                answer = rig.answer()
                self.assertEqual(answer.status, status)
                self.assertEqual(answer.headers["connection"], "close")
                self.assertTrue(rig.closed())  # one answer, then the end
                rig.sock.close()
                self.assertEqual(rig.wait(), 0)

    def test_slow(self):
        """Heads and bodies that never get there, and connections that say nothing, in parallel."""
        slow = {"silent": (b"", None), "head": (b"POST /mcp HT", 408),
                "first byte": (b"P", 408)}
        rigs = {name: HttpRig() for name in slow}
        good = HttpRig()
        measure = pace.Measure()
        started = time.monotonic()
        try:
            session = good.initialize()
            for name, (data, _) in slow.items():
                rigs[name].send_raw(data)
            while time.monotonic() - started < 5.5:
                for name in ("head", "first byte"):
                    try:
                        rigs[name].send_raw(b"a")
                    except OSError:
                        pass
                with pace.within(self, 0.5, "a ping beside slow ones"):
                    self.assertEqual(good.post(PING, session=session).status, 200)
                time.sleep(0.3)
            for name, (_, status) in slow.items():
                if status is not None:
                    self.assertEqual(rigs[name].answer().status, status, name)
                self.assertEqual(rigs[name].wait(), 0, name)
                self.assertLess(measure.ours(), 12)
        finally:
            for rig in (*rigs.values(), good):
                rig.close()

    def test_memory(self):
        """A claimed length costs nothing; a body costs itself, and is given back."""
        with HttpRig() as rig:
            if not rig.filtered():
                self.skipTest("sanitizer build: memory figures are not ours")
            session = rig.initialize()
            before = rig.rss_kb()
            rig.send_raw(rig.raw_head(length=8 << 20, session=session))
            self.assertTrue(rig.quiet(0.2))
            self.assertLess(rig.rss_kb() - before, 1024)
            rig.send_raw(b" " * (8 << 20))
            self.assertEqual(rig.answer().error, -32700)
            # kept for the next one, then given back
            self.assertTrue(pace.until(lambda: rig.rss_kb() - before < 2048, 3), rig.rss_kb() - before)

    def test_early_requests_are_bounded(self):
        with HttpRig() as rig:
            rig.begin(call(), session=rig.initialize())
            rig.submitted()
            rig.sock.settimeout(5)
            try:
                for _ in range(64):
                    rig.send_raw(b"x" * 65536)
            except OSError:
                pass
            self.assertEqual(rig.broker_row("call_cancel")[0], "call_cancel")
            self.assertEqual(rig.wait(), 0)

    def test_expect(self):
        with HttpRig() as rig:
            session = rig.initialize()
            body = json.dumps(PING).encode()
            rig.send_raw(rig.raw_head(length=len(body), session=session,
                                      headers=[("Expect", "100-continue")]))
            self.assertEqual(rig.head().status, 100)
            rig.send_raw(body)
            self.assertEqual(rig.answer().status, 200)
            rig.send_raw(rig.raw_head(length=len(body), session="0" * 48,
                                      headers=[("Expect", "100-continue")]))
            self.assertEqual(rig.answer().status, 404)
            self.assertTrue(rig.closed())


if __name__ == "__main__":
    tap.main()
