#include "sidecar/group/net/sasl.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/net/scram.h"
#include "sidecar/group/net/secrets.h"

namespace millstream::group {
namespace {

// RFC 4616.
class PlainExchange : public SaslExchange {
 public:
  explicit PlainExchange(const kafka::SaslAccess& access) : access_(access) {}
  absl::StatusOr<std::string> Start() override {
    std::string message;
    message.push_back('\0');
    message += access_.username;
    message.push_back('\0');
    return message + access_.password;
  }
  absl::StatusOr<std::string> Step(std::string_view) override {
    done_ = true;
    return "";
  }
  bool done() const override { return done_; }

 private:
  const kafka::SaslAccess access_;
  bool done_ = false;
};

class ScramExchange : public SaslExchange {
 public:
  ScramExchange(HashKind kind, const kafka::SaslAccess& access)
      : client_(kind, access.username, access.password, RandomText(24)) {}
  absl::StatusOr<std::string> Start() override { return client_.FirstMessage(); }
  absl::StatusOr<std::string> Step(std::string_view answer) override {
    if (!std::exchange(answered_, true)) return client_.FinalMessage(answer);
    MS_RETURN_IF_ERROR(client_.Verify(answer));
    done_ = true;
    return "";
  }
  bool done() const override { return done_; }

 private:
  ScramClient client_;
  bool answered_ = false, done_ = false;
};

// RFC 7628, section 3.1.
class BearerExchange : public SaslExchange {
 public:
  explicit BearerExchange(std::string token) : token_(std::move(token)) {}
  absl::StatusOr<std::string> Start() override { return StrCat("n,,\x01", "auth=Bearer ", token_, "\x01\x01"); }
  absl::StatusOr<std::string> Step(std::string_view answer) override {
    // An answer is a refusal as JSON; the one byte lets the server end the exchange with its error.
    if (answer.empty()) {
      done_ = true;
      return "";
    }
    if (std::exchange(refused_, true)) return absl::UnauthenticatedError("OAUTHBEARER: the broker refuses the token");
    return "\x01";
  }
  bool done() const override { return done_; }

 private:
  const std::string token_;
  bool refused_ = false, done_ = false;
};

}  // namespace

std::string_view MechanismName(kafka::SaslMechanism mechanism) {
  switch (mechanism) {
    case kafka::SaslMechanism::kPlain:
      return "PLAIN";
    case kafka::SaslMechanism::kScramSha256:
      return "SCRAM-SHA-256";
    case kafka::SaslMechanism::kScramSha512:
      return "SCRAM-SHA-512";
    case kafka::SaslMechanism::kOauthBearer:
      return "OAUTHBEARER";
  }
  return "";
}

absl::StatusOr<std::unique_ptr<SaslExchange>> NewSaslExchange(const kafka::SaslAccess& access,
                                                              kafka::TokenSource* tokens) {
  std::unique_ptr<SaslExchange> exchange;
  switch (access.mechanism) {
    case kafka::SaslMechanism::kPlain:
      exchange = std::make_unique<PlainExchange>(access);
      break;
    case kafka::SaslMechanism::kScramSha256:
      exchange = std::make_unique<ScramExchange>(HashKind::kSha256, access);
      break;
    case kafka::SaslMechanism::kScramSha512:
      exchange = std::make_unique<ScramExchange>(HashKind::kSha512, access);
      break;
    case kafka::SaslMechanism::kOauthBearer: {
      MS_CHECK(tokens != nullptr);
      MS_ASSIGN_OR_RETURN(kafka::Token token, tokens->Get());
      // RFC 7628: visible ASCII; anything else would end the message it is put into.
      if (!std::all_of(token.text.begin(), token.text.end(), [](char c) { return c > ' ' && c < 0x7f; })) {
        return absl::FailedPreconditionError("OAUTHBEARER: the access token has characters that no token may have");
      }
      exchange = std::make_unique<BearerExchange>(std::move(token.text));
      break;
    }
  }
  return exchange;
}

}  // namespace millstream::group
