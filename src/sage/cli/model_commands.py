"""`sage models add`, `list` and `remove`: language models on this machine."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from sage.local_models.registry import Registry


def add_models(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    add = actions.add_parser("add", help="name a GGUF file; it stays where it is, and its hash is checked")
    add.add_argument("name", metavar="NAME")
    add.add_argument("--file", type=Path, required=True, help="a model in GGUF form")
    add.add_argument("--sha256", required=True, metavar="HEX", help="the hash that the model's publisher gives")
    add.set_defaults(func=add_model)

    shown = actions.add_parser("list", help="the models that have a name")
    shown.add_argument("--json", action="store_true", help="one JSON object")
    shown.set_defaults(func=list_models)

    remove = actions.add_parser("remove", help="forget a name; the file stays where it is")
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(func=remove_model)


def add_model(arguments: argparse.Namespace) -> int:
    model = Registry().add(arguments.name, arguments.file, arguments.sha256)
    print(f"{model.name}: {model.file} ({model.size:,} bytes); in models.yaml: upstream: {{local: {model.name}}}")
    return 0


def list_models(arguments: argparse.Namespace) -> int:
    models = Registry().models()
    if arguments.json:
        print(json.dumps([asdict(model) for model in models]))
        return 0
    for model in models:
        missing = "" if Path(model.file).is_file() else "  (the file is gone)"
        print(f"{model.name}  {model.size:,} bytes  sha256 {model.sha256[:12]}...  {model.file}{missing}")
    if not models:
        print("no models yet: sage models add NAME --file model.gguf --sha256 HEX")
    return 0


def remove_model(arguments: argparse.Namespace) -> int:
    model = Registry().remove(arguments.name)
    print(f"{model.name} is forgotten; {model.file} stays where it is")
    return 0
