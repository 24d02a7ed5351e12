"""`python -m pypto` is the `pypto` command."""

from pypto.tools.cli import main

if __name__ == "__main__":
    main()
