"""Makes `fcntl` unimportable in every process of a test run, as on Windows: `make test-without-fcntl`.

Python imports this module at its start because its folder is on PYTHONPATH; processes that tests start inherit that.
"""

import sys

sys.modules["fcntl"] = None  # pyrefly: ignore  (what the import system reads as "there is none")
