"""spec.partitions: a processor that reads some partitions only, shared out among its members."""

import clients
from harness import wait_until


def test_only_the_chosen_partitions_are_read_and_shared_out(group, one):
    g = group(one)
    g.manifest.write_text(g.manifest.read_text() + "  partitions: {manual: [3, 1]}\n")
    g.produce(400, keys=60)
    first, second = g.member(), g.member()
    wait_until(lambda: sorted([first.active(), second.active()]) == [[1], [3]], g.logs)
    chosen = sum(1 for record in clients.read(g.config, g.input) if record[0] in (1, 3))
    assert 0 < chosen < g.produced
    g.wait_outputs(chosen)
    assert second.stop() == 0, second.log()
    wait_until(lambda: first.active() == [1, 3], g.logs)
    assert sorted(first.tasks()) == [1, 3]
    assert first.stop() == 0, first.log()

    # All of them from now on: the others begin where they start, these go on where they were.
    g.manifest.write_text(g.manifest.read_text().replace("  partitions: {manual: [3, 1]}\n", ""))
    second.start()
    g.finish()


def test_a_chosen_partition_that_is_not_there_is_refused(group, one):
    g = group(one)
    g.manifest.write_text(g.manifest.read_text() + "  partitions: {manual: [4]}\n")
    member = g.member()
    assert member.wait_exit() == 1
    assert "partitions.manual names partition 4" in member.log() and "partitions 0 to 3" in member.log(), member.log()
