import millstream
from fake_sidecar import RESULT


def test_counts_and_emits(serve):
    app = millstream.App()

    @app.on("in")
    def count(ctx, record):
        n = ctx.state("s").get(default=0) + record.value["n"]
        ctx.state("s").set(n)
        ctx.emit("out", key=record.key, value={"n": n})

    sidecar = serve(app)
    result = sidecar.run(7, (b"a", b'{"n":1}'), (b"b", b'{"n":5}'), (b"a", b'{"n":2}'), state={0: [b"10", None]})
    assert result[:4] == [RESULT, 7, 3, None]
    assert result[4] == {0: [[b"a", b"13"], [b"b", b"5"]]}
    assert result[5] == [
        [0, b"a", b'{"n":11}', 1000, None, None], [0, b"b", b'{"n":5}', 1001, None, None],
        [0, b"a", b'{"n":13}', 1002, None, None],
    ]


def test_async(serve):
    import asyncio
    app = millstream.App()

    @app.on("in")
    async def count(ctx, record):
        n = await ctx.state("s").get(default=0) + record.value["n"]
        await asyncio.sleep(0.01)
        ctx.state("s").set(n)
        ctx.emit("out", key=record.key, value={"n": n})

    sidecar = serve(app)
    result = sidecar.run(7, (b"a", b'{"n":1}'), (b"b", b'{"n":5}'), (b"a", b'{"n":2}'), state={0: [b"10", None]})
    assert result[:4] == [RESULT, 7, 3, None]
    assert sorted(result[4][0]) == [[b"a", b"13"], [b"b", b"5"]]
    assert [o[2] for o in result[5]] == [b'{"n":11}', b'{"n":5}', b'{"n":13}']
