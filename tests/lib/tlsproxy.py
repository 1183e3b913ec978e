"""A TLS end in front of a unix socket, with certificates made on the spot: an engine on tcp+TLS
for tests. Bytes are passed both ways unlooked at, so an upgraded connection passes too."""

import os
import select
import socket
import ssl
import subprocess
import threading


def make_certificates(folder, name="engine.test", address="127.0.0.1"):
    """ca.pem, server.pem+key, client.pem+key, other-ca.pem in folder."""

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, cwd=folder, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    for ca in ("ca", "other-ca"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-keyout", ca + ".key", "-out", ca + ".pem", "-days", "2",
                "-subj", "/CN=" + ca)
    for who, extension in (("server", f"subjectAltName=DNS:{name},IP:{address}"),
                           ("client", "extendedKeyUsage=clientAuth")):
        with open(os.path.join(folder, who + ".ext"), "w", encoding="ascii") as handle:
            handle.write(extension + "\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", who + ".key", "-out", who + ".csr", "-subj", "/CN=" + who)
        openssl("x509", "-req", "-in", who + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", who + ".ext", "-out", who + ".pem")


class TlsProxy:
    """Listens on 127.0.0.1; .port. plain=True leaves TLS out."""

    def __init__(self, socket_path, folder=None, plain=False):
        self.socket_path = socket_path
        self.context = None
        if not plain:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(os.path.join(folder, "server.pem"),
                                         os.path.join(folder, "server.key"))
            self.context.load_verify_locations(os.path.join(folder, "ca.pem"))
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            if self.context:
                client = self.context.wrap_socket(client, server_side=True)
            with socket.socket(socket.AF_UNIX) as engine:
                engine.connect(self.socket_path)
                self.pump(client, engine)
        except (OSError, ssl.SSLError):
            pass
        finally:
            client.close()

    @staticmethod
    def pump(client, engine):
        """Never waits for one side to take its bytes: an echoing peer would block both."""
        todo = {client: b"", engine: b""}  # what goes to that end
        other = {client: engine, engine: client}
        for end in todo:
            end.setblocking(False)
        while True:
            reading = [end for end in todo if len(todo[other[end]]) < 1 << 20]
            writing = [end for end in todo if todo[end]]
            if not (client in reading and isinstance(client, ssl.SSLSocket) and client.pending()):
                select.select(reading, writing, [])
            for end in reading:
                try:
                    data = end.recv(65536)
                except (BlockingIOError, ssl.SSLWantReadError):
                    continue
                if not data:
                    return
                todo[other[end]] += data
            for end in todo:
                try:
                    while todo[end]:
                        todo[end] = todo[end][end.send(todo[end]):]
                except (BlockingIOError, ssl.SSLWantWriteError):
                    pass

    def close(self):
        self.listener.close()
