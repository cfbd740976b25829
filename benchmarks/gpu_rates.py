"""The rates of docs/gpu.md: every row in a process of its own; all compile first, then they are measured one by one.

python benchmarks/gpu_rates.py                                       # about 90 s
python benchmarks/gpu_rates.py --compiler '{"combo_kernels": false}'   # with other options of the compiler
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier, Lock

import torch

import gpu
from rl_training.api.training import build_run
from rl_training.runtime import compilation

PPO = [
    *((4096, 32, 4, precision) for precision in ("tf32", "bf16", "float32")),
    *((65_536, 32, 4, precision) for precision in ("tf32", "bf16")),
    *((2048, 16, 8, precision) for precision in ("tf32", "bf16")),
]
BLOCKS = [("SAC", 1, "tf32"), ("SAC", 1, "bf16"), ("REDQ", 20, "tf32")]
Measured = tuple[Callable[[], object], int, Callable[[float], float], str]  # call, calls, number from seconds, its unit


@contextmanager
def ppo(envs: int, steps: int, minibatches: int, precision: str) -> Iterator[Measured]:
    options = argparse.Namespace(
        envs=envs, steps=steps, minibatches=minibatches, precision=precision, device="cuda", compile=True
    )
    trainer = build_run(gpu.build_ppo(options, total=gpu.NEVER, learning_rate="3e-3")).trainer
    num = max(20, 20_000_000 // (envs * steps))
    with trainer.session():
        yield lambda: trainer.advance(gpu.NEVER), num, lambda seconds: num * envs * steps / seconds / 1e6, "M steps/s"


@contextmanager
def block(algorithm: str, updates: int, precision: str) -> Iterator[Measured]:
    options = argparse.Namespace(
        algorithm=algorithm,
        env="Pendulum-v1",
        backend="native",
        updates=updates,
        precision=precision,
        device="cuda",
        compile=True,
    )
    agent = gpu.build_replay(options)
    agent.learn(stop_at=600, progress=False)
    run, num = gpu.block_of(agent.trainer), 2_000 // updates
    with agent.trainer.session():
        yield run, num, lambda seconds: 1e3 * seconds / num, "ms"


def measure(kind: str, row: tuple, changed: dict, compiled: Barrier, turn: Lock) -> None:
    usual = compilation.compiler_options
    compilation.compiler_options = lambda device: usual(device) | changed
    start = time.perf_counter()
    with {"ppo": ppo, "block": block}[kind](*row) as (call, num, number, unit):
        for _ in range(gpu.WARM_UP):
            call()
        torch.cuda.synchronize()
        ready = time.perf_counter() - start
        compiled.wait()
        with turn:
            numbers = []
            for _ in range(3):
                start = time.perf_counter()
                for _ in range(num):
                    call()
                torch.cuda.synchronize()
                numbers.append(number(time.perf_counter() - start))
            shown = ", ".join(f"{number:.3f}" for number in numbers)
            print(f"{kind} {row}: {shown} {unit}, compile {ready:.0f} s", flush=True)


def measure_or_end_all(kind: str, row: tuple, changed: dict, compiled: Barrier, turn: Lock) -> None:
    try:
        measure(kind, row, changed, compiled, turn)
    except BaseException:
        compiled.abort()  # nobody waits for a row that failed
        raise


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", type=json.loads, default={}, help="options of the compiler, as JSON")
    chosen = parser.parse_args()
    rows = [("ppo", row) for row in PPO] + [("block", row) for row in BLOCKS]
    context = multiprocessing.get_context("spawn")
    shared = (chosen.compiler, context.Barrier(len(rows)), context.Lock())
    processes = [context.Process(target=measure_or_end_all, args=(*row, *shared)) for row in rows]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    raise SystemExit(any(process.exitcode for process in processes))
