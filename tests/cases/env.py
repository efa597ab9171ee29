#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Arguments, environment, locale, time zone: ENV-01 to 06.

Left to its issue: write_file of ENV-01.
"""

import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import mcp
import tap

LONGEST = 131071


def refused(way, word, **arguments):
    """A tool error without a record, whose text has the word: nothing was started."""
    result = way.client().call("sandbox_exec", arguments)
    text = " ".join(part.get("text", "") for part in result["content"])
    tap.check(
        result.get("isError") is True and "structuredContent" not in result,
        f"not refused: {result}"[:2000],
    )
    tap.contains(text, word, "text")


def long_text(way):
    """A shell text of 200 KB never was an argument."""
    text = "echo begin\n" + "# " + "x" * 200000 + "\necho end"
    way.run(command=text).expect(0, out="begin\nend\n")


def long_argument(way):
    refused(way, "131071", argv=["/bin/echo", "short", "x" * 200000])
    refused(way, "argv[2]", argv=["/bin/echo", "short", "x" * 200000])
    way.run("/bin/echo", "x" * LONGEST).expect(0, out="x" * LONGEST + "\n")


def long_variable(way):
    refused(way, "131071", argv=["/bin/true"], env={"LONG": "x" * 200000})
    refused(way, "LONG", argv=["/bin/true"], env={"LONG": "x" * 200000})
    longest = "x" * (LONGEST - len("LONG="))
    way.run("/bin/sh", "-c", "echo ${#LONG}", env={"LONG": longest}).expect(
        0, out=f"{len(longest)}\n"
    )


def large_environment():
    """A caller with 3 MB of environment; the job has none of it."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if hard != resource.RLIM_INFINITY and hard < 64 << 20:
        raise tap.Skip("host bounds the stack below 64 MiB, so that no such caller can be")
    env = tap.clean_env(**{f"VARIABLE_{n}": "x" * 100000 for n in range(30)})
    ended = subprocess.run(
        [tap.program("agentcrate-run"), "--", "/usr/bin/env"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, hard)),
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    tap.equal(ended.returncode, 0, f"exit status, {ended.stderr[:500]!r}")
    tap.lacks(ended.stdout, b"VARIABLE_", "environment")


def many_variables():
    """As many names as a template may let through; more, or 6 MB of values, are refused with the
    size."""
    names = [f"PASSED_{n}" for n in range(300)]
    base = {"root": "host", "ro": ["/usr"]}
    env = tap.template_env(
        most={**base, "pass_env": names[:256]},
        many={**base, "pass_env": names},
        large={**base, "env": {f"LARGE_{n}": "x" * 100000 for n in range(60)}},
    )
    env.update({name: name.lower() for name in names})
    ran = tap.crate("/usr/bin/env", options=["--template", "most"], env=env).expect(0)
    tap.equal(sum(line.startswith("PASSED_") for line in ran.text.splitlines()), 256, "variables")
    ran = tap.crate("/usr/bin/env", options=["--template", "many"], env=env)
    tap.check(ran.rc == 125 and "300" in ran.errors and "256" in ran.errors, str(ran))
    ran = tap.crate("/usr/bin/env", options=["--template", "large"], env=env)
    tap.check(ran.rc in (125, 126), f"exit status: {ran}")
    tap.check(
        any(word in ran.errors for word in ("E2BIG", "bytes", "MiB")),
        f"the size is not named: {ran.errors}",
    )


def home(way):
    job = way.run(
        command="set -e; touch ~/x; cd ~; pwd; stat -c '%U %a' ~; test -w ~/x; "
        "for d in $XDG_CACHE_HOME $XDG_CONFIG_HOME $XDG_DATA_HOME $XDG_STATE_HOME $TMPDIR; do "
        "touch $d/x; done"
    )
    job.expect(0, out="/home/agent\nagent 700\n", err="")


def caches(way):
    script = []
    if tap.host_has("npm"):
        script.append(
            'c=$(npm config get cache); mkdir -p "$c"; touch "$c/x"; case $c in /home/agent/*) ;; '
            "*) exit 5;; esac"
        )
        script.append("npm install left-pad --offline 2>&1 | grep -q EACCES && exit 6")
    if tap.host_has("python3"):
        script.append(
            "python3 -m pip --version >/dev/null 2>&1 && { d=$(python3 -m pip cache dir); mkdir -p "
            '"$d"; touch "$d/x"; }'
        )
    if not script:
        raise tap.Skip("host has neither npm nor python3")
    way.run(command="; ".join(script) + "; true", seconds=60).expect(0)


def venv(way):
    tap.need("python3")
    job = way.run(
        command="python3 -m venv --without-pip ~/v && ~/v/bin/python -c 'print(1)'", seconds=60
    )
    job.expect(0, out="1\n")


def locale(way):
    way.run("/usr/bin/python3", "-c", "print('→ é 漢')").expect(0, out="→ é 漢\n", err="")
    way.run("/usr/bin/locale").expect(0, err="")
    job = way.run(command="echo $LANG; locale charmap; printf '\\303\\251' | wc -m")
    job.expect(0, out="C.UTF-8\nUTF-8\n1\n", err="")


def locale_perl(way):
    tap.need("perl")
    way.run("/usr/bin/perl", "-CS", "-e", 'print "\\x{2192}\\n"').expect(0, out="→\n", err="")


def locale_override(way):
    way.run(command="echo $LANG; locale charmap", env={"LANG": "C", "LC_ALL": "C"}).expect(
        0, out="C\nANSI_X3.4-1968\n"
    )


def time_zone(way):
    if not os.path.exists("/usr/share/zoneinfo/Asia/Tokyo"):
        raise tap.Skip("host has no zone data")
    way.run("/bin/date", "+%z", env={"TZ": "Asia/Tokyo"}).expect(0, out="+0900\n")
    job = way.run(
        command="date +%z; test ! -L /etc/localtime -o -e /etc/localtime || echo dangling"
    )
    tap.equal(job.text, tap.run(["/bin/date", "+%z"]).text, "offset")


POISON = {
    "SECRET": "canary-1",
    "LD_PRELOAD": "/canary-2.so",
    "BASH_ENV": "/canary-3",
    "BASH_FUNC_ls%%": "() { id; echo canary-4; }",
    "NL": "canary-5\nb",
    "NODE_OPTIONS": "--canary-6",
    "https_proxy": "http://canary-7",
}


def check_clean(job):
    tap.lacks(job.text, "canary", "environment")
    names = {entry.split("=", 1)[0] for entry in job.text.split("\0") if entry}
    tap.equal(names & set(POISON), set(), "names")


def leaks_run():
    check_clean(jobs.Run().run("/usr/bin/env", "-0", caller_env=tap.clean_env(**POISON)))


def leaks_broker():
    with mcp.Broker(env=tap.clean_env(**POISON)) as broker:
        call = jobs.Call(broker)
        check_clean(call.run("/usr/bin/env", "-0"))
        call.close()


def newline(way):
    value = 'a\nb\tc"\\ é\x7f'
    job = way.run("/usr/bin/env", "-0", env={"NL": value})
    tap.check(f"NL={value}" in job.text.split("\0"), f"not as given: {job.text!r}")


def odd_names(way):
    for name in ("A=B", "", "="):
        refused(way, "env", argv=["/bin/true"], env={name: "x"})
    # A member's name with NUL makes the whole message no JSON that we take; the connection lives.
    client = way.client()
    client.start(
        "tools/call",
        {"name": "sandbox_exec", "arguments": {"argv": ["true"], "env": {"A\0B": "x"}}},
    )
    answer = client.receive(20)
    tap.equal(
        (answer["id"], answer["error"]["code"]),
        (None, -32700),
        f"answer to a name with NUL: {answer}",
    )
    tap.contains(answer["error"]["message"], "U+0000", "message")
    refused(way, "env", argv=["/bin/true"], env={"A": "x\0y"})


def odd_names_run():
    for option in ("=x", ""):
        ran = tap.run([tap.program("agentcrate-run"), "-e", option, "--", "/bin/true"])
        tap.equal(ran.rc, 125, f"exit status of -e {option!r}")
        tap.contains(ran.errors, "-e", "stderr")


def main():
    with jobs.ways() as ways:
        run, call = ways
        del run
        tap.case("ENV-01 shell text of 200 KB (sandbox_exec)", long_text, call)
        tap.case("ENV-01 an argument that is too long (sandbox_exec)", long_argument, call)
        tap.case("ENV-01 a variable that is too long (sandbox_exec)", long_variable, call)
        tap.case("ENV-06 odd names are refused (sandbox_exec)", odd_names, call)
        for way in ways:
            tap.case(f"ENV-03 home and XDG folders are writable ({way.name})", home, way)
            tap.case(f"ENV-03 caches of npm and pip are writable ({way.name})", caches, way)
            tap.case(f"ENV-03 a python venv in the home ({way.name})", venv, way)
            tap.case(f"ENV-04 UTF-8 without being asked ({way.name})", locale, way)
            tap.case(f"ENV-04 UTF-8 in perl ({way.name})", locale_perl, way)
            tap.case(f"ENV-04 the caller may override it ({way.name})", locale_override, way)
            tap.case(f"ENV-05 time zones ({way.name})", time_zone, way)
            tap.case(f"ENV-06 a value with a newline ({way.name})", newline, way)
    tap.case("ENV-02 a caller with a huge environment", large_environment)
    tap.case("ENV-02 a policy with many and with huge variables", many_variables)
    tap.case("ENV-06 nothing of the caller's comes in (agentcrate-run)", leaks_run)
    tap.case("ENV-06 nothing of the broker's comes in (sandbox_exec)", leaks_broker)
    tap.case("ENV-06 odd names are refused (agentcrate-run)", odd_names_run)


sys.exit(tap.main(main))
