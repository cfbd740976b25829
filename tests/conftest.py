import os
from collections.abc import Iterator

import pytest
import torch
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

torch.set_num_threads(1)
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", default_cache_dir())  # tests leave nothing in a home


@pytest.fixture
def compiled_indeed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where compiling fails, a run goes on eagerly; here that is a failure."""
    from rl_training.runtime import compilation

    monkeypatch.setattr(compilation, "REASONS", set())
    yield
    assert not compilation.REASONS
