"""What others call the keys and fixed words of a spec, as data; `hints` makes sentences of it."""

# An example of the value of each key that a hint names.
EXAMPLES = {
    "nodes": "2",
    "gpus_per_node": "4",
    "cpus_per_node": "16",
    "cpus_per_gpu": "8",
    "memory_per_node": "180GB",
    "disk_per_node": "100GB",
    "walltime": "2h",
    "modules": "[cuda/12.3]",
    "variables": "{NAME: value}",
    "script": "train.py",
    "module": "package.train",
    "command": "[python, train.py]",
    "args": "{lr: 3e-4}",
    "processes_per_node": "4",
    "max_restarts": "1",
    "values": "{lr: [1e-3, 3e-4]}",
    "zip": "{lr: [1e-3, 3e-4], seed: [0, 1]}",
    "tasks": "10",
    "at_once": "4",
    "email": "me@example.org",
    "then": "resubmit",
    "notice": "5m",
    "at_most": "10",
    "exclusive": "true",
    "mode": "torchrun",
    "on": "[end, fail]",
    "usage": "true",
    "binds": "[/data]",
    "image": "image.sif",
    "runtime": "apptainer",
    "directives": "['#SBATCH --nice=100']",
}
# What a key counts, where others count otherwise.
REMARKS = {
    "resources.gpus_per_node": ", the number on each node",
    "resources.cpus_per_node": ", the number on each node",
    "resources.memory_per_node": ", that of each node",
}
# Each path of the spec, and what others call it: in lower case, with `_` for `-` and `.`.
OTHER_WORDS = """
name: display_name job_name jobname title run_name experiment experiment_name slurm_job_name
queue: resource_pool runs_on compute_target partition partitions queue_name queues
  slurm_partition pbs_queue q class
account: project project_id project_code project_name allocation group budget bank billing charge
  slurm_account charge_account group_list grant
qos: quality_of_service slurm_qos
site: cluster clusters cluster_name system machine hpc platform facility center centre site_name
scheduler: batch_system batch_scheduler executor resource_manager workload_manager wlm provider
  scheduler_type
reservation: reserve advance_reservation slurm_reservation
extends: base inherit inherits inherit_from include includes import imports parent parents template
  extend based_on from
after: depends_on dependency dependencies depends depend requires needs afterok afterany afternotok
  wait_for hold_jid slurm_dependency run_after
preflight: preflight_check preflight_checks health_check healthcheck sanity_check node_check
resources: resource requests request hardware compute
environment: environments software runtime_env
run: entry training trainer
filesystems: filesystem file_systems fs
resources.nodes: min_replicas max_replicas num_replicas instance_count num_instances num_nodes
  nnodes node node_count nodes_count n_nodes number_of_nodes numnodes
  nnode nb_nodes select chunks num_machines machines replicas num_hosts hosts min_nodes max_nodes
  slurm_nodes num_workers_nodes nodect
resources.gpus_per_node: use_gpu gpus_per_instance gpus gpu ngpus ngpus_per_node num_gpus n_gpus
  num_gpus_per_node gpu_count
  gpus_per_host gpus_per_machine gpus_per_worker gres accelerators accelerator devices device_count
  gpu_per_node gpus_per_nodes n_gpus_per_node num_gpu nvidia_com_gpu slurm_gpus_per_node tpus gcds
  gpus_per_task slurm_gres nb_gpus gpus_node
resources.gpu_type: gpu_model gpu_name gpu_kind gputype accelerator_type gpu_types gpu_arch
resources.cpus_per_node: cpus cpu ncpus num_cpus n_cpus cpu_count cores core ncores num_cores
  n_cores cores_per_node cpu_per_node cpus_per_host cpu_cores cores_per_host ncpus_per_node vcpus
resources.cpus_per_gpu: cores_per_gpu cpu_per_gpu ncpus_per_gpu slurm_cpus_per_gpu
resources.memory_per_node: mem memory ram mem_per_node memory_gb mem_gb memmb mem_mb memory_mb
  ram_per_node ram_gb host_memory slurm_mem memory_limit mem_limit real_memory
resources.disk_per_node: disk tmp tmp_size local_disk local_scratch ssd jobfs disk_space nvme
  tmp_disk local_ssd ephemeral_storage disk_size disk_gb node_local_storage
resources.constraint: constraints feature features node_features node_feature slurm_constraint
  node_selector nodeselector node_type
resources.exclusive: exclusive_nodes whole_node whole_nodes full_node full_nodes slurm_exclusive
  exclusive_node node_exclusive exclusive_access
resources.walltime: timeout_minutes max_run max_runtime_in_seconds time time_limit timelimit
  timeout timeout_min duration max_time wall_time
  wallclock wall_clock max_runtime runtime_limit hours minutes max_duration slurm_time max_walltime
  run_time runtime wall_clock_limit time_min max_run_time job_time wtime walltime_limit
  wall_clock_time timeout_hours max_hours activedeadlineseconds
environment.modules: module_load load_modules module_loads environment_modules env_modules lmod
  module_list modulefiles
environment.venv: virtualenv virtual_env venv_path virtual_environment python_venv virtualenv_path
  venv_dir python_env pyenv
environment.conda: conda_env conda_environment conda_path conda_env_name conda_name mamba
  micromamba anaconda miniconda conda_prefix conda_activate
environment.stage: conda_pack venv_pack packed_env env_archive archive tarball
environment.variables: env envs env_vars envvars env_var environ environment_variables vars
  variable export exports environment_vars envs_vars
environment.from_shell: envfrom env_from secrets secret from_env pass_env passenv env_passthrough
  forward_env inherit_env env_inherit secret_env secretkeyref env_file
environment.setup: pre prologue pre_run prerun before before_script before_run init init_script
  setup_commands setup_script slurm_setup prolog pre_commands prescript pre_script bash
  setup_cmds preamble bootstrap prepare shell_setup init_commands pre_launch
environment.container.image: image docker docker_image container_image singularity apptainer sif
  sif_file singularity_image apptainer_image oci_image enroot pyxis container_name uenv
environment.container.binds: mounts mount bind volumes volume bind_mounts bind_paths
  container_mounts binding volume_mounts volumemounts
environment.container.runtime: container_runtime container_engine engine container_type
environment.container.options: container_options container_args run_options exec_options
run.script: python_script py_script script_path script_file train_script training_script
  main_script program_file python_file python file entry_script source_file train
run.module: python_module py_module
run.command: cmd commands entrypoint entry_point exec executable program binary main app
  shell_command run_command job_command launch_command
run.args: arguments argv script_args program_args script_arguments hparams flags
  hyperparameters params parameters kwargs arg extra_args cli_args train_args overrides
launch.mode: torchrun distributed start_method use_torchrun launch_mode
  launch_type
launch.launcher: mpi use_srun use_mpi mpiexec mpirun srun
launch.rendezvous: rdzv rdzv_backend rdzv_conf rendezvous_backend init_method
launch.processes_per_node: process_count_per_instance slots_per_node tasks_per_node
  ntasks_per_node nproc_per_node procs_per_node ppn
  mpiprocs processes procs num_procs_per_node ranks_per_node workers_per_node nproc
  num_proc_per_node processes_per_host nprocs_per_node ranks process_per_node tasks_node
  num_workers npernode slurm_ntasks_per_node proc_per_node tasks_per_host
launch.max_restarts: max_failures max_failure_retries retry_policy retries max_retries
  num_retries backofflimit backoff_limit retry
  restart_policy max_restart elastic_restarts
launch.interface: ifname nic nics network_interface network net socket_ifname iface
  nccl_socket_ifname gloo_socket_ifname network_if
array.values: sweep sweeps grid matrix hyperparameter_sweep param_grid search_space grid_search
  searcher sweep_values product combinations parameter_sweep
array.tasks: completions num_tasks_array array_size array_tasks njobs num_jobs n_jobs job_array
  slurm_array indices repeat
array.at_once: max_parallel throttle array_parallelism slurm_array_parallelism concurrency
  parallelism max_concurrent max_in_flight max_jobs concurrent parallel simultaneous
  max_running max_simultaneous array_limit
array.zip: zipped paired together
array.list: configs runs experiments cases
notify.email: mail mail_user mail_to email_address e_mail emails notification notifications
  mailto user_email slurm_mail_user notification_email
notify.on: mail_type mail_on email_on mail_events events mail_options notify_on email_type
  slurm_mail_type when
on_walltime: on_timeout before_timeout before_walltime at_walltime on_time_limit preemption
  on_preemption
on_walltime.then: requeue resume restart restarts resubmit chain auto_resubmit auto_requeue
  autorequeue preemptible chaining auto_resume resubmission rerun rerunnable continue
  slurm_requeue on_preempt
on_walltime.notice: signal checkpoint_signal grace grace_period signal_delay_s signal_delay
  warning warn_before preempt_notice grace_time checkpoint_before time_before_end lead_time
  slurm_signal_delay_s warning_time usr1 notice_period
on_walltime.at_most: max_requeue max_requeues max_resubmits max_resubmit max_chain
  max_num_timeout max_starts chain_length max_jobs_in_chain max_resubmissions num_resubmits
  max_resumes max_links
report.metrics: metric_definitions metrics_file metrics_path log_metrics metrics_dir
report.usage: monitor monitoring gpu_usage usage_interval track_usage
directives: scheduler_args extra_directives sbatch_args sbatch_options slurm_args slurm_options
  pbs_args
  pbs_options qsub_args qsub_options additional_parameters slurm_additional_parameters
  extra_parameters sbatch qsub scheduler_options extra_options native sbatch_directives
  additional_directives custom_directives extra_sbatch_args job_extra extra
  native_specification
"""
# What has no key of its own, and what to do.
ANSWERS = {
    "write resources.cpus_per_gpu, or resources.cpus_per_node where there are no GPUs": (
        "cpus_per_task cpus_per_process slurm_cpus_per_task cpus_per_worker cores_per_task"
        " cpus_per_rank num_cpus_per_task"
    ),
    "paths are relative to the folder you submit from; leave it out": (
        "source_dir code src workdir work_dir working_dir working_directory workingdir chdir"
        " cwd directory dir folder"
        " submit_dir rundir run_dir root project_dir remote_dir pwd"
    ),
    "jobgen keeps all output under runs/NAME/ID/; leave it out": (
        "output error stdout stderr log logs log_dir logdir log_file logfile output_file error_file"
        " output_path error_path join output_folder slurm_output slurm_error log_path logging"
        " output_dir results_dir out err run_folder std_out std_err join_output join_outputs"
        " open_mode"
    ),
    "one process starts for each GPU: write resources.nodes and resources.gpus_per_node, or"
    " launch.processes_per_node": (
        "ntasks num_tasks n_tasks np nprocs n_procs world_size num_processes total_gpus num_procs"
        " slots_per_trial slots slurm_ntasks n_processes mppwidth total_processes total_tasks"
    ),
    "memory is asked for by the node: write resources.memory_per_node": (
        "mem_per_cpu memory_per_cpu mem_per_gpu memory_per_gpu pmem mem_per_task slurm_mem_per_gpu"
        " memory_per_task mem_per_core memory_per_core vmem pvmem gpu_memory memory_per_process"
        " slurm_mem_per_cpu"
    ),
    "the script finds the first node and a free port by itself; leave it out": (
        "master_addr master_port port rdzv_endpoint main_process_ip main_process_port rdzv_id"
        " master_address main_address main_port machine_rank node_rank rank rendezvous_endpoint"
        " head_node head_node_ip rdzv_port dist_url"
    ),
    "the program chooses it, as in init_process_group; leave it out, or pass it in run.args": (
        "backend dist_backend nccl gloo distributed_backend ddp_backend process_group"
    ),
    "set environment.variables.OMP_NUM_THREADS to change what jobgen derives from the CPUs": (
        "omp_num_threads threads ompthreads num_threads omp_threads threads_per_process nthreads"
        " threads_per_task threads_per_rank"
    ),
    "jobgen needs no such key; a comment (# ...) can hold it": (
        "comment description desc labels tags note notes annotations author version apiversion"
        " api_version kind user schema maintainer owner created date label doc"
    ),
    "name the environment that has it: environment.venv or environment.conda": (
        "framework_version py_version build dockerfile python_version python_path"
        " python_executable requirements pip packages"
        " pip_packages requirements_txt poetry pixi pip_install requirements_file"
    ),
    "its keys stand at the top level of the spec (queue, account, resources, run); what has no key"
    " goes to directives": "slurm pbs job jobs spec config slurm_config scheduler_config settings"
    " metadata options sbatch_config pbspro torque openpbs defaults task",
    "each node has one part of the job; resources.exclusive takes whole nodes": (
        "place placement scatter pack arrangement"
    ),
    "its keys stand in resources itself, as in resources: {nodes: 2, gpus_per_node: 4}": (
        "limits resource_limits resources.requests resources.request scaling_config"
        " resources_per_worker resources_per_trial"
    ),
    "it is of pods, images and machines that a cloud makes; a batch scheduler has its nodes: leave"
    " it out": (
        "namespace tolerations affinity image_pull_policy image_pull_secrets service_account_name"
        " service_account security_context priority_class_name ttl_seconds_after_finished"
        " run_policy clean_pod_policy termination_grace_period_seconds host_network dns_policy"
        " pod_spec pod_template shm_size ipc ports expose privileged ulimits networks network_mode"
        " hostipc host_ipc cloud region regions zone zones instance_type vm_size machine_type"
        " use_spot use_spot_instances spot spot_policy max_price max_wait idle_duration"
        " keep_alive_period_in_seconds volume_size disk_tier autostop head_node_type"
    ),
    "a range of nodes is resources.nodes, as in nodes: {min: 1, max: 4}": "elastic_policy elastic",
    "the program finds its files on the cluster's file systems: pass their paths in run.args": (
        "file_mounts inputs outputs input_data artifacts storage_mounts checkpoint_s3_uri"
        " checkpoint_storage"
    ),
    "the scheduler sends e-mail alone (notify.email); `jobgen wait JOB --then COMMAND` runs what"
    " you like": "slack webhook webhooks teams discord telegram notify_url",
    "jobgen writes the launcher's options; launch says how processes start": (
        "srun_args mpi_args mpirun_args torchrun_args launcher_args launch_args"
    ),
    "combinations that are not all are written out, as in array: {list: [{lr: 1e-3, seed: 0}]}": (
        "array.exclude array.include"
    ),
    "write the kind and the id, as in after: {afterok: [12345]}": (
        "after.job after.jobs after.id after.ids after.type after.kind after.ok after.success"
        " after.status"
    ),
    "jobgen starts one program on all nodes: write run, and resources.nodes for how many": (
        "uses services deploy replica_spec roles role containers init_containers initcontainers"
        " pods pod worker workers master"
        " replica_specs pytorch_replica_specs pytorchreplicaspecs replica_groups steps stages"
        " components tasks_groups"
    ),
    "the program's own affair: pass it in run.args, or as environment.variables": (
        "wandb tensorboard mlflow tracking tracker logger dataset data model epochs batch_size lr"
        " learning_rate optimizer max_steps checkpoint_dir checkpoint_path ckpt hydra wandb_project"
        " data_dir dataset_path num_epochs save_dir strategy seed precision framework"
        " mixed_precision fsdp zero_stage"
    ),
    "on_walltime tells the program to save before the end; where it saves is its own argument": (
        "checkpoint checkpointing checkpoints save_every"
    ),
    "name nodes in directives, as in directives: ['#SBATCH --exclude=NODE']": (
        "exclude exclude_nodes nodelist node_list nodefile hostfile excluded_nodes hostlist"
    ),
    "write directives: ['#PBS -l storage=...'], or filesystems where the site has them": (
        "storage storages"
    ),
    "an array's number of tasks is array.tasks, a node's number of processes"
    " launch.processes_per_node": "tasks",
    "write the commands that follow in the program, or submit a job with `after`": (
        "post post_run epilogue epilog after_script post_script cleanup teardown finally on_exit"
        " post_commands"
    ),
    "the script is bash, and environment.setup holds lines of it; leave it out": (
        "shell interpreter"
    ),
    "`jobgen submit --host NAME` submits there": "host hostname login login_node ssh remote"
    " ssh_host remote_host login_host",
    "jobgen starts the job as soon as the scheduler does; use directives for a time to begin": (
        "begin start_time start_at eligible_time at deadline schedule cron not_before"
    ),
}
# What schedulers have and a spec has no key for: each with the directive that asks for it.
OPTIONS = {
    "#SBATCH --{}=...": (
        "acctg_freq batch bb bbf burst_buffer cores_per_socket core_spec cpu_freq delay_boot"
        " distribution gpu_bind gpu_freq hint licenses license mcs_label mem_bind mincpus nice"
        " oversubscribe power prefer priority profile sockets_per_node switches switch thread_spec"
        " threads_per_core wckey"
    ),
    "#SBATCH --{}": "contiguous hold overcommit reboot spread_job use_min_nodes",
    "#PBS -l {}=...": "pcput cput arch vnode",
    "#PBS -W {}=...": "sandbox stagein stageout umask",
}
# Words for a fixed word, by the last key of the path.
OTHER_VALUES = {
    "scheduler": {
        "pbs": "pbspro openpbs pbs_pro torque qsub altair",
        "slurm": "sbatch srun slurmctld",
        "local": "none localhost laptop bash shell",
    },
    "mode": {
        "torchrun": "elastic torch agent torch.distributed.run ddp fsdp distributed auto per_node",
        "direct": "srun mpi mpirun mpiexec per_gpu none env slurm pbs per_rank python",
    },
    "launcher": {"mpiexec": "mpirun mpi openmpi pals aprun orterun", "srun": "slurm sbatch"},
    "rendezvous": {"static": "tcp env file", "c10d": "dynamic elastic etcd"},
    "then": {
        "resubmit": "chain continue resume next submit again",
        "requeue": "restart rerun retry",
        "stop": "end kill exit none finish terminate nothing quit",
    },
    "on": {
        "begin": "start started started_running b beginning",
        "end": "done finish finished complete completed e success",
        "fail": "failed failure error abort aborted a",
        "[begin, end, fail]": "all always any",
    },
    "runtime": {
        "apptainer": "apptainerce",
        "singularity": "singularityce",
        "podman-hpc": "podman docker",
        "pyxis": "enroot",
    },
    "first": {"purge": "unload clean clear"},
}
# What a word means inside of one record, whatever it means elsewhere.
INSIDE = {
    "resources": """
gpu_type: type model
disk_per_node: storage scratch
nodes: count number
""",
    "environment": """
modules: module load lua
conda: name env_name
variables: extra more set
venv: python path
""",
    "environment.container": """
image: name path file url uri from sif
options: args flags extra_args
binds: mounts volumes dirs folders paths
runtime: type engine kind tool
""",
    "environment.modules": """
load: names list modules
use: path paths modulepath
first: purge reset
""",
    "run": """
script: path file_name filename
""",
    "launch": """
mode: type method kind style
max_restarts: restarts attempts
processes_per_node: processes number nprocs ranks tasks per_node
rendezvous: method_of_rendezvous meet
interface: device
""",
    "on_walltime": """
then: action policy do mode strategy behavior on_end what next enabled
notice: time before early seconds minutes timeout margin ahead lead
at_most: max limit count number max_times attempts max_restarts retries links
""",
    "notify": """
email: to address user recipient recipients who mailto
on: type types at for
""",
    "array": """
tasks: range size number n length indices indexes index ids from count start end step
values: parameters params grid sweep args arguments variables over matrix product hyperparameters
at_once: limit max chunk batch step_size parallel
list: items entries
""",
    "report": """
metrics: file path folder log logs source tensorboard wandb csv
usage: gpu cpu gpus resources
""",
}
