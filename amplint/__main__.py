"""`python -m amplint` is the `amplint` command."""

from amplint.cli.main import main

if __name__ == "__main__":
    main()
