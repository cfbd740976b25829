"""Entry point of `python -m sage`, which does the same as the command `sage`."""

import sys

from sage.cli import main

sys.exit(main())
