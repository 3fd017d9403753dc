"""What a failure costs: the state of many keys is built up once; then the peer is killed and started again (disk kept), or stopped and its disk emptied.

Before each start some records wait for it. From the start of its process to their outputs read as committed: the first one, and all of them. The
restore itself is what the peer tells about it.
"""

import os

from bed import Progress

PENDING = 800  # records that wait for each start: some for every partition
DEADLINE = 300


def outage(bed, peer, job, process, records, wiped):
    """Ends the process, starts it again; returns (new process, {measure: value})."""
    if wiped:
        process.stop()
        peer.wipe(job)
    else:
        process.kill()
    progress = Progress(bed.config, job.output)
    before = progress()
    bed.load("fill", topic=job.input, records=PENDING, keys=records, seed=int.from_bytes(os.urandom(4), "big"))
    process = peer.start(job)
    samples = bed.wait_outputs(job, process, before + PENDING, DEADLINE, progress)
    outputs = [sample for sample in samples if sample[1] > before]
    found = {"first s": outputs[0][0] - process.started, "all s": outputs[-1][0] - process.started}
    restored = peer.restored(process)
    if restored is not None:
        found["restore s"], found["read back MB"] = restored[0], restored[1] / 1e6
    return process, found


def measure(bed, peer, job, records, value_bytes, repeats, kills=True):
    """{"killed": [{measure: value}..], "wiped": [..], "build s": seconds}; the input is filled here."""
    bed.load("fill", topic=job.input, records=records, keys=records, each=1, value_bytes=value_bytes)
    job.record_bytes = len("key-00000000") + value_bytes
    state_mb = records * job.record_bytes / 1e6
    process = peer.start(job)
    try:
        samples = bed.wait_outputs(job, process, records, 900)
        found = {"state MB": state_mb, "build s": samples[-1][0] - process.started, "killed": [], "wiped": []}
        for _ in range(repeats):
            if kills:
                process, killed = outage(bed, peer, job, process, records, wiped=False)
                found["killed"].append(killed)
            process, wiped = outage(bed, peer, job, process, records, wiped=True)
            if wiped.get("restore s"):
                wiped["restore MB/s"] = state_mb / wiped["restore s"]
            found["wiped"].append(wiped)
        process.stop()
    finally:
        process.kill()
    found["checked"] = bed.check(job)
    return found
