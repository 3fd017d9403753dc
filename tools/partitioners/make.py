#!/usr/bin/env python3
"""Writes tests/golden/partitioners.txt from what real clients answer; see README.md beside this file."""
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/testbed/kafka"))
import distribution  # noqa: E402

PARTITIONS = [1, 2, 3, 7, 12, 64, 1000]
HEAD = """# The partitions that real clients choose for keys; made by tools/partitioners/make.py, not by hand.
# key in hex | partitions | Java client {java} | librdkafka {rdkafka}: consistent, murmur2, fnv1a | Sarama {sarama}
"""


def keys():
    """Every short length with bytes of all kinds (the sign of a byte matters in some languages), texts as they are used, and long ones."""
    source = random.Random(1)
    texts = ["a", "ab", "abc", "abcd", "21", "foobar", "user-42", "größe", "注文", "🦉", "a-little-bit-long-string", "a-little-bit-longer-string",
             "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", "ORD-2024-000017", "{\"id\":7}", "\0", "\0\0", " ", "0", "-1"]
    found = [text.encode() for text in texts]
    found += [bytes([first]) for first in (0x7f, 0x80, 0xff)]
    for size in list(range(1, 18)) + [31, 32, 33, 100, 255, 256, 1000]:
        found += [source.randbytes(size) for _ in range(4)]
    found += [number.to_bytes(8, "big") for number in (1, 2, 255, 256, 2**31, 2**63 - 1)]
    return found


def ask(command, lines, **options):
    answer = subprocess.run(command, input="".join(f"{line}\n" for line in lines), text=True, capture_output=True, check=True, **options).stdout.splitlines()
    assert len(answer) == len(lines), (command, len(answer))
    return answer


def main():
    libraries = distribution.home() / "libs"
    java_version = next(libraries.glob("kafka-clients-[0-9]*.jar")).stem.removeprefix("kafka-clients-")
    rdkafka = pathlib.Path(subprocess.run(["bash", ROOT / "tools/dev/librdkafka.sh"], text=True, capture_output=True, check=True).stdout.strip())
    sarama = HERE / "sarama"
    sarama_version = next(line.split()[-1] for line in (sarama / "go.mod").read_text().splitlines() if "IBM/sarama" in line)
    lines = [f"{key.hex()} {count}" for key in keys() for count in PARTITIONS]
    with tempfile.TemporaryDirectory() as scratch:
        program = f"{scratch}/rdkafka"
        links = ["-lrdkafka"] if str(rdkafka) == "system" else \
            [f"-I{rdkafka}/include", f"{rdkafka}/lib/librdkafka.a", "-lcurl", "-lz", "-lzstd", "-llz4", "-lssl", "-lcrypto", "-lm", "-ldl", "-lpthread"]
        subprocess.run(["cc", "-O1", "-o", program, HERE / "rdkafka.c", *links], check=True)
        columns = [ask(["java", "-cp", f"{libraries}/*", HERE / "KafkaClient.java"], lines), ask([program], lines),
                   ask(["go", "run", "."], lines, cwd=sarama)]
        rdkafka_version = subprocess.run([program, "version"], text=True, capture_output=True, check=True).stdout.strip()
    golden = ROOT / "tests/golden/partitioners.txt"
    golden.write_text(HEAD.format(java=java_version, rdkafka=rdkafka_version, sarama=sarama_version)
                      + "".join(" ".join(parts) + "\n" for parts in zip(lines, *columns)), encoding="ascii")
    print(f"wrote {golden.relative_to(ROOT)}, {len(lines)} lines")


if __name__ == "__main__":
    main()
