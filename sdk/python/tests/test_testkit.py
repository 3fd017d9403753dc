"""The test kit behaves as the sidecar does."""

import datetime

import pytest

import millstream
from millstream.testing import Fed, RecordFailed, TestKit

MANIFEST = {
    "apiVersion": "millstream.dev/v1alpha1", "kind": "StreamProcessor", "metadata": {"name": "totals"},
    "spec": {
        "inputs": [{"name": "orders", "topic": "prod.orders.v2"}], "stores": [{"name": "totals"}],
        "outputs": [{"topic": "customer-totals"}],
    },
}


def totals_app():
    app = millstream.App()

    @app.on("orders")
    def total(ctx, record):
        spent = ctx.state("totals").get(default=0) + record.value["amount"]
        ctx.state("totals").set(spent)
        ctx.emit("customer-totals", key=record.key, value={"spent": spent}, headers=record.headers)
    return app


def test_state_and_outputs():
    kit = TestKit(totals_app(), MANIFEST)
    kit.feed("orders", {"amount": 3}, key="anna", headers={"trace": "x"})
    kit.advance(seconds=2)
    kit.feed("orders", {"amount": 4}, key="anna")
    kit.feed("orders", {"amount": 1}, key=b"\xff", timestamp=datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc))
    assert dict(kit.state("totals")) == {"anna": 7, "\udcff": 1}
    out = kit.outputs("customer-totals")
    assert [o.value["spent"] for o in out] == [3, 7, 1]
    assert out[0].headers == [("trace", b"x")] and out[2].raw_key == b"\xff"
    assert [o.timestamp for o in out] == [kit.now - 2000, kit.now, 1577836800000]
    assert kit.take("customer-totals") == out and kit.outputs("customer-totals") == []


def test_a_failure_keeps_what_came_before():
    kit = TestKit(totals_app(), MANIFEST)
    batch = [Fed("orders", {"amount": 1}, "a"), Fed("orders", {}, "a"), Fed("orders", {"amount": 5}, "a")]
    with pytest.raises(RecordFailed, match="Handler failure of 'orders' offset 1: KeyError: 'amount'") as caught:
        kit.feed_batch(batch)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.failed.offset == 1 and kit.failures == [caught.value.failed]
    assert kit.state("totals")["a"] == 1 and len(kit.outputs("customer-totals")) == 1


def test_skip_goes_on():
    kit = TestKit(totals_app(), MANIFEST, on_failure="skip")
    kit.feed_batch([Fed("orders", {"amount": 1}, "a"), Fed("orders", b"\0nope", "a"), Fed("orders", {"amount": 5}, "a")])
    assert kit.state("totals")["a"] == 6
    assert [f.failure_class for f in kit.failures] == ["Decode"]


def test_state_can_be_prepared_and_is_read_without_prefetch():
    for prefetch in (True, False):
        kit = TestKit(totals_app(), MANIFEST, prefetch=prefetch)
        kit.state("totals")["a"] = 100
        kit.feed("orders", {"amount": 1}, key="a")
        assert kit.state("totals")["a"] == 101 and "b" not in kit.state("totals") and len(kit.state("totals")) == 1
        del kit.state("totals")["a"]
        kit.feed("orders", {"amount": 1}, key="a")
        assert kit.state("totals").get("a") == 1


def test_scan_sees_committed_and_new_rows_over_pages():
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        state = ctx.state("s")
        state.set(0, key="k5")
        state.delete(key="k1")
        ctx.emit("out", value=[key for key, _ in state.scan("k1", "k9")])
        ctx.emit("out", value=[key for key, _ in state.scan(prefix="k", reverse=True, limit=4)])

    kit = TestKit(app, stores=["s"], outputs=["out"])
    for n in (0, 1, 2, 3, 4, 6, 7, 8, 9):
        kit.state("s")[f"k{n}"] = n
    kit.feed("in", key="x")
    assert [o.value for o in kit.outputs("out")] == [
        ["k2", "k3", "k4", "k5", "k6", "k7", "k8"], ["k9", "k8", "k7", "k6"]]


def test_manifest_files(tmp_path):
    yaml = pytest.importorskip("yaml")
    path = tmp_path / "processor.yaml"
    path.write_text(yaml.safe_dump(MANIFEST) + "---\n" + yaml.safe_dump({**MANIFEST, "metadata": {"name": "other"}}))
    with pytest.raises(millstream.ConfigError, match="holds 2 StreamProcessors; say which one"):
        TestKit(totals_app(), path)
    kit = TestKit(totals_app(), path, processor="totals")
    kit.feed("orders", {"amount": 1}, key="a")
    with pytest.raises(millstream.ConfigError, match="holds 0 StreamProcessors named 'x'"):
        TestKit(totals_app(), path, processor="x")


def test_a_relative_manifest_is_found_beside_the_test(tmp_path, monkeypatch):
    import json
    (tmp_path / "processor.yaml").write_text(json.dumps(MANIFEST))
    monkeypatch.setattr(f"{__name__}.__file__", str(tmp_path / "test_it.py"))
    TestKit(totals_app(), "processor.yaml").feed("orders", {"amount": 1}, key="a")
    with pytest.raises(millstream.ConfigError, match="no manifest 'other.yaml' in"):
        TestKit(totals_app(), "other.yaml")


def test_importing_a_program_that_runs_at_once(tmp_path, monkeypatch):
    (tmp_path / "eager_program.py").write_text(
        'import millstream\napp = millstream.App()\napp.on("in")(lambda ctx, record: None)\napp.run()\n')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(millstream.ConfigError, match="reached by importing eager_program; write if __name__"):
        import eager_program  # noqa: F401


def test_names_that_do_not_fit():
    with pytest.raises(millstream.ConfigError, match="inputs: other"):
        TestKit(totals_app(), {**MANIFEST, "spec": {"inputs": [{"topic": "other"}]}})
    kit = TestKit(totals_app(), MANIFEST)
    with pytest.raises(KeyError, match="stores: totals"):
        kit.state("x")
    with pytest.raises(KeyError, match="outputs: customer-totals"):
        kit.outputs("x")
    with pytest.raises(millstream.ConfigError, match="inputs: orders"):
        kit.feed("x")


def test_undeclared_outputs_fail_as_in_production():
    kit = TestKit(totals_app(), {**MANIFEST, "spec": {**MANIFEST["spec"], "outputs": []}})
    with pytest.raises(RecordFailed, match="no output 'customer-totals'") as caught:
        kit.feed("orders", {"amount": 1}, key="a")
    assert isinstance(caught.value.__cause__, millstream.UndeclaredError)


def test_async_handlers_with_real_waiting():
    import asyncio
    app = millstream.App()

    @app.on("in")
    async def handle(ctx, record):
        await asyncio.sleep(0.001)
        ctx.state("s").set(await ctx.state("s").get(default=0) + 1)

    kit = TestKit(app, stores=["s"])
    kit.feed_batch([Fed("in", n, f"k{n % 3}") for n in range(30)])
    assert dict(kit.state("s")) == {"k0": 10, "k1": 10, "k2": 10}


TABLES = {
    "apiVersion": "millstream.dev/v1alpha1", "kind": "StreamProcessor", "metadata": {"name": "shop"},
    "spec": {
        "inputs": [{"topic": "orders"}], "loop": {}, "stores": [{"name": "totals"}],
        "joins": [{"name": "customers", "topic": "prod.customers"}], "lookups": [{"name": "rates", "topic": "rates"}],
        "outputs": [{"topic": "spent"}],
    },
}


def shop_app(is_async=False):
    app = millstream.App()

    if is_async:
        @app.on("orders")
        async def price(ctx, record):
            rate = await ctx.lookup("rates").get(record.value["currency"], default=1)
            ctx.emit("loop", key=record.value["customer"], value=record.value["amount"] * rate)
    else:
        @app.on("orders")
        def price(ctx, record):
            rate = ctx.lookup("rates").get(record.value["currency"], default=1)
            ctx.emit("loop", key=record.value["customer"], value=record.value["amount"] * rate)

    @app.on("loop")
    def total(ctx, record):
        spent = ctx.state("totals").get(default=0) + record.value
        ctx.state("totals").set(spent)
        ctx.emit("spent", key=record.key, value=[ctx.join("customers").get(default="?"), spent])
    return app


def test_what_is_sent_to_the_loop_comes_back():
    kit = TestKit(shop_app(), TABLES)
    kit.lookup("rates")["usd"] = 2
    kit.join("customers")["anna"] = "Anna"
    orders = [{"customer": "anna", "amount": 3, "currency": "usd"}, {"customer": "bob", "amount": 5, "currency": "eur"}]
    kit.feed_batch([Fed("orders", order, key=str(n)) for n, order in enumerate(orders)])
    kit.feed("orders", {"customer": "anna", "amount": 1, "currency": "usd"}, key="3", timestamp=1234)
    assert dict(kit.state("totals")) == {"anna": 8, "bob": 5}
    assert [o.value for o in kit.outputs("spent")] == [["Anna", 6], ["?", 5], ["Anna", 8]]
    assert kit.outputs("spent")[2].timestamp == 1234
    assert [o.key for o in kit.outputs("loop")] == ["anna", "bob", "anna"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("prefetch", [False, True])
def test_tables_with_and_without_prefetching(is_async, prefetch):
    kit = TestKit(shop_app(is_async), TABLES, prefetch=prefetch)
    kit.lookup("rates")["usd"] = 2
    kit.join("customers")["anna"] = "Anna"
    kit.feed("orders", {"customer": "anna", "amount": 3, "currency": "usd"}, key="1")
    assert [o.value for o in kit.outputs("spent")] == [["Anna", 6]]


def test_a_loop_that_does_not_end_is_found():
    app = millstream.App()

    @app.on("in")
    @app.on("loop")
    def again(ctx, record):
        ctx.emit("loop", key=record.key, value=record.value)
    kit = TestKit(app, inputs=["in", "loop"], outputs=["loop"])
    with pytest.raises(millstream.MillstreamError, match="does not end"):
        kit.feed("in", 1, key="a")


@pytest.mark.parametrize("key, partition, says", [(None, None, "needs a key"), ("a", 1, "chooses no partition")])
def test_a_record_for_the_loop_has_a_key_and_no_partition(key, partition, says):
    app = millstream.App()

    @app.on("in")
    def send(ctx, record):
        ctx.emit("loop", key=key, value=1, partition=partition)
    kit = TestKit(app, outputs=["loop"])
    with pytest.raises(RecordFailed, match=says) as caught:
        kit.feed("in", 1, key="a")
    assert caught.value.failed.failure_class == "Output" and not caught.value.failed.retriable


def test_tables_are_read_only_and_scanned():
    app = millstream.App()
    app.lookup("rates", key=millstream.STR, value=millstream.INT)

    @app.on("orders")
    def look(ctx, record):
        rates = ctx.lookup("rates")
        assert not hasattr(rates, "set") and not hasattr(rates, "delete")
        ctx.emit("out", key="rows", value=list(rates.scan(start="b", reverse=True)))
        ctx.emit("out", key="many", value=rates.get_many(["a", "x", "c"]))
    kit = TestKit(app, outputs=["out"], lookups=["rates"])
    for number, name in enumerate("abcdef"):
        kit.lookup("rates")[name] = number
    kit.feed("orders", {})
    rows, many = [o.value for o in kit.outputs("out")]
    assert rows == [["f", 5], ["e", 4], ["d", 3], ["c", 2], ["b", 1]] and many == [0, None, 2]


def test_undeclared_tables_are_named():
    app = millstream.App()

    @app.on("orders")
    def look(ctx, record):
        ctx.join("customer")
    kit = TestKit(app, joins=["customers"])
    with pytest.raises(RecordFailed, match="no join 'customer' in the manifest; did you mean 'customers'"):
        kit.feed("orders", {})
    kit = TestKit(app, lookups=["customers"])
    with pytest.raises(RecordFailed, match="no join 'customer' in the manifest. Declared joins: none"):
        kit.feed("orders", {})
    app.join("orders")
    with pytest.raises(millstream.ConfigError, match="no such join in the manifest; joins: none"):
        TestKit(app)


def gathering_app(is_async=False):
    app = millstream.App()
    app.told = []

    @app.on("clicks")
    def count(ctx, record):
        if record.value == "bad":
            raise ValueError(record.value)
        ctx.gathered[record.key] = ctx.gathered.get(record.key, 0) + 1

    if is_async:
        @app.finalize
        async def flush(ctx):
            for key, clicks in ctx.gathered.items():
                total = await ctx.state("totals").get(key, default=0) + clicks
                ctx.state("totals").set(total, key=key)
                ctx.emit("out", key=key, value=clicks)
    else:
        @app.finalize
        def flush(ctx):
            for key, clicks in ctx.gathered.items():
                ctx.state("totals").set(ctx.state("totals").get(key, default=0) + clicks, key=key)
                ctx.emit("out", key=key, value=clicks)

    @app.begin
    def begin(ctx):
        app.told.append(("begin", ctx.task, dict(ctx.gathered)))

    @app.committed
    def committed(task):
        app.told.append(("committed", task))
    return app


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_gathered_goes_out_at_finalize(is_async):
    app = gathering_app(is_async)
    kit = TestKit(app, stores=["totals"], outputs=["out"], task=7)
    kit.feed_batch([Fed("clicks", 1, "a"), Fed("clicks", 1, "b"), Fed("clicks", 1, "a")])
    kit.feed("clicks", 1, key="a")
    assert dict(kit.state("totals")) == {"a": 3, "b": 1}
    assert [(o.key, o.value) for o in kit.outputs("out")] == [("a", 2), ("b", 1), ("a", 1)]
    assert app.told == [("begin", 7, {}), ("committed", 7)] * 2


@pytest.mark.parametrize("forbidden, match", [
    (lambda ctx: ctx.timers.set("t", at=5, key="k"), "hooks cannot set timers"),
    (lambda ctx: ctx.timers.cancel("t", key="k"), "hooks cannot set timers"),
    (lambda ctx: ctx.window("w", 0), "hooks have no windows"),
])
def test_a_hook_has_no_time(forbidden, match, tmp_path):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        pass

    @app.finalize
    def flush(ctx):
        forbidden(ctx)

    manifest = tmp_path / "processor.yaml"
    manifest.write_text("""
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: p}
spec:
  inputs: [{topic: in}]
  timers: {}
  stores: [{name: w, type: Window, window: {size: 1m}}]
""")
    kit = TestKit(app, manifest=manifest)
    with pytest.raises(millstream.OutputError, match=match):
        kit.feed("in", 1, key="k")


def test_a_hook_that_fails_and_one_too_many():
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        pass

    @app.finalize
    def flush(ctx):
        ctx.emit("out", key="k", value=1)
        ctx.state("s").get()
    kit = TestKit(app, stores=["s"], outputs=["out"])
    with pytest.raises(millstream.NoKeyError, match=r"\(input '\(finalize\)'"):
        kit.feed("in", 1)
    assert kit.outputs("out") == []
    with pytest.raises(millstream.ConfigError, match="a function for finalize already"):
        app.finalize(flush)
