"""Ordinary bash of job scripts, in pieces: what stands before a launch, and ways to launch."""

#: pieces of bash, and words of the program that use what they set
PIECES = {
    "nothing": ("", "--lr 1e-3"),
    "literals": ("LR=3e-4\nNAME=run_$LR", "--lr $LR --name ${NAME}"),
    "quotes": ("T='two words'\nD=\"a $T\"", '--text "$T" --more "$D" --split $T'),
    "array": ('ARGS=(--a "two words" --b)\nARGS+=(3)', '"${ARGS[@]}" --n ${#ARGS[@]}'),
    "array of a command": ("N=($(scontrol show hostnames x))", '--n ${#N[@]} --all "${N[@]}"'),
    "array of a variable": ("P=$(cat my*)\nA=(1 $P 2)", '--first ${A[0]} --rest "${A[@]}"'),
    "array of a glob": ("F=(*.npy)", '--n ${#F[@]} "${F[@]}"'),
    "quoted glob": ("D=$SCRATCH/x", '--train "$D/{00..03}.tar" --val "$D/v*.npy"'),
    "glob": ("", "--files *.npy --one {a,b}.npy"),
    "assigned PATH": ("PATH=$HOME/bin:$PATH\nLD_LIBRARY_PATH=/opt/lib", ""),
    "assigned visible": ("CUDA_VISIBLE_DEVICES=0\nTMPDIR=/tmp", ""),
    "exports": ('export A=1 B="two words"\nexport C=$A/x\nexport D', "--c $C"),
    "exports twice": ("export P=/a:$P A=1\nexport P=/b:$P\nexport A=$A/2 P=/c:$P", "--p $P"),
    "lower case": ("export data_dir=$HOME/d\nexport Mixed=1", "--data $data_dir"),
    "value of a command": ("export TAG=$(basename /a/b)", "--tag $TAG"),
    "date": ("STAMP=$(date +%Y)", "--stamp $STAMP"),
    "default": ("SEED=${SEED:-7}\nexport DBG=${DBG:-x}", "--seed $SEED"),
    "arithmetic": ("N=4\nM=$((N * 2 + 1))", "--m $M"),
    "case": ('case "$USER" in python) X=a;; me|you) X=b;; esac', "--x $X"),
    "condition": ("if [ -d $HOME ]; then mkdir -p out; X=1; fi", "--x 1"),
    "appended": ('OPTS="--a 1"\nOPTS+=" --b 2"\nOPTS="$OPTS --c"', "$OPTS"),
    "lists": ("mkdir -p out && cd out; X=1; ls && ls x || X=2", "--x $X"),
    "folder": ("mkdir -p out\ncd out", "--here"),
    "group": ("{\ndate\n} > log.txt", ""),
    "modules": ("module purge\nmodule load a/1 b\nmodule load c", ""),
    "late module": ("export PATH=/x:$PATH\nmodule load a", ""),
    "conda": ('eval "$(conda shell.bash hook)"\nconda activate env', ""),
    "sourced": ("echo 'export FROM=file' > f.sh\nsource ./f.sh", ""),
    "read": ("IFS=, read -r X Y <<< 'a,b'", "--x $X --y $Y"),
    "substituted": ("", "--file <(cat my*) --n"),
    "here-document": ("cat > cfg <<EOF\na $USER\nEOF", "--cfg cfg"),
    "dollar": ("", "--price 'cost $5' \"\\$HOME\""),
    "tilde": ("D=~/x", "--d $D --e ~/y --f '~'"),
    "empty": ("E=", '--e "$E" $E --z'),
    "function": ("f() { echo $1; }\nX=$(f a)", "--x $X"),
    "eval": ("CMD='--y 1'\neval X=2", "--x $X $CMD"),
    "job": ("", "--out runs/$SLURM_JOB_ID --env $HOME"),
    "unset": ("export A=1\nunset A\nexport B=2", ""),
    "failed": ("rm missing\nls missing", ""),
    "strict later": ("ls missing\nset -e\nmkdir -p out", "--x"),
    "strict": ("set -euo pipefail\nX=1", "--x $X"),
    "earlier program": ("X=5\npython prep.py --x $X", "--y 1"),
    "readied": ("if [ -d $HOME ]; then\n  python prep.py --x 1\n  date > p\nfi", "--y 1"),
    "chosen": ("F=\nif [ -d $HOME ]; then F='--a 1 --b'; fi", "$F --in ${DATA_IN:-none}"),
    "of a file": ("echo 'FROM=file' > f.sh\nset -a\nsource ./f.sh\nset +a", "--from $FROM"),
    "both outputs": ("date >& when.txt", "--when when.txt"),
    "set": ('LINE="a b c"\nset -- $LINE', '--first "$1" --all "$@"'),
    "shift": ("set -- a b c\nshift", "$1 $#"),
    "argument": ("SEED=${1:-7}\nNAME=${2-none}", "--seed $SEED --name $NAME"),
    "argument before": ('D="out/${1:-a}/$2"\nmkdir -p $D', "--out $D --n $#"),
    "all arguments": ("", '--x 1 "$@"'),
    "unset before": ("unset PYTHONPATH\nexport PYTHONPATH=src", ""),
    "mapfile": ("mapfile -t L < <(printf 'a b\\nc\\n')", '--n ${#L[@]} "${L[@]}"'),
    "read array": ("IFS=, read -ra L <<< 'a,b c'", '--n ${#L[@]} --last "${L[1]}"'),
    "escapes": ("T=$'a\\tb'", "--text \"$T\" --json '{\"k\": 1}' --more $'c\\'d'"),
    "substring": ("V=abcdef", "--a ${V:1:2} --b ${V%ef} --c ${V/c/X} --n ${#V}"),
    "indirect": ("A=b\nb=7", "--x ${!A}"),
    "index": ("export SLURM_ARRAY_TASK_ID=1\nL=(a b c)", "--x ${L[$SLURM_ARRAY_TASK_ID]}"),
    "nested quotes": ('M="it\'s"', '--text "$M \'a\' \\"b\\""'),
    "command words": ("RUN='--x 1 --y'", "$RUN 2 $(echo --z 3) `echo --w`"),
    "subshell": ("(cd / && X=1 && export Y=2)", "--here"),
    "loop before": ("for d in a b; do mkdir -p out/$d; done", "--out out/a"),
    "until": ("N=0\nuntil [ $N -ge 2 ]; do N=$((N + 1)); done", "--n $N"),
    "guard": ('test -d "$HOME" || { echo missing; exit 1; }', "--home"),
    "pushd": ("mkdir -p out\npushd out > /dev/null", "--here"),
    "hook": ('eval "$(echo export HOOKED=1)"', ""),
    "function with all": ('f() { echo "$@"; }\nX=$(f a b)', '--x "$X"'),
    "local": ("f() { local x=1; Y=$x; }\nf", "--y $Y"),
    "default to export": (": ${DATA:=d}\nexport DATA", "--data $DATA"),
    "printf": ("printf -v N %03d 7", "--n $N"),
    "let": ("let N=2+3\n((N++))", "--n $N"),
    "colons": ("export LD_LIBRARY_PATH=/a:${LD_LIBRARY_PATH:-}", ""),
    "prefixed export": ("export A='1 2' B", "--a $A"),
    "allexport": ("set -a\nZ=1\nset +a", ""),
    "background": ("sleep 0 &\nwait", "--x"),
    "brace output": ("{ echo a; echo b; } > two.txt", "--file two.txt"),
    "case of words": ("case x in python) X=a;; x) X=c;; esac", "--x $X"),
    "after": ("X=1", "--x $X; end=$(date); echo $end"),
}
#: launches with nodes, tasks and GPUs of each: one of each kind
LAUNCHES = {
    "python": ("python train.py {}", 1, 1, 1),
    "srun on one node": ("srun -u python -u train.py {}", 1, 1, 2),
    "torchrun": ("torchrun --standalone --nproc_per_node=2 train.py {}", 1, 1, 2),
    "srun torchrun": (
        "H=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\nexport MASTER_ADDR=$H\n"
        "srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 2 --rdzv-backend c10d"
        " --rdzv-endpoint $H:29500 train.py {}",
        2,
        1,
        2,
    ),
    "srun python": ("srun python train.py {}", 2, 2, 2),
    "redirected": ("python train.py {} > log.txt 2>&1", 1, 1, 1),
    "accelerate": ("accelerate launch --num_processes 2 train.py {}", 1, 1, 2),
    "twice": ("srun python prep.py && srun python train.py {}", 1, 2, 2),
    "loop": ("for i in 1 2; do python train.py {} $i; done", 1, 1, 1),
    "env": ("A=prefixed env B=inner python train.py {}", 1, 1, 1),
    "mpirun": ("mpirun -np 2 python train.py {}", 1, 1, 2),
    "mpirun of nodes": ("mpirun -np $SLURM_NTASKS python train.py {}", 2, 2, 2),
    "mpirun of tasks": ("time mpirun -n 2 python train.py {} > log.txt", 1, 2, 2),
    "srun's options": ("srun --mpi=pmix -n 3 python train.py {}", 2, 2, 2),
    "srun after a copy": ("cp a.npy out; srun python train.py {}", 2, 2, 2),
    "agents": (
        "srun bash -c 'accelerate launch --num_machines 2 --machine_rank $SLURM_PROCID"
        " --num_processes 2 train.py' # {}",
        2,
        1,
        2,
    ),
    "shells": ("srun bash worker.sh {}", 2, 2, 2),
    "inner shell": (
        "export L='python train.py'\nsrun bash -c '$L --rank $SLURM_PROCID' # {}",
        2,
        2,
        2,
    ),
    "inner lines": (
        'D=a\nexport E=1\nsrun bash -c "\n export I=\\$E:$D\n python train.py --in $D\n" # {}',
        2,
        2,
        2,
    ),
    "inner agents": (
        "srun bash -c 'X=in torchrun --nnodes 2 --nproc_per_node 2 --node_rank $SLURM_NODEID"
        " --master_addr n1 --master_port 29500 train.py' # {}",
        2,
        1,
        2,
    ),
    "inner torchrun": (
        'D=a\nexport E=1\nsrun bash -c "\n export I=\\$E:$D\n J=2 torchrun --nnodes 2"'
        '" --nproc_per_node 2 --node_rank \\$SLURM_NODEID --master_addr n1 --master_port 29500"'
        '" train.py --in $D --e \\$E\n" # {}',
        2,
        1,
        2,
    ),
    "set before": ("A=prefixed B=$HOME/x srun python train.py {}", 2, 2, 2),
    "module": ("time python -m train {}", 1, 1, 1),
    "input": ("python train.py {} < 'my data.txt'", 1, 1, 1),
    "pipe": ("sort 'my data.txt' | python train.py {}", 1, 1, 1),
    "list": ("mkdir -p out && cd out && python ../train.py {}", 1, 1, 1),
    "mpirun torchrun": (
        "H=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        "mpirun -np 2 --map-by ppr:1:node torchrun --nnodes 2 --nproc-per-node 2"
        " --rdzv-backend c10d --rdzv-endpoint $H:29500 train.py {}",
        2,
        1,
        2,
    ),
    "evaluated": ("CMD='srun python train.py --own \"two words\"'\neval $CMD {}", 2, 2, 2),
}
HEAD = """\
#!/bin/bash
#SBATCH --nodes={} --ntasks-per-node={} --gpus-per-node={} --cpus-per-task=2 --time=10
"""


def build(piece: str, launch: str) -> str:
    before, words = PIECES[piece]
    line, *shape = LAUNCHES[launch]
    return f"{HEAD.format(*shape)}{before}\n{line.format(words)}\n"
