#ifndef MILLSTREAM_BENCH_KAFKA_COMMANDS_H_
#define MILLSTREAM_BENCH_KAFKA_COMMANDS_H_

#include "bench/kafka/clients.h"

// The commands of kafka_load (its arguments are described there). Each prints one line of JSON and returns an exit code.
namespace millstream::bench {

int Fill(Arguments& arguments);
int CheckOutputs(Arguments& arguments);
int Latency(Arguments& arguments);

}  // namespace millstream::bench

#endif  // MILLSTREAM_BENCH_KAFKA_COMMANDS_H_
