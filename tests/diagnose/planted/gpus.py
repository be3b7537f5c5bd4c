"""GPUs, their drivers and kernels."""

from __future__ import annotations

from program import complain, main, planted, read_table

read_table(__file__)


@planted("label-range", "gpu-error", "2", "device-side assert")
def assert_on_device() -> None:
    for thread in range(3):
        complain(
            f"nll_loss.cu:104: block: [0,0,0], thread: [{thread},0,0] Assertion `t >= 0` failed."
        )
    raise RuntimeError("CUDA error: device-side assert triggered")


@planted("bnb-setup", "exception or import or gpu-missing", "all", "CUDA Setup failed", early=True)
def set_up_bnb() -> None:
    complain(
        "\n===================================BUG REPORT===================================\n"
        "Welcome "
        "to bitsandbytes. For bug reports, please run\n\npython -m bitsandbytes\n"
    )
    raise RuntimeError(
        "\n        CUDA Setup failed despite GPU being available. Please run the following command "
        "to get more information:\n\n        python -m bitsandbytes\n\n        Inspect the output "
        "of the command and see if you can locate CUDA libraries.\n"
    )


if __name__ == "__main__":
    main()
