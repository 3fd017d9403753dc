"""What must come out of time_worker.py, computed from its input alone; and the rows that are its input."""

SIZE, GRACE, GAP, REMIND_AFTER = 1000, 300, 400, 900  # ms; the last as in time_worker.py


def batch(seed, now, count, keys=6):
    """Rows around a time that moves on, some of them late or ahead."""
    rows = []
    for _ in range(count):
        now += seed.choice([0, 1, 5, 20])
        rows.append((f"key-{seed.randrange(keys)}", now - seed.choice([0, 0, 0, 100, 700, 3000])))
    return rows, now


def stay(sessions, timestamp, now):
    """One more record of a key, if it is not late for its session, or for one that was given."""
    touched = [(s, e) for s, e in sessions if s - GAP <= timestamp <= e + GAP]
    bounds = (min([timestamp, *(s for s, _ in touched)]), max([timestamp, *(e for _, e in touched)]))
    if all(e + GAP + GRACE >= now for _, e in [*touched, bounds]):
        sessions[bounds] = 1 + sum(sessions.pop(each) for each in touched)


def expected(rows):
    """What must come out of input rows: windows and stays that closed, timers that came back, visits."""
    stream, windows, timers, visits, stays = {}, {}, [], {}, {}
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
        stay(stays.setdefault((partition, key), {}), timestamp, max(timestamp, timestamp if reached is None else reached))
        stream[partition] = max(timestamp, reached if reached is not None else timestamp)
    closed = [(k, s, s + SIZE, c) for (p, k, s), c in windows.items() if s + SIZE + GRACE <= stream[p]]
    closed += [(k, s, e, c) for (p, k), of_key in stays.items() for (s, e), c in of_key.items() if e + GAP + GRACE < stream[p]]
    reminded = sorted((k, t) for p, k, t in timers if t <= stream[p])
    return sorted(closed), reminded, {(k, s, e): c for k, of_key in visits.items() for (s, e), c in of_key.items()}
