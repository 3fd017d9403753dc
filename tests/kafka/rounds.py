"""Rounds of mixed trouble: what the test of seeds and the soak share."""

import time

import clients
from harness import wait_until


class Trouble:
    """Breaks members and brokers of one group at random moments, under load; every round ends with the full check."""

    def __init__(self, group, where, seed):
        self.group, (self.cluster, self.proxy), self.random = group, where, seed
        self.story = []  # what was done, per round
        self.count = 0

    def start(self, members):
        for _ in range(members):
            self.group.member()
        self.group.produce(100)
        self.group.wait_outputs()

    def round(self, seconds):
        done, end = [], time.monotonic() + seconds
        self.story.append(done)
        feeder = self.group.feed(self.random.choice([50, 200, 400]))
        try:
            while time.monotonic() < end:
                time.sleep(self.random.uniform(0.1, 1.5))
                name, act = self.random.choice(self.choices())
                done.append(name)
                act()
        finally:
            self.heal()
            feeder.close()
        self.group.wait_outputs(deadline=180)
        self.group.check()

    def choices(self):
        member = self.random.choice(self.group.members)
        broker = self.random.choice(self.cluster.brokers)
        ours = lambda request: (request.name or "").startswith(self.group.group)
        api = self.random.choice(["EndTxn", "TxnOffsetCommit", "Produce", "AddPartitionsToTxn", "InitProducerId"])
        fault = self.random.choice(["cut_before", "cut_after", "hang_up"])
        late = self.random.choice([0.3, 2, 6])
        return [
            (f"kill member {member.number}", lambda: self.restart(member)),
            (f"kill member {member.number} with its disk", lambda: self.replace(member)),
            (f"pause member {member.number}", lambda: self.pause(member)),
            (f"stop member {member.number}", lambda: self.stop(member)),
            (f"kill broker {broker.node}", lambda: self.restart_broker(broker)),
            (f"pause broker {broker.node}", lambda: self.pause_broker(broker)),
            (f"{fault} {api}", lambda: self.proxy.fault(api, when=ours, times=self.random.randrange(1, 4), **{fault: True})),
            (f"late {api} answer", lambda: self.proxy.fault(api, when=ours, delay_response=late)),
            (f"late {api}", lambda: self.proxy.fault(api, when=ours, delay_request=late)),
        ]

    def restart(self, member):
        member.kill()
        if self.random.random() < 0.5:
            time.sleep(self.random.uniform(0, 2))
        member.start()

    def replace(self, member):
        """Another machine with an empty disk instead."""
        member.kill()
        self.group.members.remove(member)
        self.group.member()

    def pause(self, member):
        if member.alive():
            member.pause()
            time.sleep(self.random.choice([0.5, 2, 7]))
            member.resume()

    def stop(self, member):
        assert member.alive(), member.log()
        assert member.stop() == 0, member.log()
        member.start()

    def others_in_sync(self):
        """Only one broker at a time: two of three replicas must be in sync."""
        topics = clients.topics(self.group.config)
        wait_until(lambda: all(count == 3 for topic in topics.values() for _, count in topic.values())
                   or topics.update(clients.topics(self.group.config)), "replicas do not come back")

    def restart_broker(self, broker):
        self.others_in_sync()
        broker.kill()
        time.sleep(self.random.uniform(0, 2))
        broker.start()
        self.cluster.wait_ready()

    def pause_broker(self, broker):
        self.others_in_sync()
        broker.pause()
        time.sleep(self.random.choice([0.5, 2, 6]))
        broker.resume()

    def heal(self):
        self.proxy.clear()
        for broker in self.cluster.brokers:
            broker.resume()
            if not broker.alive():
                broker.start()
        self.cluster.wait_ready()
        for member in self.group.members:
            assert member.alive(), f"member {member.number} ended by itself\n{member.log()}"

    def end(self):
        self.group.finish()
