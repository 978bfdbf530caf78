"""A replica of the request handling of OpenVLA's and OpenVLA-OFT's ``vla-scripts/deploy.py``.

Not their server, which needs a GPU and the model: it keeps what a client can notice of it. Requests
are read and answers written by json-numpy itself, patched into ``json`` there; whatever is raised
becomes the text "error" with HTTP 200; statistics are chosen as OpenVLA's model chooses them.
"""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import json_numpy
import numpy as np

Payload = dict[str, object]


class Deploy:
    """A server at a free port, in threads.

    Args:
        predict: the model: gets the payload, returns what is answered, or raises.
        keys: the names of the checkpoint's statistics; empty if they are not asked for.
        certificate: certificate and key, for https.

    Attributes:
        url: where it listens.
        payloads: what was received, as json-numpy reads it.
        raw: the same, as bytes.
        connections: how many there were.
    """

    def __init__(
        self,
        predict: Callable[[Payload], object],
        keys: Sequence[str] = (),
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        self.payloads: list[Payload] = []
        self.raw: list[bytes] = []
        self.connections = 0
        self.log: list[str] = []
        deploy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                deploy.connections += 1
                super().setup()

            def do_GET(self) -> None:
                self._answer(404, '{"detail":"Not Found"}')

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                deploy.raw.append(body)
                if self.headers["Content-Type"] != "application/json":
                    self._answer(422, '{"detail":"Input should be a valid dictionary"}')
                elif self.path != "/act":
                    self._answer(404, '{"detail":"Not Found"}')
                else:
                    self._answer(200, deploy.respond(body))

            def version_string(self) -> str:
                return "uvicorn"

            def log_message(self, *args: object) -> None:
                pass

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        self._predict = predict
        self._keys = tuple(keys)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            plain = self._server.socket
            self._server.socket = context.wrap_socket(plain, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def respond(self, body: bytes) -> str:
        """The body of the answer."""
        try:
            payload = json_numpy.loads(body)
            double_encoded = "encoded" in payload
            if double_encoded:
                assert len(payload) == 1, "Only uses encoded payload!"
                payload = json_numpy.loads(payload["encoded"])
            self.payloads.append(payload)
            if self._keys:
                self._statistics(payload.get("unnorm_key"))
            answer = self._predict(payload)
            if double_encoded:
                answer = json_numpy.dumps(answer)
            return str(json_numpy.dumps(answer, allow_nan=False, separators=(",", ":")))
        except Exception as error:
            self.log.append(f"{type(error).__name__}: {error}")
            return '"error"'

    def _statistics(self, key: object) -> None:
        if key is None:
            assert len(self._keys) == 1, "trained on several datasets: pass an unnorm_key"
        else:
            assert key in self._keys, f"choose from {self._keys}"

    def __enter__(self) -> Deploy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def one_action(payload: Payload) -> object:
    """As OpenVLA's model answers: one array; open, by its own sign."""
    image = payload["image"]
    assert isinstance(image, np.ndarray)
    assert image.dtype == np.uint8
    assert isinstance(payload["instruction"], str)
    return np.array([0.1, -0.2, 0.3, 0.0, 0.0, 0.5, 0.996])


def eight_actions(payload: Payload) -> object:
    """As OpenVLA-OFT's answers: a list of eight arrays; it closes in the second half."""
    for key in ("full_image", "wrist_image"):
        image = payload[key]
        assert isinstance(image, np.ndarray)
        assert image.dtype == np.uint8
        assert image.shape == (256, 256, 3)
    state = payload["state"]
    assert isinstance(state, np.ndarray)
    assert state.shape == (8,)
    assert isinstance(payload["instruction"], str)
    return [np.array([0.1 * step, 0, 0, 0, 0, 0, float(step < 4)]) for step in range(8)]
