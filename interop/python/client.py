"""Every way of the C++ based Python client (rocketmq 0.4.4, whose wheel brings librocketmq): python client.py NAMESERVER"""
import sys
import threading
import time

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

nameserver, topic, group = sys.argv[1], "PythonClient", "python_group"


def message(body, tags="TagA", delay=0):
    m = Message(topic)
    m.set_keys("key-" + body)
    m.set_tags(tags)
    m.set_property("language", "python")
    if delay:
        m.set_delay_time_level(delay)
    m.set_body(body)
    return m


def check(what, good):
    print("ok  " if good else "FAIL", what, flush=True)
    if not good:
        check.failed = True


check.failed = False
producer = Producer(group)
producer.set_namesrv_addr(nameserver)
producer.start()
expected = set()


def send(what, f):
    try:
        f()
    except Exception as e:  # the client's own classes
        check("%s: %r" % (what, e), False)
    else:
        check(what, True)


def sync():
    for i in range(10):
        r = producer.send_sync(message("sync-%d" % i))
        assert r.status == 0 and r.msg_id, r
        expected.add("sync-%d" % i)


def asynchronous():
    done, failed = threading.Event(), []
    producer.send_async(message("async-0"), lambda r: done.set(), lambda e: (failed.append(e), done.set()))
    assert done.wait(10) and not failed, failed
    expected.add("async-0")


def oneway():
    producer.send_oneway(message("oneway-0"))
    expected.add("oneway-0")


def batch():
    r = producer.send_batch([message("batch-%d" % i) for i in range(3)])
    assert r.status == 0, r
    expected.update("batch-%d" % i for i in range(3))


def orderly():
    for i in range(5):
        producer.send_orderly(message("ordered-%d" % i, "TagB"), 7)


def delayed():
    producer.send_sync(message("delayed-0", delay=1))
    expected.add("delayed-0")


sent = time.time()
for name, f in [("sync send", sync), ("asynchronous send", asynchronous), ("one-way send", oneway), ("batch", batch), ("ordered send", orderly), ("delay level", delayed)]:
    send(name, f)

lock, got, when, ordered = threading.Lock(), {}, {}, []


def received(m):
    body = m.body.decode()
    with lock:
        got[body] = got.get(body, 0) + 1
        when[body] = time.time()
        check.properties = m.get_property("language") == b"python" and m.keys.decode() == "key-" + body


def received_in_order(m):
    with lock:
        ordered.append(m.body.decode())


push = PushConsumer(group + "_push")
push.set_namesrv_addr(nameserver)
push.subscribe(topic, received, "TagA")
push.start()
in_order = PushConsumer(group + "_orderly", orderly=True)
in_order.set_namesrv_addr(nameserver)
in_order.set_instance_name("orderly")
in_order.subscribe(topic, received_in_order, "TagB")
in_order.start()
deadline = time.time() + 60
while time.time() < deadline and not (set(got) >= expected and len(ordered) >= 5):
    time.sleep(0.1)
check("push with a tag filter: %s" % sorted(got.items()), set(got) == expected and set(got.values()) == {1})
check("keys and properties", getattr(check, "properties", False))
check("delayed by a second, not less", when.get("delayed-0", 0) - sent >= 1)
check("ordered push: %s" % ordered, ordered == ["ordered-%d" % i for i in range(5)])
push.shutdown()
in_order.shutdown()

pull = PullConsumer(group + "_pull")
pull.set_namesrv_addr(nameserver)
pull.start()
pulled = sorted(m.body.decode() for m in pull.pull(topic))
check("pull: %d messages" % len(pulled), set(pulled) == expected | {"ordered-%d" % i for i in range(5)})
pull.shutdown()
producer.shutdown()
sys.exit(1 if check.failed else 0)
