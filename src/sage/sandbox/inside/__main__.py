"""The program's command line: `python -m inside serve DESCRIPTOR` or `python -m inside once`."""

import sys

from .serving import once, serve

if sys.argv[1:2] == ["serve"]:
    serve(int(sys.argv[2]))
else:
    once()
