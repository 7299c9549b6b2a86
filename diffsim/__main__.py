"""`python -m diffsim`, which is the command `diffsim`."""

import sys

from .cli import main


if __name__ == "__main__":
    sys.exit(main())
