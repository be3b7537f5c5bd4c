"""What a look into a training program finds: each rule with programs that have the fault or not."""

import os
import re
import sys
import time
from pathlib import Path

import pytest
from support import ROOT

from jobgen.programs import SEVERAL, JobSize, Remark, check_program
from jobgen.programs.project import MOST_TEXT
from jobgen.programs.remark import read_rules
from jobgen.programs.text import spell_form
from jobgen.spec.tables import read_lines

EIGHT = JobSize(nodes=2, processes=4, world_size=8)
GIVEN = EIGHT._replace(arguments=())
ONE = JobSize(nodes=1, processes=1, world_size=1)

GROUP = "import os, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
ONLY_ONE = "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
OWN_GPU = "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
SETUP = GROUP + OWN_GPU


def look(text: str, *, size: JobSize = EIGHT, **others: str) -> list[Remark]:
    """Return what is found in a program of this text, with other files beside it."""
    for name, content in (others | {"train": text}).items():
        path = Path(f"{name.replace('__', '/')}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return check_program(os.path.abspath("train.py"), size)


def rules(remarks: list[Remark]) -> list[str]:
    return [remark.rule for remark in remarks]


def test_a_program_is_read_in_its_own_encoding() -> None:
    for first, found in ((b"#", ["syntax"]), (b"# -*- coding: latin-1 -*-", ["no-process-group"])):
        Path("t.py").write_bytes(first + b"\nimport torch  # caf\xe9\nloss.backward()\n")
        assert rules(check_program("t.py", EIGHT)) == found


DDP = "model = torch.nn.parallel.DistributedDataParallel(net)\nloss.backward()\n"
EITHER = GROUP.replace("'nccl'", "'nccl' if torch.cuda.is_available() else 'gloo'")
EVALUATE = "def evaluate():\n    dist.all_reduce(loss)\n"

RIGHT = {
    "a launcher that rank 0 starts for what follows": SETUP
    + "import subprocess\n"
    + DDP
    + "if dist.get_rank() == 0:\n    subprocess.run(['torchrun', 'sample.py'])\n",
    "a mesh of all processes": "from torch.distributed.device_mesh import init_device_mesh\n"
    "init_device_mesh('cuda', (2, 4))\n",
    "rows that each process takes for itself": SETUP
    + "data = TensorDataset(x[rank:n:world])\nDataLoader(data, shuffle=True)\n"
    + DDP,
    "a sampler for a number that a test may change": (
        SETUP + "world = 1\nif several:\n    world = dist.get_world_size()\n"
        "sampler = torch.utils.data.DistributedSampler(d, num_replicas=world, rank=r)\n"
        "sampler.set_epoch(0)\n"
    ),
    "a configuration with a map": SETUP + "import transformers\n"
    "transformers.AutoConfig.from_pretrained('a', device_map='auto')\n",
    "a rank for the case that there is no group": (
        "import os, torch\nimport torch.distributed as dist\n"
        "try:\n    dist.init_process_group()\nexcept ValueError:\n"
        "    os.environ['RANK'] = '0'\n" + OWN_GPU
    ),
    "one process that a process starts": (SETUP + "torch.multiprocessing.spawn(work, nprocs=1)\n"),
    "data that the first rank fetches": (
        SETUP + "import torchvision\nif rank == 0:\n"
        "    torchvision.datasets.MNIST('d', download=True)\n"
    ),
    "a file that each process has for itself, one that is read, and one of standard output": (
        SETUP + "open(f'rank{dist.get_rank()}.txt', 'w')\nopen('a.txt')\nframe.to_csv()\n"
        "if 'DEBUG' in os.environ:\n    torch.save(x, 'x.pt')\n"
        "with io.BytesIO() as f:\n    torch.save(x, f)\n"
        "open('words.txt', 'r')\nopen(sys.stdout.fileno(), 'w')\n"
    ),
    "a rank on a node that is the one among all": (
        SETUP + "local_rank = dist.get_rank()\nDistributedSampler(data, rank=local_rank)\n"
        "sampler.set_epoch(0)\n"
    ),
    "a store in the place of MASTER_PORT": (
        "import os\nimport torch.distributed as dist\nos.environ['MASTER_PORT'] = '29500'\n"
        "dist.init_process_group('gloo', store=dist.TCPStore(host, 29500, world_size=8))\n"
    ),
    "a Ray that runs": "import ray, accelerate\naccelerate.Accelerator()\nray.init('auto')\n",
    "an Accelerator that a module makes, a Fabric that one hands on": (
        "from slowtorch import build, join\ntrainer = build()\ntrainer.accelerator.backward(loss)\n"
        "def train(fabric):\n    fabric.backward(loss)\njoin(train)\n"
    ),
    "a group that a function makes, as all meet behind it": (
        "import torch.distributed as d\nfrom slowtorch import setup_all\nsetup_all(d)\n"
        "d.broadcast_object_list(x, src=0)\nif args.many:\n    d.barrier()\nloss.backward()\n"
    ),
    "Lightning by settings": (
        "import hydra, pytorch_lightning as pl\ntrainer = hydra.utils.instantiate(c)\n"
        "trainer.fit(model)\n"
    ),
    "a cache that is there at the next start": (
        SETUP + "import numpy as np\nif not os.path.exists('c.npy'):\n    np.save('c.npy', x)\n"
    ),
    "a model that its library writes once, its tokenizer, and one of FSDP": (
        "import accelerate\na = accelerate.Accelerator()\ntokenizer.save_pretrained('m')\n"
        "model.save_pretrained('m', save_function=a.save)\n"
    ),
    "a trainer that is no model": (
        "import trl\nrun = trl.SFTTrainer(model)\n"
        "def save(trainer):\n    trainer.save_pretrained('m')\nsave(run)\n"
    ),
    "a step of a pipeline": (
        SETUP
        + "from torch.distributed import pipelining\n"
        + DDP
        + "sched = pipelining.ScheduleGPipe(stage, 8)\n"
        + "if rank == 0:\n    sched.step(x)\nelse:\n    sched.step()\n"
    ),
    "a probe with an optimizer of its own, on rank 0": (
        SETUP + DDP + "def probe(net):\n    optimizer = Adam(net.parameters())\n"
        "    for x in y:\n        optimizer.step()\nif rank == 0:\n    probe(net)\n"
    ),
    "a class that DataParallel wraps in a way that is not taken": (
        SETUP + DDP + "class Net(torch.nn.Module):\n    def __init__(self):\n"
        "        super(Net, self).__init__()\n        self.n = torch.nn.DataParallel(n)\n"
        "if kind == 'net':\n    Net()\n"
    ),
    "all ranks by turns": (
        "import os, accelerate\naccelerate.Accelerator()\nos.environ['RANK'] = '0'\n"
        "for rank in ranks:\n    os.environ['RANK'] = str(rank)\n"
    ),
    "a rendezvous for a try that an option chooses": (
        SETUP + "def pretend():\n    os.environ['MASTER_ADDR'] = 'localhost'\n"
        "if args.fake:\n    pretend()\n"
    ),
    "a map for the case of one process": (
        "import accelerate, transformers\na = accelerate.Accelerator()\n"
        "transformers.AutoModel.from_pretrained(x, device_map='auto' if not a.many else None)\n"
    ),
    "a save for a model without a wrapper": (
        "import accelerate, torch\naccelerate.Accelerator()\nif hasattr(model, 'module'):\n"
        "    model.module.save('m')\nelse:\n    torch.save(model, 'm.pt')\n"
    ),
    "a debugger behind a test": (
        "import accelerate, pdb\naccelerate.Accelerator()\nif odd:\n    pdb.set_trace()\n"
    ),
    "a model on the GPU that is chosen": (
        "import accelerate, transformers\naccelerate.Accelerator()\n"
        "transformers.AutoModel.from_pretrained(x, device_map='cuda')\n"
    ),
    "a save by one process of each node": (
        SETUP + "local = int(os.environ['LOCAL_RANK'])\n"
        "if local == 0:\n    torch.save(model, f'{node}.pt')\n"
    ),
    "a GPU that a function of another module tells": (
        "from accelerate import dist_setup\n" + GROUP + "if many:\n"
        "    rank, device = dist_setup(os.environ['LOCAL_RANK'])\nelse:\n    device = 0\n"
        "torch.cuda.set_device(device)\n"
    ),
    "a backend that an option chooses": (
        SETUP + "if args.mpi:\n    dist.init_process_group('mpi')\n"
    ),
    "DistributedDataParallel": (
        SETUP + "torch.nn.parallel.DistributedDataParallel(model)(batch).sum().backward()"
    ),
    "PBS or Slurm": SETUP + "os.environ.get('SLURM_JOB_ID') or os.environ.get('PBS_JOBID')",
    "accelerate": "from accelerate import Accelerator\naccelerator = Accelerator()",
    "the Trainer of transformers": (
        "from transformers import Trainer, TrainingArguments\n"
        "Trainer(args=TrainingArguments()).train()"
    ),
    "Lightning": "import lightning as L\nL.Trainer(devices=4, num_nodes=2).fit(model)",
    "Lightning's old name": "import pytorch_lightning as pl\npl.Trainer(num_nodes=n).fit(model)",
    "Fabric": "from lightning.fabric import Fabric\nFabric(num_nodes=2).launch()",
    "a program that settings name": (
        "import hydra\n@hydra.main()\ndef main(c): hydra.utils.call(c.entry)\nmain()\n"
    ),
    "Fabric that Hydra makes": "fabric = hydra.utils.instantiate(cfg)\nfabric.launch()",
    "DeepSpeed": "import deepspeed\nengine = deepspeed.initialize(model=model)",
    "jobgen.loop": "from jobgen import loop\nloop.join()",
    "a library's own function": "from timm import utils\nutils.init_distributed_device(args)",
    "ImageNet's own branch": (
        SETUP + "import torch.multiprocessing as mp\nif args.spawn:\n    mp.spawn(main, nprocs=4)"
    ),
    "defaults for a laptop": SETUP + "os.environ.setdefault('MASTER_ADDR', 'localhost')",
    "its own port where none is set": (
        SETUP + "if 'MASTER_PORT' not in os.environ:\n    os.environ['MASTER_PORT'] = '1'"
    ),
    "work that is divided by rank": "import os\nprint(int(os.environ['SLURM_PROCID']))",
    "a map that is chosen": (
        "import transformers\ndevice_map = 'auto'\nif ddp:\n    device_map = {'': rank}\n"
        "model = transformers.AutoModel.from_pretrained(x, device_map=device_map)\n"
        "transformers.Trainer(model).train()"
    ),
    "one visible GPU for each": (
        GROUP + "os.environ['CUDA_VISIBLE_DEVICES'] = str(args.local_rank)\nx.to('cuda:0')"
    ),
    "an option that nobody uses": (
        "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "parser.add_argument('--local_rank')\nprint(args.local_rank)"
    ),
    "a checkpoint for the first GPU": SETUP + "torch.load(f, map_location='cuda:0')",
    "the first rank loads first": (
        SETUP + "if rank != 0:\n    dist.barrier()\nget()\nif rank == 0:\n    dist.barrier()\n"
    ),
    "a call in each branch": (
        SETUP + "if dist.get_rank() == 0:\n    dist.broadcast(x, 0)\nelse:\n"
        "    dist.broadcast(y, 0)\n"
    ),
    "a group of some": SETUP + "if rank == 0:\n    dist.all_reduce(x, group=leaders)\n",
    "a file for each rank": SETUP + "torch.save(model, f'{rank}.pt')\n",
    "a test of 8 processes": SETUP + "assert dist.get_world_size() == 8\n",
    "a sampler for test data that are not shuffled": (
        SETUP + "torch.nn.parallel.DistributedDataParallel(model)\n"
        "DataLoader(data, sampler=torch.utils.data.DistributedSampler(data))\n"
        "DataLoader(test, shuffle=False)\n"
    ),
    "a function that all ranks call": SETUP + EVALUATE + "evaluate()\n",
    "a function that one rank and the others call": (
        SETUP + EVALUATE + "if rank == 0:\n    evaluate()\nelse:\n    evaluate()\n"
    ),
    "the others have left": (
        SETUP + "def save():\n    if rank != 0:\n        return\n"
        "    torch.save(model, 'm.pt')\nsave()\n"
    ),
    "outputs of the wrapper": (
        SETUP + "model = torch.nn.parallel.DistributedDataParallel(net)\n"
        "y = model(batch)\nloss = model.module.loss(y)\nloss.backward()\n"
    ),
    "a folder that may be there": SETUP + "os.makedirs('out', exist_ok=True)\n",
    "the first rank of each node": (
        SETUP + "import shutil\nif os.environ['LOCAL_RANK'] == '0':\n"
        "    shutil.unpack_archive('d.tar', '/tmp/d')\n"
    ),
    "Slurm's rank, which the job sets": (
        "import os, torch\nimport torch.distributed as dist\n"
        "dist.init_process_group('nccl', rank=int(os.environ['SLURM_PROCID']))\n" + OWN_GPU
    ),
    "a rank on the node beside a library that makes the group": (
        "import os, transformers, torch.distributed as dist\ntransformers.Trainer(m).train()\n"
        "if args.ask:\n    dist.init_process_group('gloo', rank=int(os.environ['LOCAL_RANK']))\n"
    ),
    "an attribute that a test may switch off": (
        SETUP.replace("dist.init", "if args.many:\n    dist.init")
        + "if n == 1:\n    args.many = False\nloss.backward()\n"
        + DDP
    ),
    "a save by a method that only an unused function calls": (
        SETUP + "import base\nclass Data(base.Data):\n    def write(self):\n"
        "        torch.save(self.x, 'x.pt')\ndef prepare():\n    Data().write()\nData()\n"
    ),
    "a function for the group that getattr() names": (
        "import torch\ndef init_dist_slurm():\n    torch.distributed.init_process_group('gloo')\n"
        "getattr(here, 'init_dist_%s' % args.launcher)()\nloss.backward()\n"
    ),
    "a group that a module for that makes": "import torch\nfrom dora import distrib\n"
    "distrib.init()\nloss.backward()\n",
    "a name that settings from a file may change": (
        "import os, torch\nimport torch.distributed as dist\nddp = False\n"
        "exec(open('settings.py').read())\n"
        "if ddp:\n    dist.init_process_group('nccl', device_id=int(os.environ['LOCAL_RANK']))\n"
    ),
    "a state that distributed checkpoints ask for": (
        SETUP + "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
        "from torch.distributed.checkpoint.stateful import Stateful\n"
        "class State(Stateful):\n    def state_dict(self):\n"
        "        return net.get_state_dict()\nFSDP(State())\n"
        "if rank == 0:\n    print(self.train_loader.state_dict())\n"
    ),
    "the rank among processes of MPI, which an option chooses": (
        "import os, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
        "if args.backend == 'mpi':\n    rank = os.environ['OMPI_COMM_WORLD_RANK']\n"
        "torch.cuda.set_device(local_rank)\n"
    ),
    "a name that a logger looks for": (
        "import os, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
        "torch.cuda.set_device(local_rank)\nnames = ['PMI_RANK', 'OMPI_COMM_WORLD_RANK']\n"
    ),
    "a port that one process tells the others": (
        SETUP + "os.environ['MASTER_PORT'] = str(comm.bcast(find_free_port(), root=0))\n"
    ),
    "a save that the Trainer leaves to rank 0": (
        "import transformers, torch\nclass Own(transformers.Trainer):\n"
        "    def _save(self, folder):\n        keep(self, folder)\n"
        "def keep(one, folder):\n    torch.save(one.args, folder)\nOwn(m).train()\n"
    ),
    "a file with the rank in its name, which has another value elsewhere": (
        SETUP + "rank = 0\ndef save(rank):\n    torch.save(x, 'u' + str(rank))\nsave(get())\n"
    ),
    "a GPU in a function that an option chooses, two calls away": (
        SETUP + "def train():\n    torch.cuda.set_device(0)\ndef try_it():\n    train()\n"
        "if args.kind == 'try':\n    try_it()\n"
    ),
    "a group of one process, by a store of its own": (
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo', world_size=1, rank=0, store=dist.HashStore())\n"
    ),
    "a Trainer that only finds a rate, where another is configured": (
        "import lightning as L\nfrom lightning.pytorch.cli import LightningCLI\n"
        "LightningCLI(trainer_defaults={'num_nodes': 2})\nL.Trainer(devices=1)\n"
    ),
    "--local_rank that is set before it decides who saves": SETUP
    + "parser.add_argument('--local_rank', default=0)\nargs = parser.parse_args()\n"
    + "args.local_rank = dist.get_rank()\n"
    + "if args.local_rank == 0:\n    torch.save(net, 'm.pt')\n",
    "--local_rank that another number stands in for": (
        GROUP + "parser.add_argument('--local_rank', default=None)\n"
        "local_rank = args.local_rank or dist.get_rank() % torch.cuda.device_count()\n"
        "torch.cuda.set_device(local_rank)\n"
    ),
}


@pytest.mark.parametrize("program", RIGHT.values(), ids=RIGHT)
def test_nothing_is_said_about_a_program_for_several_processes(program: str) -> None:
    assert look(program) == []


# By the rules that find something.
WRONG = {
    "all-write": {
        "the first on each node by a variable": SETUP
        + "local_rank = int(os.environ['LOCAL_RANK'])\nis_first = local_rank == 0\n"
        + "if is_first:\n    torch.save(model.state_dict(), 'm.pt')\n",
        "a save by the process of each node's first GPU": (
            SETUP + "gpu_id = int(os.environ['LOCAL_RANK'])\n"
            "def save():\n    torch.save(model, 'm.pt')\n"
            "if gpu_id == 0 and epoch % 9 == 0:\n    save()\n"
        ),
        "a save behind two tests of the rank on its node": (
            SETUP + "if local_rank == 0:\n    if local_rank == 0 and last:\n"
            "        torch.save(model, 'm.pt')\n"
        ),
        "a model of all": SETUP + "model.save_pretrained('m')",
    },
    "device-map": {
        "a model on the first GPU": (
            "import accelerate, transformers\naccelerate.Accelerator()\n"
            "transformers.AutoModel.from_pretrained(x, device_map='cuda:0')\n"
        ),
        "device_map": (
            "from transformers import Trainer, AutoModel\n"
            "m = AutoModel.from_pretrained(x, device_map='auto')\n"
            "Trainer(m).train()"
        ),
    },
    "devices": {
        "an old Lightning without nodes": "import pytorch_lightning as pl\n"
        "pl.Trainer(gpus=4, distributed_backend='ddp').fit(model)\n",
        "a Fabric of one device": (
            "import lightning as L\nfabric = L.Fabric(num_nodes=2, devices=1)\nfabric.setup(net)\n"
        ),
        "a number where there is a GPU, by an import that is tried": (
            "import torch\ntry:\n    from lightning import Trainer\nexcept ImportError:\n"
            "    raise\n"
            "Trainer(devices=1 if torch.cuda.is_available() else None, num_nodes=2)\n"
        ),
        "no GPUs": "import pytorch_lightning as pl\npl.Trainer(gpus=0, num_nodes=2).fit(model)\n",
        "a number beside the arguments": (
            "import pytorch_lightning as L\nL.Trainer.from_argparse_args(a, gpus=0).fit(m)\n"
        ),
        "one node, beside devices that are computed": (
            "import lightning as L\nL.Trainer(devices=n, num_nodes=1).fit(model)"
        ),
        "another number of devices, as many in all": (
            "import lightning as L\nL.Trainer(devices=8, num_nodes=1).fit(model)"
        ),
        "no number of nodes beside devices that are computed": (
            "import lightning as L\nL.Trainer(devices=n).fit(model)"
        ),
        "one node of two for Lightning, on each way": (
            "import lightning as L\nif a:\n    t = L.Trainer(devices=1)\nelse:\n"
            "    t = L.Trainer(devices=1, num_nodes=1)\nt.fit(model)"
        ),
        "one node of Fabric": (
            "from lightning.fabric import Fabric\nFabric(devices=[0, 1, 2, 3]).launch()"
        ),
    },
    "empty": {
        "a library, not a program": (
            "import logging\nlog = logging.getLogger()\nclass Trainer:\n    pass\n"
        ),
        "nothing": "'''A program.'''\n",
        "a main that nothing calls, behind what sets it up": (
            "import torch\ntorch.set_num_threads(4)\ndef main():\n    loss.backward()\n"
        ),
        "a test of its name that never holds": GROUP
        + "def main():\n    pass\nif __name__ == 'main':\n    main()",
    },
    "first-gpu": {
        "the first GPU by default": GROUP + "model.cuda()",
        "a model on no GPU of its own": GROUP + "DDP(model.to('cuda'), device_ids=None)",
    },
    "fixed-gpu": {
        "GPU 0 beside Accelerate": "import accelerate\naccelerate.Accelerator()\nx.to('cuda:0')\n",
        "the first GPU by its name": GROUP
        + "device = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "the first GPU in device_ids": GROUP + "DDP(model, device_ids=[0])",
    },
    "global-rank": {
        "the rank out of a copy of the environment": GROUP
        + "env = dict(os.environ)\nrank = int(env['RANK'])\n"
        + "torch.accelerator.set_device_index(rank)\n",
        "the rank as the number of a device": GROUP
        + "rank = dist.get_rank()\nmodel.to(torch.device('cuda', rank))\n",
        "the rank as FSDP's device": GROUP + "FSDP(net, device_id=dist.get_rank())\n",
        "the rank of all nodes as a GPU, in a group of DeepSpeed": (
            "import deepspeed, torch.distributed as dist\ndeepspeed.init_distributed()\n"
            "rank = dist.get_rank()\ndevice = rank\nx.to(device)\n"
        ),
        "the rank of all nodes in a device's name": GROUP
        + "rank = dist.get_rank()\nmodel.to(f'cuda:{rank}')",
        "the rank of all nodes in device_ids": SETUP + "DDP(model, device_ids=[dist.get_rank()])",
    },
    "idle-gpus": {
        "a leftover of a laptop": "from accelerate import Accelerator\nAccelerator(cpu=True)",
    },
    "local-rank": {
        "a local rank that DeepSpeed's program takes for its rank": (
            "import deepspeed\ndeepspeed.init_distributed()\nparser.add_argument('--local_rank')\n"
            "rank = args.local_rank\n"
        ),
        "--local_rank from torch.distributed.launch": (
            GROUP
            + "parser.add_argument('--local_rank', type=int)\ntorch.cuda.set_device(a.local_rank)"
        ),
        "--local_rank that is none by default": (
            GROUP.replace("dist.init", "if a.local_rank is not None:\n    dist.init")
            + "parser.add_argument('--local_rank', default=None, type=int)\n"
        ),
    },
    "no-process-group": {
        "a loop of its own for a module of Lightning": (
            "import torch, lightning\nclass Net(lightning.LightningModule):\n    pass\n"
            "loss.backward()\n"
        ),
        "a group that a constant switches off": (
            "import torch\non = False\nclass Trainer:\n"
            "    def __init__(self):\n        self.many = on\n"
            "    def fit(self):\n        if self.many:\n"
            "            torch.distributed.init_process_group('nccl')\n"
            "        loss.backward()\nTrainer().fit()\n"
        ),
        "DataParallel that is not known to be chosen": (
            "import torch\nif len(ids) > 1:\n    net = torch.nn.DataParallel(net)\n"
            "loss.backward()\n"
        ),
        "no group": "import torch\nloss.backward()",
        "MPI that is tried": (
            "import torch\ntry:\n    from mpi4py import MPI\nexcept ImportError:\n    MPI = None\n"
            "loss.backward()"
        ),
        "Fabric that is never launched": (
            "from lightning.fabric import Fabric\nf = Fabric(devices=4, num_nodes=2)\n"
            "model = f.setup(model)\nloss.backward()"
        ),
        "FSDP without a group": (
            "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
            "model = FSDP(model)\nloss.backward()"
        ),
        "jax": "import jax\nstep = jax.grad(loss)",
    },
    "no-such-gpu": {
        "a GPU that no node has": (
            "import torch, accelerate\naccelerate.Accelerator()\nx.to('cuda:8')"
        ),
    },
    "other-launcher": {
        "ranks of MPI for the group": "import os, torch.distributed as dist\n"
        "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\nos.environ['RANK'] = str(comm.rank)\n"
        "os.environ['WORLD_SIZE'] = str(comm.size)\ndist.init_process_group('gloo')\n",
        "Horovod": "import torch, horovod.torch as hvd\nhvd.init()\nloss.backward()",
        "Horovod beside DataParallel": (
            "import torch, horovod.torch as hvd\nhvd.init()\nmodel = torch.nn.DataParallel(net)"
        ),
        "MPI": "from mpi4py import MPI\nrank = MPI.COMM_WORLD.Get_rank()\n",
        "the rank of MPI for torch": (
            "from mpi4py import MPI\nimport torch.distributed as dist\ncomm = MPI.COMM_WORLD\n"
            "rank, size = comm.Get_rank(), comm.Get_size()\n"
            "dist.init_process_group('gloo', rank=rank, world_size=size)\n"
        ),
    },
    "own-launcher": {
        "jobs of its own": SETUP + "import submitit\nsubmitit.AutoExecutor('x').submit(main)",
        "srun in a subprocess": SETUP
        + "import subprocess\nsubprocess.run('srun -n 8 python x.py', shell=True)",
        "a command with a name": (
            "import subprocess\nfrom torch import distributed\ndistributed.init_process_group()\n"
            "words = ['accelerate', 'launch']\nsubprocess.run(words + ['work.py'])"
        ),
    },
    "own-processes": {
        "Ignite's for each GPU of a node": "import ignite.distributed as idist\n"
        "with idist.Parallel(backend='nccl', nproc_per_node=4) as joint:\n"
        "    joint.run(train)\n",
        "a process for each of a number in an option": (
            SETUP + "import argparse\nfrom multiprocessing import Process\n"
            "p = argparse.ArgumentParser()\np.add_argument('--num_process', default=n())\n"
            "args = p.parse_args()\nif args.num_process > 1:\n    for rank in ranks:\n"
            "        Process(target=work, args=(rank,)).start()\n"
        ),
        "processes that are told their rank in settings": (
            SETUP + "from torch.multiprocessing import Process\n"
            "for rank in range(4):\n    Process(target=train, args=(cfg,)).start()\n"
        ),
        "a count of GPUs by another name": (
            "from torch.cuda import device_count\nfrom torch.multiprocessing import spawn\n"
            "copies = device_count()\nif copies > 1:\n    spawn(work, nprocs=copies)\n"
        ),
        "the launcher of DeepSpeed as a module": (
            "import deepspeed.launcher.runner\ndeepspeed.launcher.runner.main(['train.py'])\n"
        ),
        "spawn": (
            "import torch.multiprocessing as mp\ndef main():\n    mp.spawn(work, nprocs=4)\nmain()"
        ),
        "notebook_launcher": (
            "from accelerate import Accelerator, notebook_launcher\nnotebook_launcher(main)\n"
            "Accelerator()"
        ),
        "a counted number of processes": (
            SETUP + "import torch.multiprocessing as mp\n"
            "if torch.cuda.device_count() > 1:\n    mp.spawn(main)"
        ),
        "detectron2": "from detectron2.engine import launch\nlaunch(main, args.num_gpus)",
        "Ray": "import ray\nray.init()\nray.train.torch.TorchTrainer(f).fit()",
    },
    "own-rendezvous": {
        "the rank on the node, behind an option and a default": (
            "import os, torch.distributed as dist\nif args.gpu:\n"
            "    dist.init_process_group('gloo', rank=int(os.getenv('LOCAL_RANK', 0)))\n"
        ),
        "the number of processes of one node": SETUP.replace(
            "'nccl'", "'nccl', world_size=torch.cuda.device_count()"
        ),
        "another number of processes, written in": (
            "import torch.distributed as dist\ndist.init_process_group('gloo', world_size=2)\n"
        ),
        "a port of its own": SETUP + "os.environ['MASTER_PORT'] = str(29500)",
        "the rank on the node as the rank of all": (
            "import os, torch.distributed as dist\nrank = int(os.environ['LOCAL_RANK'])\n"
            "torch.cuda.set_device(rank)\n"
            "dist.init_process_group('nccl', rank=rank, world_size=int(os.environ['WORLD_SIZE']))"
        ),
        "a folder of each node": GROUP.replace("'nccl'", "'nccl', init_method='file:///tmp/meet'")
        + OWN_GPU,
        "a rendezvous where there are several processes": (
            SETUP + "def meet():\n    os.environ['MASTER_ADDR'] = 'localhost'\n"
            "if world_size > 1:\n    meet()\n"
        ),
        "a port at random": SETUP + "os.environ['MASTER_PORT'] = str(random.randint(20000, 30000))",
        "this machine as the place where two nodes meet": (
            "import torch, torch.distributed as dist, os\n"
            + OWN_GPU
            + "dist.init_process_group('nccl', init_method='tcp://localhost:1', rank=rank)"
        ),
        "this machine as a text with a port in it": (
            "import torch, torch.distributed as dist, os\n"
            + OWN_GPU
            + "dist.init_process_group('nccl', init_method=f'tcp://localhost:{port}', rank=rank)"
        ),
    },
    "same-data": {
        "the rank on a node, by its place": SETUP
        + "DistributedSampler(data, dist.get_world_size(), int(os.environ['LOCAL_RANK']))\n"
        + "sampler.set_epoch(0)\n",
        "the rank on a node, by its name": SETUP
        + "def load(local_rank):\n    return DistributedSampler(data, rank=local_rank)\n"
        + "load(own())\nsampler.set_epoch(0)\n",
        "a sampler within a node": SETUP
        + "s = DistributedSampler(d, rank=int(os.environ['LOCAL_RANK']))\ns.set_epoch(1)",
        "a sampler for one process": SETUP
        + "s = DistributedSampler(d, num_replicas=1, rank=0)\ns.set_epoch(1)",
        "a sampler that no loader is given": (
            SETUP + "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            "s = torch.utils.data.DistributedSampler(data)\n"
            "loader = DataLoader(data, 8, shuffle=True)\nDDP(model)"
        ),
        "data that nothing divides": (
            SETUP + "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            "loader = DataLoader(data, 8, shuffle=True)\nDDP(model)"
        ),
        "data that a comment alone would divide": (
            SETUP + "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            "from torch.utils.data import DataLoader  # and no DistributedSampler\n"
            "loader = DataLoader(data, 8, shuffle=False)\nDDP(model)"
        ),
    },
    "some-ranks": {
        "a distributed checkpoint of rank 0": (
            SETUP
            + "import torch.distributed.checkpoint as dcp\nif rank == 0:\n    dcp.save(state)\n"
        ),
        "a collective in a function that only rank 0 calls": SETUP
        + EVALUATE
        + "if rank == 0 and step % 10 == 0:\n    evaluate()\n",
        "a collective where the others have left": SETUP
        + "def save():\n    if rank != 0:\n        return\n    dist.barrier()\nsave()\n",
        "a barrier of rank 0": SETUP + "if dist.get_rank() == 0:\n    print()\n    dist.barrier()",
    },
    "syntax": {
        "a fault of syntax": "if True\n    pass\n",
    },
    "visible-devices": {
        "two visible GPUs, with a blank between": GROUP
        + "os.environ['CUDA_VISIBLE_DEVICES'] = '0, 1'\n"
        + OWN_GPU,
    },
    "idle-gpus devices": {
        "Lightning on CPUs": "import lightning as L\nL.Trainer(accelerator='cpu').fit(model)",
    },
    "no-process-group data-parallel": {
        "DataParallel for the GPUs that are counted": (
            "import torch\nids = range(torch.cuda.device_count())\n"
            "if len(ids) > 1:\n    net = torch.nn.DataParallel(net)\nloss.backward()\n"
        ),
        "DataParallel": (
            "import torch\nfrom torch import nn\nnn.DataParallel(model)\nloss.backward()"
        ),
    },
    "own-rendezvous own-rendezvous": {
        "a world of one": (
            "import os, torch\nfrom torch.distributed import init_process_group\n"
            + OWN_GPU
            + "init_process_group('nccl', rank=0, world_size=1)"
        ),
    },
    "": {
        "a file that a function nobody calls writes": SETUP
        + "def save(x):\n    torch.save(x, 'x.pt')\ndef end():\n    save(1)\n",
        "imports alone": "import train_impl\n",
        "a test of its name that holds for others, too": (
            "import os, torch\nimport torch.distributed as dist\ndef main():\n"
            "    dist.init_process_group('nccl')\n    "
            + OWN_GPU
            + "if __name__ in ('__main__', 'builtins'):\n    main()\n"
        ),
    },
}


@pytest.mark.parametrize(
    ("expected", "name"), [(said, name) for said, programs in WRONG.items() for name in programs]
)
def test_what_a_launcher_cannot_mean_is_found(expected: str, name: str) -> None:
    assert rules(look(WRONG[expected][name])) == expected.split()


IDLE = EIGHT._replace(processes=1, world_size=2, gpus=4)
RANK = f"{GROUP}rank = int(os.environ['RANK'])\nlocal = rank"
LOCAL = "torch.cuda.set_device(local)\n"


HOROVOD = "import horovod.torch as hvd\nhvd.init()\nloss.backward()"


@pytest.mark.parametrize(
    ("program", "size", "expected"),
    [
        (SETUP + DDP, IDLE, ["idle-gpus"]),
        (SETUP + DDP, IDLE._replace(gpus=1), []),
        (SETUP + "parts = [x.to(f'cuda:{i}') for i in range(4)]\n" + DDP, IDLE, []),
        (SETUP + "for i, x in parts:\n    x.to(f'cuda:{i}')\n" + DDP, IDLE, []),
        (SETUP, EIGHT._replace(gpus=0), ["no-gpu"]),
        (EITHER + DDP, EIGHT._replace(gpus=0), []),
        (EITHER + DDP, EIGHT, ["first-gpu"]),
        (HOROVOD, EIGHT._replace(agents=False), []),  # it has a world of its own then
        (f"{RANK} % torch.cuda.device_count()\n{LOCAL}", EIGHT._replace(gpus=4), []),
        (f"{RANK} % 8\n{LOCAL}", EIGHT, []),  # 8 GPUs, and no rank is above 7
        ("import torch\nloss.cuda().backward()", ONE, []),
    ],
)
def test_a_remark_is_for_jobs_of_a_size(program: str, size: JobSize, expected: list[str]) -> None:
    assert rules(look(program, size=size)) == expected


MESH = "from torch.distributed.device_mesh import init_device_mesh\n"
GROUPED = "    g = dist.new_group([0, 1])\n"
FOUR = EIGHT._replace(tasks=4)
COUNTED = {"mesh", "some-ranks", "untold-rank"}
STEPPED = ONE._replace(stepped="srun", gpus=1)


@pytest.mark.parametrize(
    ("program", "size", "expected"),
    [
        (MESH + "init_device_mesh('cuda', (2, 2))\n", EIGHT, ["mesh"]),
        (MESH + "init_device_mesh('cuda', (2, size))\n", EIGHT, []),
        (SETUP + "if dist.get_rank() < 4:\n" + GROUPED + DDP, EIGHT, ["some-ranks"]),
        (SETUP + "if local_rank != -1:\n" + GROUPED + DDP, EIGHT, []),
        (SETUP + DDP, STEPPED, ["untold-rank"]),
        (SETUP + "os.environ['SLURM_PROCID']\n" + DDP, STEPPED, []),
    ],
)
def test_counts_in_the_program_are_held_to_the_job(
    program: str, size: JobSize, expected: list[str]
) -> None:
    assert [one for one in rules(look(program, size=size)) if one in COUNTED] == expected


@pytest.mark.parametrize(
    ("given", "expected"), [("", ["nothing-loaded"]), (", ckpt_path='last'", [])]
)
def test_a_chain_of_lightning_is_given_its_checkpoint(given: str, expected: list[str]) -> None:
    program = f"import lightning as L\nt = L.Trainer()\nt.fit(model{given})\n"
    assert rules(look(program, size=ONE._replace(chained="on_walltime"))) == expected


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("", ["nothing-loaded"]),
        ("torch.load('data.pt')\n", ["nothing-loaded"]),
        ("net.load_state_dict(x)\n", []),
    ],
)
def test_a_state_that_nothing_loads_is_found(more: str, found: list[str]) -> None:
    program = f"import torch\n{more}loss.backward()\nif x:\n    torch.save(net.state_dict(), p)\n"
    assert rules(look(program, size=ONE._replace(chained="on_walltime"))) == found


CHAINED = ONE._replace(chained="on_walltime", goes_on=True, resubmits=True)
JOBS = {
    "SEVERAL": EIGHT,
    "ONE": ONE,
    "CHAINED": CHAINED,
    "FIXED": CHAINED._replace(arguments=("--resume", "runs/epoch_10.pt")),
    "CONFIGURED": GIVEN._replace(arguments=("--config", "ds.json")),
    "SWITCHED": FOUR._replace(arguments=("--lr", "1"), swept=(("--warm", "1"), ("--warm", "0"))),
    "RATE": ONE._replace(arguments=("--lr", "1", "--rate", "2")),
    "OFF": ONE._replace(off=("--warm",), arguments=()),
    "RESUBMITS": CHAINED._replace(resubmits=True),
    "LORA": GIVEN._replace(off=("--use_lora",)),
    "RAY": ONE._replace(ray=True, cpus=8),
    "CPUS": EIGHT._replace(cpus=32, arguments=()),
    "AGENTS": GIVEN._replace(asked="srun"),
    "ROLES": EIGHT._replace(roles="TEACHER|JUDGE", ports="8008"),
    "BATCH": GIVEN._replace(batch=True, asked="variables={'WORK': '$TMPDIR/work'}"),
    "ASKED": GIVEN._replace(asked="pbsdsh plan.can.own_path=True from_shell=('MY_API_KEY',)"),
}
MENDED = Path(__file__).with_name("mended.txt").read_text().split("\n\n")[1:]


@pytest.mark.parametrize("text", MENDED, ids=[text.partition("\n")[0] for text in MENDED])
def test_a_fault_is_told_until_it_is_mended(text: str) -> None:
    Path("ds.json").write_text(
        '{"train_batch_size": 9, "train_micro_batch_size_per_gpu": 4,'
        ' "gradient_accumulation_steps": 2}'
    )
    Path("accelerate.yaml").write_text("distributed_type: FSDP\n")
    head, _, program = text.partition("\n")
    said, _, job = head.removeprefix("# ").partition(" | ")
    program = f"{program}\n".replace("SETUP\n", SETUP).replace("DDP\n", DDP)
    faulty = re.sub("  #> .*", "", program)
    mended = re.sub(r"(?m)^( *).*  #> ", r"\1", program)
    for one, told in ((faulty, 1), (mended, 0)):
        own, *others = re.split(r"(?m)^#: (\w+)\n", one)  # what stands below it is another file
        beside = dict(zip(others[::2], others[1::2], strict=True))
        remarks = look(own, size=JOBS[job], **beside)
        assert [said in found.message for found in remarks].count(True) == told


RESUMES = (
    "import torch\nstate = torch.load('a.pt')\noptimizer.load_state_dict(state['optimizer'])\n"
)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import shutil\nfolder = run / 'checkpoints'\nshutil.rmtree(folder)\n", "removed"),
        ("import shutil\nshutil.rmtree('checkpoints.old')\n", ""),
        ("f = out / os.environ['SLURM_JOB_ID']\ntorch.save(x, f / 'a.pt')\n", "new-folder"),
        ("torch.save(x, f'{time.time()}/checkpoints.pt')\n", "new-folder"),
        ("for epoch in range(epochs):\n    save({'epoch': epoch})\n", "from-first-epoch"),
        ("for epoch in range(first, epochs):\n    save({'epoch': epoch})\n", ""),
    ],
)
def test_a_chain_loses_what_the_start_before_has_saved(program: str, expected: str) -> None:
    text = f"import os, time\n{RESUMES}{program}loss.backward()\nprint('checkpoints')\n"
    assert rules(look(text, size=CHAINED)) == [expected] * bool(expected)
    if "JOB_ID" in program:  # which a job keeps that is put back into the queue
        assert look(text, size=CHAINED._replace(resubmits=False)) == []


def test_fully_shard_makes_the_group_if_there_is_none() -> None:
    program = "from torch.distributed.fsdp import fully_shard\nfully_shard(net)\nloss.backward()\n"
    assert look(program, size=EIGHT._replace(gpus=4)) == []


def test_the_arguments_decide_what_is_reached() -> None:
    program = (
        "import argparse, torch\nfrom torch import distributed as dist\n"
        "p = argparse.ArgumentParser()\np.add_argument('--ddp', action='store_true')\n"
        "args = p.parse_args()\nif args.ddp:\n    dist.init_process_group('gloo')\n"
        "    torch.nn.parallel.DistributedDataParallel(net)\nloss.backward()\n"
    )
    alone = look(program, size=EIGHT._replace(arguments=()))
    assert rules(alone) == ["no-process-group"]
    assert look(program, size=EIGHT._replace(arguments=("--ddp",))) == []
    (unknown,) = look(program)
    assert unknown.level == "note"
    assert "args.ddp, which is not so by default" in unknown.message
    assert look(program.replace("action='store_true'", "default=1")) == []


def test_a_parser_of_another_module_takes_several_words() -> None:
    opts = "import argparse\nparser = argparse.ArgumentParser()\n"
    opts += "parser.add_argument('data')\nparser.add_argument('kind')\n"
    program = f"{SETUP}from opts import parser\nargs = parser.parse_args()\n"
    for words, said in ((("a", "b"), []), ((), ["unknown-argument"])):
        size = EIGHT._replace(arguments=words)
        assert rules(look(program, size=size, opts=opts)) == said


def test_words_that_a_file_has_are_not_missed() -> None:
    text = (
        "import argparse\np = argparse.ArgumentParser({})\np.add_argument('--lr', required=True)\n"
    )
    text += SETUP + "args = p.parse_args()\n"
    given = ONE._replace(arguments=("@a.txt",))
    assert look(text.format("fromfile_prefix_chars='@'"), size=given) == []
    assert set(rules(look(text.format(""), size=given))) == {"unknown-argument"}


def test_a_folder_of_a_library_s_name_is_not_taken_for_it() -> None:
    text = "import {}\nimport torch\nmake()\n"
    Path("tools").mkdir()
    for name, found in (("ray", []), ("mine", ["module-missing"])):
        Path(name).mkdir()
        Path(f"{name}/a.py").touch()
        Path("tools/train.py").write_text(text.format(name))
        assert rules(check_program("tools/train.py", ONE._replace(arguments=()))) == found


@pytest.mark.parametrize("mark", ["call_parse", "fire.Fire", "typer.run"])
def test_a_decorator_may_call_what_it_is_given(mark: str) -> None:
    text = f"import fire, typer\nfrom fastcore.script import call_parse\n@{mark}\n"
    assert look(f"{text}def main(lr=1.0):\n    pass\n", size=ONE) == []


def test_the_gpus_that_a_program_counts_are_the_node_s() -> None:
    text = "import torch\nn = torch.cuda.device_count()\nif n > 1:\n"
    (remark,) = look(f"{text}    torch.multiprocessing.spawn(work, nprocs=n)\n", size=GIVEN)
    assert remark.certain
    assert "launch: {mode: plain}" in remark.hint


def test_hydra_takes_no_options() -> None:
    program = "import hydra\n@hydra.main()\ndef main(cfg):\n    print(cfg)\nmain()\n"
    for word in ("optimizer.lr=2", "+optimizer.x=2", "--multirun"):
        found = look(program, size=ONE._replace(arguments=(word,)))
        assert not found, word
    (remark,) = look(program, size=ONE._replace(arguments=("--lr=2",)))
    assert (remark.rule, remark.hint) == ("unknown-argument", "write args: [lr=...]")


HIDDEN = (
    "import argparse, torch\nfrom ours import add_args\np = argparse.ArgumentParser()\n"
    "add_args(p)\np.add_argument('--use-ddp', {})\nargs, rest = p.parse_known_args()\n"
    "if args.use_ddp:\n    torch.distributed.init_process_group('nccl')\n"
)
OFF = HIDDEN.format("action='store_true'")
CARRIED = (
    "import argparse, torch, config\np = argparse.ArgumentParser()\n"
    "p.add_argument('--ddp', action='store_true')\nargs = p.parse_args()\n"
    "if args.ddp:\n    torch.distributed.init_process_group('nccl')\n"
    "class Run:\n    def __init__(self, made):\n        self.joins = made.ddp\n"
    "        if self.joins:\n            self.join()\n"
    "    def join(self):\n        torch.distributed.init_process_group('nccl')\n"
    "Run(config.Made(ddp=args.ddp))\n"
)
RUNNER = (
    "import argparse\nfrom mmengine.runner import Runner\np = argparse.ArgumentParser()\n"
    "p.add_argument('--launcher', default='none')\na = p.parse_args()\nRunner(a).train()\n"
)
RANKED = (
    "import argparse, torch\np = argparse.ArgumentParser()\n"
    "p.add_argument('--local_rank', type=int, default=-1)\np.add_argument('--lr')\n"
    "args = p.parse_args()\nif args.local_rank == -1:\n    n = torch.cuda.device_count()\nelse:\n"
    "    n = 1\n    torch.distributed.init_process_group('nccl')\n"
    "if n > 1:\n    net = torch.nn.DataParallel(net)\nloss.backward()\n"
)
CONFIGURED = (
    "import torch, yaml\ncfg = yaml.safe_load(open('conf.yaml'))\n"
    "if cfg['train']['distributed']:\n    torch.distributed.init_process_group('nccl')\n"
)


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        (OFF, "", "only where args.use_ddp, and the job does not ask for that"),
        (OFF, "--use-ddp", ""),
        (CARRIED, "", "only where args.ddp"),
        (HIDDEN.format("default=True, type=bool"), "", ""),
        (OFF.replace("if args", "args.use_ddp = 'RANK' in os.environ\nif args"), "", ""),
        (f"{OFF}else:\n    torch.distributed.init_process_group('gloo')\n", "", ""),
        (OFF.replace("args.use_ddp", "args.local_rank != -1"), "", ""),
        (RUNNER, "", "its Runner makes a process group only by --launcher"),
        (RUNNER, "--launcher=pytorch", ""),
        (CONFIGURED, "", ""),
        (CONFIGURED.replace("if cfg", "cfg['train']['distributed'] = True\nif cfg"), "", ""),
    ],
)
def test_a_switch_that_the_job_may_not_set_is_named(text: str, given: str, said: str) -> None:
    size = EIGHT._replace(arguments=("--lr=1", *given.split()))
    found = [one for one in look(text, size=size) if one.rule == "no-process-group"]
    assert [said in one.message for one in found] == [True] * bool(said)
    assert not any(one.certain for one in found)


def test_a_rank_that_no_option_tells_keeps_a_program_from_its_group() -> None:
    for arguments in (None, ("--lr=1",)):
        [remark] = look(RANKED, size=EIGHT._replace(arguments=arguments))
        assert "only where not args.local_rank == -1" in remark.message
        assert "LOCAL_RANK and WORLD_SIZE as variables" in remark.hint


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("from loguru import logger\nlogger.info('x')\n", [True]),
        ("from slowtorch import setup_all\nsetup_all()\n", [False]),
        ("from mmcv.parallel import constant_init, is_dist\nconstant_init(is_dist)\n", [True]),
        ("from tools.lost import Net\nNet()\n", [True, True]),
        ("from tools.lost import launch\nlaunch()\n", [False, True]),
        ("from pkg.net import Net\nNet()\n", [True]),
    ],
)
def test_what_a_library_is_named_for_tells_whether_it_may_make_the_group(
    text: str, certain: list[bool]
) -> None:
    start = f"import torch\n{text}loss.backward()\n"
    found = look(start, tools__data="", src__pkg__net="class Net: ...")
    assert [one.certain for one in found if one.rule in ("no-process-group", "module-missing")] == (
        certain
    )


def test_a_probability_distribution_makes_no_group() -> None:
    program = "import torch\nnoise.init_distribution('normal')\nloss.backward()\n"
    assert rules(look(program)) == ["no-process-group"]


def test_what_stands_behind_the_end_of_the_program_is_not_reached() -> None:
    text = SETUP + "print(1)\n{}\ntorch.cuda.set_device(0)\n"
    for end in ("quit()", "sys.exit(1)", "raise SystemExit"):
        assert look(text.format(end)) == []
    assert rules(look(text.format("sys.exit"))) == ["fixed-gpu"]


def test_a_parser_that_a_function_makes_is_read() -> None:
    program = (
        "import argparse, other\ndef build():\n    p = argparse.ArgumentParser()\n"
        f"    p.add_argument('--seed')\n    return p\na = build().parse_args()\n{SETUP}"
    )
    size = ONE._replace(arguments=("--lr=1",))
    (remark,) = look(program, size=size)
    assert remark.hint == "it knows --seed"
    assert look(program.replace("build().", "other.build()."), size=size) == []


def test_a_function_that_makes_a_group_for_some_options_is_asked_for_them() -> None:
    program = (
        "import argparse, utils\np = argparse.ArgumentParser()\n"
        "p.add_argument('--ddp', action='store_true')\nargs = p.parse_args()\n"
        "utils.init_distributed(args)\nloss.backward()\n"
    )
    join = "def init_distributed(args):\n    if args.ddp:\n        torch.distributed.{}()\n"
    utils = f"import torch\n{join.format('init_process_group')}"
    (remark,) = look(program, size=EIGHT._replace(arguments=()), utils=utils)
    assert "only where args.ddp, and the job does not ask for that" in remark.message
    asked = look(program, size=EIGHT._replace(arguments=("--ddp",)), utils=utils)
    assert rules(asked) == ["not-wrapped"]


def test_modules_of_the_project_are_read_too() -> None:
    setup = "import torch.distributed as dist\ndef start():\n    dist.init_process_group()\n"
    text = "from tools.setup import start\nstart()\nprint('LOCAL_RANK')"
    assert look(text, tools__setup=setup) == []


def test_a_module_of_the_project_that_is_not_there_is_named() -> None:
    text = "import torch\nfrom tools.data import load\n" + SETUP
    (remark,) = look(text, tools__setup="")
    assert str(remark).startswith(f"{os.getcwd()}/train.py:2: warning: the module tools.data")
    guarded = text.replace("from", "try:\n    from").replace(
        "load\n", "load\nexcept Exception: 0\n"
    )
    assert look(guarded) == []


def test_what_a_newer_python_may_read_is_no_certain_fault() -> None:
    newer = sys.version_info >= (3, 12)
    (remark,) = look("print(f'{}')\n", size=ONE)
    assert remark.certain == newer
    for text in ("print(f'{}')\n", "def first[T](names: list[T]) -> T: 0\n"):
        found = look("import torch, other\nloss.backward()\n", size=ONE, other=text)
        assert rules(found) == ["syntax"] * (newer and "[T]" not in text), text


@pytest.mark.parametrize(
    ("text", "large", "expected"),
    [
        ("import other", "import other", ["no-process-group"]),  # which is read by then
        ("", "import other", []),
        ("import other\ngetattr(other, 'init_' + x)()", "", []),
        ("import other\neval(x)()", "", []),
    ],
)
def test_what_is_not_read_or_not_named_may_make_the_group(
    text: str, large: str, expected: list[str]
) -> None:
    others = {
        "other": f"{GROUP[:-1].replace('dist.init', 'def init_dist(): dist.init')}\n",
        "large": f"{large}\n" + "#" * MOST_TEXT * bool(large),
    }
    if "eval" in text:
        others["other"] = others["other"].replace("init_dist", "run")
    program = f"import torch\n{text}\nimport large\nloss.backward()\n"
    assert rules(look(program, **others)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf, slowtf\nslowtf.read()\nadam.minimize(loss)\n",
        "import keras, official\nofficial.train_all().fit(x)\n",
        "from chainer import training\ntraining.Trainer(updater).run()\n",
    ],
)
def test_what_another_framework_trains_makes_no_group(text: str) -> None:
    (remark,) = look(text)
    assert (remark.rule, remark.certain) == ("no-process-group", True)
    assert "DistributedDataParallel" not in remark.hint


def test_a_class_that_is_not_taken_takes_no_other() -> None:
    kinds = "import torch\nclass Base:\n    def save(self):\n        torch.save(m, 'm.pt')\n"
    kinds += "class Run(Base): ...\nclass Walk(Base): ...\n"
    start = f"{SETUP}from kinds import Run\ndef make():\n    from kinds import Walk as M\n"
    start += "    from kinds import Run as M\n    return M()\n"
    assert look(start, kinds=kinds) == []
    assert rules(look(f"{start}make().save()\n", kinds=kinds)) == ["all-write"]


def test_a_library_that_is_not_known_makes_it_a_note() -> None:
    (remark,) = look("import torch, mytrainer\nloss.backward()")
    assert not remark.certain
    assert "unless mytrainer makes one" in remark.message
    (known,) = look("import torch, sconf\nloss.backward()")
    assert known.certain


def test_a_comment_silences_one_rule() -> None:
    text = GROUP + "torch.cuda.set_device(0)  # jobgen: ignore[fixed-gpu]"
    assert look(text) == []


def test_a_finding_says_where_what_and_what_to_write() -> None:
    (remark,) = look(GROUP + "torch.cuda.set_device(0)")
    assert str(remark) == (
        f"{os.getcwd()}/train.py:4: warning: GPU 0 is the same for every process of a node;"
        ' take the GPU from int(os.environ["LOCAL_RANK"]) [fixed-gpu]'
    )


def test_what_cannot_be_read_is_no_traceback() -> None:
    program = Path("train.py")
    program.write_bytes(b"\xff\xfe\x00")
    assert rules(check_program(str(program), EIGHT)) == ["syntax"]
    assert rules(check_program(".", EIGHT)) == ["not-a-program"]
    program.write_text("import torch  # no DistributedDataParallel\nloss.backward()\nprint 'x'\n")
    assert rules(check_program(str(program), EIGHT)) == ["syntax"]
    assert check_program("none.py", EIGHT) == []


PARSER = SETUP + "from argparse import ArgumentParser\np = ArgumentParser()\n{}\np.parse_args()"


@pytest.mark.parametrize(
    ("added", "option", "hint"),
    [
        ("p.add_argument('--lr')", "--lr", ""),
        ("p.add_argument('--lr', '--rate')", "--rate", ""),
        ("p.add_argument('--learning-rate')", "--learn", ""),
        (
            "p.add_argument('--amp', action=argparse.BooleanOptionalAction)",
            "--no-amp",
            "correct run.args, or what stands behind --; for tasks with a value each, write array:"
            " {values: {NAME: [...]}}",
        ),
        (
            "p.add_argument('--amp', action='store_true')",
            "--amp",
            "write amp: true in run.args to turn it on, or leave it out",
        ),
        ("p.add_argument('--' + name)", "--lr", ""),
        ("p.add_argument('--x'); p.parse_known_args()", "--lr", ""),
        ("from ours import ModelArgumentParser; p = ModelArgumentParser()", "--lr", ""),
        ("import deepspeed; p.add_argument('--x'); deepspeed.add_config_arguments(p)", "--lr", ""),
        ("p.add_argument('--learning_rate')", "--learning-rate", "write --learning_rate"),
        ("p.add_argument('--seed')", "--lr=1", "it knows --seed"),
        ("p.add_argument('n', nargs='?')", "--lr=1", "it knows none"),
        ("pass", "--lr", ""),
        (
            "p.add_argument('--lr'); p.add_argument('-d', required=1)",
            "--lr",
            "write args: [-d, ...]",
        ),
        ("if x: p.add_argument('--d', required=True)\np.add_argument('--lr')", "--lr", ""),
        (
            "p.add_argument('--lr', choices=['a', 'b'])",
            "--lr",
            "correct run.args, or what stands behind --",
        ),
        ("p.add_argument('--lr', choices=list(range(3)), type=int)", "--lr", ""),
        ("p.add_argument('--lr', action='store_true'); p.add_argument('n', type=int)", "--lr", ""),
        (
            "p.add_argument('--lr'); p.add_argument('data')",
            "--lr",
            "write args: [data, ...]",
        ),
        ("p.add_argument('--lr'); p.add_subparsers()", "--rate", ""),
        ("p.add_argument('--lr', nargs=argparse.REMAINDER)", "--rate", ""),
        (
            "p.add_argument('--n', type=int)",
            "--n=1e2",
            "correct run.args, or what stands behind --",
        ),
        (
            "p.add_argument('--lr')",
            "--local_rank=0",
            "leave it out; jobgen gives each process RANK, LOCAL_RANK and WORLD_SIZE",
        ),
    ],
)
def test_an_option_that_the_program_does_not_have(added: str, option: str, hint: str) -> None:
    size = ONE._replace(arguments=(option, "1"))
    found = look(PARSER.format(added), size=size)
    assert [(one.rule, one.hint) for one in found] == [("unknown-argument", hint)] * bool(hint)


def test_every_rule_is_explained() -> None:
    page = (ROOT / "docs/reference/programs.md").read_text()
    names = {name.partition(".")[0] for name in read_rules()}
    assert len(names) >= 20
    assert not [name for name in names if f"`{name}`" not in page]


def test_jobs_that_a_handler_submits_behind_a_test_are_not_those_of_every_process() -> None:
    submit = "import submitit\ndef main():\n    submitit.AutoExecutor(folder='x')\n"
    text = SETUP + "def again(number, frame):\n    {}from submit import main\n    {}main()\n{}"
    text += "import signal\nsignal.signal(signal.SIGTERM, again)\n"
    assert rules(look(text.format("", "", ""), submit=submit)) == ["own-launcher"]
    tested = text.format("if asked:\n        ", "    ", "")
    assert not look(tested, submit=submit)


def test_what_a_program_reads_without_hydra_is_not_held_to_hydra() -> None:
    text = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--config')\n"
    text += "def main(cfg=None):\n    p.parse_args()\n"
    text += "try:\n    import hydra\n    main = hydra.main(config_path='c')(main)\n"
    text += "except ImportError:\n    pass\nmain()\n"
    assert look(text, size=ONE._replace(arguments=("--config", "a"))) == []


def test_what_sacred_reads_is_read() -> None:
    text = "from sacred import Experiment\nex = Experiment()\nex.run_commandline()\n"
    assert look(text, size=ONE._replace(arguments=("train",))) == []


def test_what_another_module_assigns_to_an_option_counts() -> None:
    text = "import argparse, torch\nfrom group import join\np = argparse.ArgumentParser()\n"
    text += "p.add_argument('--rank', type=int, default=0)\nargs = p.parse_args()\njoin(args)\n"
    text += "if args.rank == 0:\n    torch.save(model, 'a.pt')\n"
    group = f"{SETUP}def join(args):\n    {{}}\n"
    for line, expected in (("args.rank = dist.get_rank()", []), ("pass", ["all-write"])):
        assert rules(look(text, group=group.format(line), size=GIVEN)) == expected


def test_what_the_launcher_sets_is_there() -> None:
    text = "import os, torch.distributed as dist\nif '{}' in os.environ:\n"
    text += "    os.environ['MASTER_PORT'] = '1'\n    dist.init_process_group('gloo')\n"
    for name, certain in (("RANK", True), ("OTHER", False)):
        remarks = look(text.format(name))
        assert [one.certain for one in remarks if one.rule == "own-rendezvous"] == [
            certain
        ] * certain
    text = "import os, torch\nif 'RANK' in os.environ:\n    rank = 1\nelse:\n    input()\n"
    assert rules(look(text, size=ONE)) == []


def test_what_a_dictionary_gives_is_open() -> None:
    text = "from pytorch_lightning import Trainer\na = {'gpus': 4}\nTrainer(**a)\n"
    assert look(text) == []


def test_what_only_starts_an_imported_module_is_not_blamed() -> None:
    Path("net.py").write_text(
        "import torch\nif __name__ == '__main__':\n    torch.nn.DataParallel(net)\n"
    )
    Path("train.py").write_text("import accelerate, net\naccelerate.Accelerator()\n")
    assert check_program("train.py", SEVERAL) == []


@pytest.mark.parametrize(("started", "expected"), [("", []), ("tools.alone()", ["own-rendezvous"])])
def test_a_function_that_the_program_does_not_name_is_not_blamed(
    started: str, expected: list[str]
) -> None:
    alone = "import os\ndef alone():\n    os.environ['MASTER_ADDR'] = 'localhost'\n"
    text = f"import tools\nfrom tools import alone\n{SETUP}{started}\n"
    assert rules(look(text, tools=alone)) == expected


def test_ray_train_is_started_once() -> None:
    text = "import ray\nfrom ray.train.torch import TorchTrainer\nray.init(address='auto')\n"
    assert rules(look(f"{text}TorchTrainer(work).fit()")) == ["own-processes"]


def test_a_local_rank_that_the_program_sets_itself() -> None:
    text = GROUP + "parser.add_argument('--local_rank')\ntorch.cuda.set_device(args.local_rank)\n"
    assert rules(look(f"{text}opt.local_rank = args.local_rank")) == ["local-rank"]
    assert look(f"{text}args.local_rank = rank") == []


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("rank = int(os.environ['LOCAL_RANK'])", ["untold-rank"]),
        ("if cfg.ddp:\n    rank = int(os.environ['LOCAL_RANK'])", []),
        ("rank = int(os.environ.get('LOCAL_RANK', 0))", []),
        ("rank = int(os.environ['RANK']) if 'RANK' in os.environ else 0", []),
        ("os.environ['RANK'] = '0'\nrank = os.environ['RANK']", []),
        ("import torch.distributed as d\nd.init_process_group('nccl')", ["untold-rank"]),
        ("import torch.distributed as d\nd.init_process_group('gloo', rank=0, store=s)", []),
    ],
)
def test_a_rank_that_one_plain_process_is_not_told_is_found(text: str, rules: list[str]) -> None:
    program = f"import os\nrank = 0\n{text}\nprint(rank)\n"
    alone = JobSize(nodes=1, processes=1, world_size=1, agents=False, plain=True, lone=True)
    assert [one.rule for one in look(program, size=alone)] == rules
    together = alone._replace(nodes=2, lone=False)
    assert "untold-rank" not in [one.rule for one in look(program, size=together)]


@pytest.mark.parametrize(
    ("scheduler", "rules"), [("slurm", []), ("pbs", ["foreign-variable"]), ("", [])]
)
def test_a_variable_of_another_scheduler_is_found(scheduler: str, rules: list[str]) -> None:
    size = JobSize(nodes=1, processes=1, world_size=1, scheduler=scheduler)
    program = "import os\nprint(int(os.environ.get('SLURM_ARRAY_TASK_ID', 0)))"
    assert [one.rule for one in look(program, size=size)] == rules
    read = "import os\nprint(os.environ['RANK'], os.environ['SLURM_{}'])"
    assert [one.rule for one in look(read.format("JOB_ID"), size=size)] == rules
    for name in ("LOCALID", "NTASKS"):  # which may be read where there is no RANK
        assert look(read.format(name), size=size) == []
        alone = read.format(name).replace("os.environ['RANK'], ", "")
        assert [one.rule for one in look(alone, size=size)] == rules


START = (
    "import torch.distributed as dist\ndef start():\n    dist.init_process_group('gloo')\n"
    "    dist.all_reduce(loss)\n"
)
TRAIN = "import torch\nloss.backward()\n"
HOOKED = "import lightning\nclass Net(lightning.LightningModule):\n    def training_step(self):\n{}"


@pytest.mark.parametrize(
    ("text", "tools", "expected"),
    [
        (f"{TRAIN}# tools.start()\n", START, ["no-process-group"]),
        (f"import tools\n{TRAIN}", START, ["no-process-group"]),
        (f"from tools import start\n{TRAIN}", START, ["no-process-group"]),
        (f"{TRAIN}{START}def again():\n    start()\n    again()\n", "", ["no-process-group"]),
        (f"import tools\n{TRAIN}model.start()\n", START, ["no-process-group"]),
        (f"import tools\n{TRAIN}tools.start()\n", START, []),
        (f"from tools import start as begin\n{TRAIN}begin()\n", START, []),
        (f"from tools import *\n{TRAIN}launch(start)\n", START, []),
        (f"import tools\n{TRAIN}getattr(tools, globals()['x'])()\n", START, []),
        (f"import tools\n{TRAIN}eval(args.start)()\n", START, []),
        (
            f"import tools\n{TRAIN}def eval(model, data): ...\neval(model, data)\n",
            START,
            ["no-process-group"],
        ),
        (f"{TRAIN}class A:\n    def __init__(self):\n        start()\n{START}A()\n", "", []),
        (f"{TRAIN}class A:\n    def run(self):\n        start()\n{START}A().run()\n", "", []),
        (f"from accelerate import Accelerator\n{TRAIN}", "", ["no-process-group"]),
        (
            f"{TRAIN}{START}class A:\n    start()\ndef f(a: A) -> A: ...\nf(1)\n",
            "",
            ["no-process-group"],
        ),
    ],
)
def test_a_function_that_nothing_calls_is_not_reached(
    text: str, tools: str, expected: list[str]
) -> None:
    assert rules(look(text, tools=tools)) == expected


@pytest.mark.parametrize(("used", "expected"), [("Net()", ["fixed-gpu"]), ("", [])])
def test_a_library_calls_the_methods_of_its_own_kinds(used: str, expected: list[str]) -> None:
    step = HOOKED.format("        torch.cuda.set_device(0)\n").replace("lightning", "nets")
    assert rules(look(f"{GROUP}{step}{used}\nos.environ['LOCAL_RANK']\n")) == expected


def test_a_name_that_is_assigned_from_itself_is_open() -> None:
    text = (
        "args = parse()\n"
        "args.distributed = args.world_size > 1 or (args.distributed and args.gpus > 1)\n"
        "if args.distributed:\n    dist.init_process_group('nccl')\n"
    )
    assert "no-process-group" not in {one.rule for one in look(SETUP + text)}


def test_a_module_that_does_not_parse_is_named_where_it_is_imported() -> None:
    broken = "def f(:\n    pass\n"
    said = look(f"{SETUP}import model\n", model=broken)
    assert [(one.rule, one.line) for one in said] == [("syntax", 5)]
    place = f"{os.getcwd()}/model.py:1:"
    assert said[0].message.startswith(
        f"it imports what Python 3.{sys.version_info[1]} cannot read: {place}"
    )
    tried = f"{SETUP}try:\n    import model\nexcept SyntaxError:\n    pass\n"
    assert look(tried, model=broken) == []


def test_an_import_that_nothing_uses_says_nothing_of_the_launcher() -> None:
    program = "import torch\nimport horovod.torch as hvd\nloss.backward()\n"
    assert rules(look(program)) == ["no-process-group"]
    assert rules(look(f"{program}hvd.init()\n")) == ["other-launcher"]


def test_a_fault_on_several_lines_is_said_at_once() -> None:
    rank, path = f"{GROUP}rank = dist.get_rank()\ntorch.cuda.set_device(rank)\n", f"{os.getcwd()}/"
    (remark,) = look(f"{rank}DDP(model, device_ids=[rank])\nmodel.cuda(rank)\n")
    assert remark.line == 5
    assert remark.message.endswith(f" (so in {path}train.py:6, {path}train.py:7)")
    (remark,) = look(rank + "model.cuda(rank)\n" * 9)
    assert remark.message.endswith(f"{path}train.py:9, 5 more)")


def test_a_function_of_another_module_of_its_name_is_not_called() -> None:
    submit = "import subprocess\ndef main():\n    subprocess.run(['torchrun', 't.py'])\n"
    work = f"{SETUP}def main(): ...\n"
    both = "import submit\nfrom work import main\n{}main()\n"
    assert look(both.format(""), submit=submit, work=work) == []
    assert rules(look(both.format("submit."), submit=submit, work=work)) == ["own-launcher"]
    handed = look(
        "from work import main\nmain()\n", work="from submit import main\n", submit=submit
    )
    assert rules(handed) == ["own-launcher"]


def test_a_library_that_only_the_other_branch_takes_makes_no_group() -> None:
    text = "import argparse, torch\nfrom accelerate import Accelerator\n"
    text += "def train():\n    loss.backward()\ndef share():\n    Accelerator().backward(loss)\n"
    text += "p = argparse.ArgumentParser()\np.add_argument('--gpus', type=int, default=1)\n"
    text += "args = p.parse_args()\nif args.gpus == 1:\n    train()\nelse:\n    share()\n"
    size = EIGHT._replace(arguments=())
    assert rules(look(text, size=size)) == ["no-process-group"]
    assert look(text, size=size._replace(arguments=("--gpus", "4"))) == []


def test_a_list_of_words_may_be_empty() -> None:
    for nargs, count in (("'*'", 0), ("'+'", 1)):
        text = PARSER.format(f"p.add_argument('opts', nargs={nargs})")
        assert len(look(text, size=ONE._replace(arguments=()))) == count


def test_an_early_end_by_a_switch_may_tell_processes_apart() -> None:
    body = "def save(self):\n        {}torch.save(self.state, 'a.pt')\n"
    program = SETUP + DDP + "class Keeper:\n    " + body + "Keeper().save()\n"
    for start, found in (
        ("", ["all-write"]),
        ("if not self.to_disk:\n            return\n        ", []),
    ):
        assert rules(look(program.format(start))) == found


def test_a_cluster_of_tensorflow_joins_its_processes() -> None:
    text = "import tensorflow as tf\nserver = tf.train.Server(cluster)\nmodel.fit(server)\n"
    assert not look(text)


def test_what_a_call_among_its_values_unpacks_is_not_its_own() -> None:
    text = "import lightning as L\nbacks = [Save(**given)]\nL.Trainer(callbacks=backs).fit(m)\n"
    assert rules(look(text)) == ["devices"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DistributedSampler(data, num_replicas=dist.get_world_size(), rank=0)\n", ["same-data"]),
        ("DistributedSampler(data, num_replicas=dist.get_world_size(), rank=r)\n", []),
        ("if torch.cuda.is_available():\n    torch.cuda.set_device(0)\n", ["fixed-gpu"]),
        ("if not torch.cuda.is_available():\n    torch.cuda.set_device(0)\n", []),
        ("def f(conv_first, x):\n    conv_first(x)\ntorch.save(s, 'a.pt')\n", ["all-write"]),
        ("with process_first():\n    torch.save(s, 'a.pt')\n", []),
        ("def keep():\n    torch.save(s, 'a.pt')\nkeep()\n", ["all-write"]),
        ("@on_first\ndef keep():\n    torch.save(s, 'a.pt')\nkeep()\n", []),
        ("def leads():\n    return get_rank() == 0\nif leads():\n    torch.save(s, 'a.pt')\n", []),
        ("def asked():\n    return late\nif asked():\n    torch.save(s, 'a.pt')\n", ["all-write"]),
    ],
)
def test_what_ranks_share_is_found(text: str, expected: list[str]) -> None:
    start = "from torch.utils.data import DistributedSampler\n"
    end = "sampler.set_epoch(epoch)\n"
    assert rules(look(f"{start}{SETUP}{text}{DDP}{end}")) == expected


@pytest.mark.parametrize(
    "read",
    [
        "from detectron2.engine import default_argument_parser\np = default_argument_parser()\n"
        "p.add_argument('--seed')\na = p.parse_args()\n",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\n"
        "a = p.parse_args('x --seed 1'.split())\n",
    ],
)
def test_words_that_another_reads_are_no_fault(read: str) -> None:
    assert not look(read, size=ONE._replace(arguments=("--config-file", "a.yaml")))


def test_gpus_are_shown_before_another_file_takes_one() -> None:
    text = f"import os\n{ONLY_ONE}from setup import join\njoin()\nimport later\n{DDP}"
    body = "".join(f"    {line}\n" for line in SETUP.splitlines()[1:])
    found = look(
        text, setup=f"import os, torch\ndef join():\n    import torch\n{body}", later="import os\n"
    )
    assert rules(found) == ["visible-devices"]


def test_jax_that_an_option_joins_is_told_of_the_option_alone() -> None:
    program = (
        "import jax\nimport argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--many', type=int)\na = p.parse_args()\nif a.many:\n"
        "    jax.distributed.initialize()\njax.grad(loss)\n"
    )
    (remark,) = look(program, size=EIGHT._replace(arguments=("--many=0",)))
    assert "only where a.many" in remark.message
    (remark,) = look("import jax\njax.grad(loss)\n")
    assert "8 trains alone, on all GPUs" in remark.message


def test_a_torch_program_that_loads_its_data_by_jax_is_told_of_torch() -> None:
    [remark] = look("import jax, torch\nloss.backward()\n")
    assert "torch.distributed" in remark.hint


WHOLE = ("line", "with", "without", "settings")  # what is searched in whole texts


def test_no_rule_takes_long_to_search_what_it_does_not_match() -> None:
    """One that begins with (?=.*) and no \\A begins anew at each letter."""
    text = "".join(map(Path.read_text, sorted((ROOT / "jobgen/trainer").glob("*.py"))))
    forms = {line.partition(" ")[0] for line in read_lines("forms.txt", room="programs")}
    words = ("hydra:job", "model:lr", "optimizer:size")
    settings = "".join(f"conf/a.yaml:{word}_{i} {i}\n" for word in words for i in range(200))

    def fill(word: re.Match[str]) -> str:
        return spell_form(word[1]) if word[1] in forms else "in_no_program"

    for name, rule in read_rules().items():
        for key in rule.keys() & {*WHOLE}:
            form = re.compile(re.sub("<<(.+?)>>", fill, rule[key]))
            start = time.process_time()
            form.search(settings if key == "settings" else text)
            assert time.process_time() - start < 0.5, (name, key)
