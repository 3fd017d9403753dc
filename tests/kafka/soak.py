#!/usr/bin/env python3
"""./dev soak kafka [ROUNDS [SECONDS [SEED]]]: mixed kills and pauses of members and of three brokers under load; 20 rounds of 60 s by default.

Each round ends with the full check: nothing lost, nothing doubled, order kept, state equal to the changelog and to a model. Prints its seed.
"""

import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "testbed" / "kafka")]
import brokers  # noqa: E402
import harness  # noqa: E402
import proxy as proxies  # noqa: E402
from rounds import Trouble  # noqa: E402


def main(arguments):
    rounds = int(arguments[0]) if arguments else 20
    seconds = float(arguments[1]) if len(arguments) > 1 else 60
    seed = int(arguments[2]) if len(arguments) > 2 else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}, {rounds} rounds of {seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="millstream-soak.") as scratch:
        cluster = brokers.Cluster(pathlib.Path(scratch) / "brokers", brokers=3)
        proxy = proxies.Proxy(cluster)
        done = 0
        with cluster:
            group = harness.Group(scratch, cluster, proxy, session_timeout="10s", transaction_timeout="5s", partitions=6)
            trouble = Trouble(group, (cluster, proxy), random.Random(seed))
            try:
                trouble.start(members=3)
                for _ in range(rounds):
                    trouble.round(seconds)
                    done += 1
                    print(f"round {done}: {group.produced} events so far, each once; {', '.join(trouble.story[-1])}", flush=True)
                trouble.end()
            except (AssertionError, brokers.BrokerFailed) as error:
                print(f"FAILED in round {done + 1} with seed {seed} after {trouble.story[-1:]}: {error}")
                print(f"{done} passed, 1 failed")
                return 1
            finally:
                group.close()
        proxy.close()
    print(f"{done} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
