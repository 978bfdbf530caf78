"""A small real policy server: the toy's expert behind length-prefixed JSON over TCP.

``python -m tests.fakes.policy_service --port N --diary FILE [...]``. Four bytes of length, most
significant first, then UTF-8 JSON; a request has ``hand``, ``target``, ``closed`` and ``chunk``, a
reply ``actions``. The diary gets a line for its start (``pid 12``), for every child that it starts
(``child 34``) and for every connection that asked something (``client``).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

HEAD = struct.Struct(">I")
SLEEPER = "import signal, time; {deaf}; time.sleep(600)"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def receive(connection: socket.socket) -> dict[str, object] | None:
    """The next message; None at the end of the connection."""
    head = _exactly(connection, HEAD.size)
    body = head and _exactly(connection, HEAD.unpack(head)[0])
    if not body:
        return None
    message: dict[str, object] = json.loads(body)
    return message


def send(connection: socket.socket, message: dict[str, object]) -> None:
    body = json.dumps(message).encode()
    connection.sendall(HEAD.pack(len(body)) + body)


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        part = connection.recv(size - len(got))
        if not part:
            return b""
        got += part
    return got


def serve(connection: socket.socket, diary: Path, die_after: int | None) -> None:
    # Only those that serve need numpy: a server that is to fail should fail fast.
    import numpy as np

    from tests.fakes.toy_policies import pick_up

    asked = 0
    while (request := receive(connection)) is not None:
        asked += 1
        if asked == 1:
            write(diary, "client")
        if asked == die_after:
            print("CUDA error: device-side assert triggered", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        hand, target = (np.array(request[name], dtype=np.float64) for name in ("hand", "target"))
        chunk = request["chunk"]
        assert isinstance(chunk, int)
        actions = pick_up(hand, target, bool(request["closed"]), chunk)
        send(connection, {"actions": actions.tolist()})


def write(diary: Path, line: str) -> None:
    with diary.open("a") as file:
        file.write(line + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--diary", type=Path, required=True)
    parser.add_argument("--loads-s", type=float, default=0.0, help="before it listens")
    parser.add_argument("--exit", type=int, help="with this code, without ever listening")
    parser.add_argument("--die-after", type=int, help="requests of one connection")
    parser.add_argument("--children", action="store_true", help="one in a session of its own")
    parser.add_argument("--stubborn", action="store_true", help="children that ignore SIGTERM")
    given = parser.parse_args()
    write(given.diary, f"pid {os.getpid()}")
    print("loading the weights", flush=True)
    if given.children or given.stubborn:
        script = SLEEPER.format(deaf=DEAF if given.stubborn else "pass")
        for own_session in (False, True):
            child = subprocess.Popen(
                [sys.executable, "-c", script, str(given.diary)], start_new_session=own_session
            )
            write(given.diary, f"child {child.pid}")
    time.sleep(given.loads_s)
    if given.exit is not None:
        print("no such checkpoint: run7.pt", flush=True)
        sys.exit(given.exit)
    with socket.create_server(("127.0.0.1", given.port)) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(
                target=serve, args=(connection, given.diary, given.die_after), daemon=True
            ).start()


if __name__ == "__main__":
    main()
