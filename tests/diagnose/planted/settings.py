"""Arguments, config files and variables that a program does not take as they are."""

from __future__ import annotations

import argparse
import configparser
import getopt
import json
import locale
import os
import sys
import zoneinfo

from program import complain, main, planted, read_table

read_table(__file__)


@planted("deepspeed-config", "exception", "all", "Check batch related parameters", early=True)
def check_batch() -> None:
    complain(
        "[2026-11-23 10:10:10,123] [INFO] [config.py:1001:print] DeepSpeedEngine configuration:"
    )
    assert 32 == 16 * 1 * 4, (
        "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 32 != 16 * 1 * 4"
    )


@planted("deepspeed-json", "exception", "all", "JSONDecodeError|Expecting", early=True, mode="pbs")
def read_config() -> None:
    json.loads('{"train_batch_size": 32,\n "zero_optimization": {"stage": 2,}\n}')


@planted("hydra-key", "exception", "all", "Key 'lr' is not in struct", early=True, mode="slurm")
def read_hydra() -> None:
    complain("Error executing job with overrides: ['optimizer.lr=0.1']")
    complain(f'Traceback (most recent call last):\n  File "{__file__}", line 9, in main\n    lr\n')
    complain(
        "omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct\n    full_key: lr\n\n"
        "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
    )
    sys.exit(1)


@planted("argparse-choice", "bad-argument", "all", "invalid choice", early=True, mode="pbs-direct")
def choose() -> None:
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--precision", choices=["bf16", "fp32"])
    parser.parse_args(["--precision", "bf61"])


@planted("number-as-text", "exception", "all", "not supported between", early=True)
def compare_text() -> None:
    print(0.1 <= "1e-4")  # type: ignore[operator]


@planted("no-variable", "exception", "all", "WANDB_API_KEY", early=True, mode="slurm")
def read_variable() -> None:
    print(os.environ["WANDB_API_KEY"])


@planted("time-zone", "exception", "0", "Mars", mode="slurm")
def find_zone() -> None:
    zoneinfo.ZoneInfo("Mars/Olympus")


@planted("choice-of-one", "bad-argument or exit 2", "1", "invalid choice")
def parse_choice() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fold", choices=["a", "b"])
    parser.parse_args(["--fold", "z"])


@planted("waits-for-input", "exception", "3", "EOF", mode="slurm")
@planted("no-answer", "exception", "0", "EOF when reading")
def ask() -> None:
    input("continue? [y/N] ")


@planted("locale-missing", "exception", "all", "unsupported locale", early=True, mode="pbs-direct")
def set_locale() -> None:
    locale.setlocale(locale.LC_ALL, "xx_XX.UTF-8")


@planted("getopt-option", "exception or bad-argument", "all", "--warmup", early=True)
def read_options() -> None:
    getopt.getopt(["--warmup=3"], "", ["steps="])


@planted("ini-section", "exception", "all", "No section", early=True, mode="pbs-direct")
def read_ini() -> None:
    configparser.ConfigParser().get("train", "steps")


@planted("tiktoken-model", "exception", "all", "nope-7", early=True, mode="pbs-direct")
def open_tiktoken() -> None:
    import tiktoken

    tiktoken.encoding_for_model("nope-7")


@planted("left-debugger", "exception", "0", "BdbQuit", mode="pbs-direct")
def debug() -> None:
    breakpoint()


if __name__ == "__main__":
    main()
