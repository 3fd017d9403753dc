"""A TCP proxy in front of a cluster's PLAINTEXT listener that reads the Kafka protocol and breaks what a test tells it to.

    with Cluster(folder) as cluster ...        # made, not started
    proxy = Proxy(cluster)                     # brokers now advertise the proxy's ports
    cluster.start()
    proxy.fault("EndTxn", delay_response=20)                         # the next answer to a commit comes 20 s late
    proxy.fault("EndTxn", drop_response=True, name="totals-0-a")     # only this transactional id's
    proxy.fault("Produce", cut_after=True, times=3)
    proxy.wait("EndTxn")                                             # until one more has arrived
    proxy.clear()

A connection is one pipe: what is held holds up everything behind it, as a slow network would. A request that is held is delivered
although its client has gone by then, which is what a delayed packet does. All of it runs in one thread of its own; methods may be called
from any thread.
"""

import asyncio
import collections
import dataclasses
import struct
import threading
import time

HOST = "127.0.0.1"

# Key of each request that rules can be about, and the version from which its header and strings are "flexible". Those with a version carry
# a transactional id or a group as their first field.
APIS = {
    "Produce": (0, 9), "Fetch": (1, None), "ListOffsets": (2, None), "Metadata": (3, None), "OffsetCommit": (8, 8), "OffsetFetch": (9, 6),
    "FindCoordinator": (10, 3), "JoinGroup": (11, 6), "Heartbeat": (12, 4), "LeaveGroup": (13, 4), "SyncGroup": (14, 4), "ApiVersions": (18, None),
    "CreateTopics": (19, None), "InitProducerId": (22, 2), "AddPartitionsToTxn": (24, 3), "AddOffsetsToTxn": (25, 3), "EndTxn": (26, 3),
    "TxnOffsetCommit": (28, 3),
}
NAMES = {key: name for name, (key, _) in APIS.items()}
LARGEST_FRAME = 128 << 20
HEAD_BYTES = 400


@dataclasses.dataclass
class Request:
    """What the proxy knows of one request."""
    api: str  # "EndTxn"; an unnamed one is its key as text
    version: int
    correlation: int
    client: str  # client.id
    name: str | None  # transactional id or group, where the request has one
    commit: bool | None  # EndTxn: commit or abort
    head: bytes  # how its frame begins, for rules about what is not named here
    at: float = dataclasses.field(default_factory=time.monotonic)


@dataclasses.dataclass
class Fault:
    """One rule; `hits` counts what it was applied to."""
    api: str
    times: int
    name: str | None
    when: object
    delay_request: float
    delay_response: float
    drop_request: bool
    drop_response: bool
    cut_before: bool
    cut_after: bool
    hang_up: bool
    then: object
    hits: int = 0

    def matches(self, request):
        return (self.hits < self.times and self.api == request.api and self.name in (None, request.name)
                and (self.when is None or self.when(request)))


def parse(frame):
    """The Request in a frame (without its length)."""
    key, version, correlation, length = struct.unpack_from(">hhih", frame, 0)
    at = 10 + max(length, 0)
    client = frame[10:at].decode(errors="replace")
    api = NAMES.get(key, str(key))
    flexible = APIS.get(api, (key, None))[1]
    name = commit = None
    if flexible is not None:
        if version >= flexible:
            assert frame[at] == 0, "tagged fields in a request header: none is defined"
            length, at = frame[at + 1] - 1, at + 2
            assert length < 127, "a name longer than a one-byte length"
        else:
            length, = struct.unpack_from(">h", frame, at)
            at += 2
        if length >= 0:
            name = frame[at:at + length].decode(errors="replace")
        if api == "EndTxn":
            commit = bool(frame[at + length + 10])
    return Request(api, version, correlation, client, name, commit, bytes(frame[:HEAD_BYTES]))


class Link:
    """One client connection and its connection to the broker."""

    def __init__(self, proxy, node, client_reader, client_writer):
        self.proxy, self.node = proxy, node
        self.from_client, self.to_client = client_reader, client_writer
        self.from_broker = self.to_broker = None
        self.client = None  # client.id of the last request
        self.waiting = {}  # correlation id: (request, fault or None)

    async def run(self):
        try:
            self.from_broker, self.to_broker = await asyncio.open_connection(HOST, self.proxy.targets[self.node], limit=1 << 20)
        except OSError:
            self.to_client.close()
            return
        answers = asyncio.create_task(self._answers())
        try:
            await self._requests()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            # The last answers may still be on their way to a client that only stopped sending.
            self.to_broker.close()
            if not self.to_client.is_closing():
                try:
                    await asyncio.wait_for(asyncio.shield(answers), 1)
                except (TimeoutError, asyncio.TimeoutError):
                    pass
            answers.cancel()
            self.to_client.close()

    def cut(self):
        for writer in (self.to_client, self.to_broker):
            if writer:
                writer.transport.abort()

    async def _frame(self, reader):
        size, = struct.unpack(">i", await reader.readexactly(4))
        if not 0 <= size <= LARGEST_FRAME:
            raise OSError(f"a frame of {size} bytes")
        return await reader.readexactly(size)

    async def _requests(self):
        while True:
            frame = await self._frame(self.from_client)
            request = parse(frame)
            self.client = request.client
            fault = self.proxy.arrived(request)
            if fault:
                if fault.then:
                    await asyncio.get_running_loop().run_in_executor(None, fault.then)
                if fault.delay_request:
                    await asyncio.sleep(fault.delay_request)
                if fault.cut_before:
                    self.cut()
                    return
                if fault.drop_request:
                    continue
            self.waiting[request.correlation] = (request, fault)
            self.to_broker.write(struct.pack(">i", len(frame)) + frame)
            await self.to_broker.drain()
            if fault and fault.hang_up:
                # The client's side is gone, the broker still works on it: an orderly end there.
                self.to_client.transport.abort()
                return

    async def _answers(self):
        try:
            while True:
                frame = await self._frame(self.from_broker)
                request, fault = self.waiting.pop(struct.unpack_from(">i", frame, 0)[0], (None, None))
                if fault:
                    if fault.delay_response:
                        await asyncio.sleep(fault.delay_response)
                    if fault.cut_after:
                        self.cut()
                        return
                    if fault.drop_response:
                        continue
                self.to_client.write(struct.pack(">i", len(frame)) + frame)
                await self.to_client.drain()
        except (OSError, asyncio.IncompleteReadError):
            self.to_client.close()


class Proxy:
    """In front of every broker of a cluster that is not started yet; ends with close()."""

    def __init__(self, cluster):
        self.targets = {broker.node: broker.ports["PLAINTEXT"] for broker in cluster.brokers}
        self.lock = threading.Condition()
        self.faults = []  # guarded by lock
        self.counts = collections.Counter()  # (api, name) and api: requests so far; guarded by lock
        self.recent = collections.deque(maxlen=1000)  # guarded by lock
        self.links = set()  # of the loop's thread
        self.refused = set()  # nodes that refuse connections; of the loop's thread
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True, name="kafka-proxy")
        self.thread.start()
        self.servers = []
        for node in self.targets:
            server = self._call(asyncio.start_server(lambda reader, writer, node=node: self._accept(node, reader, writer), HOST, 0, limit=1 << 20))
            self.servers.append(server)
            cluster.advertised[(node, "PLAINTEXT")] = server.sockets[0].getsockname()[1]

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def _accept(self, node, reader, writer):
        if node in self.refused:
            writer.transport.abort()
            return
        link = Link(self, node, reader, writer)
        self.links.add(link)
        try:
            await link.run()
        except asyncio.CancelledError:
            link.cut()
        finally:
            self.links.discard(link)

    def arrived(self, request):
        """Counts a request and returns the fault to apply to it."""
        with self.lock:
            self.counts[request.api] += 1
            self.counts[request.api, request.name] += 1
            self.recent.append(request)
            self.lock.notify_all()
            for fault in self.faults:
                if fault.matches(request):
                    fault.hits += 1
                    return fault
        return None

    # ---------------------------------------------------------------- what a test says

    def fault(self, api, *, times=1, name=None, when=None, delay_request=0.0, delay_response=0.0, drop_request=False, drop_response=False,
              cut_before=False, cut_after=False, hang_up=False, then=None):
        """Breaks the next `times` requests of that kind (with that transactional id or group; for which `when(request)` is true).

        delay_request    it reaches the broker that many seconds late        delay_response   so does its answer
        drop_request     it never does, the connection stays                 drop_response    so does its answer
        cut_before       the connection ends without it                      cut_after        ... when the broker has answered
        hang_up          the client's connection ends once it was passed on  then             called first (in a thread), for kills "right here"
        """
        assert api in APIS, api
        made = Fault(api, times, name, when, delay_request, delay_response, drop_request, drop_response, cut_before, cut_after, hang_up, then)
        with self.lock:
            self.faults.append(made)
        return made

    def clear(self):
        """No faults any more; what is held already stays held."""
        with self.lock:
            self.faults.clear()

    def count(self, api, name=None):
        with self.lock:
            return self.counts[(api, name) if name else api]

    def wait(self, api, *, name=None, more=1, since=None, deadline=60.0):
        """Until `more` requests of that kind have arrived since count() said `since` (default: now)."""
        key = (api, name) if name else api
        with self.lock:
            goal = (self.counts[key] if since is None else since) + more
            assert self.lock.wait_for(lambda: self.counts[key] >= goal, deadline), f"no {api} within {deadline:.0f} s"

    def cut_all(self, client=None):
        """Ends every connection, or those of that client.id."""
        async def cut():
            for link in list(self.links):
                if client in (None, link.client):
                    link.cut()
        self._call(cut())

    def refuse(self, nodes=None):
        """From now on nobody gets through to these brokers (default: all); allow() ends it."""
        async def refuse():
            self.refused = set(nodes or self.targets)
            for link in list(self.links):
                if link.node in self.refused:
                    link.cut()
        self._call(refuse())

    def allow(self):
        async def allow():
            self.refused = set()
        self._call(allow())

    def close(self):
        async def end():
            for server in self.servers:
                server.close()
            for link in list(self.links):
                link.cut()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._call(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
