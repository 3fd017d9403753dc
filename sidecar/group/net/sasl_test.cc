#include "sidecar/group/net/sasl.h"

#include "absl/strings/escaping.h"
#include "common/base/strings.h"
#include "common/http/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/net/scram.h"
#include "sidecar/group/net/secrets.h"

namespace millstream::group {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::string_literals;

// RFC 7677, section 3.
TEST(ScramTest, TheExampleOfRfc7677) {
  ScramClient client(HashKind::kSha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
  EXPECT_EQ(client.FirstMessage(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
  const auto final_message =
      client.FinalMessage("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
  ASSERT_TRUE(final_message.ok()) << final_message.status();
  EXPECT_EQ(
      *final_message,
      "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
  EXPECT_TRUE(client.Verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").ok());
  EXPECT_TRUE(absl::IsUnauthenticated(client.Verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl9XG4=")));
  EXPECT_THAT(std::string(client.Verify("e=invalid-proof").message()), HasSubstr("invalid-proof"));
}

TEST(ScramTest, WhatTheServerMustNotSend) {
  const auto answer = [](const std::string& message) {
    ScramClient client(HashKind::kSha512, "u", "p", "nonce");
    client.FirstMessage();
    return client.FinalMessage(message).status();
  };
  EXPECT_TRUE(answer("r=nonceX,s=AAAA,i=4096").ok());
  for (const std::string& wrong :
       {"r=other,s=AAAA,i=4096"s, "r=nonce,s=AAAA,i=4096"s, "r=nonceX,s=AAAA,i=4095"s, "r=nonceX,s=AAAA,i=2000000000"s,
        "r=nonceX,s=,i=4096"s, "r=nonceX,s=!,i=4096"s, "r=nonceX,i=4096"s, "m=ext,r=nonceX,s=AAAA,i=4096"s, ""s}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(answer(wrong))) << wrong;
  }
  ScramClient early(HashKind::kSha512, "u", "p", "nonce");
  EXPECT_FALSE(early.Verify("v=").ok());  // nothing was proved yet
}

TEST(ScramTest, NamesAreEscaped) {
  EXPECT_EQ(ScramClient(HashKind::kSha256, "a=b,c", "p", "n").FirstMessage(), "n,,n=a=3Db=2Cc,r=n");
}

TEST(SecretsTest, Vectors) {
  const auto hex = [](const std::string& bytes) { return absl::BytesToHexString(bytes); };
  // RFC 4231, case 2; RFC 7914, section 11.
  EXPECT_EQ(hex(Hmac(HashKind::kSha256, "Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(StretchPassword(HashKind::kSha256, "passwd", "salt", 1)),
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
}

TEST(SaslTest, PlainIsOneMessage) {
  kafka::SaslAccess access;
  access.mechanism = kafka::SaslMechanism::kPlain;
  access.username = "u";
  access.password = "p";
  auto exchange = *NewSaslExchange(access, nullptr, IoLimit::In(absl::Seconds(1), nullptr));
  EXPECT_EQ(*exchange->Start(), "\0u\0p"s);
  EXPECT_FALSE(exchange->done());
  EXPECT_TRUE(exchange->Step("").ok());
  EXPECT_TRUE(exchange->done());
}

// A token endpoint that answers as told and remembers what it was asked.
class TokenEndpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = http::Server::Start(http::ServerOptions(), [this](http::Request request, http::Responder respond) {
      ++asked_;
      last_ = std::move(request);
      respond(answer_);
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    access_.mechanism = kafka::SaslMechanism::kOauthBearer;
    access_.token_endpoint = StrCat("http://127.0.0.1:", server_->port(), "/token");
    access_.client_id = "me:1";
    access_.client_secret = "s/1";
    access_.scope = "kafka read";
  }
  IoLimit Limit() { return IoLimit::In(absl::Seconds(10), nullptr); }

  http::Response answer_;
  http::Request last_;
  int asked_ = 0;
  kafka::SaslAccess access_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(TokenEndpointTest, ATokenIsAskedForAndKept) {
  answer_.body = R"({"access_token":"abc.def","token_type":"Bearer","expires_in":300})";
  OauthTokenSource tokens(access_);
  auto exchange = NewSaslExchange(access_, &tokens, Limit());
  ASSERT_TRUE(exchange.ok()) << exchange.status();
  EXPECT_EQ(*(*exchange)->Start(), "n,,\1auth=Bearer abc.def\1\1");
  EXPECT_EQ(last_.method, "POST");
  EXPECT_EQ(last_.body, "grant_type=client_credentials&scope=kafka%20read");
  std::string authorization;
  for (const auto& [name, value] : last_.headers) {
    if (name == "Authorization") authorization = value;
  }
  EXPECT_EQ(authorization, "Basic " + Base64Encode("me%3A1:s%2F1"));
  EXPECT_EQ(*tokens.Token(Limit()), "abc.def");
  EXPECT_EQ(asked_, 1);
  // A refusal is answered with one byte; the broker then says its error.
  EXPECT_EQ(*(*exchange)->Step(R"({"status":"invalid_token"})"), "\1");
  EXPECT_TRUE(absl::IsUnauthenticated((*exchange)->Step("{}").status()));
}

TEST_F(TokenEndpointTest, AnExpiredTokenIsAskedForAgain) {
  answer_.body = R"({"access_token":"abc","expires_in":0})";
  OauthTokenSource tokens(access_);
  EXPECT_TRUE(tokens.Token(Limit()).ok());
  EXPECT_TRUE(tokens.Token(Limit()).ok());
  EXPECT_EQ(asked_, 2);
}

TEST_F(TokenEndpointTest, WhatIsNoTokenIsNamed) {
  OauthTokenSource tokens(access_);
  answer_.status = 401;
  answer_.body = R"({"error":"invalid_client"})";
  absl::Status status = tokens.Token(Limit()).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("401 invalid_client"), HasSubstr("/token")));
  answer_.status = 503;
  answer_.body = "<html>";
  EXPECT_TRUE(absl::IsUnavailable(tokens.Token(Limit()).status()));
  answer_.status = 200;
  for (const std::string& body :
       {"<html>"s, "{}"s, R"({"access_token":7})"s, R"({"access_token":"a\u0001b"})"s, "[]"s}) {
    answer_.body = body;
    EXPECT_TRUE(absl::IsFailedPrecondition(tokens.Token(Limit()).status())) << body;
  }
}

}  // namespace
}  // namespace millstream::group
