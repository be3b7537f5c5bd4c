"""The processes of a run, the device of each, and how model and gradients are spread over them."""
