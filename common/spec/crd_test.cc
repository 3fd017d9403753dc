// What the resource definition itself must be, apart from any manifest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "common/base/protected_config.h"
#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/pattern.h"
#include "common/spec/reader.h"

namespace millstream::spec {
namespace {

constexpr size_t kMaxCrdBytes = 262'144;  // what kubectl's last-applied annotation can hold

std::string CrdText() {
  std::ifstream file("crds/streamprocessors.yaml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CrdTest : public testing::Test {
 protected:
  void SetUp() override {
    ReadResult result = ReadYaml(CrdText());
    ASSERT_FALSE(result.error) << result.error->message;
    ASSERT_EQ(result.documents.size(), 1u);
    crd_ = std::move(result.documents[0]);
    version_ = &crd_.Find("spec", "versions")->items[0];
    schema_ = version_->Find("schema", "openAPIV3Schema");
    ASSERT_NE(schema_, nullptr);
  }

  // Calls `visit(node, path, is_property)` for every schema node.
  template <typename Visit>
  void Walk(const Value& node, const std::string& path, bool is_property, const Visit& visit) {
    visit(node, path, is_property);
    for (const Member& property : MembersIn(&node, "properties"))
      Walk(property.value, Child(path, property.key), true, visit);
    if (const Value* items = node.Find("items")) Walk(*items, StrCat(path, "[]"), false, visit);
    if (const Value* values = node.Find("additionalProperties")) Walk(*values, StrCat(path, "{}"), false, visit);
  }

  Value crd_;
  const Value* version_ = nullptr;
  const Value* schema_ = nullptr;
};

TEST_F(CrdTest, IsSmallEnoughToApply) { EXPECT_LT(CrdText().size(), kMaxCrdBytes); }

TEST_F(CrdTest, EveryPropertyIsDescribed) {
  Walk(*schema_, "", false, [](const Value& node, const std::string& path, bool is_property) {
    if (!is_property || path == "metadata") return;  // the API server forbids one on metadata
    EXPECT_FALSE(StringIn(&node, "description").value_or("").empty()) << path;
  });
}

TEST_F(CrdTest, EveryListMapAndStringHasAMaximum) {
  Walk(*schema_, "", false, [](const Value& node, const std::string& path, bool) {
    std::string_view type = StringIn(&node, "type").value_or("");
    if (type == "array") {
      EXPECT_TRUE(IntIn(&node, "maxItems")) << path;
    }
    if (type == "string" && node.Find("enum") == nullptr) {
      EXPECT_TRUE(IntIn(&node, "maxLength")) << path;
    }
    if (BoolIn(&node, "x-kubernetes-int-or-string").value_or(false)) {
      EXPECT_TRUE(IntIn(&node, "maxLength")) << path;
    }
    bool open = node.Find("additionalProperties") != nullptr ||
                BoolIn(&node, "x-kubernetes-preserve-unknown-fields").value_or(false);
    if (type == "object" && open) {
      EXPECT_TRUE(IntIn(&node, "maxProperties")) << path;
    }
    bool ours = !path.starts_with("spec.container") && !path.starts_with("spec.sidecar.resources");
    if (type == "integer" && ours) {
      EXPECT_TRUE(IntIn(&node, "minimum") && IntIn(&node, "maximum")) << path;
    }
  });
}

TEST_F(CrdTest, EveryPatternOfOursHasWords) {
  Walk(*schema_, "", false, [](const Value& node, const std::string& path, bool) {
    std::optional<std::string_view> pattern = StringIn(&node, "pattern");
    if (pattern) {
      EXPECT_THAT(PatternMeaning(*pattern), testing::Not(testing::HasSubstr(std::string(*pattern)))) << path;
    }
  });
}

TEST_F(CrdTest, EveryRuleIsBoundsOrMirroredOrATransition) {
  std::set<std::string> in_schema;
  Walk(*schema_, "", false, [&](const Value& node, const std::string& path, bool) {
    for (const Value& value : ItemsIn(&node, "x-kubernetes-validations")) {
      SchemaRule rule{std::string(*StringIn(&value, "rule")), std::string(StringIn(&value, "message").value_or(""))};
      EXPECT_FALSE(rule.message.empty()) << path;
      bool transition =
          rule.expression.find("oldSelf") != std::string::npos;  // there is no old object outside a server
      if (!transition && !ParseBounds(rule)) in_schema.insert(rule.message);
    }
  });
  std::vector<std::string> mirrored = MirroredRuleMessages();
  EXPECT_EQ(in_schema, std::set<std::string>(mirrored.begin(), mirrored.end()));
}

// The API server refuses the same properties of librdkafka as the code.
TEST_F(CrdTest, TheProtectedPropertiesAreThoseOfTheTable) {
  const Value* config = schema_->Find("properties", "spec", "properties", "kafka", "properties", "config");
  ASSERT_NE(config, nullptr);
  std::string names, families;
  for (const ProtectedProperty& property : ProtectedProperties()) {
    if (property.match == ProtectedProperty::Match::kName) {
      StrAppend(&names, names.empty() ? "" : ", ", "'", property.name, "'");
    } else {
      const bool prefix = property.match == ProtectedProperty::Match::kPrefix;
      StrAppend(&families, " && !k.", prefix ? "startsWith" : "endsWith", "('", property.name, "')");
    }
  }
  EXPECT_EQ(StringIn(&ItemsIn(config, "x-kubernetes-validations")[0], "rule"),
            StrCat("self.all(k, !(k in [", names, "])", families, ")"));
}

// A default object is checked by the rules on it before its own fields are defaulted, so it repeats their defaults.
TEST_F(CrdTest, DefaultObjectsRepeatTheDefaultsOfTheirFields) {
  Walk(*schema_, "", false, [](const Value& node, const std::string& path, bool) {
    const Value* defaults = node.Find("default");
    if (defaults == nullptr || !defaults->is_map() || path == "spec.sidecar.resources") return;
    for (const Member& member : defaults->members) {
      const Value* own = node.Find("properties")->Find(member.key)->Find("default");
      ASSERT_NE(own, nullptr) << path << "." << member.key;
      EXPECT_EQ(ToCanonicalJson(member.value), ToCanonicalJson(*own)) << path << "." << member.key;
    }
    bool has_rules = node.Find("x-kubernetes-validations") != nullptr;
    for (const Member& property : MembersIn(&node, "properties")) {
      if (!has_rules || property.value.Find("default") == nullptr) continue;
      EXPECT_NE(defaults->Find(property.key), nullptr) << path << "." << property.key;
    }
  });
}

TEST_F(CrdTest, HasTheNamesSubresourcesAndColumnsPeopleRelyOn) {
  EXPECT_EQ(StringIn(crd_.Find("metadata"), "name"), "streamprocessors.millstream.dev");
  const Value* names = crd_.Find("spec", "names");
  EXPECT_EQ(ItemsIn(names, "shortNames")[0].text, "sp");
  EXPECT_EQ(ItemsIn(names, "categories")[0].text, "millstream");
  EXPECT_NE(version_->Find("subresources", "status"), nullptr);
  EXPECT_EQ(StringIn(version_->Find("subresources", "scale"), "labelSelectorPath"), ".status.selector");
  std::vector<std::string> columns, wide;
  for (const Value& column : ItemsIn(version_, "additionalPrinterColumns")) {
    (IntIn(&column, "priority").value_or(0) == 0 ? columns : wide).emplace_back(*StringIn(&column, "name"));
  }
  EXPECT_THAT(columns, testing::ElementsAre("Ready", "Reason", "Replicas", "Tasks", "Lag", "Age"));
  EXPECT_THAT(wide, testing::ElementsAre("Group", "Guarantee", "Message"));
}

TEST_F(CrdTest, ListsAreKeyedAsTheDesignSays) {
  auto keys = [&](std::string_view list) {
    std::vector<std::string> out;
    for (const Value& key :
         ItemsIn(schema_->Find("properties", "spec", "properties", list), "x-kubernetes-list-map-keys"))
      out.push_back(key.text);
    return out;
  };
  for (std::string_view list : {"inputs", "outputs", "joins", "lookups"})
    EXPECT_THAT(keys(list), testing::ElementsAre("topic")) << list;
  EXPECT_THAT(keys("stores"), testing::ElementsAre("name"));
}

TEST(EmbeddedSchema, IsTheOneInTheFile) {
  const SchemaNode* topic = FindNode(StreamProcessorSchema(), {"spec", "inputs", "[]", "topic"});
  ASSERT_NE(topic, nullptr);
  EXPECT_EQ(topic->max_length, 249);
  EXPECT_EQ(FindNode(StreamProcessorSchema(), {"spec", "container", "name"}), nullptr);
  EXPECT_NE(FindNode(StreamProcessorSchema(), {"spec", "container", "livenessProbe", "httpGet", "port"}), nullptr);
}

}  // namespace
}  // namespace millstream::spec
