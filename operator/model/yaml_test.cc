#include "operator/model/yaml.h"

#include <string>
#include <vector>

#include "common/spec/reader.h"
#include "gtest/gtest.h"

namespace millstream::model {
namespace {

// What a YAML reader makes of it.
Json Read(const std::string& text) {
  const spec::ReadResult read = spec::ReadDocuments(text);
  EXPECT_FALSE(read.error) << read.error->message << "\n" << text;
  if (read.error || read.documents.size() != 1) return nullptr;
  return Json::parse(spec::ToCanonicalJson(read.documents.front()));
}

TEST(ToYamlTest, LooksLikeKubectl) {
  EXPECT_EQ(ToYaml(Json::parse(R"({"kind":"Pod","spec":{"containers":[{"name":"a","args":["-x","y"]},{"name":"b"}],
                                   "volumes":[],"hostNetwork":false,"weight":5}})")),
            "kind: Pod\n"
            "spec:\n"
            "  containers:\n"
            "  - args:\n"
            "    - \"-x\"\n"
            "    - \"y\"\n"
            "    name: a\n"
            "  - name: b\n"
            "  hostNetwork: false\n"
            "  volumes: []\n"
            "  weight: 5\n");
  EXPECT_EQ(ToYaml(std::vector<Json>{Json{{"a", 1}}, Json::object()}), "---\na: 1\n---\n{}\n");
}

TEST(ToYamlTest, ReadsBackAsWhatItWas) {
  Json value;
  for (const char* text : {"plain",    "",
                           "yes",      "No",
                           "NULL",     "~",
                           "1",        "1.5",
                           "0x1",      "1e3",
                           "a: b",     "a #b",
                           "- a",      "-",
                           "*a",       "&a",
                           "!a",       "%a",
                           "@a",       "`a`",
                           "'a'",      "\"a\"",
                           "a\nb",     " a",
                           "a ",       "{",
                           "[",        "2024-05-01",
                           "1:30",     "caf\xc3\xa9",
                           "\x01",     "a\\b",
                           "/etc/x",   "_",
                           ".",        "=",
                           "<<",       "app.kubernetes.io/name",
                           "$(POD_IP)"}) {
    value["texts"].push_back(text);
    value["keys"][text] = 1;
  }
  value["numbers"] = Json::array({0, -1, 9007199254740993, 1.5, true, false, nullptr});
  value["nested"] = Json::parse(R"([[1,[2,3]],[],{},{"a":{"b":[{"c":[]}]}},[{"x":1}]])");
  EXPECT_EQ(Read(ToYaml(value)), value) << ToYaml(value);
}

}  // namespace
}  // namespace millstream::model
