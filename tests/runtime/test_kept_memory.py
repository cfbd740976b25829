"""Memory of freed tensors is used again, not taken from the system anew."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.forked import run_script

PROGRAM = """
import resource
import torch
from rl_training.runtime.kept_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        kept = [torch.ones(10 * 2**20) for _ in range(3)]  # 40 MB each, beyond what glibc keeps by itself
        del kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

as_it_is = faults()
keep_freed_memory()
faults()
print(as_it_is, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc: its settings are what is tested, on Linux")
def test_freed_tensors_leave_their_pages_to_the_next(tmp_path: Path) -> None:
    script = tmp_path / "faults.py"
    script.write_text(PROGRAM)
    done = run_script(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert before > 5 * 3 * 40 * 2**20 / 4096 / 2  # most pages are taken anew
    assert after < before / 20
