#ifndef PROCESSOR_H_
#define PROCESSOR_H_

#include <millstream/worker.h>

// One handler per input of processor.yaml.
void AddHandlers(millstream::worker::App& app);

#endif  // PROCESSOR_H_
