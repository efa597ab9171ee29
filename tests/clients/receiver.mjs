// SPDX-License-Identifier: Apache-2.0
// An OTLP receiver from npm on a free port: tells its URL, then each span that it has understood, one
// JSON object a line. A body that it does not understand ends it.

import {MockOtlpServer, normalizeTrace} from '@elastic/mockotlpserver';

const log = Object.fromEntries(['trace', 'debug', 'info', 'warn', 'error', 'fatal'].map((level) => [level, () => {}]));
const server = new MockOtlpServer({
    log,
    services: ['http'],
    httpHostname: '127.0.0.1',
    httpPort: 0,
    onTrace(trace) {
        for (const resource of normalizeTrace(trace).resourceSpans) {
            for (const scope of resource.scopeSpans) {
                for (const span of scope.spans) {
                    console.log(JSON.stringify({span, resource: resource.resource}));
                }
            }
        }
    },
});
await server.start();
console.log(JSON.stringify({url: server.httpUrl.toString()}));
