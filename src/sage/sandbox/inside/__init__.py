"""The program that runs inside a sandbox, on Linux, with nothing but the standard library.

`serve` is a zygote: a Python that has pytest and its like loaded, and forks a new sandbox for every request. `once` answers
one request, in a sandbox that bubblewrap or Docker made. The command never has more rights than an ordinary user without
capabilities; its supervisor is a process that it cannot see into.
"""

import sys

AT_START = frozenset(sys.modules)  # what Python itself loads: files of the work folder cannot replace it
