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
