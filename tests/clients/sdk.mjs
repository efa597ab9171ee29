// SPDX-License-Identifier: Apache-2.0
// usage: sdk.mjs v1|v2 socket|stdio SOCKET AGENTCRATE FOLDER
// One SDK client on one transport: what every client does, against a running broker. Prints
// "ok TEXT" or "not ok TEXT" for each case, and comments; clients.py makes TAP of it. FOLDER holds
// the file hello.txt and is shown to the jobs by `agentcrate stdio -w`.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { UnixTransport } from './transport.mjs';

const [line, way, socket, agentcrate, folder] = process.argv.slice(2);
const modern = line === 'v2';
const { Client } = modern
  ? await import('@modelcontextprotocol/client')
  : await import('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = modern
  ? await import('@modelcontextprotocol/client/stdio')
  : await import('@modelcontextprotocol/sdk/client/stdio.js');
const { Ajv2020 } = await import('ajv/dist/2020.js');

const info = { name: 'agentcrate-tests', version: '1' };
const client = modern
  ? new Client(info, { versionNegotiation: { mode: 'auto' } })
  : new Client(info);
const faults = [];
client.onerror = (error) => faults.push(error);

let version;

function transport() {
  if (way === 'socket') return new UnixTransport(socket, (agreed) => (version = agreed));
  return new StdioClientTransport({
    command: agentcrate,
    args: ['stdio', '-w', `${folder}:ro`],
    env: { AGENTCRATE_SOCKET: socket },
  });
}

// The v1 line takes a result schema in between.
function call(name, args, options) {
  const request = { name, arguments: args };
  return modern ? client.callTool(request, options) : client.callTool(request, undefined, options);
}

const exec = (args, options) => call('sandbox_exec', args, options);

async function check(text, body) {
  try {
    await body();
    console.log(`ok ${text}`);
  } catch (error) {
    console.log(`not ok ${text}`);
    console.log(`${error?.stack ?? error}`.replace(/^/gm, '# '));
  }
}

function textOf(result) {
  return result.content.filter((part) => part.type === 'text').map((part) => part.text).join('\n');
}

// Whether some process of the machine has this among its arguments.
function runs(argument) {
  return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).some((pid) => {
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(argument);
    } catch {
      return false;
    }
  });
}

async function until(condition, what) {
  for (let i = 0; i < 200; i++) {
    if (condition()) return;
    await sleep(100);
  }
  throw new Error(`${what}: not within 20 s`);
}

let tool, validate;

await check('connects and agrees on the newest revision that both know', async () => {
  await client.connect(transport());
  assert.equal(client.getServerVersion()?.name, 'agentcrate');
  if (modern) assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
  else if (way === 'socket') assert.equal(version, '2025-11-25');
});

await check('lists tools, each time the same', async () => {
  const first = await client.listTools();
  const second = modern
    ? await client.listTools(undefined, { cacheMode: 'bypass' })
    : await client.listTools();
  assert.deepEqual(second.tools, first.tools);
  tool = first.tools.find((one) => one.name === 'sandbox_exec');
  assert.ok(tool, 'no sandbox_exec');
  assert.equal(tool.inputSchema.type, 'object');
  assert.equal(typeof tool.annotations?.readOnlyHint, 'boolean');
  validate = new Ajv2020({ strict: false }).compile(tool.outputSchema);
});

function conforms(result) {
  assert.ok(validate(result.structuredContent), JSON.stringify(validate.errors));
  return result.structuredContent;
}

await check('a command runs and its result record conforms to the schema', async () => {
  const result = await exec({ argv: ['/bin/echo', 'hello', 'crate'] });
  const record = conforms(result);
  assert.ok(!result.isError);
  assert.equal(record.outcome, 'exited');
  assert.equal(record.exit_code, 0);
  assert.equal(record.stdout, 'hello crate\n');
  assert.ok(textOf(result).includes('hello crate'));
});

await check('shell text, standard input and environment arrive as they were sent', async () => {
  const record = conforms(await exec({
    command: 'cat; printf "%s" "$GREETING"',
    stdin: 'täst "quoted"\n',
    env: { GREETING: "it's $HOME" },
  }));
  assert.equal(record.stdout, 'täst "quoted"\nit\'s $HOME');
});

await check('an exit status other than 0 is a result, not an error', async () => {
  const result = await exec({ command: 'echo bad >&2; exit 3' });
  assert.ok(!result.isError);
  assert.equal(conforms(result).exit_code, 3);
  assert.equal(result.structuredContent.stderr, 'bad\n');
});

await check('a command that is not there is an error with a record', async () => {
  const result = await exec({ argv: ['/no/such/program'] });
  assert.equal(result.isError, true);
  const record = conforms(result);
  assert.equal(record.outcome, 'exec_failed');
  assert.equal(record.error.errno, 'ENOENT');
});

await check('the time limit ends the job and is named', async () => {
  const result = await exec({ argv: ['/bin/sleep', '100'], timeout_ms: 300 });
  assert.equal(result.isError, true);
  assert.equal(conforms(result).limit.name, 'wall_time');
});

await check('bad arguments are a tool error that says what to send', async () => {
  const result = await exec({ argv: ['/bin/true'], colour: 'red' });
  assert.equal(result.isError, true);
  assert.equal(result.structuredContent, undefined);
  assert.match(textOf(result), /colour/);
  assert.match(textOf(result), /argv/);
});

await check('an unknown tool is a protocol error', async () => {
  await assert.rejects(call('no_such_tool', {}), (error) => error.code === -32602);
});

await check('output is streamed as progress while the job runs', async () => {
  const seen = [];
  const result = await exec(
    { command: 'for i in 1 2 3 4 5; do echo tick $i; sleep 0.3; done' },
    { onprogress: (progress) => seen.push(progress) },
  );
  assert.ok(seen.length >= 2, `only ${seen.length} notifications came before the result`);
  assert.equal(conforms(result).exit_code, 0);
  for (let i = 1; i < seen.length; i++) assert.ok(seen[i].progress > seen[i - 1].progress);
  assert.match(seen.map((progress) => progress.message ?? '').join(''), /tick 1[^]*tick 3/);
});

await check('cancelling kills the job; the connection lives on', async () => {
  const mark = `4711.${process.pid}${modern ? 2 : 1}${way === 'stdio' ? 3 : 4}`;
  const abort = new AbortController();
  const answer = exec({ argv: ['/bin/sleep', mark] }, { signal: abort.signal });
  answer.catch(() => {});
  await until(() => runs(mark), 'the job starts');
  abort.abort();
  await assert.rejects(answer);
  await until(() => !runs(mark), 'the job dies');
  assert.equal(conforms(await exec({ argv: ['/bin/true'] })).exit_code, 0);
});

await check('ten calls at once are answered, each with its own result', async () => {
  const numbers = [...Array(10).keys()];
  const results = await Promise.all(
    numbers.map((i) => exec({ command: `sleep 0.${9 - i}; echo ${i}` })),
  );
  assert.deepEqual(results.map((result) => conforms(result).stdout), numbers.map((i) => `${i}\n`));
});

if (way === 'stdio') {
  await check('a job that waits for an answer to its output gets it', async () => {
    const flag = `${folder}/flag.${process.pid}`;
    const result = await exec(
      { command: `echo ready; until [ -e ${flag.split('/').pop()} ]; do sleep 0.1; done`, timeout_ms: 20000 },
      { onprogress: (progress) => /ready/.test(progress.message) && fs.writeFileSync(flag, '') },
    );
    assert.equal(conforms(result).outcome, 'exited');
  });

  await check('the workspace of agentcrate stdio -w is there, read-only', async () => {
    const record = conforms(await exec({ command: 'cat hello.txt; touch new' }));
    assert.equal(record.stdout, 'hello\n');
    assert.notEqual(record.exit_code, 0);
    assert.match(record.stderr, /[Rr]ead-only/);
  });
} else {
  await check('a connection without a workspace may name none', async () => {
    const result = await exec({ argv: ['/bin/true'], workspace: { path: folder, mode: 'ro' } });
    assert.equal(result.isError, true);
    assert.match(textOf(result), /workspace/);
  });
}

if (!modern) await check('ping', () => client.ping());

if (modern) {
  await check('subscriptions/listen opens and closes', async () => {
    const subscription = await client.listen({ toolsListChanged: true });
    await subscription.close();
    assert.equal(await subscription.closed, 'local');
    assert.equal(conforms(await exec({ argv: ['/bin/true'] })).exit_code, 0);
  });
}

await check('nothing came that the client could not read; closes', async () => {
  assert.deepEqual(faults.map(String), []);
  await client.close();
});
