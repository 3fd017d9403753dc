"""The model of test_ttl.py: rows of input in, what must have been told and what is remembered out. Knows neither batches nor crashes."""

TTL = 1000  # ms
STEP = TTL // 100  # docs/design/0004-windows-timers.md


def expected(rows):
    """What must have been told, and what is remembered at the end."""
    stream, written, told = {}, {}, []

    def visible(partition, key):
        if (partition, key) not in written:
            return None
        n, at = written[(partition, key)]
        return n if stream[partition] // STEP * STEP < -(-at // STEP) * STEP + TTL else None

    for partition, timestamp, key, n in rows:
        stream[partition] = max(timestamp, stream.get(partition, timestamp))
        told.append((key, n, visible(partition, key)))
        written[(partition, key)] = (n, timestamp)
    remembered = {key: visible(partition, key) for partition, key in written}
    return sorted(told), {key: n for key, n in remembered.items() if n is not None}


def batch(seed, now, count):
    """Rows around a time that moves on, some of them late; some keys come often, some seldom."""
    rows = []
    for _ in range(count):
        now += seed.choice([0, 1, 5, 20, 20, 200])
        rows.append((f"key-{seed.choice([seed.randrange(5), seed.randrange(200)])}", now - seed.choice([0, 0, 0, 15, 700, 3000])))
    return rows, now
