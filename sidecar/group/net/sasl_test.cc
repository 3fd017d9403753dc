#include "sidecar/group/net/sasl.h"

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/net/scram.h"
#include "sidecar/group/net/secrets.h"

namespace millstream::group {
namespace {

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
  auto exchange = *NewSaslExchange(access, nullptr);
  EXPECT_EQ(*exchange->Start(), "\0u\0p"s);
  EXPECT_FALSE(exchange->done());
  EXPECT_TRUE(exchange->Step("").ok());
  EXPECT_TRUE(exchange->done());
}

struct FixedToken : kafka::TokenSource {
  absl::StatusOr<kafka::Token> Get() override { return token; }
  absl::StatusOr<kafka::Token> token;
};

TEST(SaslTest, ABearerTokenIsSentAndARefusalEndsTheExchange) {
  kafka::SaslAccess access;
  access.mechanism = kafka::SaslMechanism::kOauthBearer;
  FixedToken tokens;
  tokens.token = kafka::Token{.text = "abc.def", .principal = "", .expires = absl::InfiniteFuture()};
  auto exchange = *NewSaslExchange(access, &tokens);
  EXPECT_EQ(*exchange->Start(), "n,,\1auth=Bearer abc.def\1\1");
  // A refusal is answered with one byte; the broker then says its error.
  EXPECT_EQ(*exchange->Step(R"({"status":"invalid_token"})"), "\1");
  EXPECT_TRUE(absl::IsUnauthenticated(exchange->Step("{}").status()));
  exchange = *NewSaslExchange(access, &tokens);
  EXPECT_TRUE(exchange->Step("").ok());
  EXPECT_TRUE(exchange->done());

  tokens.token->text = "a\1b";
  EXPECT_TRUE(absl::IsFailedPrecondition(NewSaslExchange(access, &tokens).status()));
  tokens.token = absl::UnavailableError("no endpoint");
  EXPECT_TRUE(absl::IsUnavailable(NewSaslExchange(access, &tokens).status()));
}

}  // namespace
}  // namespace millstream::group
