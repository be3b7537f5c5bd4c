"""The bundled trainer: a small GPT trained on text, by one process or by many on several nodes.

Started by torchrun on every node, by any launcher that sets torchrun's variables, or plainly:
`python -m jobgen.trainer --help`. The folder imports nothing from outside but torch, so it can be
copied away and started under another name.

A run is a folder: `checkpoints/`, `metrics.jsonl`, `status.json`, and at the end `DONE` or
`STOPPED`. Starting again on the same folder continues from its newest whole checkpoint.
"""
