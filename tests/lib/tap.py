# SPDX-License-Identifier: Apache-2.0
"""What the test scripts share: TAP output, running the programs, running as a plain user.

A script is a main function that calls case() and skip() and ends with

        sys.exit(tap.main(main))

A line "# test-as: root user" at its head has run-test run it twice, as root and as a plain user.

The programs are found by AGENTCRATE_BINDIR (agentcrate, agentcrate-run), AGENTCRATE_LIBEXEC_DIR
(agentcrated, agentcrate-launcher), AGENTCRATE_DATA_DIR (templates.d) and AGENTCRATE_TEST_DIR (the
tests' own helpers); without them the installed ones are taken.
"""

import atexit
import concurrent.futures
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import canary

HERE = os.path.dirname(os.path.abspath(__file__))
WHO = "root" if os.geteuid() == 0 else "user"
SUBUID_BASE, SUBUID_COUNT = 1879048192, 65536
SCRATCH_PREFIX = "agentcrate-test."
OURS = ("agentcrate", "agentcrate-run")
SESSION = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
PR_SET_CHILD_SUBREAPER = 36


class Failed(Exception):
    """A test did not get what it expects."""


class Skip(Exception):
    """A test cannot be run here; the text names what the host lacks."""


# --- TAP ---


class _State:
    count = 0
    failures = 0


def _line(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def diag(text):
    """Prints lines that explain the test above or below."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    for line in text.splitlines():
        _line("# " + line)


def _clean(name):
    # "#" would begin a directive, and a line break another line.
    return name.replace("#", "").replace("\n", " ")


def ok(name):
    _State.count += 1
    _line(f"ok {_State.count} - {_clean(name)}")


def not_ok(name, why=None):
    _State.count += 1
    _State.failures += 1
    _line(f"not ok {_State.count} - {_clean(name)}")
    if why:
        diag(why)


def skip(name, reason):
    _State.count += 1
    _line(f"ok {_State.count} - {_clean(name)} # SKIP {reason}")


def _judge(fn, *args, **kwargs):
    """Runs fn; how it is told, and what is told besides the name."""
    try:
        fn(*args, **kwargs)
    except Skip as reason:
        return skip, [str(reason)]
    except (Failed, canary.Leak) as why:
        return not_ok, [str(why)]
    except Exception:  # pylint: disable=broad-except
        return not_ok, [traceback.format_exc()]
    return ok, []


def case(name, fn, *args, **kwargs):
    """Runs fn: passed if it returns, skipped if it raises Skip, failed on any other exception."""
    # Made here, so that a process that fn forks does not make one of its own, which nobody removes.
    home()
    tell, what = _judge(fn, *args, **kwargs)
    tell(name, *what)


def cases_side_by_side(rows, at_once=6):
    """The same for rows of (name, fn, arguments…) that mostly wait and touch nothing in common. They
    are told in their order."""
    home()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        running = [(name, pool.submit(_judge, *call)) for name, *call in rows]
        for name, future in running:
            tell, what = future.result()
            tell(name, *what)


def done():
    """Prints the plan; returns the exit status of the script."""
    found = canary.leaks(_made["scratch"]) if "scratch" in _made else []
    if found:
        not_ok("nothing that must not get out is in what was left", "\n".join(found))
    _line(f"1..{_State.count}")
    return 1 if _State.failures else 0


def main(tests):
    """Runs the function tests and prints the plan; returns the exit status of the script."""
    if WHO == "user" and run(["/usr/bin/unshare", "-Ur", "true"]).rc != 0:
        skip("every test", "host forbids user namespaces to plain users")
    else:
        tests()
    return done()


def check(condition, why):
    if not condition:
        raise Failed(why() if callable(why) else why)


def equal(got, expected, what="value"):
    if got != expected:
        raise Failed(f"{what}: got {got!r}, expected {expected!r}")


def contains(text, part, what="text"):
    if part not in text:
        raise Failed(f"{what} lacks {part!r}: {text!r}")


def lacks(text, part, what="text"):
    if part in text:
        raise Failed(f"{what} must not have {part!r}: {text!r}")


def wait_until(condition, seconds=10.0, step=0.05):
    """Waits for condition to become true, at most that long; returns its last value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() >= end:
            return value
        time.sleep(step)


# --- the programs ---


def _find(name, variable, fallbacks):
    folder = os.environ.get(variable)
    if folder:
        return os.path.join(folder, name)
    for folder in fallbacks:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return shutil.which(name) or name


def program(name):
    """The path of agentcrate or agentcrate-run."""
    return _find(name, "AGENTCRATE_BINDIR", ("/usr/local/bin", "/usr/bin"))


def libexec(name):
    """The path of agentcrated or agentcrate-launcher."""
    return _find(
        name,
        "AGENTCRATE_LIBEXEC_DIR",
        ("/usr/local/libexec/agentcrate", "/usr/libexec/agentcrate"),
    )


def helper(name):
    """The path of a program of the tests."""
    return _find(name, "AGENTCRATE_TEST_DIR", (HERE, os.path.join(HERE, "..")))


def host_has(name):
    """Whether a crate of the host template will find that program: it has the host's /usr only."""
    path = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
    return bool(path) and os.path.realpath(path).startswith("/usr/")


def need(name):
    if not host_has(name):
        raise Skip(f"host has no {name}")


# --- running ---


class Ran:
    """What came of a program: rc, out, err (bytes), seconds, record (of --result or --json)."""

    def __init__(self, argv, rc, out, err, seconds, record=None):
        self.argv, self.rc, self.out, self.err = argv, rc, out, err
        self.seconds, self.record = seconds, record

    @property
    def text(self):
        return self.out.decode("utf-8", "backslashreplace")

    @property
    def errors(self):
        return self.err.decode("utf-8", "backslashreplace")

    def __str__(self):
        return (
            f"{self.argv!r}: exit {self.rc} after {self.seconds:.2f} s\n"
            f"stdout: {self.out[:2000]!r}\nstderr: {self.err[:2000]!r}\nrecord: {self.record!r}"
        )

    def expect(self, rc=0, out=None, err=None):
        """Raises Failed unless exit status and, where given, output are exactly these."""
        if self.rc != rc:
            raise Failed(f"exit status is not {rc}: {self}")
        if out is not None and self.out != (out.encode() if isinstance(out, str) else out):
            raise Failed(f"stdout is not {out!r}: {self}")
        if err is not None and self.err != (err.encode() if isinstance(err, str) else err):
            raise Failed(f"stderr is not {err!r}: {self}")
        return self


def clean_env(**extra):
    """The environment that the programs are started with: nothing of the caller's but ours."""
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home(),
        "XDG_CONFIG_HOME": os.path.join(home(), ".config"),
        "AGENTCRATE_STATE_DIR": os.path.join(home(), "state"),
    }
    for name, value in os.environ.items():
        if name.startswith(("AGENTCRATE_", "ASAN_", "UBSAN_", "LSAN_", "LLVM_PROFILE")):
            env[name] = value
        # A real session, whose manager makes the scopes.
        if name in SESSION and "AGENTCRATE_TEST_VM" in os.environ:
            env[name] = value
    env.update({name: value for name, value in extra.items() if value is not None})
    return env


def run(argv, stdin=None, timeout=60, env=None, cwd=None):
    """Runs a program to its end. A program that takes longer than timeout is killed and failed."""
    started = time.monotonic()
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    try:
        ended = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            env=clean_env() if env is None else env,
            cwd=cwd or "/",
            check=False,
            **given,
        )
    except subprocess.TimeoutExpired as late:
        raise Failed(
            f"hangs: {argv!r} did not end within {timeout} s; "
            f"stdout {(late.stdout or b'')[:1000]!r}, stderr {(late.stderr or b'')[:1000]!r}"
        ) from None
    if os.path.basename(argv[0]) in OURS:
        canary.look(ended.stdout, f"what {argv[0]} printed")
        canary.look(ended.stderr, f"what {argv[0]} printed as errors")
    return Ran(argv, ended.returncode, ended.stdout, ended.stderr, time.monotonic() - started)


def crate(*command, options=(), stdin=None, timeout=60, env=None, cwd=None):
    """Runs command by agentcrate-run; record is the result record."""
    with tempfile.TemporaryDirectory(prefix="result.", dir=scratch()) as folder:
        path = os.path.join(folder, "record.json")
        argv = [program("agentcrate-run"), "--result", path, *options, "--", *command]
        ran = run(argv, stdin=stdin, timeout=timeout, env=env, cwd=cwd)
        try:
            with open(path, encoding="utf-8") as file:
                ran.record = json.load(file)
        except FileNotFoundError:
            pass
        return ran


def shell(text, **kwargs):
    """Runs a shell text in a crate."""
    return crate("/bin/sh", "-c", text, **kwargs)


# --- folders of the test ---

_made = {}


def _remove(path):
    def retry(function, name, _info):
        try:
            # What it lies in is not ours.
            if name != path:
                os.chmod(os.path.dirname(name), 0o700)
            os.chmod(name, 0o700, follow_symlinks=False)
        except (OSError, NotImplementedError):
            pass
        try:
            function(name)
        except OSError:
            pass

    shutil.rmtree(path, onerror=retry)


def scratch():
    """A world-readable folder for this run of the script, removed at its end."""
    if "scratch" not in _made:
        path = tempfile.mkdtemp(prefix=SCRATCH_PREFIX,
                                dir=os.environ.get("AGENTCRATE_TEST_SCRATCH", "/var/tmp"))
        os.chmod(path, 0o755)
        _made["scratch"] = path
        write(os.path.join(path, "of-the-host"), canary.SECRET)
        owner = os.getpid()
        atexit.register(lambda: _remove(path) if os.getpid() == owner else None)
    return _made["scratch"]


def folder(name="dir"):
    """A fresh folder in scratch(), mode 0755."""
    path = tempfile.mkdtemp(prefix=name + ".", dir=scratch())
    os.chmod(path, 0o755)
    return path


def home():
    """The home of the programs that are run: empty, so that no configuration comes in."""
    if "home" not in _made:
        _made["home"] = folder("home")
        write(os.path.join(_made["home"], ".of-the-host"), canary.SECRET)
    return _made["home"]


def write(path, text="", mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        data = text.encode() if isinstance(text, str) else text
        file.write(data)
    os.chmod(path, mode)
    if canary.find(data):
        canary.plant(path)
    return path


def data_dir():
    """Where the shipped templates.d lies."""
    given = os.environ.get("AGENTCRATE_DATA_DIR")
    if given:
        return given
    for path in ("/usr/local/share/agentcrate", "/usr/share/agentcrate"):
        if os.path.isdir(os.path.join(path, "templates.d")):
            return path
    return "/usr/share/agentcrate"


def serve_root():
    """Names root a tenant of the machine's broker, which serves nobody else by itself."""
    prefix = program("").rstrip("/").removesuffix("/bin")
    etc = "/etc" if prefix == "/usr" else prefix + "/etc"
    grant = {
        "match": {"uid": [0]},
        "scopes": ["exec"],
        "tools": {"allow": ["*"]},
        "templates": ["*"],
        "workspaces": ["/tmp", "/var", "/srv", "/home", "/root"],
    }
    write(f"{etc}/agentcrate/tenants.d/root.json", json.dumps(grant) + "\n")


def template_env(**templates):
    """An environment in which these templates (name=dict) exist beside the shipped ones."""
    place = folder("data")
    target = os.path.join(place, "templates.d")
    shipped = os.path.join(data_dir(), "templates.d")
    if os.path.isdir(shipped):
        shutil.copytree(shipped, target)
        os.chmod(target, 0o755)
    else:
        os.mkdir(target)
    for name, template in templates.items():
        write(os.path.join(target, name + ".json"), json.dumps(template) + "\n")
    return clean_env(AGENTCRATE_DATA_DIR=place)


# --- children ---


def become_subreaper():
    """Orphans of what the test starts become its own children, so that none is overlooked."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def kill_and_wait(process, signum=signal.SIGKILL):
    """Ends one of our own children."""
    if process.poll() is None:
        process.send_signal(signum)
    process.wait(timeout=30)
