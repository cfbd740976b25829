"""Archives that were made to do harm, or that are broken, each from the golden zip of PPO by one change.

Whatever would run if one of them were unpickled creates the file `CANARY`, in the folder that is current then.
"""

import base64
import io
import json
import os
import pickle
import stat
import struct
import zipfile
from collections.abc import Callable

import numpy as np
import torch
from gymnasium.spaces import Box, Dict

from tests.api.sb3.goldens import FOLDER

CANARY = "canary"
COMMAND = f"touch {CANARY}"
BOMB = 80 * 2**20  # bytes
CODE = f"open({CANARY!r}, 'w').close()"
Members = dict[str, bytes]


class Calls:
    """What a pickle of it calls."""

    def __init__(self, function: object, *args: object) -> None:
        self.reduced = function, args

    def __reduce__(self) -> tuple:
        return self.reduced


def members(name: str = "ppo") -> Members:
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as file:
        return {member: file.read(member) for member in file.namelist()}


def zipped(content: Members, compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression, compresslevel=1) as file:
        for name, data in content.items():
            file.writestr(name, data)
    return out.getvalue()


def with_members(name: str = "ppo", **changes: bytes | None) -> bytes:
    """The archive with members replaced, `.` in their names written as `__`, or left out (None)."""
    found = members(name) | {key.replace("__", "."): value for key, value in changes.items()}
    return zipped({key: value for key, value in found.items() if value is not None})


def with_settings(name: str = "ppo", **changes: object) -> bytes:
    """The archive with other settings; bytes are a pickle."""
    settings = json.loads(members(name)["data"])
    for key, value in changes.items():
        pickled = isinstance(value, bytes)
        settings[key] = {":type:": "x", ":serialized:": base64.b64encode(value).decode()} if pickled else value
    return with_members(name, data=json.dumps(settings).encode())


def pickled(value: object) -> bytes:
    return pickle.dumps(value, 4)


def tensors(content: object) -> bytes:
    out = io.BytesIO()
    torch.save(content, out)
    return out.getvalue()


def policy() -> dict[str, torch.Tensor]:
    return torch.load(io.BytesIO(members()["policy.pth"]), weights_only=True)


def with_policy(change: Callable[[dict[str, torch.Tensor]], object]) -> bytes:
    found = policy()
    change(found)
    return with_members(policy__pth=tensors(found))


def with_program(data: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    """The archive with another program in its file of tensors."""
    with zipfile.ZipFile(io.BytesIO(members()["policy.pth"])) as file:
        content = {name: data if name.endswith("data.pkl") else file.read(name) for name in file.namelist()}
    return with_members(policy__pth=zipped(content, compression))


def edited_program(old: bytes, new: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(members()["policy.pth"])) as file:
        program = file.read(next(name for name in file.namelist() if name.endswith("data.pkl")))
    assert old in program
    return with_program(program.replace(old, new))


def special(name: str, content: bytes, mode: int = 0) -> bytes:
    """The archive with one more member of that name and mode."""
    out = io.BytesIO(zipped(members()))
    with zipfile.ZipFile(out, "a") as file:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        file.writestr(info, content)
    return out.getvalue()


def twice() -> bytes:
    out = io.BytesIO(zipped(members()))
    with zipfile.ZipFile(out, "a") as file:
        file.fp.seek(0, os.SEEK_END)
        info = zipfile.ZipInfo("datA")
        file.writestr(info, b"{}")
    return out.getvalue().replace(b"datA", b"data")


def lying_about_its_size() -> bytes:
    """A member of 80 MiB whose headers say that it has ten bytes."""
    archive = zipped(members() | {"big.pth": b"\0" * BOMB}, zipfile.ZIP_DEFLATED)
    return archive.replace(struct.pack("<L", BOMB), struct.pack("<L", 10))


def encrypted() -> bytes:
    archive = bytearray(zipped(members()))
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        start = archive.rfind(signature)
        archive[start + offset] |= 1
    return bytes(archive)


def flipped() -> bytes:
    """The archive with one byte of its weights changed."""
    archive = bytearray(zipped(members()))
    archive[archive.find(members()["policy.pth"]) + 3000] ^= 0xFF
    return bytes(archive)


def space(kind: str, **state: object) -> bytes:
    """A pickled space of gymnasium with any state."""
    module = kind.lower()
    head = b"\x80\x04" + f"cgymnasium.spaces.{module}\n{kind}\n".encode() + b")\x81"
    return head + pickle.dumps(state, 4)[2:-1] + b"b."


def cyclic_space() -> bytes:
    """A Dict space that has itself as its only entry."""
    return b"\x80\x04cgymnasium.spaces.dict\nDict\n)\x81q\x00}(X\x06\x00\x00\x00spaces}X\x01\x00\x00\x00xh\x00sub."


def nested_lists(end: bytes = b".") -> bytes:
    """A billion laughs: thirty lists, each of which holds the one before twice."""
    return (
        b"\x80\x04]q\x00"
        + b"".join(b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(30))
        + end
    )


def nested_spaces() -> bytes:
    """The same of Dict spaces."""
    head = b"cgymnasium.spaces.dict\nDict\n)\x81}X\x06\x00\x00\x00spaces}("
    entries = (b"X\x01\x00\x00\x00ah" + bytes([i]) + b"X\x01\x00\x00\x00bh" + bytes([i]) for i in range(30))
    levels = (head + entry + b"usbq" + bytes([i + 1]) for i, entry in enumerate(entries))
    return b"\x80\x04" + space("Box", dtype="float32", low=[0.0], high=[1.0])[2:-1] + b"q\x00" + b"".join(levels) + b"."


def equal_hashes() -> bytes:
    """A dict of whole numbers whose hashes are all 0, so that every key is compared with all before it."""
    keys = (b"\x8a\x0b" + (number * (2**61 - 1)).to_bytes(11, "little") + b"N" for number in range(1, 1_000))
    return b"\x80\x04}(" + b"".join(keys) + b"u."


def calls_of_calls() -> bytes:
    """A call of what a call returned, and so on: the name of each was longer than the one before."""
    return b"\x80\x04cmine\nmake\n" + b")R" * 2_000 + b"."


def two_directories() -> bytes:
    """A file of tensors that Python's zipfile takes for harmless, and torch's own reader for a bomb.

    Zips may stand behind other bytes. Python then moves the place of the directory, which torch takes as it is written.
    """
    with zipfile.ZipFile(io.BytesIO(members()["policy.pth"])) as file:
        shown = {name: file.read(name) for name in file.namelist()}
    folder = next(iter(shown)).split("/")[0]
    shown[f"{folder}/data/99"] = np.random.default_rng(0).bytes(2**19)  # as long as the hidden part
    hidden = zipped(shown | {f"{folder}/data/0": b"\0" * 2**22, f"{folder}/data/99": b""}, zipfile.ZIP_DEFLATED)
    behind = zipped(shown)
    size, start = struct.unpack("<II", hidden[-10:-2])
    (place,) = struct.unpack("<I", behind[-6:-2])
    assert start <= place
    return hidden[:start].ljust(place, b"\0") + hidden[start : start + size] + behind


def many_members() -> bytes:
    return zipped(members() | {f"member{number}": b"" for number in range(2_000)})


def stored(shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor of one number that claims to have any shape."""
    return torch.zeros(1).expand(shape)


def optimizer(change: Callable[[dict], object]) -> bytes:
    found = torch.load(io.BytesIO(members()["policy.optimizer.pth"]), weights_only=True)
    change(found)
    return with_members(policy__optimizer__pth=tensors(found))


HARMFUL: dict[str, tuple[Callable[[], bytes], str]] = {
    "os.system in the observation space": (
        lambda: with_settings(observation_space=pickled(Calls(os.system, COMMAND))),
        f"would run {os.system.__module__}.system",
    ),
    "eval in the action space": (
        lambda: with_settings(action_space=pickled(Calls(eval, CODE))),
        "would run builtins.eval",
    ),
    "exec among policy_kwargs": (
        lambda: with_settings(policy_kwargs=pickled({"net_arch": [8, Calls(exec, CODE)]})),
        "would run builtins.exec",
    ),
    "a command in the clip range": (
        lambda: with_settings(
            clip_range=b"csubprocess\nPopen\n(]X\x05\x00\x00\x00touchaX\x06\x00\x00\x00canarya\x85R."
        ),
        "would run subprocess.Popen",
    ),
    "a command in a setting that is not read": (
        lambda: with_settings(ep_info_buffer=pickled([{"r": Calls(os.system, COMMAND)}])),
        f"'ep_info_buffer' that would run {os.system.__module__}.system",
    ),
    "a command in a setting of the file's own": (
        lambda: with_settings(anything=pickled(Calls(os.system, COMMAND))),
        f"would run {os.system.__module__}.system",
    ),
    "an import in the learning rate": (
        lambda: with_settings(learning_rate=pickled(Calls(__import__, "antigravity"))),
        "would run builtins.__import__",
    ),
    "a name within a name": (
        lambda: with_settings(lr_schedule=b"\x80\x04\x8c\x07os.path\x8c\x09os.system\x93\x8c\x0ctouch canary\x85R."),
        "would run os.path.os.system",
    ),
    "an instance, in the oldest protocol": (
        lambda: with_settings(action_noise=b"(S'touch canary'\nios\nsystem\n."),
        "would run os.system",
    ),
    "an object, in the second protocol": (
        lambda: with_settings(action_noise=b"(cos\nsystem\nS'touch canary'\no."),
        "would run os.system",
    ),
    "a command among the weights": (
        lambda: with_program(pickled(Calls(os.system, COMMAND))),
        f"would run {os.system.__module__}.system",
    ),
    "code of another package among the weights": (
        lambda: with_program(b"\x80\x02cnumpy.testing._private.utils\nrunstring\n(X\x01\x00\x00\x001}tR."),
        "names numpy.testing._private.utils.runstring",
    ),
    "weights as a bare pickle": (
        lambda: with_members(policy__pth=pickled(Calls(os.system, COMMAND))),
        "is not a file of torch's zip format",
    ),
    "a command in the optimizer": (
        lambda: with_members(policy__optimizer__pth=pickled(Calls(os.system, COMMAND))),
        "is not a file of torch's zip format",
    ),
    "a policy class that was pickled as code": (
        lambda: with_settings(policy_class=pickled(Calls(type, "Policy", (), {}))),
        "does not name its policy's class",
    ),
    "an unknown opcode": (lambda: with_settings(action_space=b"\x80\x04\x82\x01."), "has the opcode EXT1"),
    "a path out of the folder": (lambda: special(f"../{CANARY}", b"x"), "not a plain file name"),
    "a path from the root": (lambda: special(f"/tmp/{CANARY}", b"x"), "not a plain file name"),
    "a link": (lambda: special("policy2.pth", b"/etc/passwd", stat.S_IFLNK | 0o777), "is a link or a device"),
    "two members of one name": (twice, "has the member 'data' twice"),
    "a bomb in the settings": (
        lambda: zipped(members() | {"data": b" " * BOMB}, zipfile.ZIP_DEFLATED),
        "would unpack to",
    ),
    "a bomb among the weights": (
        lambda: with_program(b"\0" * (30 * 2**20), zipfile.ZIP_DEFLATED),
        "has compressed records",
    ),
    "a bomb that lies about its size": (lying_about_its_size, "no zip archive, or a damaged one"),
    "a billion laughs": (lambda: with_settings(observation_space=nested_lists()), "has a list where a space"),
    "a space within itself": (
        lambda: with_settings(observation_space=cyclic_space()),
        "has a Dict space within another",
    ),
    "a number without end": (
        lambda: with_settings(n_envs=b"\x80\x04\x8b\xff\xff\x0f\x00" + b"\x7f" * 0xFFFFF + b"."),
        "has a whole number of",
    ),
    "lists without end": (lambda: with_members(data=b"[" * 1_000_000), "not valid JSON"),
    "two thousand members": (many_members, "has 2,006 members"),
    "a tensor larger than its bytes": (
        lambda: with_policy(lambda p: p.update({"log_std": stored((10**6, 10**6))})),
        "that its bytes do not fill",
    ),
    "a storage that claims more than its record": (
        lambda: edited_program(b"K\x02", b"M\x00\x70"),
        "torch cannot read",
    ),
    "lists within lists as a number": (lambda: with_settings(n_envs=nested_lists()), "has n_envs=a list"),
    "lists within lists among policy_kwargs": (
        lambda: with_settings(policy_kwargs=nested_lists(b"}X\x0d\x00\x00\x00squash_outputh\x1es.")),
        "policy_kwargs squash_output=a list",
    ),
    "spaces within spaces": (
        lambda: with_settings(observation_space=nested_spaces()),
        "has a Dict space within another",
    ),
    "keys of one hash": (lambda: with_settings(lr_schedule=equal_hashes()), "a key of 61 bits"),
    "calls of calls": (lambda: with_settings(observation_space=calls_of_calls()), "has mine.make() where a space"),
    "a layer of a billion outputs and no inputs": (
        lambda: with_policy(lambda p: p.update({"mlp_extractor.policy_net.0.weight": torch.zeros(10**9, 0)})),
        "has a layer mlp_extractor.policy_net.0 without weights",
    ),
    "layers that only fit into a terabyte": (
        lambda: with_policy(
            lambda p: p.update({f"mlp_extractor.policy_net.{i}.weight": torch.zeros(10**6, 1) for i in (0, 2)})
        ),
        "cannot be built: algorithm.net_arch=",
    ),
    "ten billion actions": (lambda: with_settings(action_space=space("MultiBinary", n=10**10)), "cannot be built: "),
    "thousands of tensors with the same numbers": (
        lambda: with_policy(lambda p: p.update(dict.fromkeys(map(str, range(12)), torch.zeros(2**18)))),
        "has tensors of more than 10 times its own size",
    ),
    "control characters": (
        lambda: with_settings(policy_class=b"\x80\x04\x8c\x06a\x1b[2J\n\x8c\x01P\x93."),
        "has the policy class a\\x1b[2J\\n.P",
    ),
    "a name without end": (
        lambda: with_settings(policy_class=b"\x80\x04X" + struct.pack("<I", 10**6) + b"a" * 10**6 + b"\x8c\x01P\x93."),
        "has the policy class aaa",
    ),
    "a billion environments": (lambda: with_settings(n_envs=10**9), "has n_envs=1000000000"),
}
BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "no zip": (lambda: b"import os", "is no zip archive"),
    "an empty file": (lambda: b"", "is no zip archive"),
    "half a zip": (lambda: zipped(members())[:20_000], "not a plain file name"),
    "a changed byte": (flipped, "is no zip archive, or a damaged one (BadZipFile: Bad CRC-32"),
    "a password": (encrypted, "is no zip archive, or a damaged one (RuntimeError"),
    "no settings": (lambda: with_members(data=None), "has no member 'data'"),
    "no weights": (lambda: with_members(policy__pth=None), "has no member 'policy.pth'"),
    "a model of Stable-Baselines 2": (
        lambda: zipped({"data": b"{}", "parameters": b"", "parameter_list": b""}),
        "has no member 'policy.pth'",
    ),
    "half the weights": (
        lambda: with_members(policy__pth=members()["policy.pth"][:3_000]),
        "is not a file of torch's zip",
    ),
    "settings that are no JSON": (lambda: with_members(data=b"{'a': 1}"), "not valid JSON"),
    "settings that are a list": (lambda: with_members(data=b"[]"), "are a list instead of a mapping"),
    "no base64": (lambda: with_settings(action_space={":serialized:": "%%%"}), "is no valid base64"),
    "half a pickle": (lambda: with_settings(action_space=pickled([1, 2, 3])[:-4]), "is a damaged pickle"),
    "no spaces": (lambda: with_settings(observation_space=None), "has a NoneType where a space"),
    "a Tuple space": (lambda: with_settings(action_space=space("Tuple", spaces=())), "has a Tuple space"),
    "a Box without bounds": (
        lambda: with_settings(action_space=space("Box", dtype="float32")),
        "cannot be read (KeyError",
    ),
    "too many choices": (lambda: with_settings(action_space=space("Discrete", n=10**12)), "more than 100000 choices"),
    "weights that are not numbers": (
        lambda: with_policy(lambda p: p["action_net.bias"].fill_(torch.nan)),
        "not finite",
    ),
    "weights without end": (lambda: with_policy(lambda p: p["value_net.bias"].fill_(torch.inf)), "not finite"),
    "weights of half precision": (
        lambda: with_policy(lambda p: p.update({k: x.half() for k, x in p.items()})),
        "tensors of float32",
    ),
    "a layer of another width": (
        lambda: with_policy(lambda p: p.update({"mlp_extractor.policy_net.2.weight": torch.zeros(6, 9)})),
        "of the shape (6, 9), and its spaces and settings ask for (6, 8)",
    ),
    "a missing layer": (lambda: with_policy(lambda p: p.pop("action_net.weight")), "has no layer action_net"),
    "a missing bias": (
        lambda: with_policy(lambda p: p.pop("action_net.bias")),
        "has no tensors for policy.head.net.bias2",
    ),
    "one tensor too many": (
        lambda: with_policy(lambda p: p.update({"extra": torch.ones(2)})),
        "has a tensor 'extra' of the shape (2,), for which there is no place",
    ),
    "actions of another size": (
        lambda: with_settings(action_space=space("Discrete", n=7)),
        "ask for (7, 6)",
    ),
    "an optimizer of other networks": (
        lambda: optimizer(lambda o: o["state"][0].update(exp_avg=torch.zeros(7))),
        "has an optimizer policy.optimizer.pth that does not fit",
    ),
    "optimizer states that are a list": (lambda: optimizer(lambda o: o.update(state=[1, 2])), "that does not fit"),
    "an average that is no tensor": (
        lambda: optimizer(lambda o: o["state"][0].update(exp_avg=1.0)),
        "that does not fit",
    ),
    "squares below zero": (
        lambda: optimizer(lambda o: o["state"][0]["exp_avg_sq"].fill_(-1.0)),
        "has negative numbers, and is a mean of squares",
    ),
    "endless steps": (lambda: optimizer(lambda o: o["state"][0].update(step=float("inf"))), "it took inf steps"),
    "another compression": (lambda: zipped(members(), zipfile.ZIP_LZMA), "neither stored nor deflated"),
    "SAC as TD3": (
        lambda: with_settings("sac", policy_class=b"cstable_baselines3.td3.policies\nTD3Policy\n."),
        "are of another kind than those of TD3Algorithm",
    ),
    "DQN as QRDQN": (
        lambda: with_settings("dqn", policy_class=b"csb3_contrib.qrdqn.policies\nQRDQNPolicy\n."),
        "has no layers quantile_net.quantile_net, which its policy class has",
    ),
    "PPO as RecurrentPPO": (
        lambda: with_settings(policy_class=b"csb3_contrib.common.recurrent.policies\nMlpLstmPolicy\n."),
        "has no LSTM lstm_actor",
    ),
    "SAC for choices": (
        lambda: with_settings("sac", action_space=space("Discrete", n=3)),
        "cannot be built: SAC needs Box actions",
    ),
    "an algorithm that is not available": (
        lambda: with_settings(policy_class=b"csb3_contrib.ars.policies\nARSPolicy\n."),
        "ARS is not available",
    ),
    "a policy of the user's own": (
        lambda: with_settings(policy_class=b"cmy_project.policies\nMyPolicy\n."),
        "has the policy class my_project.policies.MyPolicy",
    ),
    "masks": (
        lambda: with_settings(policy_class=b"csb3_contrib.common.maskable.policies\nMaskableActorCriticPolicy\n."),
        "the observation's key action_mask",
    ),
    "an encoder of the user's own": (
        lambda: with_settings(policy_kwargs=b"}X\x18\x00\x00\x00features_extractor_classcmine\nNet\ns."),
        "has the features extractor mine.Net",
    ),
    "exploration that depends on the state": (lambda: with_settings(use_sde=True), "use_sde=True"),
    "pictures in a Dict": (
        lambda: with_settings("sac_dict", observation_space=pickled(Dict({"eye": Box(0, 255, (3, 36, 36), np.uint8)}))),
        "sees pictures in a Dict",
    ),
    "a setting out of range": (lambda: with_settings(gamma=7), "algorithm.gamma=7"),
    "a setting of another type": (lambda: with_settings(batch_size="many"), "algorithm.batch_size"),
}
