"""What Python programs do every day, under the container profile. Run as python3 -."""
import asyncio
import ctypes
import multiprocessing
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory


def square(x):
    return x * x


async def events():
    child = await asyncio.create_subprocess_exec("echo", "sub", stdout=asyncio.subprocess.PIPE)
    assert await child.communicate() == (b"sub\n", None)

    async def serve(_reader, writer):
        writer.write(b"x")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, _writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    assert await reader.read() == b"x"
    server.close()


def main():
    asyncio.run(events())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        assert list(pool.map(square, [4])) == [16]
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(square, range(10))) == 285
    assert subprocess.run("echo x | cat", shell=True, capture_output=True, check=True).stdout == b"x\n"

    database = sqlite3.connect("a.db")
    database.execute("pragma journal_mode=wal")
    database.execute("create table t(a)")
    database.execute("insert into t values(1)")
    database.commit()
    assert database.execute("select * from t").fetchall() == [(1,)]

    memory = shared_memory.SharedMemory(create=True, size=100)
    memory.close()
    memory.unlink()
    with tempfile.TemporaryDirectory() as place:
        os.mkfifo(os.path.join(place, "fifo"))
        os.symlink("fifo", os.path.join(place, "link"))
    assert socket.if_nameindex()[0][1] == "lo"
    assert socket.getaddrinfo("127.0.0.1", 80)
    left, right = socket.socketpair()
    left.sendall(b"x")
    assert right.recv(1) == b"x"

    os.nice(1)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 1024))
    os.close(os.memfd_create("x"))
    os.close(os.pidfd_open(os.getpid()))
    signal.alarm(1)
    assert signal.sigtimedwait([signal.SIGUSR1], 0) is None
    signal.alarm(0)
    pid = os.posix_spawn("/bin/true", ["true"], {})
    assert os.waitpid(pid, 0)[1] == 0
    thread = threading.Thread(target=square, args=(1,))
    thread.start()
    thread.join()

    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(0, 0, 0, 0) == -1 and ctypes.get_errno() == 1
    assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == 1
    print("all well")


main()
