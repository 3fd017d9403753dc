#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/conform/case_run.h"
#include "cli/conform/conform_case.h"
#include "cli/conform/flight.h"
#include "cli/conform/match.h"
#include "cli/conform/notation.h"
#include "cli/conform/store_model.h"
#include "cli/conform/suite.h"
#include "cli/conform/window_rows.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/protocol/codec.h"

namespace millstream::cli::conform {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> Compare(std::string_view expected, std::string_view got, bool exact = false) {
  return Differences(Json::parse(expected), Json::parse(got), "x", exact);
}

TEST(NotationTest, Bytes) {
  EXPECT_EQ(*ReadBytes("text"), "text");
  EXPECT_EQ(*ReadBytes("hex:ff 00"), std::string("\xff\0", 2));
  EXPECT_EQ(*ReadBytes(Json::parse(R"({"repeat": ["ab", 3]})")), "ababab");
  EXPECT_FALSE(ReadBytes("hex:f").ok());
  EXPECT_FALSE(ReadBytes("hex:zz").ok());
  EXPECT_FALSE(ReadBytes(5).ok());
  EXPECT_EQ(*ReadMaybeBytes(nullptr), std::nullopt);
  EXPECT_EQ(ShowBytes("\xff"), "hex:ff");
  EXPECT_EQ(ShowBytes("ü"), "ü");
}

TEST(NotationTest, FramesAreThoseOfTheProtocol) {
  const auto frame = ReadFrame(Json::parse(
      R"(["BATCH", 1, 2, 0, [{"bin": "hex:ff"}], [[0, 0, 5, 1700000000000, 0, {"bin": "v"}, null, 1]], {"0": [{"ext": 1}]}, null])"));
  ASSERT_TRUE(frame.ok()) << frame.status();
  const auto message = protocol::DecodeSidecarMessage(std::string_view(*frame).substr(4));
  ASSERT_TRUE(message.ok()) << message.status();
  const auto& batch = std::get<protocol::Batch>(*message);
  EXPECT_EQ(batch.keys[0], "\xff");
  EXPECT_EQ(batch.items[0].timestamp_ms, 1700000000000);
  EXPECT_EQ(batch.state[0].values[0].what, protocol::StateValue::What::kNotPrefetched);
  EXPECT_EQ(protocol::EncodeFrame(batch), *frame);
  EXPECT_FALSE(ReadFrame(Json::parse(R"(["NOTHING", 1])")).ok());
  EXPECT_FALSE(ReadFrame(Json::array()).ok());
}

TEST(MatchTest, SaysWhereAndWhat) {
  EXPECT_THAT(Compare(R"({"a": 1})", R"({"a": 1, "b": 2})"), IsEmpty());
  EXPECT_THAT(Compare(R"({"a": 1})", R"({"a": 1, "b": 2})", true), ElementsAre("x.b: expected nothing, got 2"));
  EXPECT_THAT(
      Compare(R"({"a": [1, 2]})", R"({"a": [1, 3, 4]})"),
      ElementsAre("x.a: expected 2 elements, got 3", "x.a[1]: expected 2, got 3", "x.a[2]: expected nothing, got 4"));
  EXPECT_THAT(Compare(R"({"a": null})", R"({"a": ""})"), SizeIs(1));
  EXPECT_THAT(Compare("18446744073709551615", "18446744073709551615"), IsEmpty());
  EXPECT_THAT(Compare("18446744073709551615", "18446744073709551614"), SizeIs(1));
}

TEST(MatchTest, Conditions) {
  EXPECT_THAT(Compare(R"({"contains": ["b", "c"]})", R"("abc")"), IsEmpty());
  EXPECT_THAT(Compare(R"({"contains": ["b", "d"]})", R"("abc")"), SizeIs(1));
  EXPECT_THAT(Compare(R"({"contains": "b"})", "5"), SizeIs(1));
  EXPECT_THAT(Compare(R"({"min": 2})", "1"), SizeIs(1));
  EXPECT_THAT(Compare(R"({"min": 2})", "2"), IsEmpty());
  EXPECT_THAT(Compare(R"({"max": 2})", "3"), SizeIs(1));
  EXPECT_THAT(Compare(R"({"not": ""})", R"("")"), SizeIs(1));
  EXPECT_THAT(Compare(R"({"oneOf": [1, 2]})", "3"), SizeIs(1));
  EXPECT_THAT(Compare(R"({"oneOf": [1, 2]})", "2"), IsEmpty());
  EXPECT_THAT(Compare(R"({"any": true})", "null"), IsEmpty());
}

StoreShape Windows() { return {"minutes", StoreShape::Type::kWindow, 60'000, 20'000}; }
StoreShape Sessions() { return {"visits", StoreShape::Type::kSession}; }

TEST(WindowRowsTest, RowsAreThoseOfTheProtocol) {
  EXPECT_EQ(ShowHex(*ReadRow(Windows(), "a@60000")), "61000000000000ea60");
  EXPECT_EQ(ShowHex(*ReadRow(Windows(), "a@-60000")), "61ffffffffffff15a0");
  EXPECT_EQ(ShowHex(*ReadRow(Windows(), "hex:ff00@0")), "ff000000000000000000");
  EXPECT_EQ(ShowHex(*ReadRow(Sessions(), "a@-1..2")), "617fffffffffffffff8000000000000002");
  EXPECT_EQ(*ReadRow(StoreShape(), "a@0"), "a@0");
  for (const char* text : {"a@60000", "a@-60000", "hex:ff00@0", "@20000", "a@b@0"})
    EXPECT_EQ(ShowRow(Windows(), *ReadRow(Windows(), text)), text);
  for (const char* text : {"a@-9223372036854775808..9223372036854775807", "@0..0"})
    EXPECT_EQ(ShowRow(Sessions(), *ReadRow(Sessions(), text)), text);
}

TEST(WindowRowsTest, WhatIsNoRow) {
  for (const char* text : {"a", "a@", "a@x", "a@1..2"}) EXPECT_FALSE(ReadRow(Windows(), text).ok()) << text;
  for (const char* text : {"a", "a@1", "a@1..", "a@..1"}) EXPECT_FALSE(ReadRow(Sessions(), text).ok()) << text;
  EXPECT_FALSE(IsRow(Windows(), "short"));
  EXPECT_TRUE(IsRow(Windows(), *ReadRow(Windows(), "a@-20000")));
  EXPECT_FALSE(IsRow(Windows(), *ReadRow(Windows(), "a@20001")));
  EXPECT_TRUE(IsRow(Sessions(), *ReadRow(Sessions(), "a@-5..5")));
  EXPECT_FALSE(IsRow(Sessions(), *ReadRow(Sessions(), "a@5..4")));
  EXPECT_EQ(ShowRow(Windows(), "short"), "short");
}

TEST(FlightTest, SessionsThatARecordConnectedAreOne) {
  const std::vector<StoreShape> shapes = {Sessions()};
  const auto row = [&](const char* text) { return *ReadRow(shapes[0], text); };
  StoreModel model(1, 10);
  model.Put(0, row("a@0..0"), "x");
  model.Put(0, row("a@9..9"), "y");
  model.Put(0, row("b@0..9"), "z");
  Flight flight;
  flight.records.resize(1);
  flight.records[0].key = "a";
  flight.records[0].windows.push_back(
      {.store = 0, .start_ms = 0, .end_ms = 9, .session = true, .merged = {{0, 0}, {9, 9}}});
  flight.state["visits"] = {{"a@9..9", "y"}};
  JoinSessions(shapes, 1, &flight, &model);
  EXPECT_EQ(model.Find(0, row("a@0..0")), std::nullopt);
  EXPECT_EQ(model.Find(0, row("a@9..9")), std::nullopt);
  EXPECT_EQ(model.Find(0, row("a@0..9")), "");
  EXPECT_EQ(model.Find(0, row("b@0..9")), "z");
  EXPECT_EQ(flight.state, Json::object());
}

TEST(StoreModelTest, ScansSeeNewOpsInPages) {
  StoreModel model(1, 2);
  model.Put(0, "a", "1");
  model.Put(0, "c", "3");
  model.Put(0, "d", "4");
  protocol::Scan scan;
  scan.seq = 5;
  scan.new_ops = {{0, {{"b", "2", 0}, {"c", std::nullopt, 0}}}};
  const protocol::Rows first = model.Answer(scan);
  EXPECT_THAT(first.rows, ElementsAre(std::pair("a", "1"), std::pair("b", "2")));
  ASSERT_EQ(first.cursor, "b");
  scan.new_ops.clear();
  scan.cursor = *first.cursor;
  const protocol::Rows second = model.Answer(scan);
  EXPECT_THAT(second.rows, ElementsAre(std::pair("d", "4")));
  EXPECT_EQ(second.cursor, std::nullopt);
  // Scratch of its batch only.
  protocol::Get get{.seq = 6, .rid = 1, .store = 0, .keys = {"b", "c"}, .new_ops = {}};
  EXPECT_THAT(model.Answer(get).values, ElementsAre(std::nullopt, "3"));
}

TEST(CaseTest, EveryBuiltInCaseIsWellFormed) {
  const auto cases = BuiltInCases();
  ASSERT_TRUE(cases.ok()) << cases.status();
  EXPECT_GT(cases->size(), 60u);
}

TEST(CaseTest, MistakesAreNamedWithTheirLine) {
  const auto problem = [](std::string_view text) { return std::string(ParseCases("f.yaml", text).status().message()); };
  EXPECT_THAT(problem("- name: a\n  about: b\n  steps:\n  - dance: 1\n"),
              HasSubstr("f.yaml:4: there is no step \"dance\""));
  EXPECT_THAT(problem("- name: a\n  colour: red\n"), HasSubstr("f.yaml:2: \"colour\" is no field"));
  EXPECT_THAT(problem("- name: a\n  about: b\n"), HasSubstr("needs name, about and steps"));
  EXPECT_THAT(problem("a: b\n"), HasSubstr("one list"));
  EXPECT_THAT(problem("- {name: a, about: b, steps: [ping: 1]}\n- {name: a, about: b, steps: [ping: 1]}\n"),
              HasSubstr("f.yaml:2: a second case named f/a"));
}

class SuiteTest : public testing::Test {
 protected:
  SuiteTest() {
    cases_ = *ParseCases("f.yaml",
                         "- {name: first, about: says hello, steps: [ping: 1]}\n"
                         "- {name: second, about: says hello, needs: [magic], steps: [ping: 1]}\n");
  }
  std::vector<Outcome> Run(const Profile& profile, std::vector<std::string> command) {
    return RunSuite(cases_, profile, {std::move(command), absl::Seconds(60)}, 2, [](const Outcome&) {});
  }
  std::vector<Case> cases_;
};

TEST_F(SuiteTest, AProgramThatEndsFailsAtOnce) {
  const auto outcomes = Run({}, {"sh", "-c", "echo I give up; exit 7"});
  EXPECT_EQ(outcomes[0].verdict, Verdict::kFailed);
  EXPECT_THAT(outcomes[0].result.problem, HasSubstr("the program has ended"));
  EXPECT_THAT(ToText(outcomes[0], false), HasSubstr("I give up"));
  EXPECT_EQ(Summary(outcomes), "0 passed, 2 failed");
  EXPECT_THAT(ToJUnit(outcomes, "s"), HasSubstr("failures=\"2\""));
  EXPECT_EQ(Json::parse(ToJsonText(outcomes))["cases"][1]["verdict"], "failed");
}

TEST_F(SuiteTest, AProgramThatCannotBeRun) {
  EXPECT_THAT(Run({}, {"no-such-program"})[0].result.problem, HasSubstr("no-such-program"));
}

TEST_F(SuiteTest, FeaturesAndKnownFailures) {
  const auto profile =
      ParseProfile("p.yaml", "features: {magic: not yet}\nknownFailures: {f/first: it is lazy}\n", cases_);
  ASSERT_TRUE(profile.ok()) << profile.status();
  const auto outcomes = Run(*profile, {"true"});
  EXPECT_EQ(outcomes[0].verdict, Verdict::kKnownFailure);
  EXPECT_EQ(outcomes[1].verdict, Verdict::kSkipped);
  EXPECT_THAT(ToText(outcomes[0], false), HasSubstr("known failure f/first: it is lazy"));
  EXPECT_EQ(Summary(outcomes), "0 passed, 0 failed, 1 known failures, 1 not applicable");
}

TEST_F(SuiteTest, ProfilesWithMistakes) {
  const auto problem = [&](std::string_view text) {
    return std::string(ParseProfile("p.yaml", text, cases_).status().message());
  };
  EXPECT_THAT(problem("features: {wings: none}"),
              HasSubstr("p.yaml:1: no case needs the feature wings; features are magic"));
  EXPECT_THAT(problem("knownFailures: {f/third: x}"), HasSubstr("f/third"));
  EXPECT_THAT(problem("features: {magic: false}"), HasSubstr("give the reason"));
  EXPECT_THAT(problem("other: 1"), HasSubstr("other"));
  EXPECT_EQ(problem("features: {magic: true}"), "");
}

// The kit against workers that do one thing wrong each: it has to see it. Written in Python's standard library, frames
// by hand: the scripted worker answers HELLO, then the bytes it is told to for every BATCH.
class WrongWorkerTest : public testing::Test {
 protected:
  // `reply`: Python expressions of what it sends when a BATCH came.
  Outcome RunAgainst(const std::string& reply) {
    const std::string program = StrCat(R"(
import os, socket, struct
s = socket.socket(socket.AF_UNIX); s.connect(os.environ['MILLSTREAM_SOCKET'])
def send(data): s.sendall(struct.pack('>I', len(data)) + data)
def read(n):
    data = b''
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more: raise SystemExit
        data += more
    return data
send(b'\x92\x01\x86\xa8protocol\x92\x01\x01\xa3sdk\xa1x\xa8language\xa1x\xa7version\xa1x\xaccapabilities\x90\xa8parallel\x01')
while True:
    data = read(struct.unpack('>I', read(4))[0])
    if data[1] == 5:
        for part in [)",
                                       reply, R"(]: send(part)
)");
    const auto cases = ParseCases(
        "f.yaml",
        "- {name: a, about: b, data: {counts: {k: x}}, steps: [batch: {records: [{key: k, value: v}]}, result: {}]}\n");
    cases_ = *cases;
    return RunSuite(cases_, {}, {{"python3", "-c", program}, absl::Seconds(60)}, 1, [](const Outcome&) {})[0];
  }
  std::string Problem(const std::string& reply) { return RunAgainst(reply).result.problem; }
  std::vector<Case> cases_;
};

TEST_F(WrongWorkerTest, TheRightAnswerPasses) {
  const Outcome outcome = RunAgainst(R"(b'\x96\x06\x01\x01\xc0\x80\x90')");
  EXPECT_TRUE(outcome.result.passed) << ToText(outcome, true);
}

TEST_F(WrongWorkerTest, WrongAnswersAreSeen) {
  EXPECT_THAT(Problem(R"(b'\x96\x06\x02\x01\xc0\x80\x90')"), HasSubstr("RESULT of seq 2, which was not sent"));
  EXPECT_THAT(Problem(R"(b'\x96\x06\x01\x02\xc0\x80\x90')"), HasSubstr("RESULT says done 2 of 1"));
  EXPECT_THAT(Problem(R"(b'\x96\x06\x01\x01\xc0\x81\x00\x91\x92\xc4\x01k\xc4\x01v\x90')"),
              HasSubstr("state.counts: expected nothing, got {\"k\":\"v\"}"));
  EXPECT_THAT(Problem(R"(b'\x96\x06\x01\x01\xc0\x81\x09\x91\x92\xc4\x01k\xc4\x01v\x90')"), HasSubstr("store 9"));
  EXPECT_THAT(Problem(R"(b'\x96\x06\x01\x01\xc0\x80\x91\x94\x00\xc0\xc0\xc0')"),
              HasSubstr("outputs: expected 0 elements"));
  EXPECT_THAT(Problem(R"(b'\x96\x06\x01\x01\xc0\x80\x91\x94\x09\xc0\xc0\xc0')"), HasSubstr("output 9"));
  EXPECT_THAT(Problem(R"(b'\x97\x06\x01\x01\xc0\x80\x90\x91\x94\xc4\x01k\x00\xa1t\x05')"),
              HasSubstr("RESULT has timers, and WELCOME said that there are none"));
  EXPECT_THAT(
      Problem(R"(b'\x96\x06\x01\x00\x84\xa5class\xa7Handler\xa5error\xa1e\xa7message\xa1m\xa9retriable\xc3\x80\x90')"),
      HasSubstr("failure: expected null"));
  EXPECT_THAT(Problem(R"(b'\xc1')"), HasSubstr("waiting for RESULT"));
  EXPECT_THAT(Problem(R"(b'\x92\x17\xa0')"), HasSubstr("something else came"));
  EXPECT_THAT(Problem(R"(b'\x93\x0c\x07\x00')"), HasSubstr("EXTEND of seq 7"));
  EXPECT_THAT(Problem(R"(b'\x96\x06\x01\x00\xc0\x80\x90', b'\x96\x06\x01\x01\xc0\x80\x90')"), HasSubstr("seq 1"));
}

TEST_F(WrongWorkerTest, ABatchHandedBackForEverEnds) {
  EXPECT_THAT(Problem(R"(b'\x96\x06' + data[2:3] + b'\x00\xc0\x80\x90')"), HasSubstr("handed back"));
}

}  // namespace
}  // namespace millstream::cli::conform
