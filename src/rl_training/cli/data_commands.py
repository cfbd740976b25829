"""The command `rl-training data`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rl_base.evaluation.report import finite
from rl_training.config import ConfigError
from rl_training.data import Dataset, ReferenceScore, convert, info, lint
from rl_training.envs import EnvConfig

LIKE = ("preset", "expert", "score", "reference")  # flags of `data make --like`


def data(options: argparse.Namespace) -> int:
    return {"make": make, "lint": show_faults, "info": describe, "convert": rewrite}[options.action](options)


def make(options: argparse.Namespace) -> int:
    refuse_existing(options.out)
    made = make_like(options) if options.like else make_by_policies(options)
    made.save(options.out)
    print(
        f"wrote {options.out}: {len(made):,} steps in {len(made.returns):,} episodes, mean return {made.returns.mean():.1f}"
    )
    return 0


def make_by_policies(options: argparse.Namespace) -> Dataset:
    wrong = next((name for name in LIKE if getattr(options, name) is not None), None)
    if wrong is not None:
        raise ConfigError(f"--{wrong} is for --like, which is not given: add --like medium, or leave it out")
    if not options.policies or options.steps is None:
        missing = "--steps" if options.policies else "--policy"
        raise ConfigError(
            f"{missing} is missing: say who acts and for how long (--policy, --steps), or --like medium-replay"
        )
    from rl_training.api import make_data  # which no other action needs

    return make_data(EnvConfig(id=options.env), options.policies, options.steps, seed=options.seed, trust=options.trust)


def make_like(options: argparse.Namespace) -> Dataset:
    if options.policies:
        raise ConfigError(f"--policy {options.policies[0]} with --like {options.like}: give one of them")
    from rl_training.api import make_data_like

    given = {name: getattr(options, name) for name in LIKE if getattr(options, name) is not None}
    if options.reference is not None:
        given["reference"] = ReferenceScore(*options.reference, source="command line")
    return make_data_like(options.env, options.like, options.steps, seed=options.seed, trust=options.trust, **given)


def show_faults(options: argparse.Namespace) -> int:
    findings = lint(options.file, time_limit=options.time_limit)
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        for finding in findings:
            print(finding)
        print(f"{len(findings) or 'no'} finding{'s' if len(findings) != 1 else ''} in {options.file}")
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def describe(options: argparse.Namespace) -> int:
    known = info(options.file)
    if options.json:
        print(json.dumps(finite(known)))  # bounds may be infinite, for which JSON has no word
    else:
        for name, value in known.items():
            print(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")
    return 0


def rewrite(options: argparse.Namespace) -> int:
    refuse_existing(options.target)
    dataset = convert(options.source, options.target)
    print(f"wrote {options.target}: {len(dataset):,} steps")
    return 0


def refuse_existing(path: str) -> None:
    if Path(path).exists():
        raise ConfigError(f"{path} exists: choose another name, or delete it first")
