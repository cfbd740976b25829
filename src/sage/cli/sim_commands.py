"""The group `sage sim`: software tasks that run in sandboxes; and its command `image`."""

from __future__ import annotations

import argparse

from sage.cli.parser import Parser, add_actions

COMMANDS = {
    "compile": (
        "sim_environment_commands.add_compile",
        "run every repair that a policy can try, and store what each does",
    ),
    "fit-models": ("sim_model_commands.add_fit_models", "models of the simulator from recorded outcomes, checked"),
    "train": ("sim_training_commands.add_train", "PPO on compiled tasks; a folder that has a run goes on"),
    "bench": ("sim_training_commands.add_bench", "policies on unseen packages, between chance and full knowledge"),
    "image": ("sim_commands.add_image", "build the image of all sandboxes from this machine's Python, or find it"),
    "generate": (
        "sim_task_commands.add_generate",
        "make tasks, verify them in sandboxes, and write a manifest of them",
    ),
    "audit": ("sim_task_commands.add_audit", "prove tasks: the oracle solves them, doing nothing does not"),
    "run": ("sim_run_commands.add_run", "let a policy repair tasks in sandboxes, grade them, and report"),
}
FORMER = {"doctor": "sandbox_commands.add_sandbox_doctor"}  # now `sage doctor --sandboxes`


def add_sim(sim: Parser) -> None:
    sim.description = "Software tasks that run in sandboxes, and policies that repair them."
    add_actions(sim, COMMANDS, FORMER)


def add_image(image: argparse.ArgumentParser) -> None:
    image.add_argument("--json", action="store_true", help="one JSON object")
    image.set_defaults(func=show_image)


def show_image(arguments: argparse.Namespace) -> int:
    import json

    from sage.sandbox import image

    found = image.ensure()
    if arguments.json:
        facts = {"sha256": found.sha256, "tar": str(found.tar), "root": str(found.root)}
        print(json.dumps(facts | {"python": found.python, "packages": found.packages}))
        return 0
    packages = ", ".join(f"{name} {version}" for name, version in found.packages.items())
    print(f"image   {found.sha256}\nPython  {found.python} with {packages}")
    print(f"tar     {found.tar} ({found.tar.stat().st_size / 2**20:.0f} MB)\nroot    {found.root}")
    return 0
