"""What is wrong before the program: setup, modules, containers, commands."""

from __future__ import annotations

from program import main, read_table

read_table(__file__)


if __name__ == "__main__":
    main()
