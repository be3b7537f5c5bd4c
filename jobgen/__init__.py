"""jobgen: from one YAML file to a multi-node PyTorch job on PBS or Slurm."""

__version__ = "0.1.0"
