"""`sage sim ...`: sandboxes, and the tasks that run in them."""

from __future__ import annotations

import argparse


def add_commands(actions: argparse._SubParsersAction) -> None:
    image = actions.add_parser("image", help="build the image of all sandboxes from this machine's Python, or find it")
    image.add_argument("--json", action="store_true", help="for programs")
    image.set_defaults(func=show_image)


def show_image(arguments: argparse.Namespace) -> int:
    import json

    from sage.sim.sandboxes import image

    found = image.ensure()
    if arguments.json:
        facts = {"sha256": found.sha256, "tar": str(found.tar), "root": str(found.root)}
        print(json.dumps(facts | {"python": found.python, "packages": found.packages}))
        return 0
    packages = ", ".join(f"{name} {version}" for name, version in found.packages.items())
    print(f"image   {found.sha256}\nPython  {found.python} with {packages}")
    print(f"tar     {found.tar} ({found.tar.stat().st_size / 2**20:.0f} MB)\nroot    {found.root}")
    return 0
