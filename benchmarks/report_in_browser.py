"""Makes a report about runs, opens it in headless Chromium, and says what the page asked for and complained about.

python benchmarks/report_in_browser.py RUN [RUN ...] [--screenshot FILE] [--dark]

Prints one line of JSON, and ends with exit code 1 if the page asked for anything outside, wrote to the console, has a script,
or is larger than 2 MB. A second page, which does ask and write, shows that both would be seen. Needs the program `chromium`.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rl_training import write_report

LARGEST = 2_000_000  # bytes
OUTSIDE = "http://127.0.0.1:9/picture.png"
CONTROL = f'<!doctype html><img src="{OUTSIDE}"><script>console.error("seen")</script>'
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    *("--enable-logging=stderr", "--virtual-time-budget=3000"),
]


def open_page(page: Path, flags: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Returns the addresses outside that were asked for, each after the kind of what asked, and the console's lines.

    Chromium itself asks for some, of other kinds than pages do.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "net.json"
        own = [f"--user-data-dir={folder}/profile", f"--log-net-log={log}", *flags]
        done = subprocess.run(
            ["chromium", *FLAGS, *own, page.resolve().as_uri()], capture_output=True, text=True, timeout=120, check=True
        )
        events = log.read_text(encoding="utf-8", errors="replace")
    asked = set(re.findall(r'"traffic_annotation":(\d+),"url":"((?!file:|data:)[^"]+)"', events))
    return sorted(asked), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--screenshot", type=Path, help="PNG file to write")
    parser.add_argument("--width", type=int, default=980)
    parser.add_argument("--height", type=int, default=935)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    if shutil.which("chromium") is None:
        sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder) / "control.html"
        control.write_text(CONTROL, encoding="utf-8")
        asked, said = open_page(control, ["--dump-dom"])
        of_pages = {kind for kind, address in asked if address == OUTSIDE}
        if not of_pages or not any("seen" in line for line in said):
            sys.exit(f"the page that asks and writes was not noticed: {asked} {said}")
        started = time.perf_counter()
        page = write_report(options.runs, Path(folder) / "report.html")
        seconds = time.perf_counter() - started
        flags = ["--dump-dom"]
        if options.screenshot:
            flags = [f"--screenshot={options.screenshot.resolve()}", f"--window-size={options.width},{options.height}"]
        asked, said = open_page(page, [*flags, *(["--blink-settings=preferredColorScheme=0"] if options.dark else [])])
        asked = [address for kind, address in asked if kind in of_pages]
        text = page.read_text(encoding="utf-8")
        version = subprocess.run(["chromium", "--version"], capture_output=True, text=True, check=True).stdout.split()
        row = {
            "chromium": version[1] if len(version) > 1 else "?",
            "bytes": page.stat().st_size,
            "charts": text.count('class="chart'),
            "seconds_to_write": round(seconds, 2),
            "asked_outside": asked,
            "console": said,
            "scripts": text.count("<script"),
        }
    print(json.dumps(row))
    return 1 if asked or said or row["scripts"] or row["bytes"] > LARGEST else 0


if __name__ == "__main__":
    sys.exit(main())
