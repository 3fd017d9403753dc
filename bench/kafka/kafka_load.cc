// Feeds processors on a Kafka and checks what they did, whoever they are. One line of JSON on standard output.
//
//   kafka_load fill    --bootstrap=HOST:PORT --topic=T --records=N --keys=K [--value-bytes=100] [--each=0] [--seed=1]
//     Appends N records: keys key-00000000.. chosen at random from K (--each=1: every key in turn, in a scattered
//     order), values of random letters, partitions as the Java client chooses them.
//   kafka_load check   --bootstrap=HOST:PORT --input=T --output=T --values=count|any
//     Reads both as committed and compares them: every key has as many outputs as inputs; with `count` they are the
//     decimal numbers 1, 2, 3.. in order. Exit code 1 if not.
//   kafka_load latency --bootstrap=HOST:PORT --input=T --output=T --rate=1000 --seconds=S --warmup=S [--keys=1000]
//     Waits until a processor answers, then sends at that rate, each record at its own time, and takes the time from when
//     it was due until its output is read as committed (the n-th output of a key answers its n-th input). Both topics
//     must be this run's own.
#include <string_view>

#include "bench/kafka/commands.h"

int main(int argc, char** argv) {
  using namespace millstream::bench;
  const std::string_view command = argc > 1 ? argv[1] : "";
  Arguments arguments(argc, argv, 2);
  if (command == "fill") return Fill(arguments);
  if (command == "check") return CheckOutputs(arguments);
  if (command == "latency") return Latency(arguments);
  Die(command, "is no command; there are fill, check, latency");
}
