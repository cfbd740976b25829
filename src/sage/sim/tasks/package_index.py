"""Download of pinned source archives from the package index that pip uses; nothing of them is built or run."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urldefrag, urljoin
from urllib.request import urlopen

from sage.files import replacing

TIMEOUT_S = 60


class FetchError(ValueError):
    """An archive that cannot be had; the message says why, with the fix."""


class Links(HTMLParser):
    """Parser of a page of a simple index (PEP 503); `found` has the address of each file by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href") if tag == "a" else None
        if address:
            self.found[urldefrag(address).url.rsplit("/", 1)[-1]] = urldefrag(address).url


def index_addresses() -> list[str]:
    """Returns the indexes of pip's settings (files and environment), the main one first; pip's default if there is
    none."""
    settings = pip("config", "list")
    named = re.findall(r"^\S*\b(?<!extra-)index-url='(.*)'$", settings, re.MULTILINE)
    extra = " ".join(re.findall(r"^\S*\bextra-index-url='(.*)'$", settings, re.MULTILINE)).replace("\\n", " ").split()
    if not named:
        options = re.sub(r"\s+", " ", pip("download", "--help"))
        named = re.findall(r"--index-url <url>.*?\(default (\S+?)\)", options)[:1]
    return [f"{address.rstrip('/')}/" for address in (*named[-1:], *extra)]


def pip(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise FetchError("pip, which knows the package index, is not there: install it, or use the synthetic families")
    return done.stdout


def fetch(name: str, file: str, sha256: str, folder: Path, indexes: list[str] | None = None) -> bytes:
    """Returns an archive from the folder, or from an index, and then keeps it in the folder; raises FetchError if it
    cannot be had or has another hash."""
    kept = folder / f"{sha256}.tar.gz"
    if kept.is_file():
        content = kept.read_bytes()
        if hashlib.sha256(content).hexdigest() == sha256:
            return content
    reasons = []
    for index in index_addresses() if indexes is None else indexes:
        try:
            content = download(index, name, file)
        except (URLError, OSError) as error:
            reasons.append(str(error))
            continue
        if hashlib.sha256(content).hexdigest() != sha256:
            raise FetchError(f"{file} of the index has another hash than the pinned {sha256[:12]}...: it is not used")
        with replacing(kept) as temporary:
            temporary.write_bytes(content)
        return content
    raise FetchError(f"{file} could not be fetched ({'; '.join(reasons) or 'no index'}): are you offline?")


def download(index: str, name: str, file: str) -> bytes:
    page = urljoin(index, f"{re.sub(r'[-_.]+', '-', name).lower()}/")
    with urlopen(page, timeout=TIMEOUT_S) as answer:
        links = Links()
        links.feed(answer.read().decode("utf-8", "replace"))
    if file not in links.found:
        raise OSError(f"the index does not list {file}")
    with urlopen(urljoin(page, links.found[file]), timeout=TIMEOUT_S) as answer:
        return answer.read()
