'use strict';

// Drives the unmodified ali-ons client through the scenarios it can do and prints what it saw, one JSON object a line; the
// harness in the parent folder judges. Usage: node scenarios.js namesrv=HOST:PORT run=ID [self=NAME] [peers=N] SCENARIO…

const crypto = require('crypto');
const { Producer, Consumer, Message } = require('ali-ons');

// Covers one heartbeat (30 s) plus one rebalance (10 s) of this client.
const PATIENCE_MS = 75000;
// After the last expected message: how long to listen for one too many.
const CALM_MS = 1500;
const USER_PROPERTIES = [ '名字', 'emoji', 'json', 'Ключ с пробелом', 'from' ];

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const sha256 = bytes => crypto.createHash('sha256').update(bytes).digest('hex');

// Client chatter goes to standard error: standard output is for facts only.
const logger = { info() {}, debug() {}, warn: (...a) => console.error(...a), error: (...a) => console.error(...a) };

class Session {
  constructor(scenario, options) {
    this.scenario = scenario;
    this.options = options;
    this.run = options.run;
    this.unique = new Set();
    this.closers = [];
    this.waiting = null;
  }

  event(name, fields) {
    process.stdout.write(JSON.stringify({ s: this.scenario, e: name, ...fields }) + '\n');
  }

  topic(suffix) { return `${this.scenario}-${suffix}-${this.run}`; }
  group(suffix) { return `G-${this.scenario}-${suffix}-${this.run}`; }

  clientOptions(name) {
    // The http client is only used to find name servers by URL, which is not done here.
    return { httpclient: {}, logger, nameSrv: [ this.options.namesrv ], onsAddr: '', instanceName: `${name}-${this.scenario}-${this.run}` };
  }

  async producer() {
    const producer = new Producer({ ...this.clientOptions('p'), producerGroup: this.group('p'), sendMsgTimeout: 20000 });
    producer.on('error', error => this.event('client-error', { error: String(error) }));
    await producer.ready();
    this.closers.push(() => producer.close());
    return producer;
  }

  async consumer(name, group, topic, expression) {
    const consumer = new Consumer({ ...this.clientOptions(name), consumerGroup: group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
    consumer.on('error', error => this.event('client-error', { error: String(error) }));
    consumer.subscribe(topic, expression, async message => this.got(name, message));
    await consumer.ready();
    let closed = false;
    const close = async () => {
      if (!closed) {
        closed = true;
        await consumer.close();
      }
    };
    this.closers.push(close);
    return { close };
  }

  // Content is a function of the number, so that a wrong body cannot be right by chance.
  message(topic, tag, number, body) {
    const message = new Message(topic, tag, body || Buffer.from(`body ${number} 消息 \u{1F426}`));
    message.keys = [ `key-${number}`, `键-é-${number}` ];
    message.flag = number;
    message.properties['名字'] = `值 é ñ ${number}`;
    message.properties.emoji = '\u{1F426} peregrine';
    message.properties.json = '{"a":"b\\c"}\t\n/\x7f';
    message.properties['Ключ с пробелом'] = ' leading, trailing ';
    return message;
  }

  facts(message) {
    const props = {};
    for (const key of USER_PROPERTIES) {
      if (message.properties[key] !== undefined) props[key] = message.properties[key];
    }
    return { topic: message.topic, n: message.body.length, sha: sha256(message.body), tags: message.tags || '', keys: message.keys || '',
      flag: message.flag, props };
  }

  async send(producer, message) {
    // The client compresses the body in place.
    const facts = this.facts(message);
    const result = await producer.send(message);
    this.event('sent', { how: 'sync', ...facts, mid: result.msgId, q: Number(result.messageQueue.queueId), o: Number(result.queueOffset),
      status: result.sendStatus });
  }

  got(by, message) {
    this.event('got', { by, ...this.facts(message), id: message.properties.UNIQ_KEY, mid: message.msgId, q: message.queueId,
      o: Number(message.queueOffset), st: Number(message.storeTimestamp), again: message.reconsumeTimes });
    this.unique.add(by + message.msgId);
    if (this.waiting) this.waiting();
  }

  // Waits until count different messages arrived (per consumer name, summed) and says so if they do not.
  async awaitArrivals(count) {
    const deadline = Date.now() + PATIENCE_MS;
    while (this.unique.size < count) {
      const leftMs = deadline - Date.now();
      if (leftMs <= 0) {
        this.event('missing', { expected: count, arrived: this.unique.size });
        return;
      }
      let timer;
      await new Promise(resolve => {
        this.waiting = resolve;
        timer = setTimeout(resolve, leftMs);
      });
      clearTimeout(timer);
    }
  }

  async closeAll() {
    for (const close of this.closers) await close();
  }
}

// A body that compresses well.
const text = sizeBytes => Buffer.alloc(sizeBytes, 'a peregrine stoops at prey\n');

const scenarios = {
  async 'push-one'(s) {
    const topic = s.topic('t');
    const producer = await s.producer();
    for (let i = 0; i < 50; i++) await s.send(producer, s.message(topic, 't', i));
    await s.consumer('A', s.group('g'), topic, '*');
    await s.awaitArrivals(50);
    for (let i = 50; i < 80; i++) await s.send(producer, s.message(topic, 't', i));
    await s.awaitArrivals(80);
    await sleep(CALM_MS);
  },

  async compressed(s) {
    const topic = s.topic('t');
    const producer = await s.producer();
    let number = 0;
    for (const size of [ 100, 4096, 1 << 20 ]) {
      await s.send(producer, s.message(topic, 'z', number++, text(size)));
    }
    await s.consumer('A', s.group('g'), topic, '*');
    await s.awaitArrivals(number);
    await sleep(CALM_MS);
  },

  async tags(s) {
    const topic = s.topic('t');
    const producer = await s.producer();
    let number = 0;
    for (let i = 0; i < 6; i++) {
      for (const tag of [ 'A', 'B', 'C', '', 'Aa', '标签' ]) await s.send(producer, s.message(topic, tag, number++));
    }
    s.event('subscribed', { by: 'ab', wanted: [ 'A', 'B' ] });
    s.event('subscribed', { by: 'unicode', wanted: [ '标签' ] });
    await s.consumer('ab', s.group('ab'), topic, 'A || B');
    await s.consumer('unicode', s.group('unicode'), topic, '标签');
    await s.awaitArrivals(12 + 6);
    for (const tag of [ 'C', '', 'A', '标签' ]) await s.send(producer, s.message(topic, tag, number++));
    await s.awaitArrivals(12 + 6 + 2);
    await sleep(CALM_MS);
  },

  async 'consumer-restart'(s) {
    const topic = s.topic('t');
    const producer = await s.producer();
    for (let i = 0; i < 30; i++) await s.send(producer, s.message(topic, 'first', i));
    const first = await s.consumer('A', s.group('g'), topic, '*');
    await s.awaitArrivals(30);
    await sleep(CALM_MS);
    await first.close();
    s.event('phase', { name: 'restarted' });
    for (let i = 30; i < 50; i++) await s.send(producer, s.message(topic, 'second', i));
    await s.consumer('B', s.group('g'), topic, '*');
    await s.awaitArrivals(50);
    await sleep(CALM_MS);
  },

  // Several processes with different clients share one topic; each has a group of its own.
  async exchange(s) {
    const topic = `exchange-${s.run}`;
    const self = s.options.self;
    await s.consumer(self, `G-exchange-${self}-${s.run}`, topic, '*');
    const producer = await s.producer();
    for (let i = 0; i < 30; i++) {
      const message = s.message(topic, self, i, i % 10 === 9 ? text(5 << 10) : undefined); // every tenth travels compressed
      message.properties.from = self;
      await s.send(producer, message);
    }
    await s.awaitArrivals(30 * Number(s.options.peers || 1));
    await sleep(CALM_MS);
  },
};

async function runOne(name, options) {
  const session = new Session(name, options);
  const start = Date.now();
  try {
    await scenarios[name](session);
    session.event('done', { ms: Date.now() - start });
  } catch (error) {
    session.event('failed', { error: error.stack || String(error) });
  }
  try {
    await session.closeAll();
  } catch (error) {
    session.event('closing', { error: String(error) });
  }
}

async function main() {
  const options = {};
  const chosen = [];
  for (const argument of process.argv.slice(2)) {
    const equals = argument.indexOf('=');
    if (equals > 0) options[argument.slice(0, equals)] = argument.slice(equals + 1);
    else if (scenarios[argument]) chosen.push(argument);
    else throw new Error(`no scenario ${argument}`);
  }
  await Promise.all(chosen.map(name => runOne(name, options)));
  // Timers of the client would keep the process.
  process.exit(0);
}

main();
