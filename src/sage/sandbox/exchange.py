"""The outer side of a sandbox: requests as frames, and results from the frames that come back, which nobody trusts."""

from __future__ import annotations

import base64
import platform
from dataclasses import asdict
from typing import get_args

from sage.sandbox import seccomp
from sage.sandbox.contract import (
    Command,
    EndedBy,
    Files,
    Limits,
    Result,
    SandboxError,
    checked_files,
    checked_path,
)
from sage.sandbox.inside import frames

GRACE_S = 10.0  # that the inner side may take on top of the command's time


def request(files: Files, command: Command, limits: Limits) -> bytes:
    checked_files(files, limits)
    header = {
        "argv": list(command.argv),
        "env": dict(command.env),
        "limits": asdict(limits),
        "paths": list(files),
        "filter": base64.b64encode(call_filter()).decode(),
    }
    return frames.pack(header, [command.stdin, *files.values()])


def call_filter() -> bytes:
    machine = platform.machine()
    if machine not in seccomp.ARCHITECTURES:
        raise SandboxError(f"there is no table of system calls for {machine}: use {' or '.join(seccomp.ARCHITECTURES)}")
    return seccomp.program(machine)


def result(read: frames.Read, files: Files, limits: Limits) -> Result:
    """Reads the next frame and returns its result; a malformed frame becomes a result that ended as 'broken'."""
    most = limits.disk_mb * 2**20 + 4 * limits.output_bytes
    try:
        header, blobs = frames.unpack(read, most)
        if "failure" in header:
            return broken(str(header["failure"]))
        return result_from(header, blobs, files)
    except (frames.FrameError, SandboxError) as error:
        return broken(str(error))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        return broken(f"the answer is not as it should be ({type(error).__name__}: {error})")


def result_from(header: dict, blobs: list[bytes], files: Files) -> Result:
    code, ended_by = header["code"], header["ended_by"]
    if ended_by not in get_args(EndedBy) or not (code is None or type(code) is int):
        raise ValueError("an unknown end")
    out, err, *contents = blobs
    changed: dict[str, bytes | None] = {
        checked_path(path): content for path, content in zip(header["paths"], contents, strict=True)
    }
    changed |= {path: None for path in header["deleted"] if path in files and path not in changed}
    return Result(
        code=code,
        ended_by=ended_by,
        out=out,
        err=err,
        truncated=bool(header["truncated"]),
        wall_s=float(header["wall_s"]),
        cpu_s=float(header["cpu_s"]),
        peak_mb=float(header["peak_mb"]),
        changed=changed,
        skipped=tuple(map(str, header["skipped"])),
    )


def broken(reason: str) -> Result:
    return Result(code=None, ended_by="broken", err=f"the sandbox failed: {reason.strip()}\n".encode())
