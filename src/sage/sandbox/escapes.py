"""Programs that try to get out of a sandbox or to exceed its limits; one that succeeds prints ESCAPED.

They run in `sage doctor --sandboxes` and in the tests, in every backend, so that what a host enforces is measured.
"""

from __future__ import annotations

from typing import NamedTuple

MARK = b"ESCAPED"
PRELUDE = """
import ctypes, errno, glob, json, mmap, os, resource, signal, socket, struct, subprocess, sys, time
host = json.load(sys.stdin)  # port, abstract, path, secret, victim, limits
libc = ctypes.CDLL(None, use_errno=True)

def escaped(*what):
    print("ESCAPED", *what, flush=True)

def call(number, *arguments):
    found = libc.syscall(number, *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), "")
    return found

NUMBERS = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
def number(*both):
    return both[NUMBERS]

try:
"""
EPILOGUE = """
except (OSError, MemoryError, ValueError, OverflowError) as error:
    print("contained:", repr(error))
"""


class EscapeAttempt(NamedTuple):
    name: str
    group: str
    body: str

    @property
    def program(self) -> bytes:
        lines = "".join(f"    {line}\n" for line in self.body.strip().splitlines())
        return (PRELUDE.lstrip("\n") + lines + EPILOGUE.lstrip("\n")).encode()


NETWORK = {
    "tcp": 'socket.create_connection(("127.0.0.1", host["port"]), 1)\nescaped()',
    "tcp over IPv6": 'socket.create_connection(("::1", host["port"]), 1)\nescaped()',
    "udp": 's = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b"x", ("127.0.0.1", host["port"]))',
    "abstract socket": 's = socket.socket(socket.AF_UNIX)\ns.connect("\\0" + host["abstract"])\nescaped()',
    "socket in a folder": 's = socket.socket(socket.AF_UNIX)\ns.connect(host["path"] + ".sock")\nescaped()',
    "raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)\nescaped()",
    "packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nescaped()",
    "interface up": """
import fcntl
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
escaped()
""",
}
FILES = {
    "read the host's file": 'escaped(open(host["path"]).read())',
    "through /proc/1/root": 'escaped(open("/proc/1/root" + host["path"]).read())',
    "through the working folder of others": """
for folder in glob.glob("/proc/[0-9]*/cwd"):
    if os.path.exists(folder + host["path"]) or os.path.exists(folder + "/../../.." + host["path"]):
        escaped(folder)
""",
    "up from the root": 'escaped(open("/" + "../" * 20 + host["path"].lstrip("/")).read())',
    "chroot and back": """
os.mkdir("deeper")
folder = os.open(".", os.O_RDONLY)
os.chroot("deeper")
os.fchdir(folder)
for _ in range(50):
    os.chdir("..")
escaped(os.listdir("."))
""",
    "write to the root": 'open("/written", "w")\nescaped()',
    "write to Python": 'open("/usr/bin/python3", "r+b")\nescaped()',
    "write to the supervisor's source": 'open("/sage/inside/command.py", "r+b")\nescaped()',
    "delete Python": 'os.unlink("/usr/bin/python3")\nescaped()',
    "remount the root": """
if libc.mount(None, b"/", None, ctypes.c_ulong(32 | 4096), None) == 0:
    escaped()
""",
    "unmount /proc": 'if libc.umount2(b"/proc", 2) == 0:\n    escaped()',
    "mount": 'if libc.mount(b"tmpfs", b"/work", b"tmpfs", 0, None) == 0:\n    escaped()',
    "a disk by its number": 'os.mknod("disk", 0o60600, os.makedev(254, 0))\nescaped(open("disk", "rb").read(16))',
    "memory of the machine": """
for name in ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore"):
    if os.path.exists(name) and open(name, "rb").read(16):
        escaped(name)
""",
    "file by its handle": """
handle = struct.pack("Ii", 8, 1) + struct.pack("Q", 2)
call(number(304, 265), os.open("/", os.O_RDONLY), ctypes.c_char_p(handle), 0)
escaped()
""",
    "kernel settings": """
for name in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
    if os.path.exists(name):
        open(name, "w")
        escaped(name)
""",
    "control groups": 'for name in glob.glob("/sys/fs/cgroup/*"):\n    escaped(name)',
    "secrets of the environment": """
for name in ("/proc/self/environ", "/proc/1/environ"):
    with open(name, "rb") as file:
        if host["secret"].encode() in file.read():
            escaped(name)
""",
    "secret in the environment": 'if host["secret"] in str(dict(os.environ)):\n    escaped()',
}
PROCESSES = {
    "see others": """
for name in os.listdir("/proc"):
    if name.isdigit():
        with open(f"/proc/{name}/cmdline", "rb") as file:
            if host["secret"].encode() in file.read():
                escaped(name)
""",
    "kill another": "os.kill(host['victim'], 9)\nescaped()",
    "kill the supervisor": """
for process in {1, os.getppid()}:
    for sent in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        os.kill(process, sent)
""",
    "kill everybody": "os.kill(-1, 9)",
    "stop the supervisor's group": "os.killpg(os.getpgid(os.getppid()), signal.SIGSTOP)",
    "trace the supervisor": "call(number(101, 117), 16, os.getppid(), 0, 0)\nescaped()",
    "trace oneself": "call(number(101, 117), 0, 0, 0, 0)\nescaped()",
    "read the supervisor's memory": """
local, place = ctypes.create_string_buffer(8), ctypes.c_void_p(0x400000)
one = (ctypes.c_void_p * 2)(ctypes.addressof(local), 8)
other = (ctypes.c_void_p * 2)(0x400000, 8)
call(number(310, 270), os.getppid(), one, 1, other, 1, 0)
escaped()
""",
    "open the supervisor's memory": 'open(f"/proc/{os.getppid()}/mem", "r+b")\nescaped()',
    "open the supervisor's files": """
for name in os.listdir(f"/proc/{os.getppid()}/fd"):
    os.open(f"/proc/{os.getppid()}/fd/{name}", os.O_WRONLY)
    escaped(name)
""",
    "take the supervisor's files": """
there = call(434, os.getppid(), 0)
for descriptor in range(16):
    call(438, there, descriptor, 0)
    escaped(descriptor)
""",
    "write to inherited files": """
for descriptor in range(3, 1024):
    try:
        os.write(descriptor, b"SGF1")
    except OSError:
        continue
    escaped(descriptor)
""",
    "join the supervisor's namespaces": """
for kind in ("user", "mnt", "pid", "net"):
    call(number(308, 268), os.open(f"/proc/{os.getppid()}/ns/{kind}", os.O_RDONLY), 0)
    escaped(kind)
""",
}
PRIVILEGES = {
    "new user namespace": "call(number(272, 97), 0x10000000)\nescaped()",
    "new user namespace by clone": """
child = call(number(56, 220), 0x10000000 | 17, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
escaped()
""",
    "new user namespace by clone3": """
arguments = struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
child = call(435, ctypes.c_char_p(arguments), 88)
if child == 0:
    os._exit(0)
escaped()
""",
    "new mount namespace": "call(number(272, 97), 0x20000)\nescaped()",
    "become root": "os.setuid(0)\nescaped()",
    "be root": "if 0 in (*os.getresuid(), *os.getresgid()):\n    escaped()",
    "other groups": "os.setgroups([0])\nescaped()",
    "have a capability": """
for line in open("/proc/self/status"):
    if line.startswith(("CapPrm", "CapEff", "CapInh", "CapAmb")) and int(line.split()[1], 16):
        escaped(line)
""",
    "take a capability": """
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
everything = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
if libc.capset(header, everything) == 0:
    escaped()
""",
    "gain privileges by a program": """
for line in open("/proc/self/status"):
    if line.startswith("NoNewPrivs") and line.split()[1] != "1":
        escaped()
""",
    "no filter": """
for line in open("/proc/self/status"):
    if line.startswith("Seccomp:") and line.split()[1] != "2":
        escaped()
""",
    "io_uring": "call(425, 8, ctypes.create_string_buffer(128))\nescaped()",
    "bpf": "call(number(321, 280), 0, ctypes.create_string_buffer(128), 128)\nescaped()",
    "userfaultfd": "call(number(323, 282), 1)\nescaped()",
    "performance counters": "call(number(298, 241), ctypes.create_string_buffer(128), 0, -1, -1, 0)\nescaped()",
    "keys of the kernel": "call(number(250, 219), 0, -3, 1)\nescaped()",
    "personality": "call(number(135, 92), 0x0040000)\nescaped()",
    "calls of another ABI": "call(0x40000000 + 39)\nescaped()",
    "calls of the future": """
for name in range(450, 480):
    if libc.syscall(name, 0, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != errno.ENOSYS:
        escaped(name)
""",
    "set the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)\nescaped()",
    "set the host's name": 'socket.sethostname("escaped")\nescaped()',
    "load a module": 'call(number(175, 105), b"", 0, b"")\nescaped()',
    "restart the machine": "call(number(169, 142), 0xFEE1DEAD, 672274793, 0x89ABCDEF, 0)\nescaped()",
    "real-time priority": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\nescaped()",
    "higher priority": "os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)\nescaped()",
    "more than the limits": """
for kind in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU):
    try:
        resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        continue
    escaped(kind)
""",
}
AMOUNTS = {
    "memory of one process": """
kept = [bytearray(2**24) for _ in range(2 * host["limits"]["memory_mb"] // 16)]
escaped(len(kept) * 16)
""",
    "memory of many processes": """
part = host["limits"]["memory_mb"] // 4
children = []
for _ in range(12):
    child = os.fork()
    if child == 0:
        kept = bytearray(os.urandom(2**20) * part)
        time.sleep(5)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
escaped(12 * part)
""",
    "memory of files without a name": """
kept = []
for _ in range(2 * host["limits"]["memory_mb"] // 16):
    kept.append(os.memfd_create("x"))
    os.write(kept[-1], bytes(2**24))
escaped(len(kept) * 16)
""",
    "shared memory": "call(number(29, 194), 0, 2**20, 0o1600)\nescaped()",
    "fork bomb": """
children = 0
for _ in range(2 * host["limits"]["processes"]):
    if os.fork() == 0:
        time.sleep(20)
    children += 1
escaped(children)
""",
    "threads": """
import threading
for _ in range(2 * host["limits"]["processes"]):
    try:
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
    except RuntimeError:
        os._exit(0)
escaped()
""",
    "bomb of bombs": """
os.setsid() if os.fork() == 0 else None
until = time.monotonic() + 0.5
while time.monotonic() < until:
    try:
        os.fork()
    except OSError:
        pass
""",
    "one large file": """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("large", "wb", buffering=0) as file:
    for done in range(2 * host["limits"]["file_mb"]):
        file.write(bytes(2**20))
escaped()
""",
    "many large files": """
for folder in ("/work", "/tmp"):
    written = 0
    try:
        for name in range(2 * host["limits"]["disk_mb"]):
            with open(f"{folder}/{name}", "wb", buffering=0) as file:
                written += file.write(bytes(2**20))
    except OSError:
        pass
    if written > host["limits"]["disk_mb"] * 2**20:
        escaped(folder, written)
""",
    "many files": """
for name in range(50_000):
    os.close(os.open(f"/tmp/{name}", os.O_CREAT | os.O_WRONLY))
escaped()
""",
    "open files": """
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(2 * host["limits"]["open_files"])]
escaped(len(kept))
""",
    "shared memory in files": """
with open("/dev/shm/x", "wb", buffering=0) as one:
    for _ in range(30):
        one.write(bytes(2**20))
escaped()
""",
    "output without end": """
for _ in range(20_000):
    os.write(1, b"x" * 1000)
    os.write(2, b"y" * 1000)
""",
    "time": "time.sleep(60)",
    "time of the processor": "while True:\n    pass",
    "signals held back": """
for name in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(name, signal.SIG_IGN)
time.sleep(60)
""",
}
PERSISTENCE = {
    "daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for name in range(3):
            os.close(name)
        time.sleep(60)
os._exit(0)
""",
    "daemon that writes on": """
if os.fork() == 0:
    os.setsid()
    while True:
        os.write(1, b"x" * 4096)
os._exit(0)
""",
    "leave a link": 'os.symlink(host["path"], "link")\nos.symlink("/etc", "folder")',
    "leave a pipe": 'os.mkfifo("pipe")',
    "leave a socket": 's = socket.socket(socket.AF_UNIX)\ns.bind("socket")',
    "leave odd names": 'open("a\\nb", "w")\nopen(b"\\xff", "w")\nopen("\\u202e", "w")',
    "leave deep folders": """
for _ in range(3000):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
""",
    "leave a hole": """
with open("sparse", "wb") as file:
    file.truncate(host["limits"]["file_mb"] * 2**20)
for name in range(20):
    with open(f"sparse{name}", "wb") as file:
        file.truncate(host["limits"]["file_mb"] * 2**20)
""",
    "leave something in /tmp": 'open("/tmp/left", "w")\nopen("/dev/shm/left", "w")',
    "what was left": """
for name in ("/tmp/left", "/dev/shm/left"):
    if os.path.exists(name):
        escaped(name)
""",
    "folder without permission": 'os.mkdir("closed")\nopen("closed/x", "w")\nos.chmod("closed", 0)',
}
ATTEMPTS: tuple[EscapeAttempt, ...] = tuple(
    EscapeAttempt(name, group, body)
    for group, bodies in (
        ("network", NETWORK),
        ("files", FILES),
        ("processes", PROCESSES),
        ("privileges", PRIVILEGES),
        ("amounts", AMOUNTS),
        ("persistence", PERSISTENCE),
    )
    for name, body in bodies.items()
)
