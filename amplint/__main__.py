"""The `amplint` command, also run by `python -m amplint`."""

import gc

from amplint import hardening


def main() -> None:
    """Run the command with the arguments of the process, and exit with its status."""
    try:
        gc.disable()  # imports create no garbage; `collect_rarely` enables the collector again
        hardening.harden()
        from amplint.cli.main import main as command

        command()
    finally:
        hardening.leave()
        gc.freeze()  # or the interpreter would search all syntax trees for cycles at exit


if __name__ == "__main__":
    main()
