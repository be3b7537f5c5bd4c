"""Text that is not YAML, and files that are not specs: the message names the fault and its line."""

import time

import pytest
from support import complaint

from jobgen.errors import SpecError
from jobgen.spec.load import load

GOOD = "name: a\nscheduler: slurm\nresources: {nodes: 2}\nrun: {module: m}\n"
ARGS = "name: a\nscheduler: slurm\nresources: {nodes: 2}\nrun:\n  module: m\n  args:\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: a\nresources:\n  nodes:2\n  walltime: 1h\nrun: {module: m}\n",
            "job.yaml:3:8: no space after the colon; write nodes: 2",
        ),
        (
            GOOD + 'environment:\n  variables:\n    MSG: note: "fast"\n',
            "job.yaml:7:10: a value that contains ': '; put it in single quotes",
        ),
        (
            GOOD + "environment:\n  variables:\n    MSG: it's: fast\n",
            "job.yaml:7:10: a value that contains ': '; put it in quotes",
        ),
        (GOOD + "environment:\n\u00a0 venv: x\n  conda: y\n", "a no-break space"),
        (GOOD + "<<<<<<< HEAD\nqueue: a\n=======\nqueue: b\n", "job.yaml:5:1: the mark of a merge"),
        (GOOD + "queue\uff1a gpu\naccount: x\n", "job.yaml:5:6: a full-width colon"),
        (GOOD + "after: [1, # two\n 2\nqueue: x\n", "job.yaml:5:11: a comment within [...]"),
        ('{\n  // a job\n  "name": "a"\n}\n', "job.yaml:2:3: is not how YAML writes a comment"),
        (GOOD.replace("nodes: 2", '"nodes:" 2'), "a quote behind the colon; write nodes: 2"),
        (GOOD.replace("module: m", "args: {a: b: c}"), "a value that contains ': '; put it in"),
        ("name:a\n", "job.yaml:1:5: no space after the colon; write name: a"),
        (
            "#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n",
            "job.yaml: is a job script, not a job spec; `jobgen import job.yaml` makes",
        ),
        ("#!/bin/bash\ntorchrun train.py\n", "job.yaml: is a script, not a job spec"),
        ("[job]\nname = a\n", "job.yaml:1:1: is a line of another format"),
        ("job:\n  name: a\n  run: {script: a.py}\n", "has its keys a level too deep"),
        ("jobs:\n- name: a\n  run: {script: a.py}\n", "lists several jobs, and a spec is one"),
        (GOOD + "environment:\nmodules: [a]\n  venv: b\n", "job.yaml:7:1: is indented deeper"),
        (GOOD.replace("nodes: 2", "nodes: ${N}"), "job.yaml:3:20: a variable in braces, which"),
        ("```yaml\n" + GOOD + "```\n", "job.yaml:1:1: a fence of Markdown; remove the line"),
        ("- name: a\n- queue: b\n", "holds a list, not keys and values; leave out the dashes"),
        (GOOD + "array:\n  tasks: 2\n   at_once: 1\n", "job.yaml:7:1: is indented deeper"),
        (GOOD + "notify: {email: a, on: [end\n", "job.yaml:5:24: a list that does not end, with"),
        ("name: a: b c # d\n", "job.yaml:1:7: a value that contains ': '; write name: a-b-c, as a"),
        (GOOD + "notify: {email: a\nqueue: b\n", "job.yaml:5:9: braces that do not end"),
        (GOOD + "notify: {email: a}}\n", "job.yaml:5:19: a bracket that closes nothing"),
        (GOOD + "resources:\n  nodes: 8, gpu_type: a\n", "job.yaml:6:13: a second key on the line"),
        (GOOD + "notify: {email: a on: [end]}\n", "job.yaml:5:17: two keys without a comma"),
        (GOOD + "notify: email: a\n", "job.yaml:5:9: a record on the line of its name; write"),
        (
            GOOD.replace("{module: m}", "\n  module: m\n  args: lr: 1e-3"),
            "job.yaml:6:9: a record on the line of its name; write args: {lr: 1e-3}",
        ),
        (
            GOOD + "environment:\n  setup: - module load cuda\n",
            "job.yaml:6:10: a list on the line of its key; write each item on a line of its own",
        ),
        (GOOD + "array: (tasks: 2)\n", "job.yaml:5:8: keys within (...); write {...}"),
        (GOOD + "queue: @gpu\n", "job.yaml:5:8: a value that begins with @"),
        (GOOD + 'environment: {venv: "C:\\data"}\n', "a backslash within double quotes"),
        (GOOD + "array:\n    tasks: 2\n  at_once: 1\n", "job.yaml:7:1: is indented less"),
        ("name: a\nscheduler slurm\nqueue: b\n", "job.yaml:2:10: no colon behind scheduler"),
        (GOOD + "array:\n  tasks: 2\n  - at_once: 1\n", "job.yaml:7:1: is a dash among keys"),
        ("name: a\nresources:\n  - nodes: 2\n  walltime: 1h\n", "job.yaml:3:3: is a dash among"),
        ("name: a\nresources:\n  nodes = 2\n  walltime: 1h\n", "3:8: no colon behind nodes; write"),
        (
            "// a job\n" + GOOD,
            "job.yaml:1:1: is not how YAML writes a comment; write # at its start",
        ),
        (GOOD + "array: {values:[1]}\n", "job.yaml:5:15: no space after the colon"),
        (GOOD + "environment:\n  setup: <<EOF\n    a: b\n  EOF\n", "6:10: is not how YAML quotes"),
        (GOOD + "environment:\n  setup: |\n  ulimit -c 0\n", "7:3: is neither KEY: VALUE nor"),
        ("name: {% a %}\n" + GOOD, "job.yaml:1:7: a template; jobgen fills in none"),
        ('{"name": "a" "queue": "b"}', "job.yaml:1:13: two keys without a comma between them"),
        (
            GOOD.replace("{module: m}", "{script=a.py}"),
            "job.yaml:4:7: run.script=a.py: unknown key; w",
        ),
        ("apiVersion: batch/v1\nkind: Job\n", "job.yaml: is a manifest of Kubernetes"),
        ("services:\n  a: {image: b}\n", "job.yaml: is a file of docker compose"),
        ("services:\n  a:\n    image: b/c:1\n", "{container: {image: docker://b/c:1, runtime: "),
        (
            "apiVersion: a\nspec: {containers: [{image: 'b/c:1', command: [torchrun, t.py],"
            " resources: {limits: {nvidia.com/gpu: 2}}}]}\n",
            "replicas or parallelism is resources.nodes here, nvidia.com/gpu is resources.gpus_per_"
            "node, command is run.command, or run.script for a Python program (jobgen itself does "
            "what torchrun does), and image is environment: {container: {image: docker://b/c:1,",
        ),
        ("tasks: [a]\nresources: [{type: slot, count: 1}]\n", "is a jobspec of Flux, not one"),
        (
            "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 8\n",
            "num_machines is resources.nodes in a spec, num_processes divided by it is resources.g",
        ),
        (
            "$schema: https://azuremlschemas.azureedge.net/a.json\ncommand: python a.py\n",
            "is a job of Azure ML, not a job spec; instance_count is resources.nodes here",
        ),
        (
            "program: t.py\nparameters:\n  lr: {values: [1, 2]}\n  s: {min: 3, max: 4}\n",
            "is a sweep of W&B, not a job spec; write array: {values: {NAME: [...]}}",
        ),
        (
            "program: t.py\nparameters:\n  lr:\n    values: [1, 2]\n",
            "is a sweep of W&B, not a job spec; write array: {values: {NAME: [...]}}",
        ),
        ("apiVersion: batch/v1\nimage: b/c:1\n", "docker://NAME, runtime: apptainer"),
        ("hydra:\n  launcher:\n    nodes: 2\n", "its partition is queue, and the program's own"),
        (
            "hydra:\n  launcher:\n    partition: a\n    timeout_min: 240\n    mem_gb: 9\n"
            "nodes: 3\n",
            "is resources: {memory_per_node: 9GB, walltime: 240m} and queue: a here, and the",
        ),
        (
            "seed_everything: 1\ntrainer:\n  devices: 4\n  num_nodes: 2\nmodel: {a: b}\n",
            "LightningCLI, not a job spec; num_nodes is resources.nodes here, devices is resources",
        ),
        (
            "model: {a: b}\ntrainer:\n  accelerator: gpu\n  devices: auto\n",
            "gpus_per_node, and the program gets the file by run: {script: PROGRAM.py, args: [fit",
        ),
        ("head_node_type: a\n", "is a cluster of Ray, not a job spec; launch: {mode: ray} starts"),
        ("stages: [a]\nb:\n  script:\n    - python a.py\n", "is a pipeline of GitLab, not a job"),
        ("- name: a\n  nodes: 2\n- name: b\n", "lists several jobs, and a spec is one"),
        ("- name: a\n- resources: {}\n", "holds a list, not keys and values; leave out the dashes"),
        ("slurm:\n  nodes: 2\npython: {script: a.py}\n", "slurm: unknown key; its keys belong"),
        ("model: {nodes: 2, time: 1h}\nlr: 1\n", "is not a job spec: it has model, lr"),
        ("siet: a\nrnu: {scrpit: a.py}\nlr: 1\n", "run.scrpit: unknown key; did you mean 'scr"),
        (GOOD + "on_walltime: requeue\nmax_retries: 5\n", "write at_most: 6 in on_walltime"),
        (GOOD + "on_failure: restart\nretries: 5\n", "write at_most: 5 in on_failure"),
        (GOOD + "on_failure: a\non_walltime: b\nretries: 5\n", "write launch: {max_restarts: 5}"),
        ("time: 2h\ntimeout: 3h\n", "{walltime: 3h}; it is already there: keep one of the two"),
        ("defaults:\n  - a\n", "a program that uses Hydra reads it"),
        (GOOD + "directives:\n  - #SBATCH --nice=7\n", "begins a comment: '#SBATCH --nice=7'"),
        (
            ARGS + "    tag: #run7\n",
            'is empty; put it in quotes, as # begins a comment: tag: "#run7',
        ),
        (ARGS + "    tag: #7  # mine\n", 'begins a comment: tag: "#7"'),
        (ARGS + "    - --tag\n    - #run7\n", 'begins a comment: "#run7"'),
        (ARGS + "    tag: # run 7\n", 'write tag: "# run 7" if that is the value, else give it'),
        (ARGS + "    tag:\n    # run 7\n", "write true for an option without a value, or remove"),
        (GOOD + "queue: #gpu\n", "is empty; # begins a comment; write queue: gpu, or remove the"),
        (GOOD + "environment: # mine\n", "is empty; give it a value or remove the key"),
        ("dependencies:\n  - torch\n", "job.yaml: describes a conda environment"),
    ],
)
def test_what_is_not_yaml_is_named(text, message):
    assert message in complaint(text)


def test_a_directive_that_is_a_comment_is_found_in_text_and_not_in_a_file_here(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    directive = "directives:\n  - #SBATCH --nice={}\n"
    (tmp_path / "job.yaml").write_text(GOOD + directive.format(1))
    with pytest.raises(SpecError, match="begins a comment: '#SBATCH --nice=2'"):
        load(GOOD + directive.format(2))


def test_a_program_given_for_a_spec_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\nif x: print({1: 2})\n")
    with pytest.raises(SpecError, match=r"train\.py: is a Python program.* --script train\.py"):
        load("train.py")


def test_a_command_goes_on_after_a_backslash() -> None:
    text = GOOD.replace("{module: m}", "\n  command: python a.py \\\n    --lr 1 a\\ b\n")
    assert load(text).spec.run.command == ("python", "a.py", "--lr", "1", "a b")


def test_a_fault_at_the_end_of_a_long_spec_is_found_at_once() -> None:
    """A rule that looked through the rest from each character took 20 s."""
    tasks = "".join(f"    - {{lr: {task}e-5, seed: {task}}}\n" for task in range(2000))
    began = time.process_time()
    assert ": is neither KEY: VALUE nor" in complaint(
        f"{GOOD}array:\n  list:\n{tasks}  at_once 3\n"
    )
    assert time.process_time() - began < 5
