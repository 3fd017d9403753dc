// __NAME__: counts the records of every key and emits the new count each time.
#include "processor.h"

int main() {
  millstream::worker::App app;
  AddHandlers(app);
  return app.Main();
}
