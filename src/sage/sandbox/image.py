"""The image of all backends: a root file system as a tar, named by its hash, kept in the cache and unpacked there.

image = ensure()
image.root      # an unpacked copy, never written to
image.tar       # the same as a tar, for `docker import`
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from sage.files import write_json
from sage.sandbox import rootfs
from sage.sandbox.contract import SandboxError
from sage.sandbox.leases import locked
from sage.settings import cache_folder


@dataclass(frozen=True)
class Image:
    """An image that is complete on disk, unpacked and as a tar."""

    root: Path
    tar: Path
    sha256: str  # of the tar
    python: str  # its version
    packages: dict[str, str]  # the version of each


def ensure(cache: Path | None = None) -> Image:
    """Returns the image of this machine as it is now, from the cache or built (some seconds)."""
    images = (cache or cache_folder()) / "images"
    recipe = recipe_key()
    image = find(images, recipe)
    if image is None:
        with locked(images / ".lock"):
            image = find(images, recipe) or build(images, recipe)
    return image


def recipe_key() -> str:
    """Returns a hash that changes whenever the image would, of versions of Python, system and packages, and of sage."""
    parts = {
        "python": sys.version,
        "system": [platform.machine(), *platform.libc_ver()],
        "packages": package_versions(),
        "files": {path.name: digest(path) for path in (*rootfs.sage_files(), Path(rootfs.__file__))},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def package_versions() -> dict[str, str]:
    return {name: package.version for name, package in rootfs.packages().items()}


def find(images: Path, recipe: str) -> Image | None:
    """Returns the image that the recipe built, or None; raises SandboxError if its tar has changed since."""
    for described in sorted(images.glob("*/image.json")):
        facts = json.loads(described.read_text(encoding="utf-8"))
        folder = described.parent
        if facts["recipe"] != recipe:
            continue
        if digest(folder / "rootfs.tar") != facts["sha256"]:
            raise SandboxError(f"the image {folder} was changed after it was built: remove the folder")
        return Image(folder / "rootfs", folder / "rootfs.tar", facts["sha256"], facts["python"], facts["packages"])
    return None


def build(images: Path, recipe: str) -> Image:
    """Builds the image under a temporary name, renames it when it is complete, and returns it."""
    unfinished = images / f".building-{os.getpid()}"
    try:
        root = unfinished / "rootfs"
        root.mkdir(parents=True)
        rootfs.fill(root)
        write_tar(root, unfinished / "rootfs.tar")
        facts = {
            "sha256": digest(unfinished / "rootfs.tar"),
            "recipe": recipe,
            "python": platform.python_version(),
            "packages": package_versions(),
            "sage": importlib.metadata.version("sage-routing"),
        }
        write_json(unfinished / "image.json", facts)
        folder = images / facts["sha256"]
        if folder.exists():  # another recipe with the same result
            shutil.rmtree(folder)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    image = find(images, recipe)
    assert image is not None
    return image


def write_tar(root: Path, to: Path) -> None:
    """Writes the files below `root` as a tar, with the same bytes for the same files, whoever builds it and when."""

    def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = 0
        return member

    with tarfile.open(to, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, path.relative_to(root).as_posix(), recursive=False, filter=owned_by_root)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
