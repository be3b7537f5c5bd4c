"""The script and `jobgen diagnose` take the same words for another process's end or absence.

The script has them in one pattern, in `has_lost_peer`. `jobgen diagnose` has them as causes that
are symptoms or that wait, and as exceptions that it doubts beside another. Whoever adds words to
one of the two adds a message here.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

from jobgen.diagnose.cause import CAUSES
from jobgen.diagnose.ending import Innocent
from jobgen.diagnose.evidence import Failure
from jobgen.diagnose.explaining import _LOST, explain_failure
from jobgen.diagnose.reading import Line

CORE = ROOT / "templates" / "runtime" / "core.sh"
ASK = r"""eval "$(sed -n '/^has_lost_peer()/,/^}/p' "$1")"; has_lost_peer "$2" """
PAIR = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544]"
BACKEND = "torch.distributed.DistBackendError:"
STORE = "torch.distributed.DistStoreError:"
# The last error of a process that both take for another's end or absence.
LOST = (
    f"{PAIR} Connection closed by peer [10.1.0.3]:4711",
    f"{PAIR} Read error [10.1.0.3]:4711: Connection reset by peer",
    f"{PAIR} writev [10.1.0.3]:4711: Broken pipe",
    f"{PAIR} [enforce fail at pair.cc:446] op.preamble.length <= op.nbytes. 16 vs 4",
    f"{PAIR} Timed out waiting 15000ms for recv operation to complete",
    "RuntimeError: Ranks 2 failed to pass monitoredBarrier in 15000 ms: timeout",
    f"{BACKEND} NCCL error: ncclRemoteError: remote process exited or there was a network error",
    f"{PAIR} Rank 0 reached monitoredBarrier, but received errors while waiting for rank 2",
    f"{BACKEND} Process group watchdog thread terminated with exception: Barrier timeout",
    f"{BACKEND} [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)",
    f"{STORE} Timed out after 61 seconds waiting for clients. 3/4 clients joined.",
    f"{STORE} Timed out initializing process group in store based barrier (timeout=0:00:15)",
    "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed",
    f"{STORE} wait timeout after 15000ms, keys: //worker//",
    "horovod.common.exceptions.HorovodInternalError: Horovod: exception on one of the ranks",
    "jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: step",
    "F1123 10:10:50.920189 client.h:80] This most likely indicates that another task died",
    "RuntimeError: Barrier: not all of them arrived on time",
    "RuntimeError: store->get('0') got error: Timeout waiting for key: default_pg/0/0",
    "F1123 10:10:50.920189 client.h:80] Task /job:worker/replica:0/task:2 heartbeat timeout",
    "F1123 10:10:50.920189 rendezvous.cc:75] Termination timeout for `initialize clique` exceeded",
    "no step for 300 s; the stacks are in hangs/",
    "another rank has asked to stop",
    "TimeoutError: nothing came from the others",
    "asyncio.exceptions.IncompleteReadError: 0 bytes read on a total of 64 expected bytes",
    "ConnectionError: lost connection to rank 0",
)
# What a process says of itself, or of a service of its own choice.
OWN = (
    "ValueError: shard truncated",
    "KeyError: 'sonne'",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data.bin'",
)
# The words on which they differ, and why.
DIFFER = {
    # It may be the address that is wrong; CANN names the rank that it waited for in other lines.
    # The script names nobody, and shows the lines.
    "DistNetworkError: The client socket has timed out after 60000ms": (True, False),
    "EI0002: The wait execution of the Notify register times out.": (True, False),
    # All ranks say it of all; as another's end it would be a reason to restart, which it is not.
    "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running": (
        False,
        True,
    ),
    # Only beside another failure is it in doubt, which the script cannot weigh.
    "ConnectionRefusedError: [Errno 111] Connection refused": (False, True),
    "EOFError": (False, True),
    "RuntimeError: the pipe to my neighbour is closed": (False, True),
    "http.client.RemoteDisconnected: Remote end closed connection": (False, True),
    # Agents and MPI say it, and the script asks for the words of processes alone.
    "torch.distributed.elastic.multiprocessing.api.SignalException: got signal: 15": (False, True),
    "RendezvousConnectionError: The connection to the C10d store has failed": (False, True),
    "An MPI communication peer process has unexpectedly disconnected.": (False, True),
    "[W1126 10:10:50.9 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl": (False, True),
}


def split_alternatives(pattern: str) -> Iterator[str]:
    """What a pattern has between its outermost bars."""
    part, depth = "", 0
    for piece in re.findall(r"\\.|\[\^?\]?[^\]]*\]|.", pattern):
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and not depth:
            yield part
            part = ""
        else:
            part += piece
    yield part


def ask_script(text: str, folder: Path) -> bool:
    """Whether the script's function takes it for another's end."""
    log = folder / "rank-0.err"
    log.write_text(f"{text}\n")
    words = ["bash", "-c", ASK, "bash", str(CORE), str(log)]
    return subprocess.run(words, check=False).returncode == 0


def ask_diagnose(text: str) -> bool:
    """Whether `jobgen diagnose` does, of a process that this has ended."""
    raised = re.match(r"[\w.]+(: |$)", text)
    stack = ("Traceback (most recent call last):", '  File "train.py", line 3, in step')
    texts = (*stack, "    step()", text) if raised else (text,)
    lines = tuple(Line(Path("rank-0.err"), number, line) for number, line in enumerate(texts, 1))
    found = explain_failure(Failure("n1", 0, 1.0, 1, lines), Innocent())
    return found.cause.symptom or found.cause.waits or found.doubt > 0


@pytest.mark.parametrize("text", [*LOST, *OWN, *DIFFER])
def test_both_say_the_same_of_a_message(text: str, tmp_path: Path) -> None:
    said = ask_script(text, tmp_path), ask_diagnose(text)
    assert said == DIFFER.get(text, (text in LOST,) * 2)


def test_the_messages_have_all_words_that_one_of_the_two_knows() -> None:
    function = CORE.read_text().partition("has_lost_peer() {")[2].partition("\n}")[0]
    pattern = function.rpartition("grep -qE ")[2].replace("'\\\n'", "").strip().strip("'")
    own = [cause for cause in CAUSES if "rank" in cause.where and (cause.symptom or cause.waits)]
    patterns = [pattern, _LOST.pattern.removeprefix("(?i)"), *(cause.says for cause in own)]
    known = {part for whole in patterns for part in split_alternatives(whole)}
    unsaid = {one for one in known if not any(re.search(one, text) for text in (*LOST, *DIFFER))}
    assert unsaid == set()
