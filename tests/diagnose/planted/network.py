"""Servers, downloads, log-ins, names, ports and interfaces."""

from __future__ import annotations

import atexit
import errno
import socket
import time

from program import LOCAL, complain, main, make_error, planted, read_table

read_table(__file__)


held: list[socket.socket] = []  # which keep their port


@planted("hf-offline", "no-internet", "0", "huggingface|hub")
def load_tokenizer() -> None:
    hub = make_error("LocalEntryNotFoundError", "huggingface_hub.errors")
    try:
        raise ConnectionError("(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co')\"))")
    except ConnectionError as cause:
        try:
            raise hub("An error happened while trying to locate the file on the Hub") from cause
        except hub as error:
            raise OSError(
                "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
                "find them in the cached files."
            ) from error


@planted("privileged-port", "permission", "2", "below 1024", mode="pbs-direct")
def bind_low() -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


@planted("wandb-login", "exception", "0", "api_key not configured")
def log_in() -> None:
    atexit.register(
        complain, "wandb: \nwandb: You can sync this run to the cloud later\nwandb: done"
    )
    raise make_error("UsageError", "wandb.errors")("api_key not configured (no-tty)")


@planted("hf-gated", "exception or permission", "all", "gated", early=True, mode="local")
def open_gated() -> None:
    gated = make_error("GatedRepoError", "huggingface_hub.errors")
    try:
        raise gated(
            "401 Client Error. (Request ID: Root=1-67)\n\nCannot access gated repo for url "
            "https://huggingface.co/meta/x/resolve/main/config.json.\nAccess to model meta/x is "
            "restricted. You must have access to it and be authenticated to access it."
        )
    except gated as error:
        raise OSError("You are trying to access a gated repo.\nMake sure to have access") from error


@planted("port-twice", "port-in-use or exception", "1,3", "6106", early=True, everywhere=True)
def bind_twice() -> None:
    time.sleep(LOCAL)
    held.append(socket.create_server(("127.0.0.1", 6106)))


@planted("grpc-unavailable", "exception or no-internet", "2", "UNAVAILABLE", mode="pbs-direct")
def call_service() -> None:
    import grpc

    channel = grpc.insecure_channel("127.0.0.1:9")
    channel.unary_unary("/params.Store/Get")(b"", timeout=5)


@planted("read-timed-out", "exception or no-internet", "0", "Read timed out")
def read_slow_server() -> None:
    import requests

    server = socket.create_server(("127.0.0.1", 0))
    requests.get(f"http://127.0.0.1:{server.getsockname()[1]}/tokens", timeout=2)


if __name__ == "__main__":
    main()
