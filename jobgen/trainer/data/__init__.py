"""Which item comes when, and the batches of a rank, made ahead."""
