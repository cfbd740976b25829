"""Our speed beside other libraries: the same work, alternated in one run, ratios with their spread.

Every measurement of a peer has one of ours right before it, so that both see the same machine. Cells that are not
chosen keep their rows. An option is measured against ourselves without it, as a ratio of times: what it makes of a
whole training step, from the environment to the update of the priorities.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import torch

from rl_training import api
from rl_training.api import Agent
from rl_training.bench.cell_progress import CellProgress
from rl_training.bench.peer_environments import PeerUnavailableError, find_python
from rl_training.bench.peer_process import Peer
from rl_training.bench.records import read_json
from rl_training.bench.speed_cells import SPEED, SPEED_SUITES, OptionCell, SpeedCell
from rl_training.bench.synthetic_data import synthetic
from rl_training.bench.tables import speed_table
from rl_training.config.score_protocol import unlike
from rl_training.config.sections import NO_ENV
from rl_training.envs import EnvConfig
from rl_training.experiment.run_directory import installed, processor, write_atomically

FILE = "speed.json"
PEERS_PLAY = {"kwargs": {"protocol": "dqn"}}  # the peers' programs, in Atari games
Pythons = Mapping[str, Path | PeerUnavailableError]
Measure = Callable[[int], float]  # steps per second over so many steps
Keep = Callable[[str, dict], None]  # takes a row's name and the row


def choose_cells(suite: str, cells: Sequence[str]) -> list[str]:
    """Returns the names in `cells` or, if it is empty, the benchmark cells of the suite.

    Raises ValueError for an unknown name, or if a cell needs a GPU and there is none.
    """
    unknown = [name for name in cells if name not in SPEED]
    if unknown:
        raise ValueError(f"--cells {unknown[0]!r} is not known: use {', '.join(SPEED)}")
    chosen = list(cells or SPEED_SUITES[suite])
    if any(SPEED[name].work.get("device") == "cuda" for name in chosen) and not torch.cuda.is_available():
        raise ValueError("these cells need a GPU, and this machine has no usable one: use --suite cpu")
    return chosen


def run(
    cells: Sequence[str],
    peers: Sequence[str],
    *,
    repeats: int,
    limit: float,  # seconds for an answer of a peer
    out: Path,
    given: Mapping[str, Path] | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, dict]:
    """Measures the cells and returns a dict of results for each row's name, those of `speed.json` in `out` included.

    After each cell, `speed.json` and `speed.md` are written with all rows so far. `peers` are libraries to compare
    with, `given` their interpreters by name; `say` gets a line for each row.
    """
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict] = read_json(out / FILE) if (out / FILE).exists() else {}
    pythons = {name: python_or_reason(name, given or {}, say) for name in peers}
    for name in cells:
        cell = SPEED[name]
        rows = (
            {name: run_option(name, cell, repeats)}
            if isinstance(cell, OptionCell)
            else run_cell(name, cell, pythons, repeats=repeats, limit=limit)
        )
        for key, row in rows.items():
            earlier = results.get(key, row)
            keep = "unavailable" in row and "unavailable" not in earlier
            say(f"{key}: {sentence(row)}" + (f"; the row of {earlier['measured'][:10]} is kept" if keep else ""))
            results[key] = earlier if keep else row
        write_atomically(out / FILE, json.dumps(results, indent=2) + "\n")
        write_atomically(out / "speed.md", f"# Speed\n\n{speed_table(results)}\n")
    return results


def python_or_reason(name: str, given: Mapping[str, Path], say: Callable[[str], None]) -> Path | PeerUnavailableError:
    try:
        return find_python(name, given)
    except PeerUnavailableError as reason:
        say(f"{name}: {reason}")
        return reason


def build_ours(work: dict) -> Agent:
    other = ("algorithm", "env", "data", "whole", "vector_env")
    settings = {"compile": True} | {key: value for key, value in work.items() if key not in other}
    settings |= {"dataset": synthetic(work["data"])} if "data" in work else {}
    return getattr(api, work["algorithm"])(work.get("env"), seed=0, **settings)


def protocol_of(work: dict) -> dict[str, object]:
    """Returns the protocol of a cell's environment, {} if it has none or there is no environment."""
    if "env" not in work:
        return {}
    names = {field.name for field in dataclasses.fields(EnvConfig)}
    return EnvConfig(id=work["env"], **{key: value for key, value in work.items() if key in names}).protocol


def check_peers_play(name: str, work: dict, protocol: dict[str, object], *, peers: list[str]) -> None:
    """Raises ValueError if a cell is to be compared with peers that play its game by another protocol than ours."""
    theirs = protocol_of(work | PEERS_PLAY) if work.get("env", "").startswith("ALE/") else protocol
    differences = unlike({"env": protocol}, {"env": theirs}) if peers else []
    if differences:
        raise ValueError(
            f"{name} is not compared with {', '.join(peers)}, whose protocol is unlike ours: {'; '.join(differences)}"
        )


def measure_ours(agent: Agent, num_steps: int) -> float:
    """Trains the agent for `num_steps`; returns env steps per second.

    If it learns from data alone, the steps are updates.
    """
    if agent.config.env.id == NO_ENV:
        steps, updates = None, num_steps
    else:
        steps, updates = num_steps, None
    if agent.config.training.device != "cuda":
        return agent.learn(steps, total_updates=updates, progress=False).steps_per_second
    torch.cuda.synchronize()
    start = time.perf_counter()
    agent.learn(steps, total_updates=updates, progress=False)
    torch.cuda.synchronize()
    return num_steps / (time.perf_counter() - start)


def measure_whole(work: dict, num_steps: int) -> float:
    """Makes an agent and trains it for `num_steps` env steps; returns the steps per second of both together."""
    start = time.perf_counter()
    with closing(build_ours(work)) as agent:
        agent.learn(num_steps, progress=False)
        return num_steps / (time.perf_counter() - start)


def row_name(cell: str, peer: str) -> str:
    return cell if peer == "sb3" else f"{cell}-{peer}"


def run_cell(
    name: str, cell: SpeedCell, pythons: Pythons, *, repeats: int, limit: float, keep: Keep = lambda *_: None
) -> dict[str, dict]:
    """Measures a cell and returns a dict of results for each peer, by row's name; one of ours alone without peers.

    `pythons` are interpreters by peer's name; a peer that fails has the reason as its result. `keep` gets a row of every
    single pair, ours and a peer's, as soon as it is measured.
    """
    work = cell.work | {"threads": cell.threads} | ({"whole": True} if cell.whole else {})
    protocol = protocol_of(work | cell.ours)
    check_peers_play(name, work, protocol, peers=list(pythons))
    agent = None if cell.whole else build_ours(work | cell.ours)
    ours = partial(measure_whole, work | cell.ours) if agent is None else partial(measure_ours, agent)
    peers: dict[str, Peer | PeerUnavailableError] = {}
    total = 1 + len(pythons) + repeats * (2 * len(pythons) or 1)
    try:
        with CellProgress(name, total) as progress:
            progress.now("ours, compiling and warm-up")
            start = time.perf_counter()
            ours(cell.warm_up)
            common = {"work": work | cell.ours, "steps": cell.steps}
            common |= {"compile_and_warm_up_s": round(time.perf_counter() - start, 1)}
            common |= {"protocol": protocol} if protocol else {}
            common |= {"wanted_steps_per_second": list(cell.wanted)} if cell.wanted else {}

            def measured(peer: str, versions: dict, pairs: list[tuple[float, float]]) -> dict:
                return common | peer_row(peer, pairs) | machine_and_versions(versions)

            for peer, python in pythons.items():
                progress.now(f"{peer}, start and warm-up")
                peers[peer] = start_peer(peer, python, work, cell.warm_up, limit)
            alone = [] if peers else measure_alone(ours, cell.steps, repeats, progress)
            speeds = alternate(
                ours,
                peers,
                cell.steps,
                repeats,
                progress,
                each=lambda peer, versions, pair: keep(row_name(name, peer), measured(peer, versions, [pair])),
            )
    finally:
        for process in peers.values():
            if isinstance(process, Peer):
                process.close()
        if agent is not None:
            agent.close()
    if not peers:
        return {name: common | {"ours_steps_per_second": rounded(alone)} | machine_and_versions({})}
    rows = {}
    for peer, process in peers.items():
        if isinstance(process, Peer):
            row = measured(peer, process.versions, speeds[peer])
        else:
            row = {"work": work | cell.ours, "peer": peer, "unavailable": str(process)}
        rows[row_name(name, peer)] = row
    return rows


def start_peer(
    name: str, python: Path | PeerUnavailableError, work: dict, warm_up: int, limit: float
) -> Peer | PeerUnavailableError:
    """Returns the process of another library after its warm-up steps, or the error that says why there is none."""
    if isinstance(python, PeerUnavailableError):
        return python
    try:
        process = Peer(name, python, work, limit=limit)
        process.measure(warm_up)
    except PeerUnavailableError as reason:
        return reason
    return process


def alternate(
    ours: Measure,
    peers: dict[str, Peer | PeerUnavailableError],
    steps: int,
    repeats: int,
    progress: CellProgress,
    *,
    each: Callable[[str, dict, tuple[float, float]], None],
) -> dict[str, list[tuple[float, float]]]:
    """Returns pairs (our speed, the peer's) by peer's name, in steps per second, measured in turn `repeats` times.

    A peer that fails is replaced by its error in `peers`, which is changed in place, and is not measured again. `each`
    gets the peer's name and versions, and the pair, as soon as it is measured.
    """
    speeds: dict[str, list[tuple[float, float]]] = {peer: [] for peer in peers}
    for repeat in range(1, repeats + 1):
        for peer, process in peers.items():
            if isinstance(process, Peer):
                progress.now(f"ours beside {peer}, repeat {repeat} of {repeats}")
                speed = ours(steps)
                progress.now(f"{peer}, repeat {repeat} of {repeats}")
                try:
                    speeds[peer].append((speed, process.measure(steps)))
                except PeerUnavailableError as reason:
                    peers[peer] = reason
                else:
                    each(peer, process.versions, speeds[peer][-1])
    return speeds


def measure_alone(ours: Measure, steps: int, repeats: int, progress: CellProgress) -> list[float]:
    speeds = []
    for repeat in range(1, repeats + 1):
        progress.now(f"ours, repeat {repeat} of {repeats}")
        speeds.append(ours(steps))
    return speeds


def peer_row(peer: str, speeds: list[tuple[float, float]]) -> dict:
    return {
        "ours_steps_per_second": rounded([ours for ours, _ in speeds]),
        "peer": peer,
        "peer_steps_per_second": rounded([theirs for _, theirs in speeds]),
        **spread("ratio", [ours / theirs for ours, theirs in speeds]),
    }


def run_option(name: str, cell: OptionCell, repeats: int) -> dict:
    work = cell.work | {"threads": 1}
    agents = {"with it": build_ours(work | cell.option), "without": build_ours(work)}
    speeds: list[list[float]] = []
    with CellProgress(name, len(agents) * (1 + repeats)) as progress:
        start = time.perf_counter()
        for which, agent in agents.items():
            progress.now(f"{which}, compiling and warm-up")
            measure_ours(agent, cell.warm_up)
        warm_up = time.perf_counter() - start
        for repeat in range(1, repeats + 1):
            speeds.append([])
            for which, agent in agents.items():
                progress.now(f"{which}, repeat {repeat} of {repeats}")
                speeds[-1].append(measure_ours(agent, cell.steps))
    return {
        "work": work,
        "option": cell.option,
        "compile_and_warm_up_s": round(warm_up, 1),
        "with_option_steps_per_second": rounded([x for x, _ in speeds]),
        "without_option_steps_per_second": rounded([x for _, x in speeds]),
        **spread("time_ratio", [without / with_option for with_option, without in speeds]),
        **machine_and_versions({}),
    }


def rounded(speeds: list[float]) -> list[float]:
    return [round(speed, 1) for speed in speeds]


def spread(name: str, ratios: list[float]) -> dict[str, float]:
    numbers = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    return {f"{name}_{key}": round(number, 2) for key, number in numbers.items()}


def machine_and_versions(peer_versions: dict) -> dict:
    gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return {
        "versions": {"rl_training": installed("rl-training"), "torch": torch.__version__} | peer_versions,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "platform": platform.platform(), **gpu},
        "load_average_after": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "measured": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def sentence(row: dict) -> str:
    if "unavailable" in row:
        return f"{row['peer']} not measured: {row['unavailable']}"
    if "option" in row:
        return f"{row['time_ratio_median']} times as long with the option ({row['time_ratio_min']} to {row['time_ratio_max']})"
    ours = f"{statistics.median(row['ours_steps_per_second']):,.0f} steps/s"
    if "peer" not in row:
        return ours
    theirs = statistics.median(row["peer_steps_per_second"])
    spread_text = f"{row['ratio_min']} to {row['ratio_max']}"
    return f"{ours}, {row['peer']} {theirs:,.0f}: {row['ratio_median']} times as fast ({spread_text})"
