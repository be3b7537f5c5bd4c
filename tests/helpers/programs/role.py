"""A program with a part in a job of several: it answers, asks, fails or stays, as it is told.

role.py serve PORT [--dies-after S --code C] [--deaf] [--slow S]
role.py ask URL [--for S] [--code C]
"""

import argparse
import http.server
import os
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
    parser.add_argument("--for", dest="stays", type=float, default=0)
    parser.add_argument("--code", type=int, default=0)
    parser.add_argument("--slow", type=float, default=0)
    parser.add_argument("--deaf", action="store_true")
    told = parser.parse_args()
    if told.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    known = {k: v for k, v in os.environ.items() if k.startswith(("SERVER_", "TRAIN_"))}
    print({"role": os.environ["JOBGEN_ROLE"], "RANK": os.environ["RANK"], **known}, flush=True)
    if told.part == "ask":
        with urllib.request.urlopen(told.where, timeout=10) as answer:
            print(answer.read().decode(), flush=True)
        time.sleep(told.stays)
        print("the asking ends", file=sys.stderr)
        sys.exit(told.code)
    if told.dies_after is not None:

        def die() -> None:
            print("the server gives up", file=sys.stderr, flush=True)
            os._exit(told.code)

        threading.Timer(told.dies_after, die).start()
    time.sleep(told.slow)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"from {os.environ['JOBGEN_NODE']}".encode())

    http.server.ThreadingHTTPServer(("", int(told.where)), Handler).serve_forever()


main()
