"""The `amplint` command, which `python -m amplint` is, too."""

import gc

from amplint import hardening


def main() -> None:
    """Run the command with the arguments of the process, and exit with its status."""
    try:
        gc.disable()  # imports make no garbage; `collect_rarely` switches it on again
        hardening.harden()
        from amplint.cli.main import main as command

        command()
    finally:
        hardening.leave()
        gc.freeze()  # or Python would look for cycles in all syntax trees while it ends


if __name__ == "__main__":
    main()
