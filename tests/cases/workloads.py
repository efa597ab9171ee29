#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 900
"""Ordinary programs work as they are, in the profiles default and strict. What the host has not is
skipped by name.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import tap

PYTHON = r"""
import asyncio, http.server, multiprocessing, os, subprocess, tempfile, threading, urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory

def square(n):
    return n * n

async def gather():
    await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(50)))
    process = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=subprocess.PIPE)
    return (await process.communicate())[0]

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served")
    def log_message(self, *_):
        pass

def main():
    with ThreadPoolExecutor(8) as pool:
        print(sum(pool.map(square, range(100))))
    with ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(square, range(100))))
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, [1, 2]))
    block = shared_memory.SharedMemory(create=True, size=1 << 20)
    block.buf[:4] = b"data"
    again = shared_memory.SharedMemory(name=block.name)
    print(bytes(again.buf[:4]))
    again.close()
    block.close()
    block.unlink()
    lines = multiprocessing.get_context("spawn").Queue()
    lines.put(1)
    print(lines.get(), asyncio.run(gather()))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(urllib.request.urlopen(f"http://localhost:{server.server_port}/").read())
    server.shutdown()
    with tempfile.TemporaryDirectory() as place:
        os.mkfifo(os.path.join(place, "fifo"))
    print(subprocess.check_output(["/bin/sh", "-c", "echo sub"]))

if __name__ == "__main__":
    main()
"""
PYTHON_OUT = "328350\n328350\n[1, 4]\nb'data'\n1 b'child\\n'\nb'served'\nb'sub\\n'\n"

NODE = r"""
const { Worker, isMainThread, parentPort } = require("worker_threads");
const http = require("http"), os = require("os"), fs = require("fs");
const child = require("child_process");
if (!isMainThread) parentPort.postMessage("worker");
else (async () => {
  console.log(await new Promise(done => new Worker(__filename).on("message", done)));
  const server = http.createServer((_, answer) => answer.end("served")).listen(0, "127.0.0.1");
  await new Promise(done => server.once("listening", done));
  const url = "http://localhost:" + server.address().port + "/";
  console.log(typeof fetch === "function" ? await (await fetch(url)).text() : "served");
  server.close(); server.closeAllConnections && server.closeAllConnections();
  console.log(Object.keys(os.networkInterfaces()).join());
  console.log(child.execSync("echo child").toString().trim(), child.spawnSync("/bin/true").status);
  await fs.promises.writeFile("written", "x");
  console.log((await fs.promises.readdir(".")).includes("written"));
})();
"""
NODE_OUT = "worker\nserved\nlo\nchild 0\ntrue\n"

GIT = (
    "set -e; git init -q repo; cd repo; for i in 1 2 3; do echo $i > f$i; git add .; git commit -q "
    "-m $i; done; "
    "git branch side; git gc -q; cd ..; git clone -q repo copy; git clone -q --no-local repo "
    "remote; cd remote; "
    "git log --oneline | wc -l; git fsck 2>&1 | grep -c error || true; git status --short; git "
    "diff HEAD~1 --stat | tail -1"
)
GIT_OUT = "3\n0\n 1 file changed, 1 insertion(+)\n"

C = r"""
#include <pthread.h>
#include <stdio.h>
static void *run(void *p) { return p; }
int main(void) {
        pthread_t thread;
        pthread_create(&thread, 0, run, 0);
        pthread_join(thread, 0);
        puts("built");
        return 0;
}
"""
MAKE = "all: a b c d\n%: src.c\n\t@$(CC) -pthread -o $@ src.c\n"
JAVA = r"""
public class Main {
    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[20];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {});
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println("java");
    }
}
"""
GO = r"""
package main
import ("fmt"; "io"; "net/http"; "net/http/httptest")
func main() {
        server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
                fmt.Fprint(w, "served")
        }))
        answer, err := http.Get(server.URL)
        if err != nil { panic(err) }
        body, _ := io.ReadAll(answer.Body)
        fmt.Println(string(body))
}
"""
RUST = 'fn main() { let t = std::thread::spawn(|| 1); println!("rust {}", t.join().unwrap()); }\n'

# name, programs, files, shell text, output
WORKLOADS = [
    (
        "python: threads, asyncio, processes, shared memory, server",
        ["python3"],
        {"main.py": PYTHON},
        "python3 main.py",
        PYTHON_OUT,
    ),
    (
        "python: a venv",
        ["python3"],
        {},
        "python3 -m venv --without-pip v && v/bin/python -c 'print(1)'",
        "1\n",
    ),
    (
        "node: workers, fetch, interfaces, children",
        ["node"],
        {"main.js": NODE},
        "node main.js",
        NODE_OUT,
    ),
    (
        "npm: init and run",
        ["npm"],
        {"package.json": '{"name": "x", "version": "1.0.0", "scripts": {"say": "echo said"}}'},
        "npm run --silent say && npm ls --offline >/dev/null && echo ok",
        "said\nok\n",
    ),
    ("git: init, commit, gc, clone, fsck", ["git"], {}, GIT, GIT_OUT),
    (
        "gcc: compile and run",
        ["gcc"],
        {"src.c": C},
        "gcc -O2 -Wall -pthread -o prog src.c && ./prog",
        "built\n",
    ),
    (
        "clang: compile and run",
        ["clang"],
        {"src.c": C},
        "clang -O2 -pthread -o prog src.c && ./prog",
        "built\n",
    ),
    (
        "make -j: four programs",
        ["make", "gcc"],
        {"src.c": C, "Makefile": MAKE},
        "make -s -j4 CC=gcc && ./a && ./d",
        "built\nbuilt\n",
    ),
    (
        "perl: files, fork, sort",
        ["perl"],
        {},
        'perl -e \'my $p = fork; if (!$p) { exit 3 } waitpid $p, 0; print $? >> 8, "\\n"; print '
        'sort map { "$_\\n" } qw(b a)\'',
        "3\na\nb\n",
    ),
    (
        "find, xargs, sort, awk, sed",
        ["find", "awk"],
        {},
        "mkdir -p a/b; touch a/1 a/b/2; find a -type f | sort | xargs -n1 basename | sed s/^/f/ | "
        "awk '{print NR, $0}'",
        "1 f1\n2 f2\n",
    ),
    (
        "tar through gzip",
        ["tar", "gzip"],
        {},
        "mkdir d; seq 1000 > d/f; ln -s f d/l; tar cf - d | gzip | gunzip | tar tf - | sort | "
        "tail -1; tar czf t d && rm -r d && tar xzf t && wc -l < d/l",
        "d/l\n1000\n",
    ),
    ("mkfifo", [], {}, "mkfifo p && (echo through > p &) && cat p", "through\n"),
    (
        "shell: jobs, traps, here documents, process substitution",
        ["bash"],
        {},
        'bash -c \'sleep 0.1 & wait $!; trap "echo trapped" EXIT; cat <(echo sub) <<< x; cat '
        "<<E\nhere\nE\n'",
        "sub\nhere\ntrapped\n",
    ),
    (
        "java: compile and run from source",
        ["java", "javac"],
        {"Main.java": JAVA},
        "java Main.java",
        "java\n",
    ),
    (
        "go: build and run a server's test",
        ["go"],
        {"main.go": GO, "go.mod": "module x\n"},
        "GOFLAGS=-mod=mod GOTOOLCHAIN=local go run .",
        "served\n",
    ),
    ("rustc: compile and run", ["rustc"], {"main.rs": RUST}, "rustc main.rs && ./main", "rust 1\n"),
    (
        "openssl: a key and a digest",
        ["openssl"],
        {},
        "openssl genpkey -algorithm ed25519 2>/dev/null | head -1; echo x | openssl dgst -sha256 "
        "| tail -c 9",
        "-----BEGIN PRIVATE KEY-----\naac7d9ac\n",
    ),
    (
        "sqlite in python",
        ["python3"],
        {},
        "python3 -c \"import sqlite3; c = sqlite3.connect('d'); c.execute('pragma "
        "journal_mode=wal'); c.execute('create table t(a)'); c.execute('insert into t values "
        "(7)'); c.commit(); print(c.execute('select a from t').fetchall())\"",
        "[(7,)]\n",
    ),
]


def workload(run, profile, programs, files, text, out):
    for program in programs:
        tap.need(program)
    place = tap.folder("workspace")
    for name, content in files.items():
        tap.write(os.path.join(place, name), content)
    job = run.run(
        command=text, workspace=place, profile=profile, env=jobs.git_env(), seconds=120, hang=150
    )
    job.expect(0, out=out)


def private(run, profile):
    """Without a workspace of the host's, in the private one."""
    run.run(
        command="echo 'int main(void){return 7;}' > x.c; gcc x.c && ./a.out; echo $?",
        profile=profile,
        seconds=60,
    ).expect(0, out="7\n")


def main():
    run = jobs.Run()
    for profile in ("default", "strict"):
        for name, programs, files, text, out in WORKLOADS:
            tap.case(f"{name} ({profile})", workload, run, profile, programs, files, text, out)
        tap.case(f"gcc in the private workspace ({profile})", private, run, profile)


sys.exit(tap.main(main))
