"""Files of tensors as torch writes them, checked before `torch.load` may open them with `weights_only=True`.

The one file of the package that calls `torch.load`. Checked before: that the file is an uncompressed zip, so that its
size bounds the memory, and that its program names nothing but tensors. Torch gets a new zip of the records that were
checked, because its own reader may find other records in a file with two directories.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator

import torch
from torch import Tensor

from rl_training.api.sb3.inert_pickle import Name, PickleError, read_pickle

STORAGES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
KNOWN = {Name("collections", "OrderedDict"), Name("torch._utils", "_rebuild_tensor_v2")}
KNOWN |= {Name("torch._utils", "_rebuild_parameter"), *(Name("torch", f"{kind}Storage") for kind in STORAGES)}
OLD = b"\x80\x02\x8a\x0a"  # how files begin that are no zip
MOST_RECORDS = 100_000
MOST_TIMES = 10  # the file's own size: the bytes of all tensors, of which several may share their numbers


def read_tensors(data: bytes) -> object:
    """Returns the tensors in the bytes of a file by `torch.save`, on the CPU, in the dicts and lists that hold them.

    Raises PickleError if the file is damaged or compressed, names anything but tensors, or has one that is larger than
    the bytes of the file, or not finite.
    """
    records = checked_records(data)
    try:
        content = torch.load(zipped(records), map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, EOFError) as error:
        raise PickleError(f"torch cannot read ({' '.join(str(error).split())[:200]})") from error
    total = 0
    for tensor in leaves(content):
        if isinstance(tensor, Tensor):
            check_tensor(tensor, len(data))
            total += tensor.nbytes
            if total > MOST_TIMES * len(data):
                raise PickleError(f"has tensors of more than {MOST_TIMES} times its own size")
    return content


def zipped(records: dict[str, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        for name, content in records.items():
            file.writestr(zipfile.ZipInfo(name), content)
    out.seek(0)
    return out


def checked_records(data: bytes) -> dict[str, bytes]:
    """Returns the records of an uncompressed zip by name.

    Raises PickleError unless the bytes are such a zip, and its program makes nothing but tensors.
    """
    if data.startswith(OLD):
        raise PickleError("torch wrote before version 1.6: load and save the model once with Stable-Baselines3")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            records = file.infolist()
            names = {record.filename for record in records}
            if len(names) != len(records) or len(records) > MOST_RECORDS:
                raise PickleError("has records of the same name, or too many of them")
            if any(record.compress_type != zipfile.ZIP_STORED or record.file_size > len(data) for record in records):
                raise PickleError("has compressed records, which torch does not write")
            if sum(record.file_size for record in records) > len(data):
                raise PickleError("has records that are larger than the file")
            programs = [name for name in names if name.endswith("data.pkl")]
            if len(programs) != 1:
                raise PickleError("is not a file of torch's zip format, which has one data.pkl")
            content = {record.filename: file.read(record) for record in records}
            program = read_pickle(content[programs[0]])
    except (zipfile.BadZipFile, struct.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise PickleError(f"is not a file of torch's zip format, or damaged ({error})") from error
    for name in program.names:
        if name not in KNOWN:
            raise PickleError(f"names {name.path}, and a file of tensors has no need of that")
    return content


def leaves(content: object) -> Iterator[object]:
    """Yields what lies in nested dicts, lists and tuples, each of which is entered once."""
    waiting, entered = [content], set()
    for _ in range(MOST_RECORDS * 10):
        if not waiting:
            return
        part = waiting.pop()
        if not isinstance(part, dict | list | tuple):
            yield part
        elif id(part) not in entered:
            entered.add(id(part))
            waiting.extend(part.values() if isinstance(part, dict) else part)
    raise PickleError("holds more parts than any model")


def check_tensor(tensor: Tensor, size: int) -> None:
    """Raises PickleError if a tensor claims more elements than a file of `size` bytes has, or is not finite."""
    if tensor.layout != torch.strided or not tensor.is_contiguous() or tensor.nbytes > size:
        raise PickleError(f"has a tensor of the shape {tuple(tensor.shape)} that its bytes do not fill")
    if not tensor.isfinite().all():
        raise PickleError(
            f"has a tensor of the shape {tuple(tensor.shape)} with numbers that are not finite (nan or inf)"
        )
