"""What stands behind `--` at the prompt is laid over `run.args`."""

import pytest
import yaml
from support import plan_of

from jobgen.errors import UsageError
from jobgen.spec.arguments import write_words
from jobgen.spec.load import load

SPEC = {
    "name": "a",
    "scheduler": "slurm",
    "resources": {"nodes": 2, "gpus_per_node": 4, "cpus_per_gpu": 8, "walltime": "2h"},
}


def run_with(args: object, *words: str) -> list[str]:
    """Return what the program gets for `run.args`, with the words behind `--`."""
    run = {"script": "train.py"} | ({} if args is None else {"args": args})
    plan = plan_of(yaml.safe_dump(SPEC | {"run": run}), write_words(words))
    return list(map(str, plan.program.command[3:]))


@pytest.mark.parametrize(
    ("args", "words", "expected"),
    [
        (None, "--lr 3e-4 --amp", "--lr 3e-4 --amp"),
        ({"lr": 1e-3, "seed": 1}, "--lr 3e-4 --epochs 3", "--lr 3e-4 --seed 1 --epochs 3"),
        ({"lr": 1e-3}, "--lr=3e-4", "--lr 3e-4"),
        ({"lr": 1e-3, "v": True}, "-v", "--lr 0.001 -v"),
        ({"shift": 1}, "--shift -0.5", "--shift=-0.5"),
        ({"dirs": ["a", "b"]}, "--dirs c d e", "--dirs c d e"),
        ({"--lr": 1}, "--lr 2", "--lr 2"),
        ({"model.lr": 1}, "--model.lr 2", "--model.lr 2"),
        ({"amp": True, "old": False}, "data --lr 1", "data --amp --lr 1"),
        ({"aa": 1}, "--aa 2 --aa 3", "--aa 2 --aa 3"),
        (["--lr", "1e-3", "--amp"], "--lr 3e-4", "--lr 3e-4 --amp"),
        (["--lr=1e-3", "x", "--amp"], "--lr 3e-4", "--lr 3e-4 --amp"),
        (["fit", "--lr", "1"], "--lr 2 --new", "fit --lr 2 --new"),
        (["lr=1", "model=gpt"], "lr=2 seed=3", "lr=2 model=gpt seed=3"),
        ("--lr 1 --amp", "--lr 2", "--lr 2 --amp"),
    ],
)
def test_options_replace_those_that_are_there(args, words, expected) -> None:
    assert run_with(args, *words.split()) == expected.split()


def test_words_stay_whole() -> None:
    assert run_with({}, "--tag", "exp #1: 'a'") == ["--tag", "exp #1: 'a'"]
    assert run_with({"tag": "x"}, "--tag=", "--n", "null") == ["--tag", "", "--n", "null"]


def test_what_an_array_varies_is_not_given() -> None:
    for array in ({"values": {"lr": [1, 2]}}, {"list": [{"lr": 1}, {"lr": 2}]}):
        text = yaml.safe_dump(SPEC | {"run": {"script": "a.py"}, "array": array})
        with pytest.raises(UsageError, match="--lr: the tasks of the array have their own values"):
            plan_of(text, write_words(["--lr", "3"]))
        assert plan_of(text, write_words(["--seed", "3"])).program.command[-2:] == ("--seed", "3")


@pytest.mark.parametrize(("args", "form"), [(["--lr", "1"], "a list"), ("--lr 1 -v", "text .*")])
def test_words_are_not_lost_to_one_key(args: object, form: str) -> None:
    text = yaml.safe_dump(SPEC | {"run": {"script": "a.py", "args": args}})
    with pytest.raises(UsageError, match=f"args is {form}; give its options behind `--`"):
        plan_of(text, "run.args.lr=3")


def test_words_are_for_one_program_and_not_for_roles():
    run = "run: {command: [a]}"
    spec = f"name: a\nroles:\n  a: {{nodes: 1, {run}}}\n  b: {{nodes: 1, {run}}}\n"
    with pytest.raises(UsageError, match=r"write --set roles\.NAME\.run\.args="):
        load(spec, [write_words(["--break"])])
