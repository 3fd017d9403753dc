/* The process that holds the namespaces of a pod: does nothing, and reaps what is left to it. Linked statically into the image localhost/pause:1. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void Stop(int number) {
  (void)number;
  _exit(0);
}

static void Reap(int number) {
  (void)number;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, Stop);
  signal(SIGTERM, Stop);
  signal(SIGCHLD, Reap);
  for (;;) pause();
}
