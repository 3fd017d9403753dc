"""A worker of another revision of the protocol: peer.py older|newer|future FILE. Emits every record of a batch to output 0.

older: says no more than the first revision of version 1 had to. newer: says more than this sidecar knows (versions, map keys,
capabilities, fields behind the known ones). future: speaks versions 7 to 8 only. What the sidecar answers HELLO with goes to FILE.
"""
import json
import os
import socket
import struct
import sys

import msgpack

HELLO, WELCOME, BATCH, RESULT, PING, PONG, GOODBYE = 1, 2, 5, 6, 20, 21, 23
LEAST = {"protocol": [1, 1], "sdk": "peer", "language": "python", "version": "0", "capabilities": [], "parallel": 1}
HELLOS = {
    "older": [HELLO, LEAST],
    "newer": [HELLO, {**LEAST, "protocol": [1, 9], "capabilities": ["later"], "later": {"deep": [1, {"a": None}]}}, 8, ["later"]],
    "future": [HELLO, {**LEAST, "protocol": [7, 8]}],
}


def main(mode, out):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["MILLSTREAM_SOCKET"])
    stream = connection.makefile("rwb")

    def send(message):
        payload = msgpack.packb(message, use_bin_type=True)
        stream.write(struct.pack(">I", len(payload)) + payload)
        stream.flush()

    send(HELLOS[mode])
    while len(head := stream.read(4)) == 4:
        message = msgpack.unpackb(stream.read(struct.unpack(">I", head)[0]), strict_map_key=False)
        if not os.path.exists(out):
            with open(out + ".new", "w", encoding="utf-8") as file:
                json.dump([message[0], message[1] if message[0] == WELCOME else message[1:]], file)
            os.replace(out + ".new", out)
        if message[0] == BATCH:
            outputs = [[0, message[4][item[4]], item[5]] for item in message[5]]
            if mode == "newer":
                outputs = [[*output, None, None, None, 8, "later"] for output in outputs]
            result = [RESULT, message[1], len(outputs), None, {}, outputs]
            send([*result, None, None, 8, {"later": 1}] if mode == "newer" else result)
        elif message[0] == PING:
            send([PONG, message[1]])
        elif message[0] == GOODBYE:
            break


if __name__ == "__main__":
    main(*sys.argv[1:])
