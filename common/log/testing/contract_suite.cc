#include "common/log/testing/contract_suite.h"

namespace millstream::log {
void LogContract::SetUp() { backend_ = GetParam()(); }
}
