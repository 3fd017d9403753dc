"""Tables of min / median / max, and the ratios that targets are about."""

import statistics

FORMS = {"records/s": "{:,.0f}", "RSS MB": "{:.0f}", "others %": "{:.0f}", "machine busy %": "{:.0f}", "restore MB/s": "{:.0f}", "read back MB": "{:.1f}",
         "p50 ms": "{:.1f}", "p99 ms": "{:.1f}", "p99.9 ms": "{:.1f}", "max ms": "{:.1f}"}

LEAST_STEPS = 8


def median(runs, name):
    values = [run[name] for run in runs if name in run]
    return statistics.median(values) if values else None


def cell(runs, name):
    values = sorted(run[name] for run in runs if name in run)
    if not values:
        return "-"
    form = FORMS.get(name, "{:.2f}")
    return " / ".join(form.format(value) for value in (values[0], statistics.median(values), values[-1]))


def table(title, results, columns):
    """`results`: {label: runs}."""
    rows = [["", *columns], *([label, *(cell(runs, name) for name in columns)] for label, runs in results.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print(f"\n{title}")
    for row in rows:
        print("  " + row[0].ljust(widths[0]) + "".join("   " + text.rjust(width) for text, width in zip(row[1:], widths[1:])))


def short(results):
    """Says which runs saw so few commits that their edges count: their figures mean little."""
    for label, runs in results.items():
        if min(run["steps"] for run in runs) < LEAST_STEPS:
            print(f"\n{label}: fewer than {LEAST_STEPS} commits were seen in a run; take more --records, or a machine with less to do")


def details(results):
    """Where the time of our transactions goes, and the threads of ours that cost most."""
    for label, runs in results.items():
        names = {name: None for run in runs for name in run.get("details", {})}
        if not names:
            continue
        found = [run["details"] for run in runs]
        print(f"\n{label}: its transactions, medians")
        print("  " + ", ".join(f"{name} {median(found, name):.1f}" for name in names))
        threads = {name: None for run in runs for name in run.get("threads", {})}
        if not threads:
            continue
        costs = {name: statistics.median(run["threads"].get(name, 0) for run in runs) for name in threads}
        print("  us/record by thread: " + ", ".join(f"{name} {cost:.2f}" for name, cost in sorted(costs.items(), key=lambda item: -item[1]) if cost >= 0.05))


class Ratios:
    """Lines `what, value, target, whether it holds`; what was not measured in this run is left out."""

    def __init__(self):
        self.lines = []

    def add(self, name, value, target, at_least=True):
        if value is not None:
            self.lines.append({"measure": name, "value": value, "target": target, "holds": value >= target if at_least else value <= target,
                               "sign": ">=" if at_least else "<="})

    def show(self):
        if not self.lines:
            return
        print("\nagainst the targets")
        width = max(len(line["measure"]) for line in self.lines)
        for line in self.lines:
            print(f"  {line['measure'].ljust(width)}   {line['value']:8.2f}   {line['sign']} {line['target']:<6g} {'yes' if line['holds'] else 'NO'}")


def over(a, b):
    return a / b if a is not None and b else None
