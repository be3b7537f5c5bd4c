"""What one shell of a script knows and another does not: import keeps it where it is needed."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from importing import import_body, make_script, refusal_of, spec_of

from jobgen.batchscript.convert import Imported, import_script
from jobgen.batchscript.reader import Script

GPU = "#SBATCH --gres=gpu:1"
TWO_NODES = "#SBATCH --nodes=2 --gpus-per-node=1"


def lost_of(imported: Imported) -> list[str]:
    return [left.text for left in imported.left if left.kind == "lost"]


def line_of(body: str, *directives: str) -> str:
    imported = import_body(body, GPU, *directives)
    assert lost_of(imported) == []
    line: str = yaml.safe_load(imported.yaml)["run"]["command"][-1]
    return line


def run_spec(spec: dict[str, Any], folder: Path) -> list[str]:
    """What the program of a spec is told, after its setup, with `python` as a file of its own."""
    (folder / "python").write_text(f'#!/bin/bash\necho "$@" >>{folder}/told\n')
    (folder / "python").chmod(0o755)
    setup = spec.get("environment", {}).get("setup", "")
    text = f'environment() {{\nset -e\n{setup}\n}}\nenvironment\nset -e\nexec "$@"\n'
    path = f"{folder}:/usr/bin:/bin"
    run = spec["run"]
    command = run.get("command") or ["python", run["script"], *map(str, run.get("args", ()))]
    environment = spec.get("environment", {}).get("variables", {})
    words = ["bash", "-c", text, "job", *command]
    subprocess.run(words, cwd=folder, env={"PATH": path, **environment}, timeout=20)
    return (folder / "told").read_text().splitlines()


# --- values that the environment does not hand on, or that nothing was seen to set ----------


def test_what_builtins_set_reaches_the_programs(tmp_path: Path) -> None:
    body = """readonly N=3
((J = N * 2))
let L=7
printf -v P '%03d' 5
read A B <<< "x y"
IFS=',' read -ra SEEDS <<< "1,2"
(( count += 2 ))
for s in "${SEEDS[@]}"; do
  python train_torch.py $N $J $L $P $A $B $s $count
done"""
    told = run_spec(spec_of(body, GPU), tmp_path)
    assert told == [f"train_torch.py 3 6 7 005 x y {seed} 2" for seed in (1, 2)]


def test_a_backslash_in_dollar_quotes_means_what_bash_takes_it_for() -> None:
    words = r"$'a\nb' $'q\'z' $'\x41\102\u00e9\U0001F600\\n\q' x$'\t'y 'a\nb'"
    asked = subprocess.run(["bash", "-c", rf"printf '%s\0' {words}"], capture_output=True)
    spec = spec_of(f"A=$'a\\nb'\nsrun python train_torch.py {words} \"$A\"", TWO_NODES)
    assert spec["run"]["args"] == [*asked.stdout.decode().split("\0")[:-1], "a\nb"]


VALUES = [
    "N=$(( (2 + 3) * -2 + 20 ))\nsrun python train_torch.py $N $((N > 3)) $((N / 0x3)) $((N << 2))",
    "A=(--x 1)\nA+=(--y '2 3')\nsrun python train_torch.py ${A[@]} n ${#A[@]}",
    "A=(a b c)\nA+=d\nsrun python train_torch.py ${A[0]} ${A[-1]} ${A[*]:1:1}",
    'A=(a \'b c\')\nexport B=${A[*]}\nsrun python train_torch.py $B "x${A[*]}y" "x${A[@]}y"',
    "A=(1 22 3)\nsrun python train_torch.py ${#A[1]} ${A[@]:1} ${A[@]/#/p}",
    "X=a\nY=X\nsrun python train_torch.py ${!Y}",
    "A=' a '\nB=\nsrun python train_torch.py $A-$A$B",
    "declare -i N=3+4\nsrun python train_torch.py $N",
    "L='--a 1 --b 2 '\nsrun python train_torch.py $L --c$L",
    "B=\nsrun python train_torch.py ${LR:-${B:-3e-4}} ${B-none}x ${B:+some}",
    "P=/a/b.tar.gz\nsrun python train_torch.py ${P##*/} ${P%.*} ${P%%.*} ${P#/a} ${P/b/c} ${#P}",
    "N=Model\nsrun python train_torch.py ${N,,} ${N^^} ${N:1:2} ${N: -2}",
    "srun python train_torch.py {1..3} a{b,c}d '{1..3}' \"$((1 + 1))\"",
    'set -- a \'b c\'\nsrun python train_torch.py $# "$2" "$*"',
    "X=1 Y=$X\nX=2\nsrun python train_torch.py $Y $X",
    "X=a\nunset X\nsrun python train_torch.py ${X-gone}",
    'X=\'a b\'\nY="$X"\nsrun python train_torch.py $Y "$Y" \'$Y\' "\\$Y"',
    "X=7\nif [ $X -gt 5 ]; then Z=big; else Z=small; fi\nsrun python train_torch.py $Z",
    "X=a\n[[ $X == b ]] && X=c\n[[ $X == a ]] && X=d\nsrun python train_torch.py $X",
    "for X in a b; do Y+=$X; done\nsrun python train_torch.py $Y",
    "case abc in a*) X=1;; *) X=2;; esac\nsrun python train_torch.py $X",
    "read -r X Y <<< 'a b c'\nsrun python train_torch.py $Y $X",
    'X=$(echo a b)\nsrun python train_torch.py $X "$X" `echo c`',
    "eval X=a\neval 'Y=$X'b\nsrun python train_torch.py $Y",
    "f() {\n srun python train_torch.py --f \"$1\"\n}\nf 'x y'",
    'main() {\n local X=1\n srun python train_torch.py $X "$@"\n}\nmain a b',
    'A=$(for i in 1 2; do echo -n "$i,"; done)\nsrun python train_torch.py ${A%,}',
    'CMD="\npython train_torch.py\n  --a 1\n"\nLAUNCH=srun\n$LAUNCH $CMD',
    "CMD='python train_torch.py --a'\nsrun $CMD \\\n  --b \"c d\"",
    'ARGS="\n  --a 1\n  --b 2\n"\nsrun python train_torch.py $ARGS',
]


@pytest.mark.parametrize("body", VALUES)
def test_values_of_a_script_are_those_that_bash_gives_them(body: str, tmp_path: Path) -> None:
    for name, text in {"srun": '"$@"', "python": f'echo "$@" >>{tmp_path}/asked'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    subprocess.run(["bash", "-c", body], cwd=tmp_path, env={"PATH": path}, check=True)
    imported = import_body(body, TWO_NODES)
    assert lost_of(imported) == []
    told = run_spec(yaml.safe_load(imported.yaml), tmp_path)
    assert told == (tmp_path / "asked").read_text().splitlines()


EXPORTS = [
    "export V_A=x\nexport V_A=$V_A:y",
    "V_P=1\nexport V_A=$V_P\nV_P=2",
    "export V_A=1\nexport V_B=$V_A\nexport V_A=2",
    "export V_A=$(( V_A + 1 ))\nexport V_A=$(( V_A + 1 ))",
    "V_A=1\nexport V_A\nV_A=2",
    "export V_A='a b' V_B=$'c\\td' V_C=",
    'arr=(a b c)\nexport V_A="${arr[*]}"',
    ": ${V_A:=7}\nexport V_A",
    "read V_A <<< 'x y'\nexport V_A",
    "printf -v V_A '%s-%s' a b\nexport V_A",
    "set -a\nV_A=1\nset +a",
    "give() { export V_A=$1; }\ngive 5",
    "fail() { echo $1; exit 1; }\nexport V_A=1 || fail no\n[ -d / ] || fail no",
    "command -v bash || exit 1\nexport V_A=1",
    "export V_A=1\nfor i in 1 2; do V_A=$V_A$i; done",
    "for k in A B; do\n export V_$k=$k\ndone",
    "if [ -d nope ]; then\n export V_A=1\nelse\n export V_A=2\nfi",
    "eval export V_A=2",
    "export V_A=1\nunset V_A",
    "cat > config <<EOF\nz\nEOF\nexport V_A=$(cat config)",
    "cat > config <<EOF\n# a\nV_A=1\nV_B=2\nEOF\nexport $(grep -v '^#' config | xargs)",
    'cat > config <<EOF\nV_A=1\nEOF\neval "$(cat config)"\nexport V_A',
    "mkdir -p sub && cd sub\nexport V_A=$(basename $PWD)",
    "export V_A=~/data V_B='~/data' V_C=*",
]


@pytest.mark.parametrize("body", EXPORTS)
def test_what_a_script_exports_reaches_the_program_as_it_does_there(
    body: str, tmp_path: Path
) -> None:
    exported = "env -0 | sort -z | grep -z ^V_[ABC] || :"
    for name, text in {"srun": '"$@"', "python": f'{{ {exported}; }} >"$TOLD"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    imported = import_body(f"{body}\nsrun python train_torch.py", TWO_NODES)
    assert lost_of(imported) == []
    given = yaml.safe_load(imported.yaml).get("environment", {})
    setup = f"environment() {{\nset -e\n{given.get('setup', '')}\n}}\nenvironment"
    base = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/h"}
    for told, text, variables in (("asked", body, {}), ("told", setup, given.get("variables", {}))):
        (tmp_path / told).mkdir()
        environment = {**base, **variables, "TOLD": str(tmp_path / f"{told}.txt")}
        words = ["bash", "-c", f"{text}\nsrun python train_torch.py"]
        subprocess.run(words, cwd=tmp_path / told, env=environment, check=True)
    assert (tmp_path / "told.txt").read_bytes() == (tmp_path / "asked.txt").read_bytes()


@pytest.mark.parametrize("change", ["((N = N * 2))", "let N=N*2", "(( N++ ))", "printf -v N 4"])
def test_a_value_that_arithmetic_changes_is_not_the_one_before(change: str) -> None:
    body = f"export N=2\n{change}\npython train_torch.py --n $N"
    assert line_of(body) == "exec python train_torch.py --n $N"


def test_arithmetic_is_a_command_and_a_condition() -> None:
    loop = "while (( i < 3 )); do\n  python train_torch.py $i\n  (( i++ ))\ndone"
    assert line_of(f"i=0\n{loop}").endswith(loop)
    chosen = "if (( $(nproc) > 3 )); then\n  export A=4\nfi"
    assert chosen in spec_of(f"{chosen}\npython train.py $A", GPU)["environment"]["setup"]


def test_the_splitting_of_words_is_the_scripts(tmp_path: Path) -> None:
    loop = 'for f in $LIST; do python train_torch.py "$f"; done'
    told = run_spec(spec_of(f"LIST=a,b\nIFS=,\n{loop}", GPU), tmp_path)
    assert told == ["train_torch.py a", "train_torch.py b"]
    array = "LIST=a,b\nOLD=$IFS\nIFS=,\nW=($LIST)\nIFS=$OLD\npython train_torch.py ${W[@]}"
    assert line_of(array).split("\n")[-4:-1] == ["IFS=,", "W=($LIST)", "IFS=$OLD"]
    assert "IFS=,\nexec python t.py $LIST" in line_of("LIST=a,b\nIFS=,\npython t.py $LIST")


# --- what has happened in the shell before --------------------------------------------------


def test_how_a_command_has_ended_is_asked_right_after_it(tmp_path: Path) -> None:
    body = "cp -r a b\nif [ $? -ne 0 ]; then\n  echo no\n  exit 1\nfi\npython train.py"
    lines = spec_of(body, GPU)["environment"]["setup"].splitlines()
    assert lines[:3] == ["set +e", "cp -r a b", "if [ $? -ne 0 ]; then"]
    body = "cp -r /none .\nif [ $? -ne 0 ]; then python train.py none; fi\npython b.py"
    assert run_spec(spec_of(body, GPU), tmp_path) == ["train.py none", "b.py"]
    kept = "nvidia-smi\n[ $? -eq 0 ] || exit 1"
    assert kept in spec_of(f"{kept}\npython train.py", GPU)["environment"]["setup"]


@pytest.mark.parametrize(
    "body",
    [
        "pushd src\npython a.py\npopd\npython b.py",
        "source venv/bin/activate\npython a.py\ndeactivate\npython b.py",
    ],
)
def test_what_a_later_command_takes_back_is_done_in_its_shell(body: str) -> None:
    assert line_of(body) == body


def test_options_of_the_shell_are_those_of_the_loop() -> None:
    body = "shopt -s globstar\nfor f in **/*.yaml; do python train.py $f; done"
    assert line_of(body) == body


def test_a_function_that_another_program_runs_is_not_lost() -> None:
    body = "run() { python train.py $1; }\nexport -f run\nparallel run ::: 1 2"
    assert "the function 'run'" in refusal_of(make_script(body, GPU))
    body = "see() { nvidia-smi; }\nexport -f see\nwatch see &\npython a.py\npython b.py"
    assert "export -f see" in line_of(body)


# --- how it ends ----------------------------------------------------------------------------


def test_the_exit_code_is_the_one_that_the_script_gives() -> None:
    body = "n=0\nwhile [ $n -lt 3 ]; do\n  python train.py && break\n  n=$((n+1))\ndone\nexit $n"
    assert line_of(body).endswith("\ndone\nexit $n")
    body = "python a.py\npython b.py &\nwait\npython c.py"
    assert line_of(body) == body


def test_what_runs_beside_ends_where_the_script_ends_it() -> None:
    body = "./serve &\nPID=$!\npython train.py\nkill $PID"
    assert line_of(body).endswith(body)
    body = "nvidia-smi -l 9 > use.log &\nPID=$!\npython a.py\nRC=$?\nkill $PID\nexit $RC"
    assert line_of(body) == body
    body = "./serve &\npython train.py"  # ended by the scheduler, with the job
    assert "wait" not in line_of(body)


# --- launchers and other schedulers ---------------------------------------------------------


def test_options_of_srun_that_matter_are_named() -> None:
    line = "srun --chdir=/x --input=in.txt --output=a.log python train.py"
    imported = import_body(line, GPU)
    assert lost_of(imported) == ["--chdir=/x", "--input=in.txt"]
    assert "--output=a.log" in [left.text for left in imported.left if left.kind == "check"]
    assert "words of their own" in refusal_of(make_script(f"{line}\npython b.py", GPU))


def test_processes_of_mpi_need_the_option_that_joins_them() -> None:
    several = ("#SBATCH --nodes=1", "#SBATCH --ntasks=8")
    assert lost_of(import_body("srun --mpi=pmix python solve.py", *several)) == ["--mpi=pmix"]
    assert lost_of(import_body("srun --mpi=pmix python train_torch.py", GPU, *several)) == []


@pytest.mark.parametrize("line", ["#BSUB -gpu num=2", "#COBALT -n 4", "#$ -l gpu=1"])
def test_scripts_of_other_schedulers_are_refused(line: str) -> None:
    script = make_script("python train.py", line)
    assert "a script for" in refusal_of(script)
    assert spec_of("python train.py", line, GPU)["run"] == {"script": "train.py"}


def test_no_mail_is_asked_for_where_the_scheduler_sends_none() -> None:
    assert "notify" not in spec_of("python train.py", GPU, "#SBATCH --mail-user=a@b.org")
    lines = ("#PBS -M a@b.org", "#PBS -l select=1:ngpus=1", "cd /x", "python train.py")
    script = Script("job.pbs", "\n".join(["#!/bin/bash", *lines, ""]))
    notify = yaml.safe_load(import_script(script).yaml)["notify"]
    assert notify == {"email": "a@b.org", "on": ["fail"]}  # PBS's default


def test_what_tells_the_scheduler_or_waits_is_kept_or_named() -> None:
    several = ("#SBATCH --nodes=2", "#SBATCH --gpus-per-node=1", "#SBATCH --ntasks-per-node=1")
    line = "python train.py || scontrol requeue $SLURM_JOB_ID"
    assert line_of(line) == line
    assert lost_of(import_body(f"srun {line}", *several)) == [line.partition(" || ")[2]]
    after = "if [ $? -ne 0 ]; then\n  scontrol requeue $SLURM_JOB_ID\nfi"
    assert lost_of(import_body(f"srun python train.py\n{after}", *several)) == [after]
    wait = "until [ -f ready ]; do sleep 1; done"
    named = "for f in a b; do export X_$f=1; done"
    setup = spec_of(f"{wait}\n{named}\npython train.py", GPU)["environment"]["setup"]
    assert (wait in setup, named in setup) == (True, True)
