#ifndef MILLSTREAM_CLI_COMMANDS_H_
#define MILLSTREAM_CLI_COMMANDS_H_

#include "cli/context.h"

namespace millstream::cli {

// Each adds one command (or a group of them) to the program. `context` outlives the app.
void RegisterRun(CLI::App* app, Context* context);
void RegisterInit(CLI::App* app, Context* context);
void RegisterValidate(CLI::App* app, Context* context);
void RegisterExplain(CLI::App* app, Context* context);
void RegisterProduce(CLI::App* app, Context* context);
void RegisterConsume(CLI::App* app, Context* context);
void RegisterState(CLI::App* app, Context* context);
void RegisterTasks(CLI::App* app, Context* context);
void RegisterTopics(CLI::App* app, Context* context);
void RegisterConform(CLI::App* app, Context* context);
void RegisterLag(CLI::App* app, Context* context);
void RegisterReset(CLI::App* app, Context* context);
void RegisterDeadLetters(CLI::App* app, Context* context);
void RegisterAdopt(CLI::App* app, Context* context);
void RegisterCompletion(CLI::App* app, Context* context);
void RegisterVersion(CLI::App* app, Context* context);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_COMMANDS_H_
