#ifndef MILLSTREAM_CLI_INTERRUPT_H_
#define MILLSTREAM_CLI_INTERRUPT_H_

namespace millstream::cli {

// Makes Ctrl-C and SIGTERM end long commands in an orderly way instead of killing the process. Process-wide; call once.
void CatchInterrupts();
// How many came so far. A second one means: at once.
int Interrupts();
// A descriptor that becomes readable with every interrupt, for poll.
int InterruptDescriptor();
// Takes the pending wake-ups off the descriptor.
void ClearInterruptDescriptor();

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_INTERRUPT_H_
