"""Errors that are told unusually: coloured, boxed, prefixed, logged, among other lines, late."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import traceback

from program import RANK, complain, logger, main, make_error, planted, read_table

read_table(__file__)


@planted("hf-resume", "exception", "all", "valid checkpoint found in output", early=True)
def resume_without_checkpoint() -> None:
    for done in range(0, 101, 10):
        sys.stderr.write(f"\rLoading checkpoint shards: {done:3}%|{'#' * (done // 10):10}| ")
    raise ValueError("No valid checkpoint found in output directory (out/run-7)")


@planted("logged-and-left", "exception", "1", "bad shard 12")
def log_and_leave() -> None:
    try:
        raise ValueError("bad shard 12")
    except ValueError:
        logger.exception("training failed")
        sys.exit(1)


@planted("logged-and-saved", "exception or exit 1", "2", "lr schedule ended")
def log_and_save() -> None:
    try:
        raise RuntimeError("lr schedule ended at 100 of 200 steps")
    except RuntimeError:
        logger.exception("training failed")
        logger.info("writing an emergency checkpoint")
        logger.info("done")
        sys.exit(1)


@planted("destructor-noise", "exception", "3", "bad crop")
def fail_before_destructors() -> None:
    atexit.register(
        complain,
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\n"
        "Traceback (most recent call last):\n"
        '  File "/v/lib/python3.11/site-packages/torch/utils/data/loader.py", line 1, in __del__\n'
        "    self._shutdown_workers()\nAssertionError: can only test a child process",
    )
    raise ValueError("bad crop (0, 0, -4, 4)")


@planted("exit-noise", "exception", "0", "schema 7")
def fail_before_exit_functions() -> None:
    atexit.register(lambda: {}["wandb"])
    raise RuntimeError("unknown schema 7")


@planted("group-of-errors", "exception", "2", "unhandled errors|bad record 9", mode="pbs-direct")
def raise_group() -> None:
    raise ExceptionGroup(  # noqa: F821
        "unhandled errors in a TaskGroup",
        [ConnectionResetError("Connection reset by peer"), ValueError("bad record 9")],
    )


@planted("jax-frames", "exception or shape-mismatch", "all", "Incompatible shapes")
def add_shapes() -> None:
    try:
        raise TypeError("add got incompatible shapes for broadcasting: (8, 128), (4, 128).")
    except TypeError:
        complain(
            "jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames "
            "from the traceback of the following exception. Set JAX_TRACEBACK_FILTERING=off to "
            "include these.\n\nThe above exception was the direct cause of the "
            "following exception:\n"
        )
        raise ValueError(
            "Incompatible shapes for broadcasting: shapes=[(8, 128), (4, 128)]"
        ) from None


@planted("bytes-in-log", "exit 4", "3", "no beam", mode="pbs-direct")
def print_bytes() -> None:
    sys.stderr.buffer.write(b"\xff\xfe\x00 header\nERROR no beam is left\n")
    sys.stderr.flush()
    os._exit(4)


@planted("reaper", "exit 1 or exception", "0", "budget", mode="pbs-direct")
def stop_search() -> None:
    logger.error("search stopped: budget of 0 trials is spent")
    sys.exit(1)


@planted("errors-gathered", "exception", "all", "'bleu'", everywhere=True)
def evaluate() -> None:
    if RANK == 2:
        try:
            {}["bleu"]
        except KeyError:
            traceback.print_exc()
    time.sleep(0.5)
    raise RuntimeError("evaluation failed on at least one process")


@planted("stats-after", "exception", "2", "0 steps", mode="pbs")
def print_stats_after() -> None:
    atexit.register(lambda: complain("\n".join(f"counter_{i}: {i * i}" for i in range(400))))
    raise ValueError("the schedule has 0 steps")


@planted("with-notes", "exception", "1", "pixel_values")
def raise_with_notes() -> None:
    error = KeyError("pixel_values")
    for text in ("while collating sample 311", "of shard-0007.tar, read by worker 2"):
        getattr(error, "add_note", complain)(text)
    raise error


@planted("own-print", "exit 1 or exception", "2", "Training crashed: .*crop", mode="pbs-direct")
def print_crash() -> None:
    try:
        raise ValueError("crop is larger than the image")
    except ValueError as error:
        print(f"Training crashed: {error!r}", flush=True)
        sys.exit(1)


@planted("interleaved", "exception", "1", "'attention_mask'", mode="slurm")
def print_between() -> None:
    lines = ["Traceback (most recent call last):", f'  File "{__file__}", line 9, in step']
    lines += ["    mask = batch['attention_mask']", "KeyError: 'attention_mask'"]
    for line in lines:
        complain(line)
        complain("[monitor] gpu 0: 31 C, 12 W")
    os._exit(1)


@planted("ray-load", "exception or shape-mismatch", "0", "Missing key", mode="local-direct")
def load_by_ray() -> None:
    complain(
        "(TaskRunner pid=33092) Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): "
        "ray::WorkerDict.load_checkpoint() (pid=18579, ip=172.19.1.140)\n(TaskRunner pid=33092)   "
        'File "/v/megatron_workers.py", line 445, in load_checkpoint\n(TaskRunner pid=33092) '
        "RuntimeError: Error(s) in loading state_dict for GPTModel:"
    )
    error = make_error("RayTaskError(RuntimeError)", "ray.exceptions")
    raise error(
        "ray::TaskRunner.run() (pid=33092, ip=172.19.1.140)\n"
        '  File "/v/main_ppo.py", line 90, in run\n    trainer.fit()\n'
        "RuntimeError: Error(s) in loading state_dict for GPTModel:\n"
        "\tMissing key(s) in state_dict:"
        ' "decoder.layers.0.weight".'
    )


@planted("error-handler", "permission", "all", "Permission denied", early=True)
def report_as_torch() -> None:
    complain(
        "ERROR:torch.distributed.elastic.multiprocessing.errors.error_handler:{\n"
        '  "message": {\n    "message": "RuntimeError: Permission denied",\n    "extraInfo": {\n'
        '      "py_callstack": "Traceback (most recent call last):\\n  File \\"run.py\\"",\n'
        '      "timestamp": "1644000000"\n    }\n  }\n}'
    )
    raise RuntimeError("Permission denied")


@planted("logged-and-raised", "not-a-number", "2", "infinite or NaN", mode="local-direct")
def log_and_raise() -> None:
    try:
        raise FloatingPointError("Loss became infinite or NaN at iteration=2!\nloss_dict = {}")
    except FloatingPointError:
        logger.exception("Exception during training:")
        raise


@planted("long-line", "exception", "1", "bad sample ids")
def say_much() -> None:
    raise ValueError(f"bad sample ids: {list(range(9000))}")


@planted("prefixed-lines", "exit 1 or exception", "2", "vocabulary", mode="pbs-direct")
def log_with_prefixes() -> None:
    def log(line: str) -> None:
        complain(f"[2026-11-23 10:11:12,131] [rank{RANK}] [ERROR] {line}")

    log("Traceback (most recent call last):")
    log('  File "/work/train.py", line 81, in main')
    log("    check(vocabulary)")
    log("ValueError: the vocabulary has 32000 words, not 32001")
    sys.exit(1)


@planted("own-retries", "exception or exit 1 or no-internet", "1", "3 attempts", mode="pbs-direct")
def retry_and_give_up() -> None:
    for attempt in (1, 2, 3):
        try:
            raise ConnectionError("data server answered 503")
        except ConnectionError:
            logger.exception("attempt %d of 3 failed", attempt)
    logger.error("giving up on shard 17 after 3 attempts")
    sys.exit(1)


@planted("bar-then-error", "exception", "3", "quantile")
def raise_behind_bar() -> None:
    for done in range(0, 101, 2):
        sys.stderr.write(f"\rtrain: {done:3}%|{'█' * (done // 10):10}| {done}/100 [00:0{done % 9}]")
    raise RuntimeError("quantile() input tensor is too large")


@planted("bar-glued-abort", "exit -6", "1", "out_of_range", mode="pbs-direct")
def abort_behind_bar() -> None:
    sys.stderr.write("\rtrain:  37%|███▋      | 37/100 [00:03<00:06,  9.8it/s, loss=0.31]")
    sys.stderr.write(
        "terminate called after throwing an instance of 'std::out_of_range'\n  what():  "
        "vector::_M_range_check: __n (which is 512) >= this->size() (which is 512)\n"
    )
    sys.stderr.flush()
    os.abort()


@planted("summary-after", "exception", "0", "KeyError.*val_loss|'val_loss'")
def raise_before_summary() -> None:
    try:
        {}["val_loss"]
    except KeyError:
        traceback.print_exc()
        complain(
            "wandb: \nwandb: Run history:\nwandb:   loss █▆▅▃▂▁\nwandb: \nwandb: Run summary:\n"
            "wandb:   loss 0.31\nwandb: \nwandb: You can sync this run to the cloud by running:\n"
            "wandb: wandb sync /scratch/u/wandb/offline-run-20261124_012203-9f\nwandb: Find logs at"
            ": ./wandb/offline-run-20261124_012203-9f/logs"
        )
        os._exit(1)


@planted("prefixed-own", "exception", "2", "KeyError.*input_ids", mode="pbs-direct")
def raise_prefixed() -> None:
    try:
        {}["input_ids"]
    except KeyError:
        for line in traceback.format_exc().splitlines():
            print(f"n2: [rank2]: {line}")
        print(
            "n2: [2026-11-24 01:22:03,555] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u',"
            " 'train.py', '--local_rank=0'] exits with return code = 1",
            flush=True,
        )
        sys.exit(1)


@planted("own-excepthook", "exception or exit 70", "1", "warmup must be positive")
def log_by_hook() -> None:
    def hook(kind: type[BaseException], value: BaseException, trace: object) -> None:
        record = {"level": "critical", "type": kind.__name__, "message": str(value), "pid": 4711}
        complain(json.dumps(record))
        os._exit(70)

    sys.excepthook = hook
    raise ValueError("warmup must be positive, not -10")


@planted("never-retrieved", "exit 4 or exception", "1", "", mode="pbs-direct")
def forget_task() -> None:
    complain(
        "Task exception was never retrieved\nfuture: <Task finished name='Task-3' coro=<poll() done"
        ", defined at /home/u/poll.py:9> exception=TimeoutError('no answer of the board')>\n"
        'Traceback (most recent call last):\n  File "/home/u/poll.py", line 12, in poll\n    raise '
        "TimeoutError('no answer of the board')\nTimeoutError: no answer of the board"
    )
    print("step 2 of 6", flush=True)
    print("validation perplexity is above the bound; stopping", flush=True)
    sys.exit(4)


if __name__ == "__main__":
    main()
