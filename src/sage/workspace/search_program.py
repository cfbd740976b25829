"""Program that finds lines by a regular expression; it runs in a sandbox, whose limits end an expression that never
ends."""

from __future__ import annotations

import os
import re
import sys

LONGEST = 300  # characters of a line


def main(pattern: str, most: int) -> None:
    try:
        matches = re.compile(pattern).search
    except (re.error, RecursionError, OverflowError) as error:
        sys.exit(f"{error}")
    found = 0
    for folder, folders, names in os.walk("."):
        folders.sort()
        for path in sorted(os.path.normpath(os.path.join(folder, name)) for name in names):
            try:
                with open(path, encoding="utf-8") as file:
                    lines = file.read().split("\n")
            except UnicodeDecodeError:
                continue
            for number, line in enumerate(lines, 1):
                if matches(line):
                    found += 1
                    if found <= most:
                        print(f"{path}:{number}:{line[:LONGEST]}")
    if found > most:
        print(f"({found - most} more lines match)")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
