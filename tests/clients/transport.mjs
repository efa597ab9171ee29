// SPDX-License-Identifier: Apache-2.0
// MCP over a UNIX socket, one JSON message a line. Fits the clients of both SDK lines.

import net from 'node:net';

export class UnixTransport {
  #path;
  #socket;
  #rest = '';

  constructor(path, onversion) {
    this.#path = path;
    this.setProtocolVersion = onversion;
  }

  start() {
    return new Promise((resolve, reject) => {
      this.#socket = net.connect(this.#path);
      this.#socket.setEncoding('utf8');
      this.#socket.once('connect', resolve);
      this.#socket.once('error', reject);
      this.#socket.on('error', (error) => this.onerror?.(error));
      this.#socket.on('close', () => this.onclose?.());
      this.#socket.on('data', (text) => this.#take(text));
    });
  }

  #take(text) {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop();
    for (const line of lines) {
      try {
        this.onmessage?.(JSON.parse(line));
      } catch (error) {
        this.onerror?.(error);
      }
    }
  }

  send(message) {
    return new Promise((resolve, reject) => {
      this.#socket.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
    });
  }

  async close() {
    this.#socket.end();
    this.#socket.destroySoon();
  }
}
