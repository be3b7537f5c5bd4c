"""The bundled trainer: a model trained by one process, or by many on several nodes.

Started by torchrun on every node, by any launcher that sets torchrun's variables, or plainly:
`python -m jobgen.trainer --help`. The folder imports nothing from outside but torch, so it can be
copied away and started under another name.

A run is a folder: `checkpoints/`, `metrics.jsonl`, `status.json`, and at the end `DONE` or
`STOPPED`. Starting again on the same folder continues from its newest whole checkpoint.

Read it in this order:

- config, flags: every setting, and how it is read; tasks/__init__: what is trained, an interface
- loop: a run from start to end; step: one step. They need the rest:
- order, feed: which item comes when, and the batches of a rank, made ahead
- parallel, spread: the processes, and how the model and its gradients are spread over them
- checkpoint, files: writing so that a crash at any moment harms nothing
- stop, status: requests to stop, and what is left for a job script to read
- policy, watchdog: bad losses, slow ranks, ranks that hang
- metrics, trackers: what there is to look at
- __main__, commands, dryrun: the command line, and all it does but training
"""
