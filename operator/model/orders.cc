#include "operator/model/orders.h"

namespace millstream::model {

std::string OrdersOf(const Processor& processor, bool drain) {
  const spec::StreamProcessorSpec& typed = processor.typed();
  return Json{{"drain", drain},
              {"standbyReplicas", typed.standby_replicas},
              {"state", std::string(spec::ToString(typed.desired_state))}}
      .dump();
}

}  // namespace millstream::model
