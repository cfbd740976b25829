"""Videos in a report, inside the page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from rl_training.experiment.html_page import Html, element
from rl_training.experiment.report.formatting import size
from rl_training.experiment.report.groups import Group
from rl_training.experiment.report.reported_run import ReportedRun
from rl_training.experiment.run_directory import VIDEOS

ROOM = 1_000_000  # bytes of all videos of a page together
KINDS = {".gif": "image/gif", ".mp4": "video/mp4"}


def videos_part(groups: Sequence[Group]) -> list[Html]:
    """Returns the newest video of every group, from its run with the highest score, as far as they fit into the page."""
    parts, room = [], ROOM
    for group in groups:
        runs = sorted(group.runs, key=lambda run: -(run.score(evaluated=True) or 0.0))
        run = next((run for run in runs if newest_video(run) is not None), None)
        if run is None or (path := newest_video(run)) is None:
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            parts.append(element("p", f"{path} cannot be read ({error.strerror})."))
            continue
        name = f"{group.name}, seed {run.seed}, {path.name}"
        if len(content) > room:
            parts.append(
                element("p", f"{name} is left out, as the page would grow too large ({size(len(content))}): {path}.")
            )
            continue
        room -= len(content)
        source = f"data:{KINDS[path.suffix]};base64,{base64.b64encode(content).decode()}"
        label = f"Video of {name}"
        shown = (
            element("img", src=source, alt=label)
            if path.suffix == ".gif"
            else element("video", src=source, controls="", aria_label=label)
        )
        parts.append(element("details", element("summary", f"{name} ({size(len(content))})"), shown))
    return parts


def newest_video(run: ReportedRun) -> Path | None:
    found = [path for path in (run.path / VIDEOS).glob("[!.]*") if path.suffix in KINDS]
    return max(found, key=lambda path: path.name, default=None)
