"""A program with a part in a job of several: it answers, asks, fails or stays, as it is told.

role.py serve PORT [--dies-after S [--asked N] --code C] [--deaf] [--slow S] [--stops]
role.py ask URL [--for S] [--code C] [--stops]
"""

import argparse
import http.server
import os
import pathlib
import signal
import sys
import threading
import time
import urllib.request


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["serve", "ask"])
    parser.add_argument("where")
    parser.add_argument("--dies-after", type=float)
    parser.add_argument("--asked", type=int, default=0, help="and so many have asked")
    parser.add_argument("--for", dest="stays", type=float, default=0)
    parser.add_argument("--code", type=int, default=0)
    parser.add_argument("--slow", type=float, default=0)
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--stops", action="store_true")
    told = parser.parse_args()
    if told.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    known = {k: v for k, v in os.environ.items() if k.startswith(("SERVER_", "TRAIN_"))}
    print({"role": os.environ["JOBGEN_ROLE"], "RANK": os.environ["RANK"], **known}, flush=True)
    if told.part == "ask":
        with urllib.request.urlopen(told.where + "asked", timeout=240) as answer:
            print(answer.read().decode(), flush=True)
        end = time.monotonic() + (0 if int(os.environ["JOBGEN_ATTEMPT"]) else told.stays)
        folder = pathlib.Path(os.environ["JOBGEN_RUN_DIR"])
        while time.monotonic() < end:
            if told.stops and (folder / "STOP").exists():
                (folder / "PROGRESS").write_text("some")
                (folder / "STOPPED").touch()
                print("it stops in order", file=sys.stderr)
                return
            time.sleep(0.1)
        print("the asking ends", file=sys.stderr)
        sys.exit(told.code)
    asked = threading.Semaphore(0)
    if told.dies_after is not None:

        def die() -> None:
            for _ in range(told.asked):
                asked.acquire()
            time.sleep(told.dies_after)
            print("the server gives up", file=sys.stderr, flush=True)
            os._exit(told.code)

        threading.Thread(target=die, daemon=True).start()
    time.sleep(told.slow)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"from {os.environ['JOBGEN_NODE']}".encode())
            if self.path == "/asked":
                asked.release()

    server = http.server.ThreadingHTTPServer(("", int(told.where)), Handler)

    def stop() -> None:
        while not pathlib.Path(os.environ["JOBGEN_RUN_DIR"], "STOP").exists():
            time.sleep(0.1)
        server.shutdown()

    if told.stops:
        threading.Thread(target=stop, daemon=True).start()
    server.serve_forever()


main()
