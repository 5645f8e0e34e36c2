"""Drives the unmodified C++ based Python client (package rocketmq, whose wheel brings librocketmq) through the scenarios it can do and
prints what it saw, one JSON object a line; the harness in the parent folder judges.
Usage: python scenarios.py namesrv=HOST:PORT run=ID [batch=whole] SCENARIO...; whole: the broker stores a batch as one message."""

import hashlib
import json
import os
import sys
import threading
import time
import traceback

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer
from rocketmq.exceptions import ProducerException
from rocketmq.ffi import dll

PATIENCE_S = 75  # covers one heartbeat (30 s) plus one rebalance of this client
CALM_S = 1.5  # after the last expected message: how long to listen for one too many
USER_PROPERTIES = ["名字", "emoji", "json", "Ключ с пробелом"]

printing = threading.Lock()


def text(size):
    """A body that compresses well."""
    return ("a peregrine stoops at prey\n" * (size // 27 + 1))[:size]


class Session:
    def __init__(self, scenario, options):
        self.scenario, self.options = scenario, options
        self.arrived, self.changed = set(), threading.Condition()
        # Whatever the library still uses: the package gives it back to the library when Python forgets it.
        self.kept = []

    def event(self, what, **fields):
        line = json.dumps({"s": self.scenario, "e": what, **fields}, ensure_ascii=False)
        with printing:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def topic(self):
        return "%s-t-%s" % (self.scenario, self.options["run"])

    def group(self, suffix):
        return "G-%s-%s-%s" % (self.scenario, suffix, self.options["run"])

    def instance(self, name):
        return "%s-%s-%s" % (name, self.scenario, self.options["run"])

    def producer(self):
        p = Producer(self.group("p"), timeout=20000, max_message_size=4 << 20)
        p.set_namesrv_addr(self.options["namesrv"])
        # Producers that share an instance and ask for routes at once get none, some of them. The class has no method for the name.
        dll.SetProducerInstanceName(p._handle, self.instance("p").encode())
        p.start()
        self.kept.append(p)
        return p

    def consumer(self, name, group, expression="*", orderly=False):
        c = PushConsumer(group, orderly=orderly)
        c.set_namesrv_addr(self.options["namesrv"])
        c.set_instance_name(self.instance(name))
        c.subscribe(self.topic(), lambda m: self.got(name, m), expression)
        c.start()
        self.kept.append(c)
        return c

    def message(self, tag, number, body=None, delay=0):
        """Content is a function of the number, so that a wrong body cannot be right by chance. Also what to tell of it."""
        body = body or "body %d 消息 \U0001F426" % number
        keys = "key-%d 键-é-%d" % (number, number)
        props = dict(zip(USER_PROPERTIES, ["值 é ñ %d" % number, "\U0001F426 peregrine", '{"a":"b\\c"}\t\n/\x7f', " leading, trailing "]))
        m = Message(self.topic())
        m.set_keys(keys)
        if tag:
            m.set_tags(tag)
        for key, value in props.items():
            m.set_property(key, value)
        if delay:
            m.set_delay_time_level(delay)
        m.set_body(body)
        self.kept.append(m)
        return m, self.facts(body.encode(), tag, keys, props)

    def facts(self, body, tag, keys, props):
        # The sender is told no id of a one-way message or of a batch's elements: the first key names a message here.
        return {"topic": self.topic(), "id": keys.split(" ")[0], "n": len(body), "sha": hashlib.sha256(body).hexdigest(), "tags": tag, "keys": keys,
                "props": props}

    def sent(self, how, facts, result):
        self.event("sent", how=how, **facts, mid=result.msg_id, o=result.offset, status="SEND_OK" if result.status == 0 else result.status.name)

    def send(self, producer, tag, number, **rest):
        message, facts = self.message(tag, number, **rest)
        self.sent("sync", facts, self.routed(lambda: producer.send_sync(message)))

    def routed(self, send):
        """Where several producers begin at once some may find no route for their first message, which is not sent then."""
        deadline = time.time() + PATIENCE_S
        while True:
            try:
                return send()
            except ProducerException as e:
                if "No route info" not in str(e) or time.time() > deadline:
                    raise
                self.event("retry", error=str(e))
                time.sleep(0.1)

    def got(self, by, m):
        props = {key: m.get_property(key).decode() for key in USER_PROPERTIES if m.get_property(key)}
        self.event("got", by=by, **{**self.facts(m.body, m.tags.decode(), m.keys.decode(), props), "topic": m.topic}, mid=m.id, q=m.queue_id,
                   o=m.queue_offset, size=m.store_size, again=m.reconsume_times, bt=m.born_timestamp, st=m.store_timestamp, at=int(time.time() * 1000))
        with self.changed:
            self.arrived.add((by, m.queue_id, m.queue_offset))
            self.changed.notify_all()

    def await_arrivals(self, count):
        """Waits until so many different messages arrived (per consumer, summed) and says so if they do not."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.arrived) >= count, PATIENCE_S):
                self.event("missing", expected=count, arrived=len(self.arrived))


def send(s):
    p = s.producer()
    for i in range(8):
        s.send(p, "sync", i)
    answers = []
    for i in range(8, 16):
        message, facts = s.message("async", i)
        answered, refused = threading.Event(), []

        def on_success(result, facts=facts, answered=answered):
            s.sent("async", facts, result)
            answered.set()

        def on_exception(error, refused=refused, answered=answered):
            refused.append(error)
            answered.set()

        p.send_async(message, on_success, on_exception)
        answers.append((answered, refused))
    for answered, refused in answers:
        if not answered.wait(PATIENCE_S) or refused:
            raise Exception("no answer to an asynchronous send: %r" % refused)
    for i in range(16, 24):
        message, facts = s.message("oneway", i)
        p.send_oneway(message)
        s.event("sent", how="oneway", **facts)
    batch = [s.message("batch", i) for i in range(24, 32)]
    result = p.send_batch([message for message, _ in batch])
    for _, facts in batch:
        s.event("sent", how="batch", **facts, status="SEND_OK" if result.status == 0 else result.status.name)
    # The client keeps what the answer says about ids to itself.
    s.event("batch", size=len(batch), ids=-1, offsetIds=-1, o=result.offset)
    s.consumer("A", s.group("g"))
    s.await_arrivals(25 if s.options.get("batch") == "whole" else 32)
    time.sleep(CALM_S)


def compressed(s):
    p = s.producer()
    for i, size in enumerate([100, 4096, 1 << 20]):
        s.send(p, "z", i, body=text(size))
    s.consumer("A", s.group("g"))
    s.await_arrivals(3)
    time.sleep(CALM_S)


def push_one(s):
    p = s.producer()
    for i in range(50):
        s.send(p, "t", i)
    s.consumer("A", s.group("g"))
    s.await_arrivals(50)
    for i in range(50, 80):
        s.send(p, "t", i)
    s.await_arrivals(80)
    time.sleep(CALM_S)


def tags(s):
    """The broker compares hashes, the client texts; "Aa" and "BB" have the same hash."""
    p, number = s.producer(), 0
    for tag in ["A", "B", "C", "", "Aa", "BB", "标签"] * 6:
        s.send(p, tag, number)
        number += 1
    s.event("subscribed", by="ab", wanted=["A", "B"])
    s.event("subscribed", by="twin", wanted=["Aa", "标签"])
    s.consumer("ab", s.group("ab"), "A || B")
    s.consumer("twin", s.group("twin"), "Aa || 标签")
    s.await_arrivals(12 + 12)
    for tag in ["C", "", "A", "BB", "标签"]:
        s.send(p, tag, number)
        number += 1
    s.await_arrivals(12 + 12 + 2)
    time.sleep(CALM_S)


def consumer_restart(s):
    p = s.producer()
    for i in range(30):
        s.send(p, "first", i)
    first = s.consumer("A", s.group("g"))
    s.await_arrivals(30)
    time.sleep(CALM_S)
    first.shutdown()
    s.event("phase", name="restarted")
    for i in range(30, 50):
        s.send(p, "second", i)
    s.consumer("B", s.group("g"))
    s.await_arrivals(50)
    time.sleep(CALM_S)


def pull_all(s):
    """This client pulls whole topics and goes on where it had stopped; two consumers would share their places in a topic."""
    p = s.producer()
    c = PullConsumer(s.group("g"))
    c.set_namesrv_addr(s.options["namesrv"])
    c.start()
    s.kept.append(c)
    for i, (phase, expression) in enumerate([("first", "*"), ("second", "*"), ("even", "even")]):
        for number in range(40 * i, 40 * i + 40):
            s.send(p, phase if number % 2 == 0 else "odd", number)
        for m in c.pull(s.topic(), expression):
            s.got(phase, m)


def delay(s):
    """Levels 1, 2 and 3 mean 1, 5 and 10 seconds; the tag names the level. Some without one in between, so that both kinds mix."""
    p = s.producer()
    s.consumer("A", s.group("g"))
    for i in range(40):
        s.send(p, "level%d" % (i % 4), i, delay=i % 4)
    s.await_arrivals(40)
    time.sleep(CALM_S)


def ordered(s):
    """Five chains of messages, each by its number into one queue, every fourth message one-way."""
    p = s.producer()
    for i in range(60):
        message, facts = s.message("chain%d" % (i % 5), i)
        if i % 4 == 3:
            p.send_oneway_orderly(message, i % 5)
            s.event("sent", how="oneway", **facts)
        else:
            s.sent("ordered", facts, s.routed(lambda: p.send_orderly(message, i % 5)))
    s.consumer("A", s.group("g"), orderly=True)
    s.await_arrivals(60)
    time.sleep(CALM_S)


SCENARIOS = {"send": send, "compressed": compressed, "push-one": push_one, "tags": tags, "consumer-restart": consumer_restart, "pull-all": pull_all,
             "delay": delay, "ordered": ordered}


def run(session):
    start = time.time()
    try:
        SCENARIOS[session.scenario](session)
        session.event("done", ms=int((time.time() - start) * 1000))
    except Exception:
        session.event("failed", error=traceback.format_exc())


def main():
    options = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    sessions = [Session(name, options) for name in sys.argv[1:] if "=" not in name]
    threads = [threading.Thread(target=run, args=[session]) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Nobody says goodbye here: each shutdown would take this client seconds, and one of the scenarios has one.
    os._exit(0)


main()
