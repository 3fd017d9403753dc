#include "common/spec/topology.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "common/base/strings.h"
#include "common/spec/duration.h"

namespace millstream::spec {
namespace {

std::vector<std::string> CoPartitioned(const StreamProcessorSpec& processor) {
  std::vector<std::string> topics;
  for (const InputSpec& input : processor.inputs) topics.push_back(input.topic);
  for (const TableSpec& join : processor.joins) topics.push_back(join.topic);
  for (const InternalTopic& internal : InternalTopicsOf(processor)) topics.push_back(internal.topic);
  return topics;
}

// Which processors read and write each topic, and how.
struct TopicRoles {
  std::vector<std::string> written_by, read_by, joined_by, looked_up_by, loop_of, changelog_of, dead_letters_of;
};

std::map<std::string, TopicRoles> RolesOf(std::span<const StreamProcessorSpec> processors) {
  std::map<std::string, TopicRoles> roles;
  for (const StreamProcessorSpec& processor : processors) {
    for (const InputSpec& input : processor.inputs) {
      if (!input.loop) roles[input.topic].read_by.push_back(processor.QualifiedName());
    }
    for (const TableSpec& join : processor.joins) roles[join.topic].joined_by.push_back(processor.QualifiedName());
    for (const TableSpec& lookup : processor.lookups)
      roles[lookup.topic].looked_up_by.push_back(processor.QualifiedName());
    for (const OutputSpec& output : processor.outputs) {
      if (!output.loop) roles[output.topic].written_by.push_back(processor.QualifiedName());
    }
    for (const InternalTopic& internal : InternalTopicsOf(processor)) {
      TopicRoles& topic = roles[internal.topic];
      switch (internal.kind) {
        case InternalTopic::Kind::kLoop:
          topic.loop_of.push_back(processor.QualifiedName());
          break;
        case InternalTopic::Kind::kChangelog:
          topic.changelog_of.push_back(processor.QualifiedName());
          break;
        case InternalTopic::Kind::kDeadLetter:
          topic.dead_letters_of.push_back(processor.QualifiedName());
          break;
      }
    }
  }
  return roles;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) StrAppend(&out, out.empty() ? "" : ", ", word);
  return out;
}

std::string NameAndTopic(std::string_view name, std::string_view topic) {
  return name == topic ? std::string(topic) : StrCat(name, " (topic ", topic, ")");
}

std::string StartText(const StartFrom& start) {
  switch (start.type) {
    case StartFrom::Type::kEarliest:
      return "from the earliest record";
    case StartFrom::Type::kLatest:
      return "from the latest record";
    case StartFrom::Type::kTimestamp:
      return StrCat("from ", absl::FormatTime(absl::RFC3339_sec, start.time, absl::UTCTimeZone()));
  }
  return "";
}

void AppendLine(std::string& out, std::string_view verb, std::string_view text) {
  constexpr size_t kColumn = 10;
  StrAppend(&out, "  ", verb, std::string(kColumn - std::min(kColumn - 1, verb.size()), ' '), text, "\n");
}

std::string OutputText(const OutputSpec& output) {
  std::string text = NameAndTopic(output.name, output.topic);
  if (!output.create) return StrCat(text, ", which must exist; keys by ", ToString(output.partitioner));
  StrAppend(&text, ", created with ", output.create->partitions, " partitions");
  if (output.create->replication_factor) StrAppend(&text, ", ", *output.create->replication_factor, " copies");
  return StrCat(text, "; keys by ", ToString(output.partitioner));
}

std::string FailureText(const ErrorsSpec& errors) {
  const auto text = [&](FailureAction action) -> std::string {
    switch (action) {
      case FailureAction::kStop:
        return "the task stops";
      case FailureAction::kSkip:
        return "the record is skipped";
      case FailureAction::kDeadLetter:
        return StrCat("the record goes to topic ", errors.dead_letter_topic);
    }
    return "";
  };
  std::string out = StrCat(text(errors.on_failure), " after ", errors.max_attempts,
                           errors.max_attempts == 1 ? " attempt" : " attempts");
  for (const auto& [failure_class, action] : errors.by_class)
    StrAppend(&out, "; of class ", failure_class, " ", text(action));
  return out;
}

// "windows of 1m every 10s, open 5s more".
std::string KindText(const StoreSpec& store) {
  if (store.internal) return "stream time, timers and ends of windows";
  if (store.window) {
    std::string text = StrCat("windows of ", DurationText(store.window->size));
    if (store.window->advance != store.window->size) StrAppend(&text, " every ", DurationText(store.window->advance));
    if (store.window->grace > absl::ZeroDuration())
      StrAppend(&text, ", open ", DurationText(store.window->grace), " more");
    return StrCat(text, ", kept ", DurationText(store.window->retention), store.window->final ? ", given once" : "");
  }
  if (store.session) {
    std::string text = StrCat("sessions with gaps up to ", DurationText(store.session->gap));
    if (store.session->grace > absl::ZeroDuration())
      StrAppend(&text, ", open ", DurationText(store.session->grace), " more");
    return StrCat(text, ", kept ", DurationText(store.session->retention), store.session->final ? ", given once" : "");
  }
  return store.ttl ? StrCat("key-value, forgotten after ", DurationText(*store.ttl)) : "key-value";
}

std::string ProcessorText(const StreamProcessorSpec& processor) {
  std::string out = StrCat("processor ", processor.QualifiedName(), "  (group ", processor.group, ", ",
                           ToString(processor.guarantee), ")\n");
  for (const InputSpec& input : processor.inputs) {
    if (input.loop) {
      AppendLine(out, "loops", StrCat("through topic ", input.topic, "; keys by ", ToString(input.partitioner)));
      continue;
    }
    AppendLine(out, "reads",
               StrCat(NameAndTopic(input.name, input.topic), ", ", StartText(input.start_from), "; keys by ",
                      ToString(input.partitioner)));
  }
  for (const TableSpec& join : processor.joins)
    AppendLine(out, "joins", StrCat(NameAndTopic(join.name, join.topic), ", each task its own partition"));
  for (const TableSpec& lookup : processor.lookups)
    AppendLine(out, "looks up", StrCat(NameAndTopic(lookup.name, lookup.topic), ", whole on every member"));
  if (!processor.manual_partitions.empty())
    AppendLine(out, "only", StrCat("partitions ", absl::StrJoin(processor.manual_partitions, ", "), " of them"));
  for (const StoreSpec& store : processor.stores) {
    AppendLine(out, "keeps",
               StrCat(store.name, ", ", KindText(store), ", ",
                      store.backend == StoreBackend::kDisk ? "on disk" : "in memory", ", ",
                      store.changelog.enabled ? StrCat("changelog ", store.changelog.topic)
                                              : std::string("a cache: no changelog")));
  }
  if (processor.external_store) AppendLine(out, "keeps", "its state in the program's own database");
  for (const OutputSpec& output : processor.outputs) {
    if (!output.loop) AppendLine(out, "writes", OutputText(output));
  }
  if (processor.merge_by == MergeBy::kTimestamp) AppendLine(out, "merges", "the inputs by the time of their records");
  AppendLine(out, "failures", FailureText(processor.errors));
  AppendLine(out, "commits",
             StrCat("every ", DurationText(processor.transaction.min_duration), " to ",
                    DurationText(processor.transaction.max_duration), " while records come"));
  return out;
}

// ---- Mermaid

// Node ids are letters and numbers in the order things appear: names may hold anything Mermaid gives a meaning to.
class MermaidChart {
 public:
  std::string Topic(const std::string& topic) { return Node("t", topic, "[\"", "\"]"); }
  std::string Internal(const std::string& topic) { return Node("t", topic, "[\"", "\"]:::internal"); }
  std::string Processor(const std::string& name, std::string_view label) {
    return Node("p", name, "([\"", "\"])", label);
  }
  std::string Store(const std::string& key, std::string_view label) { return Node("s", key, "[(\"", "\")]", label); }
  void Edge(std::string_view from, std::string_view arrow, std::string_view to) {
    StrAppend(&edges_, "  ", from, " ", arrow, " ", to, "\n");
  }

  std::string Text() const {
    return StrCat("flowchart LR\n", nodes_, edges_, "  classDef internal stroke-dasharray: 4 3\n");
  }

 private:
  std::string Node(std::string_view kind, const std::string& key, std::string_view open, std::string_view close,
                   std::string_view label = "") {
    auto [id, is_new] = ids_.emplace(StrCat(kind, ":", key), StrCat(kind, ids_.size()));
    if (is_new) StrAppend(&nodes_, "  ", id->second, open, label.empty() ? key : label, close, "\n");
    return id->second;
  }

  std::map<std::string, std::string> ids_;
  std::string nodes_;
  std::string edges_;
};

void Draw(const StreamProcessorSpec& processor, MermaidChart& chart) {
  std::string id = chart.Processor(processor.QualifiedName(), processor.QualifiedName());
  for (const InputSpec& input : processor.inputs)
    chart.Edge(input.loop ? chart.Internal(input.topic) : chart.Topic(input.topic), "-->", id);
  for (const TableSpec& join : processor.joins) chart.Edge(chart.Topic(join.topic), "-. join .->", id);
  for (const TableSpec& lookup : processor.lookups) chart.Edge(chart.Topic(lookup.topic), "-. lookup .->", id);
  for (const StoreSpec& store : processor.stores) {
    std::string store_id = chart.Store(StrCat(processor.QualifiedName(), "/", store.name), store.name);
    chart.Edge(id, "<-->", store_id);
    if (store.changelog.enabled) chart.Edge(store_id, "-.->", chart.Internal(store.changelog.topic));
  }
  for (const OutputSpec& output : processor.outputs)
    chart.Edge(id, "-->", output.loop ? chart.Internal(output.topic) : chart.Topic(output.topic));
  if (processor.errors.DeadLetters()) {
    chart.Edge(id, "-. dead letters .->", chart.Internal(processor.errors.dead_letter_topic));
  }
}

}  // namespace

std::vector<PartitionGroup> PartitionGroupsOf(std::span<const StreamProcessorSpec> processors) {
  std::map<std::string, int32_t> created;
  for (const StreamProcessorSpec& processor : processors) {
    for (const OutputSpec& output : processor.outputs) {
      if (output.create) created.emplace(output.topic, output.create->partitions);
    }
  }
  std::vector<PartitionGroup> groups;
  for (const StreamProcessorSpec& processor : processors) {
    PartitionGroup group;
    group.processors = {processor.QualifiedName()};
    group.topics = CoPartitioned(processor);
    // Whatever shares a topic with it is one group with it.
    for (size_t i = 0; i < groups.size();) {
      bool shares = std::any_of(group.topics.begin(), group.topics.end(), [&](const std::string& topic) {
        return std::binary_search(groups[i].topics.begin(), groups[i].topics.end(), topic);
      });
      if (!shares) {
        ++i;
        continue;
      }
      group.topics.insert(group.topics.end(), groups[i].topics.begin(), groups[i].topics.end());
      group.processors.insert(group.processors.begin(), groups[i].processors.begin(), groups[i].processors.end());
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::sort(group.topics.begin(), group.topics.end());
    group.topics.erase(std::unique(group.topics.begin(), group.topics.end()), group.topics.end());
    groups.push_back(std::move(group));
  }
  for (PartitionGroup& group : groups) {
    for (const std::string& topic : group.topics) {
      auto found = created.find(topic);
      if (found != created.end()) group.partitions = found->second;
    }
  }
  return groups;
}

std::string ExplainText(std::span<const StreamProcessorSpec> processors) {
  std::string out;
  for (const StreamProcessorSpec& processor : processors)
    StrAppend(&out, out.empty() ? "" : "\n", ProcessorText(processor));
  for (const PartitionGroup& group : PartitionGroupsOf(processors)) {
    StrAppend(&out, "\npartitions of ", Joined(group.processors), "\n");
    std::string count = group.partitions > 0 ? StrCat(group.partitions, ", as created by an output")
                                             : std::string("as many as the inputs have");
    AppendLine(out, "count", StrCat(count, "; one task per partition number"));
    for (const std::string& topic : group.topics) AppendLine(out, "shared by", topic);
  }
  return out;
}

std::string ExplainMermaid(std::span<const StreamProcessorSpec> processors) {
  MermaidChart chart;
  for (const StreamProcessorSpec& processor : processors) Draw(processor, chart);
  return chart.Text();
}

std::string ExplainJson(std::span<const StreamProcessorSpec> processors) {
  nlohmann::ordered_json out = {{"processors", nlohmann::ordered_json::array()},
                                {"topics", nlohmann::ordered_json::array()},
                                {"partitionGroups", nlohmann::ordered_json::array()}};
  for (const StreamProcessorSpec& processor : processors) {
    nlohmann::ordered_json object = {
        {"name", processor.QualifiedName()}, {"group", processor.group}, {"guarantee", ToString(processor.guarantee)}};
    object["inputs"] = nlohmann::ordered_json::array();
    for (const InputSpec& input : processor.inputs)
      object["inputs"].push_back({{"name", input.name}, {"topic", input.topic}});
    if (!processor.manual_partitions.empty()) object["partitions"] = processor.manual_partitions;
    for (const auto& [list, tables] : {std::pair("joins", &processor.joins), {"lookups", &processor.lookups}}) {
      object[list] = nlohmann::ordered_json::array();
      for (const TableSpec& table : *tables) object[list].push_back({{"name", table.name}, {"topic", table.topic}});
    }
    object["stores"] = nlohmann::ordered_json::array();
    for (const StoreSpec& store : processor.stores) {
      nlohmann::ordered_json entry = {{"name", store.name}, {"backend", ToString(store.backend)}};
      if (store.changelog.enabled) entry["changelog"] = store.changelog.topic;
      object["stores"].push_back(std::move(entry));
    }
    object["outputs"] = nlohmann::ordered_json::array();
    for (const OutputSpec& output : processor.outputs)
      object["outputs"].push_back({{"name", output.name}, {"topic", output.topic}});
    object["onFailure"] = ToString(processor.errors.on_failure);
    out["processors"].push_back(std::move(object));
  }
  for (const auto& [topic, roles] : RolesOf(processors)) {
    out["topics"].push_back({{"topic", topic},
                             {"writtenBy", roles.written_by},
                             {"readBy", roles.read_by},
                             {"joinedBy", roles.joined_by},
                             {"lookedUpBy", roles.looked_up_by},
                             {"loopOf", roles.loop_of},
                             {"changelogOf", roles.changelog_of},
                             {"deadLettersOf", roles.dead_letters_of}});
  }
  for (const PartitionGroup& group : PartitionGroupsOf(processors)) {
    nlohmann::ordered_json entry = {{"processors", group.processors}, {"topics", group.topics}};
    if (group.partitions > 0) entry["partitions"] = group.partitions;
    out["partitionGroups"].push_back(std::move(entry));
  }
  return out.dump(2);
}

}  // namespace millstream::spec
