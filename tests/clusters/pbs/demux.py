"""pbs_demux: brings the output of a multi-host job's tasks into the job's own files.

It runs on the primary host, as a child of the job's login shell and in its session, with no
handler for any signal: SIGTERM to the job ends it, and a task that prints after that dies of
SIGPIPE. What tasks print goes out at each newline only; a last line without one waits for the
next from any task, and is lost when the job ends.

Arguments: the descriptors of two listening sockets, for standard output and standard error.
"""

import selectors
import socket
import sys

BUFFER = 4096  # of the C library's stream


def main(listening: list[int]) -> None:
    selector = selectors.DefaultSelector()
    for target, number in enumerate(listening, start=1):
        selector.register(socket.socket(fileno=number), selectors.EVENT_READ, (target, True))
    pending = {1: b"", 2: b""}
    while True:
        for key, _ in selector.select():
            target, listens = key.data
            source = key.fileobj
            assert isinstance(source, socket.socket)
            if listens:
                selector.register(source.accept()[0], selectors.EVENT_READ, (target, False))
                continue
            try:
                data = source.recv(256)
            except ConnectionError:
                data = b""
            if not data:
                selector.unregister(source)
                source.close()
            text = pending[target] + data
            cut = text.rfind(b"\n") + 1
            cut += (len(text) - cut) // BUFFER * BUFFER
            with open(target, "wb", buffering=0, closefd=False) as file:
                file.write(text[:cut])
            pending[target] = text[cut:]


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
