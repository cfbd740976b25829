"""Unpacks wheels that an interpreter lacks into a folder for PYTHONPATH; needs no pip and no network.

PYTHON benchmarks/unpack_wheels.py WHEELS FOLDER

WHEELS is a folder of wheels. Those of a distribution that PYTHON has already are left out, so that its own builds, such as
a JAX for the GPU, are never shadowed. Prints what was unpacked, and which version is used of the rest. Everything unpacked is
compiled to bytecode, and so is src, or the first process of each library would do it while its clock runs.
"""

import argparse
import compileall
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    wheels = sorted(options.wheels.glob("*.whl"))
    if not wheels:
        parser.error(f"there is no wheel in {options.wheels}")
    for wheel in wheels:
        name, carried = wheel.name.split("-")[:2]
        try:
            print(f"{name}: {version(name)} is there already")
        except PackageNotFoundError:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(options.folder)
            print(f"{name}: {carried} unpacked")
    for folder in (options.folder, Path(__file__).parents[1] / "src"):
        compileall.compile_dir(folder, quiet=2, workers=0)


if __name__ == "__main__":
    main()
