"""The bundled trainer: a model trained by one process, or by many on several nodes.

Started by torchrun on every node, by any launcher that sets torchrun's variables, or plainly:
`python -m jobgen.trainer --help`. The folder imports nothing from outside but torch, so it can be
copied away and started under another name.

A run is a folder: `checkpoints/`, `metrics.jsonl`, `status.json`, and at the end `DONE` or
`STOPPED`. Starting again on the same folder continues from its newest whole checkpoint.

Read it in this order:

- step: one step, in the order in which it happens; loop: a run from start to end. They need:
- config, flags: every setting, and how it is read; tasks: what is trained, an interface
- text/transformer: the model of the task gpt; optimizer: learning rate, AdamW, Muon
- data: which item comes when, how a step's items are dealt to the ranks, batches made ahead
- distributed: the processes, their devices, and how model and gradients are spread over them
- checkpoint, weights: writing so that a crash at any moment harms nothing, and reading again
- watch: requests to stop, status, bad losses, slow ranks, ranks that hang
- output: what there is to look at; text: sources, tokenizers, prepared tokens, Hugging Face
- __main__, commands, dryrun: the command line, and all it does but training
"""
