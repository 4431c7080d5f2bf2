"""A relay in front of Prefect's API whose first answer to the end of a flow run is lost on the way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Relay:
    """Where the relay listens, and how many answers it has lost."""

    url: str
    lost: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def loses(self, sent: bytes) -> bool:
        """Say whether the answer to ``sent`` is lost: the first that ends a flow run as completed."""
        ends = b"/flow_runs/" in sent and b"/set_state" in sent and b'"COMPLETED"' in sent
        with self.lock:
            first = ends and self.lost == 0
            self.lost += first
        return first


@contextmanager
def losing_an_answer(api: str) -> Iterator[Relay]:
    """Relay every connection to ``api``; the server does all that it is asked."""
    target = urlsplit(api)
    listener = socket.create_server(("127.0.0.1", 0))
    relay = Relay(f"http://127.0.0.1:{listener.getsockname()[1]}{target.path}")

    def connected(client: socket.socket) -> None:
        server = socket.create_connection((str(target.hostname), int(target.port or 80)))
        deaf = threading.Event()

        def back() -> None:
            with suppress(OSError):
                while data := server.recv(65536):
                    if deaf.is_set():
                        break
                    client.sendall(data)
            for end in (client, server):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=back, daemon=True).start()
        asked = b""
        with suppress(OSError):
            while data := client.recv(65536):
                # A request may come in pieces; one connection sends its next only after an answer.
                asked = data if data.startswith((b"POST ", b"GET ", b"PATCH ", b"PUT ", b"DELETE ")) else asked + data
                if relay.loses(asked):
                    deaf.set()
                server.sendall(data)

    def listen() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=connected, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield relay
    finally:
        listener.close()
