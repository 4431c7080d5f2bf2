"""An S3 server on loopback, and one before it that refuses, is busy, or cuts the connection."""

from __future__ import annotations

import http.client
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

BUCKET = "clinic"


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with one empty bucket, whose address and credentials stand in the environment."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        settings = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "owner",
            "AWS_SECRET_ACCESS_KEY": "not-in-any-message",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield settings["AWS_ENDPOINT_URL"]
    finally:
        server.stop()


@contextmanager
def before(address: str, how: str) -> Iterator[str]:
    """A server before another: ``403`` and ``503`` answer so, ``cut`` ends in the midst of a Parquet file's bytes."""
    there = address.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            if how != "cut":
                self.send_response(int(how))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection(there)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection.request(self.command, self.path, body, dict(self.headers))
            found = connection.getresponse()
            content = found.read()
            self.send_response(found.status)
            for name, value in found.getheaders():
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.end_headers()
            half = self.command == "GET" and ".parquet" in self.path.partition("?")[0]
            self.wfile.write(content[: len(content) // 2] if half else content)
            self.close_connection = True
            connection.close()

        do_GET = do_HEAD = do_POST = do_PUT = handle_any

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
