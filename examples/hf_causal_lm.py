"""Fine-tunes a causal language model of Hugging Face with transformers' Trainer, on jobgen.loop.

    jobgen submit examples/hf-causal-lm.yaml

The run is saved and goes on when the walltime ends; W&B is offline unless WANDB_MODE says
otherwise; each rank prints into its own log. With --lora only adapters are trained, by peft.
`--model tiny` is a model made here, of bytes, to try it without a download.
"""

import argparse
import os
from pathlib import Path

import torch
import transformers
from torch.utils.data import Dataset
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.trainer_utils import get_last_checkpoint

from jobgen.loop import Loop, join


def attend(module, query, key, value, attention_mask, **options):
    """Compute causal attention without a mask.

    Compiled, transformers makes a mask of (batch, 1, time, time), which flash attention does not
    take. Windows of full length need none. A model with sliding windows does: leave this out then.
    """
    options["is_causal"] = query.shape[2] > 1
    return sdpa_attention_forward(module, query, key, value, None, **options)


transformers.AttentionInterface.register("causal_sdpa", attend)


class Windows(Dataset):
    """A text as windows of `length` tokens, one after another."""

    def __init__(self, tokens, length):
        self.rows = torch.tensor(tokens[: len(tokens) // length * length]).view(-1, length)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class Job(transformers.TrainerCallback):
    """Saves and stops when the job asks for it; writes the metrics that `jobgen report` reads."""

    def __init__(self, loop: Loop):
        self.loop = loop

    def on_step_end(self, args, state, control, **_):
        if self.loop.should_stop():
            control.should_save = control.should_training_stop = True

    def on_save(self, args, state, control, **_):
        self.loop.progress()

    def on_log(self, args, state, control, logs, **_):
        if "loss" in logs:
            self.loop.log(state.global_step, **logs)


def load_model(name: str):
    """Return a model and the tokens of a text as a function; `tiny` is made here."""
    options = {"attn_implementation": "causal_sdpa", "dtype": torch.float32}
    if name == "tiny":
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
        config = transformers.LlamaConfig(vocab_size=256, num_attention_heads=4, **shape)
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, **options)
        return model, lambda text: list(text.encode())
    coder = transformers.AutoTokenizer.from_pretrained(name)
    model = transformers.AutoModelForCausalLM.from_pretrained(name, **options)
    return model, lambda text: coder(text, verbose=False)["input_ids"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tiny", help="a folder, a name on the hub, or tiny")
    parser.add_argument("--data", type=Path, default=Path(__file__), help="a text in UTF-8")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8, help="windows of a process")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--lora", type=int, default=0, metavar="RANK")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--wandb", metavar="PROJECT")
    options = parser.parse_args()

    loop = join()
    os.environ.setdefault("WANDB_MODE", "offline")
    os.environ["WANDB_PROJECT"] = options.wandb or ""
    os.environ["WANDB_DIR"] = str(loop.folder)
    print(f"rank {loop.rank} of {loop.size} on {loop.device}", flush=True)
    model, tokenize = load_model(options.model)
    if options.lora:
        import peft

        scale = 2 * options.lora
        adapters = peft.LoraConfig(r=options.lora, lora_alpha=scale, task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, adapters)
    cuda = loop.device.type == "cuda"
    settings = transformers.TrainingArguments(
        output_dir=str(loop.checkpoints),
        max_steps=options.steps,
        learning_rate=options.lr,
        per_device_train_batch_size=options.batch,
        bf16=cuda and torch.cuda.is_bf16_supported(including_emulation=False),
        fp16=cuda and not torch.cuda.is_bf16_supported(including_emulation=False),
        torch_compile=options.compile,
        logging_steps=5,
        save_steps=50,
        save_total_limit=2,
        report_to="wandb" if options.wandb else "none",
        run_name=loop.folder.name,
        disable_tqdm=True,
    )
    data = Windows(tokenize(options.data.read_text()), options.context)
    trainer = transformers.Trainer(model, settings, train_dataset=data, callbacks=[Job(loop)])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(loop.checkpoints)))
    done = trainer.state.global_step >= options.steps
    if done:
        trainer.save_model(str(loop.folder / "model"))
    loop.leave(done=done)


if __name__ == "__main__":
    main()
