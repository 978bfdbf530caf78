"""A worker that speaks our frames and lies in them: ``python -m tests.fakes.lying_worker LIE FD``.

It greets and opens honestly, then answers the first ``prepare`` by its lie.
"""

from __future__ import annotations

import socket
import sys
import time

import pytest_vla_shift
from pytest_vla_shift.simulators import messages, wire
from pytest_vla_shift.simulators.wire import Frame
from tests.fakes.toy_simulator import INFO


def lie(channel: socket.socket, request: Frame, kind: str) -> None:
    if kind == "seq":
        wire.send(channel, Frame(request.seq - 1, "ok", {"device": "", "rss": 1}))
    elif kind == "garbage":
        channel.sendall(b"Reading package lists... Done\n" * 3)
    elif kind == "body":
        wire.send(channel, Frame(request.seq, "ok", {"device": "", "rss": 1, "fingerprint": "abc"}))
    elif kind == "error":
        wire.send(channel, Frame(request.seq, "error", {"kind": ["UsageError"]}))
    elif kind == "late":
        time.sleep(1.5)
        wire.send(channel, Frame(request.seq, "ok", {"device": "", "rss": 1}))
    elif kind == "closed":
        channel.close()
        time.sleep(60)


def main(kind: str, fd: str) -> None:
    channel = socket.socket(fileno=int(fd))
    while True:
        request = wire.receive(channel)
        body: dict[str, object] = {}
        if request.op == "hello":
            body = {"wire": wire.VERSION, "package": pytest_vla_shift.__version__}
        elif request.op == "open":
            body = messages.info_body(INFO)
        elif request.op == "prepare":
            lie(channel, request, kind)
            continue
        wire.send(channel, Frame(request.seq, "ok", body))


if __name__ == "__main__":
    main(*sys.argv[1:])
