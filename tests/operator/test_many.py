"""Many processors: bounded memory, bounded calls. Bounds of time are left to bench/operator."""

import many

COUNT = 30
MOST_MEMORY = 100e6  # bytes; bench/operator measures it with 1,000
MOST_CALLS = 100  # for each processor, until it is Ready


def test_many_at_once(world, space):
    figures = many.report(world, space, COUNT, quiet=0, seconds=1)
    assert figures.memory < MOST_MEMORY
    assert figures.calls < MOST_CALLS, figures.kinds
