"""`python -m sage` is `sage`."""

import sys

from sage.cli import main

sys.exit(main())
