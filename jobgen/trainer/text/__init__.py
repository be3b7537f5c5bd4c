"""What the tasks on text share: sources, tokenizers, prepared tokens, Hugging Face's libraries."""
