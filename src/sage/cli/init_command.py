"""`sage init`."""

from __future__ import annotations

import argparse
import re
from importlib.resources import files
from pathlib import Path

from sage.files import write_text
from sage.local_models.registry import Registry

EXAMPLE = re.compile("^( +)# upstream: .*\n", re.MULTILINE)  # of the template


def add_init(init: argparse.ArgumentParser) -> None:
    init.add_argument("--models", type=Path, default=Path("models.yaml"), help="where (default: models.yaml)")
    init.add_argument("--force", action="store_true", help="replace an existing file")
    init.set_defaults(func=init_command)


def init_command(options: argparse.Namespace) -> int:
    if options.models.exists() and not options.force:
        raise ValueError(f"{options.models} is there already: edit it, or replace it with --force")
    template = files("sage").joinpath("assets/models.yaml").read_text(encoding="utf-8")
    local = Registry().ready()
    if local is None:
        served = "`sage serve` needs the upstream of each of them, too, for which the file has an example"
    else:
        answers = f"upstream: {{local: {local}, dialects: [chat, responses, messages]}}  # until you give another one"
        template = EXAMPLE.sub(lambda found: f"{found[1]}{answers}\n{found[0]}", template)
        served = f"until then `sage serve` answers for all of them with {local}, a model on this machine"
    write_text(options.models, template)
    print(
        f"wrote {options.models}: put in your models and prices; {served}\n"
        "next: sage serve; or sage lab collect-synth, to try everything on made-up calls"
    )
    return 0
