"""Good and bad specs, a value each, for what must agree about them."""

import re
from collections.abc import Iterator

# Each line is a spec by itself: a good one below with one part replaced. `+` begins good lines.
NAMES = """
+a
+gpt-web
+A.b_c-1
+'1'
+"007"
+no
+2030-01-01
2:00:00
a b
../a
-a
.a
1
1.5
true
null
~
''
[a]
{a: b}
"a\\n"
é
"""
COUNTS = """
+1
+2
+100000
++3
0
-1
100001
two
'2'
on
1_000
2.5
1e-3
true
~
[]
{}
.inf
.nan
999999999999999999999
"""
RESOURCES = """
+{nodes: 64}
+{nodes: 2, gpus_per_node: 4}
+{nodes: 2, gpus_per_node: 0}
+{nodes: {min: 2, max: 4}}
+{gpus_per_node: [8, 2]}
+{gpus_per_node: [8, 0, 2]}
+{nodes: 1, gpus_per_node: [8]}
+{cpus_per_gpu: 12}
+{cpus_per_node: 12}
+{walltime: 02:00:00}
+{walltime: 2:00:00}
+{walltime: 2h}
+{walltime: 90m}
+{walltime: 1-12:00:00}
+{walltime: 1d 12h}
+{walltime: '4h'}
+{memory_per_node: 180GB}
+{memory_per_node: 180 GiB}
+{memory_per_node: 1.5T}
+{memory_per_node: 1.0k}
+{memory_per_node: "512mb"}
+{constraint: "a100&nvlink|(b*2)", exclusive: true}
+{constraint: "[rack1|rack2]"}
+{exclusive: false}
{constraint: -a}
{constraint: "a b"}
{constraint: ''}
{exclusive: 1}
{exclusive: user}
{nodes: [2]}
{nodes: {min: 2}}
{nodes: {min: 2, max: 0}}
{nodes: {min: 2, max: four}}
{nodes: {min: 2, max: 4, step: 2}}
{nodes: 2, node: 2}
{Nodes: 2}
{gpus_per_node: []}
{gpus_per_node: [8, -1]}
{gpus_per_node: [8, x]}
{gpus_per_node: [[8]]}
{gpus_per_node: -1}
{gpus_per_node: all}
{cpus_per_gpu: 12, cpus_per_node: 12}
{cpus_per_node: '12'}
{walltime: 7200}
{walltime: 010}
{walltime: 90:00}
{walltime: 1:60:00}
{walltime: 0s}
{walltime: 00:00:00}
{walltime: ''}
+{walltime: 4H}
{walltime: 4h30}
{walltime: 1.5h}
{walltime: "4h\\n"}
{walltime: [4h]}
{walltime: true}
{walltime: null}
{walltime: 2030-01-01}
{memory_per_node: 180}
{memory_per_node: 0GB}
{memory_per_node: 0.0GB}
{memory_per_node: 0.5KB}
+{memory_per_node: 180Gi}
{memory_per_node: 180B}
{memory_per_node: .5GB}
{memory_per_node: 1e3GB}
{memory_per_node: lots}
{memory_per_node: {a: 1GB}}
[nodes]
nodes
2
~
"""
RUNS = """
+{module: a}
+{module: a.b_c.d1}
+{module: modèle.entraîne}
+{script: train.py}
+{script: $HOME/a b.py}
+{script: -a.py}
+{script: ''}
+{command: [a]}
+{command: [a, 1, 1.5, true, no, 2:00:00, '']}
+{command: [a, "a\\nb\\tc"]}
+{module: m, args: {}}
+{module: m, args: --lr 3 --name "a b"}
+{module: m, args: {out: {value: $HOME/a, expand: true}}}
+{module: m, args: [--out, {value: $HOME/a, expand: true}]}
+{command: python train.py --lr 3}
+{command: [torchrun_like, train.py]}
{command: [torchrun, train.py]}
{command: python a.py && python b.py}
{command: "a 'b"}
{command: ["python train.py"]}
{module: m, args: ["--lr 3"]}
{module: train.py}
{module: torch.distributed.run}
{script: train.sh}
+{module: m, args: []}
+{module: m, args: [a, -b, --c, 1, -1, true, '']}
+{module: m, args: {lr: 1e-3, n: 010, x: -1, y: --z, t: 2:00:00}}
+{module: m, args: {on: true, off: false, v: TRUE}}
+{module: m, args: {ids: [1, 2], none: [], w: [a, b-c, true]}}
+{module: m, args: {--x: 1, -y: 2, 3: 4, ключ: a}}
{}
{args: [a]}
{module: m, script: s}
{module: m, command: [a]}
{script: s, command: [a]}
{module: m, script: s, command: [a]}
{module: m, arg: [a]}
{module: a.}
{module: .a}
{module: 1a}
{module: a-b}
{module: a b}
{module: "a\\n"}
{module: 1}
{module: true}
{module: []}
{script: 1}
{script: "a\\nb"}
{script: "a\\tb"}
{script: "a\\u2028b"}
{script: [a]}
{script: ~}
{command: []}
+{command: ls}
{command: [[a]]}
{command: [~]}
{command: [{a: b}]}
{command: ["a\\x1b"]}
{command: {a: b}}
+{module: m, args: a}
+{module: m, args: 1}
{module: m, args: ~}
{module: m, args: [[a]]}
{module: m, args: [~]}
{module: m, args: ["\\0"]}
{module: m, args: {a: ~}}
{module: m, args: {a: {b: c}}}
{module: m, args: {a: [[b]]}}
{module: m, args: {a: [~]}}
{module: m, args: {a: [x, -y]}}
{module: m, args: {a: [1, -1]}}
{module: m, args: {a: [-1.5]}}
{module: m, args: {a: [-.inf]}}
{module: m, args: {a: ["\\x7f"]}}
{module: m, args: {a b: 1}}
{module: m, args: {a=b: 1}}
{module: m, args: {'': 1}}
module
[module]
~
"""
LINES = """
+site: nci-gadi
+site: of-my-own
+scheduler: slurm
+scheduler: 'pbs'
+account: vp91
+account: '123'
+account: project_1@a/b
+queue: no
+queue: gpu-dev
+queue: a b
+queue: [a]
+environment: {}
+environment: {modules: []}
+environment: {modules: [cuda/12.4, a@b]}
environment: {modules: [cuda/12.4, "a b"]}
+environment: {modules: "a, b c"}
+environment: {modules: {}}
+environment: {modules: {first: purge, use: [$HOME/modulefiles, ~/m], load: [cuda/12.4]}}
+environment: {modules: {first: force-purge}}
+environment: {modules: {first: reset, load: []}}
+environment: {container: {image: images/torch.sif}}
+environment: {container: {image: "docker://a:1", runtime: apptainer, options: [--no-home]}}
+environment: {container: {image: "nvcr.io#nvidia/pytorch:1", runtime: pyxis, binds: [/data]}}
+environment: {container: {image: ~/a, binds: ["$A/x:/x:ro", "/a b:/c"]}, venv: v}
+environment: {container: {image: a.toml, runtime: edf}}
+environment: {container: {image: a, runtime: edf, binds: []}}
+environment: {container: {image: a, runtime: podman-hpc}, conda: base, modules: [apptainer]}
+environment: {stage: $HOME/env.tar.gz}
+environment: {stage: a b.tar, container: {image: a, runtime: apptainer}}
+environment: {venv: ~/venv}
+environment: {venv: /scratch/$USER/é}
+environment: {conda: base}
+environment: {variables: {}}
+environment: {variables: {A: b, B_1: 2, C: true, D: 1.5, E: '', F: "a\\nb"}}
+environment: {variables: {http_proxy: x, no_proxy: y, RANKS: 1, N: 1, Node: 2}}
+environment: {setup: ulimit -c 0}
+environment: {setup: "a\\n\\tb\\n"}
+environment: {setup: 1}
+launch: {}
+launch: {mode: torchrun}
+launch: {rendezvous: static}
+launch: {processes_per_node: 4}
+launch: {processes_per_node: [4]}
+launch: {max_restarts: 0}
+launch: {interface: hsn0}
+preflight: true
+preflight: false
+on_walltime: {}
+on_walltime: {notice: 5m}
+on_walltime: {notice: 00:05:00, then: stop}
+on_walltime: {then: requeue}
+on_walltime: {notice: 90s, then: resubmit, at_most: 10}
+on_walltime: {notice: 5m, then: Requeue}
+notify: {on: [END, Fail]}
+notify: {on: "end, fail"}
+after: "123, 456_7"
+environment: {variables: {A: {value: $HOME/a, expand: true}}}
+environment: {container: {image: a, binds: "/a, /b"}}
notify: {on: "end, start"}
after: "123 a"
environment: {variables: {A: {expand: true}}}
environment: {variables: {A: {value: a, expand: yes}}}
on_walltime: 2h
+directives: []
+directives: ["#PBS -l storage=gdata/a+scratch/b", "#SBATCH -C gpu"]
+qos: high
+reservation: R123.server
+reservation: maint_1
+notify: {email: me@x.org}
+notify: {email: me, on: [begin]}
+notify: {on: [fail, end, begin]}
+array: {values: {lr: [1e-3, 3e-4], seed: [0, 1]}, at_once: 2}
+array: {values: {environment.variables.A: [a b, 1], run.args.lr: [1], -x: [-1]}}
+array: {values: {flag: [true, false], betas: [[0.9, 0.95], []], optimizer.lr: [1]}}
+array: {zip: {a: [1, 2], b: [x, y]}}
+array: {list: [{lr: 1}, {}, {environment.variables.A: b, w: [1, 2]}]}
+array: {tasks: 10}
+array: {tasks: 1, at_once: 1}
array: {}
array: {at_once: 2}
array: {values: {a: [1]}, tasks: 2}
array: {values: {}}
array: {values: {a: []}}
array: {values: {a: 1}}
array: {values: {a: [[1, -1]]}}
array: {values: {a: [{b: c}]}}
array: {values: {a: [~]}}
array: {values: {resources.nodes: [1, 2]}}
array: {values: {environment.venv: [a]}}
array: {values: {environment.variables.RANK: [1]}}
array: {values: {environment.variables.A-B: [1]}}
array: {values: {environment.variables.A: [[1]]}}
array: {values: {environment.variables.A: []}}
array: {values: {run.module: [a]}}
array: {values: {run.args.: [a]}}
array: {values: {a b: [1]}}
array: {zip: {}}
array: {zip: {a: [[-x]]}}
array: {list: []}
array: {list: [{a: [1, -1]}]}
array: {list: [{environment.variables.A: [1]}]}
array: {list: [{launch.mode: torchrun}]}
array: {list: {a: [1]}}
array: {tasks: 0}
array: {tasks: 10001}
array: {tasks: 2, at_once: 0}
array: [1, 2]
array: 0-5
+after: [12345]
+after: ["12345", 12_3, '12[3].server', "12[].server", 20300101-120000-42]
+after: {afterany: [1], afterok: ["2"], afternotok: [3], after: [4]}
site: 1
qos: a b
qos: 1
reservation: ~
notify: {}
+notify: me@x.org
notify: {email: a b}
notify: {email: "a@x,b@x"}
notify: {email: -f@x}
notify: {on: []}
notify: {on: [start]}
notify: {on: [end, end]}
+notify: {on: end}
after: []
+after: 12345
after: {}
after: {afterok: []}
after: {before: [1]}
+after: {afterok: 1}
after: [-1]
after: [1.5]
after: [a]
after: ["12 3"]
after: ["12[a]"]
site: a b
site: ''
site: ~
scheduler: lsf
scheduler: on
scheduler: true
+scheduler: Slurm
scheduler: [slurm]
scheduler: ~
account: 123
account: -x
account: "a\\n"
account: é
queue: true
queue: a&b
priority: 1
Name: b
environment: ~
environment: []
environment: venv
environment: {venvs: a}
+environment: {modules: cuda}
environment: {modules: [3.11]}
environment: {modules: [-a]}
environment: {modules: ['']}
environment: {modules: ["a\\tb"]}
environment: {modules: [~]}
environment: {modules: {first: true}}
environment: {modules: {purge: true}}
+environment: {modules: {use: /soft}}
environment: {modules: {use: [-a]}}
environment: {modules: {load: ["a\\tb"]}}
environment: {modules: {load: [1]}}
environment: {modules: {swap: [a, b]}}
environment: {venv: 1}
environment: {venv: "a\\x85b"}
environment: {venv: [a]}
environment: {conda: -n}
environment: {conda: 3.1}
environment: {venv: v, conda: c}
environment: {venv: v, stage: s}
environment: {conda: c, stage: s}
environment: {venv: v, conda: c, stage: s}
environment: {stage: -a}
environment: {stage: ''}
environment: {stage: [a]}
+environment: {container: a.sif}
environment: {container: {}}
environment: {container: {runtime: apptainer}}
environment: {container: {image: -a}}
environment: {container: {image: ''}}
environment: {container: {image: [a]}}
environment: {container: {image: "a\\nb"}}
environment: {container: {image: a, runtime: docker}}
environment: {container: {image: a, runtime: edf, binds: [/a]}}
+environment: {container: {image: a, binds: /a}}
environment: {container: {image: a, binds: ['']}}
environment: {container: {image: a, binds: [-a]}}
environment: {container: {image: a, binds: ["/a,/b"]}}
environment: {container: {image: a, binds: ["/a:"]}}
environment: {container: {image: a, binds: ["/a:/b:ro:x"]}}
environment: {container: {image: a, binds: [" a"]}}
+environment: {container: {image: a, options: --nv}}
environment: {container: {image: a, options: ["a\\x1b"]}}
environment: {container: {image: a, writable: true}}
environment: {variables: {A-B: x}}
environment: {variables: {1A: x}}
environment: {variables: {'': x}}
environment: {variables: {É: x}}
environment: {variables: {node: x}}
environment: {variables: {n: x}}
environment: {variables: {RANK: 0}}
environment: {variables: {LOCAL_WORLD_SIZE: 0}}
environment: {variables: {MASTER_PORT: 1}}
environment: {variables: {JOBGEN_X: 1}}
environment: {variables: {BASH_ENV: x}}
environment: {variables: {PS4: x}}
environment: {variables: {A: [x]}}
environment: {variables: {A: {b: c}}}
environment: {variables: {A: ~}}
environment: {variables: {A: "\\x1b"}}
environment: {variables: [A]}
environment: {variables: A=b}
environment: {setup: [a]}
environment: {setup: "a\\rb"}
environment: {setup: ~}
launch: ~
launch: [c10d]
launch: {mode: per_gpu}
launch: {rendezvous: etcd}
launch: {rendezvus: c10d}
launch: {processes_per_node: 0}
launch: {processes_per_node: []}
launch: {processes_per_node: [0]}
launch: {processes_per_node: x}
launch: {max_restarts: -1}
launch: {max_restarts: 1.5}
launch: {interface: eth 0}
launch: {interface: abcdefghijklmnop}
launch: {interface: ''}
preflight: ~
preflight: yes
preflight: 1
preflight: [true]
on_walltime: ~
on_walltime: 2h
on_walltime: [2h]
on_walltime: {notice: 300}
on_walltime: {notice: 0m}
on_walltime: {notice: [5m]}
on_walltime: {then: continue}
on_walltime: {then: true}
on_walltime: {at_most: 3}
on_walltime: {then: stop, at_most: 3}
on_walltime: {then: requeue, at_most: 0}
on_walltime: {then: requeue, at_most: many}
on_walltime: {than: requeue}
directives: ["-l x"]
directives: ["#PBS"]
directives: ["#PBS "]
directives: ["#PBS -N é"]
directives: ["#PBS -m e\\n"]
directives: ["#SBATCH -C a "]
directives: ["#sbatch -C a"]
+directives: "#PBS -m e"
directives: [1]
directives: ~
"""
FRAME = "name: {name}\nresources: {resources}\nrun: {run}\n{line}\n"
GOOD = {"name": "a", "resources": "{}", "run": "{module: m}", "line": ""}


def corpus() -> Iterator[tuple[str, bool]]:
    """Specs, and whether they are good."""
    for part, table in (
        ("name", NAMES),
        ("resources", RESOURCES),
        ("run", RUNS),
        ("line", LINES),
        ("count", COUNTS),
    ):
        for row in table.strip().splitlines():
            good, value = row.startswith("+"), row.removeprefix("+")
            if part != "count":
                yield FRAME.format_map({**GOOD, part: value}), good
                continue
            for key in ("nodes", "cpus_per_gpu", "cpus_per_node"):
                yield FRAME.format_map({**GOOD, "resources": f"{{{key}: {value}}}"}), good
    for missing in ("name", "resources", "run"):
        yield re.sub(f"^{missing}: .*\n", "", FRAME.format_map(GOOD), flags=re.MULTILINE), False
