"""The bundled trainer: a model trained by one process, or by many on several nodes.

Started by torchrun on every node, by any launcher that sets torchrun's variables, or plainly:
`python -m jobgen.trainer --help`. It imports nothing but torch, numpy and `..loop`, so this folder
and the file loop.py beside it can be copied into any other package.

A run is a folder: `checkpoints/`, `metrics.jsonl`, `status.json`, and at the end `DONE` or
`STOPPED`. Starting again on the same folder continues from its newest whole checkpoint.

Read it in this order:

- step: one step, in the order in which it happens; run: a run from start to end. They need:
- config, flags: every setting, and how it is read; tasks: what is trained, an interface
- text/transformer: the model of the task gpt; optimizer: learning rate, AdamW, fp16's loss scale
- data: which item comes when, how a step's items are split over the ranks, batches made ahead
- distributed: the processes, their devices, and how model and gradients are spread over them
- checkpoint: writing so that a crash at any moment harms nothing, and reading again
- watch: status, ranks that hang; output: metrics and files; text: tokenizers, prepared tokens
- __main__, commands, dryrun: the command line, and the commands beside training
"""
