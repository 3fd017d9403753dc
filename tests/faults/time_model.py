"""What must come out of time_worker.py, computed from its input alone; and the rows that are its input."""

SIZE, GRACE, GAP, REMIND_AFTER = 1000, 300, 400, 900  # ms; the last as in time_worker.py


def batch(seed, now, count, keys=6):
    """Rows around a time that moves on, some of them late or ahead."""
    rows = []
    for _ in range(count):
        now += seed.choice([0, 1, 5, 20])
        rows.append((f"key-{seed.randrange(keys)}", now - seed.choice([0, 0, 0, 100, 700, 3000])))
    return rows, now


def expected(rows):
    """What must come out of input rows: closed windows, timers that came back, visits."""
    stream, windows, timers, visits = {}, {}, [], {}
    for partition, timestamp, key, n in rows:
        reached = stream.get(partition)
        start = timestamp - timestamp % SIZE
        if reached is None or start + SIZE + GRACE > reached:
            windows[(partition, key, start)] = windows.get((partition, key, start), 0) + 1
        timers.append((partition, f"{key}/{n}", timestamp + REMIND_AFTER))
        touched = [(s, e) for s, e in visits.get(key, {}) if s - GAP <= timestamp <= e + GAP]
        mine = visits.setdefault(key, {})
        count = 1 + sum(mine.pop(each) for each in touched)
        mine[(min([timestamp, *(s for s, _ in touched)]), max([timestamp, *(e for _, e in touched)]))] = count
        stream[partition] = max(timestamp, reached if reached is not None else timestamp)
    closed = sorted((k, s, c) for (p, k, s), c in windows.items() if s + SIZE + GRACE <= stream[p])
    reminded = sorted((k, t) for p, k, t in timers if t <= stream[p])
    return closed, reminded, {(k, s, e): c for k, of_key in visits.items() for (s, e), c in of_key.items()}
