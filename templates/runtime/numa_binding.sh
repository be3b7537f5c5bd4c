# torchrun binds each process to the CPUs near its GPU. torch before 2.9 lacks the option, and with
# it no process starts unless numactl is installed.
find_binding() {    # find_binding MODE: sets binding
    local folder without="so the processes of $node share its CPUs"
    binding=()
    folder=$(python3 -c 'from importlib.util import find_spec as f; print(f("torch").origin[:-11])')
    if [[ ! -e $folder/numa/binding.py ]]; then
        say "torch is too old for --numa-binding, $without"
    elif ! command -v numactl >/dev/null; then
        say "there is no numactl for torchrun's --numa-binding, $without"
    else
        binding=(--numa-binding="$1")
    fi
}
