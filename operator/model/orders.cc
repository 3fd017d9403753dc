#include "operator/model/orders.h"

#include "operator/model/json_path.h"

namespace millstream::model {

std::string OrdersOf(const Processor& processor, bool drain) {
  const spec::StreamProcessorSpec& typed = processor.typed();
  return Json{{"drain", drain},
              {"standbyReplicas", typed.standby_replicas},
              {"state", std::string(spec::ToString(typed.desired_state))}}
      .dump();
}

bool SaysDrain(const std::string& orders) {
  const Json json = Json::parse(orders, nullptr, false);
  return BoolAt(json, {"drain"});
}

}  // namespace millstream::model
