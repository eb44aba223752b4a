// Reads and prints plan JSON (format.md). A reader remembers the first
// complaint about an object and goes on, so that callers read all members and
// check once.
#include "data/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "reprise.plan/1";

/// Reads typed members of one JSON object; remembers the first error, so that
/// callers read all members and check once.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string place)
      : object_(object), place_(std::move(place)) {
    if (!object.is_object())
      complain(fmt::format("expected an object, found {}", describe(object)));
  }

  /// Refuses members that no reader knows: a misspelt key must not be ignored.
  void allow(std::initializer_list<std::string_view> keys) {
    if (!object_.is_object()) return;
    for (const auto& [key, value] : object_.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        complain(fmt::format("unknown key '{}'", key));
      }
    }
  }

  std::string text(const char* key) {
    const Json* value = member(key);
    if (value == nullptr) return {};
    if (!value->is_string())
      return mismatch(key, "a string", *value), std::string();
    return value->get<std::string>();
  }

  int64_t integer(const char* key, int64_t low, int64_t high) {
    const Json* value = member(key);
    if (value == nullptr) return low;
    const bool fits = value->is_number_integer() &&
                      !(value->is_number_unsigned() &&
                        value->get<uint64_t>() > uint64_t{INT64_MAX});
    if (!fits || value->get<int64_t>() < low || value->get<int64_t>() > high) {
      mismatch(key, fmt::format("an integer from {} to {}", low, high), *value);
      return low;
    }
    return value->get<int64_t>();
  }

  uint64_t unsigned_integer(const char* key) {
    const Json* value = member(key);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned())
      return mismatch(key, "an unsigned integer", *value), 0;
    return value->get<uint64_t>();
  }

  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> result;
    const Json* value = array(key);
    if (value == nullptr) return result;
    for (const Json& item : *value) {
      if (!item.is_string()) {
        mismatch(key, "an array of strings", item);
        break;
      }
      result.push_back(item.get<std::string>());
    }
    return result;
  }

  const Json* array(const char* key) {
    const Json* value = member(key);
    if (value != nullptr && !value->is_array())
      mismatch(key, "an array", *value);
    return value != nullptr && value->is_array() ? value : nullptr;
  }

  bool has(const char* key) const {
    return object_.is_object() && object_.contains(key);
  }
  const Json& at(const char* key) const { return object_.at(key); }
  const std::string& place() const { return place_; }
  const std::string& error() const { return error_; }
  void complain(const std::string& what) {
    if (error_.empty()) error_ = fmt::format("{}: {}", place_, what);
  }

 private:
  static std::string describe(const Json& value) {
    // Containers may be nested too deeply to print.
    if (value.is_structured()) return fmt::format("an {}", value.type_name());
    std::string text =
        value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    return text;
  }
  const Json* member(const char* key) {
    if (!has(key)) {
      complain(fmt::format("key '{}' is missing", key));
      return nullptr;
    }
    return &object_.at(key);
  }
  void mismatch(const char* key, const std::string& expected,
                const Json& found) {
    complain(fmt::format("key '{}': expected {}, found {}", key, expected,
                         describe(found)));
  }

  const Json& object_;
  std::string place_;
  std::string error_;
};

constexpr int64_t kMaximumRanks = 1 << 20;
constexpr int64_t kMaximumChunks = 1 << 16;

PlanPrediction read_prediction(const Json& json, const std::string& place,
                               std::string* error) {
  PlanPrediction prediction;
  ObjectReader reader(json, place);
  reader.allow({"step_time_ns", "baselines", "lower_bound_ns", "gap"});
  prediction.step_time_ns = reader.integer("step_time_ns", 0, INT64_MAX);
  if (reader.has("lower_bound_ns")) {
    prediction.lower_bound_ns = reader.integer("lower_bound_ns", 0, INT64_MAX);
  }
  if (reader.has("gap")) {
    const Json& gap = reader.at("gap");
    if (gap.is_number()) prediction.gap = gap.get<double>();
    if (!gap.is_number()) reader.complain("key 'gap': expected a number");
  }
  if (reader.has("baselines")) {
    const Json& baselines = reader.at("baselines");
    ObjectReader entries(baselines, place + ".baselines");
    if (baselines.is_object()) {
      for (const auto& [name, value] : baselines.items()) {
        prediction.baselines[name] =
            entries.integer(name.c_str(), 0, INT64_MAX);
      }
    }
    if (error->empty()) *error = entries.error();
  }
  if (error->empty()) *error = reader.error();
  return prediction;
}

void read_groups(ObjectReader& root, Plan* plan, std::string* error) {
  if (const Json* groups = root.array("fusion")) {
    for (const Json& item : *groups) {
      ObjectReader reader(item, fmt::format("{}.fusion[{}]", root.place(),
                                            plan->fusion.size()));
      reader.allow({"unit", "ops"});
      plan->fusion.push_back(
          {.unit = reader.text("unit"), .ops = reader.texts("ops")});
      if (error->empty()) *error = reader.error();
    }
  }
  if (const Json* buckets = root.array("buckets")) {
    for (const Json& item : *buckets) {
      ObjectReader reader(item, fmt::format("{}.buckets[{}]", root.place(),
                                            plan->buckets.size()));
      reader.allow({"unit", "collectives", "chunks"});
      Bucket bucket{.unit = reader.text("unit"),
                    .collectives = reader.texts("collectives")};
      if (reader.has("chunks"))
        bucket.chunks = reader.integer("chunks", 1, kMaximumChunks);
      plan->buckets.push_back(std::move(bucket));
      if (error->empty()) *error = reader.error();
    }
  }
}

constexpr int64_t kMaximumBytes = int64_t{1} << 50;

TracePlan read_trace_plan(ObjectReader& root, std::string* error) {
  TracePlan plan;
  plan.fingerprint = root.text("trace_fingerprint");
  if (const Json* gradients = root.array("gradients")) {
    for (const Json& item : *gradients) {
      ObjectReader reader(item, fmt::format("{}.gradients[{}]", root.place(),
                                            plan.gradients.size()));
      reader.allow({"name", "type", "shape", "bytes"});
      PlannedGradient gradient;
      gradient.name = reader.text("name");
      gradient.type = reader.text("type");
      gradient.shape = reader.text("shape");
      gradient.bytes = reader.integer("bytes", 0, kMaximumBytes);
      plan.gradients.push_back(std::move(gradient));
      if (error->empty()) *error = reader.error();
    }
  }
  if (root.has("single_cap")) {
    ObjectReader cap(root.at("single_cap"), root.place() + ".single_cap");
    cap.allow({"bytes", "step_time_ns"});
    plan.single_cap_bytes = cap.integer("bytes", 1, kMaximumBytes);
    plan.single_cap_step_time_ns = cap.integer("step_time_ns", 0, INT64_MAX);
    if (error->empty()) *error = cap.error();
  }
  if (root.has("recorded")) {
    ObjectReader recorded(root.at("recorded"), root.place() + ".recorded");
    recorded.allow({"step_time_ns", "predicted_step_time_ns"});
    plan.recorded_step_time_ns = recorded.integer("step_time_ns", 0, INT64_MAX);
    plan.replayed_step_time_ns =
        recorded.integer("predicted_step_time_ns", 0, INT64_MAX);
    if (error->empty()) *error = recorded.error();
  }
  return plan;
}

/// Fills `plan` from a JSON document; the first complaint, or nothing.
void read_searched(ObjectReader& search, Plan* plan) {
  const Json* best = search.array("best");
  if (best == nullptr) return;
  const auto is_count = [](const Json& value) {
    return value.is_number_unsigned() &&
           value.get<uint64_t>() <= uint64_t{INT64_MAX};
  };
  for (const Json& pair : *best) {
    if (!pair.is_array() || pair.size() != 2 || !is_count(pair[0]) ||
        !is_count(pair[1])) {
      return search.complain(
          "key 'best': expected pairs of evaluations and nanoseconds");
    }
    plan->searched.push_back({pair[0].get<int64_t>(), pair[1].get<int64_t>()});
  }
}

void read_called(ObjectReader& root, Plan* plan) {
  constexpr const char* kExpected = "key 'called': expected lists of names";
  const Json& called = root.at("called");
  if (!called.is_array()) return root.complain(kExpected);
  for (const Json& names : called) {
    const bool fits =
        names.is_array() && std::ranges::all_of(names, [](const Json& name) {
          return name.is_string();
        });
    if (!fits) return root.complain(kExpected);
    plan->called.push_back(names.get<std::vector<std::string>>());
  }
}

std::string read_plan(const Json& json, Plan* plan) {
  ObjectReader root(json, "plan");
  std::string error;
  const std::string schema = root.text("schema");
  if (root.error().empty() && schema != kSchema) {
    root.complain(
        fmt::format("schema is '{}', expected '{}'", schema, kSchema));
  }
  root.allow({"schema", "program_fingerprint", "trace_fingerprint", "gradients",
              "single_cap", "recorded", "device", "ranks", "fusion", "buckets",
              "called", "order", "predicted", "search", "made_by"});
  if (root.has("trace_fingerprint") && !root.has("program_fingerprint")) {
    plan->trace = read_trace_plan(root, &error);
  } else {
    plan->program_fingerprint = root.text("program_fingerprint");
  }
  if (root.has("device")) plan->device = root.text("device");
  plan->ranks = root.integer("ranks", 1, kMaximumRanks);
  read_groups(root, plan, &error);
  if (root.has("called")) read_called(root, plan);
  if (root.has("order")) plan->order = root.texts("order");
  if (root.has("predicted")) {
    plan->predicted =
        read_prediction(root.at("predicted"), "plan.predicted", &error);
  }
  if (root.has("search")) {
    ObjectReader search(root.at("search"), "plan.search");
    search.allow({"seed", "evaluations", "best"});
    plan->seed = search.unsigned_integer("seed");
    plan->evaluations = search.integer("evaluations", 0, INT64_MAX);
    if (search.has("best")) read_searched(search, plan);
    if (error.empty()) error = search.error();
  }
  if (root.has("made_by")) plan->made_by = root.text("made_by");
  return root.error().empty() ? error : root.error();
}

std::string compact(const Json& json) { return json_text(json); }

/// Prints an array with one item a line.
std::string lines(const std::vector<std::string>& items) {
  if (items.empty()) return "[]";
  return fmt::format("[\n  {}\n ]", fmt::join(items, ",\n  "));
}

std::string print_subject(const Plan& plan) {
  if (!plan.trace) {
    return fmt::format(" \"program_fingerprint\": {},\n",
                       compact(plan.program_fingerprint));
  }
  std::vector<std::string> gradients;
  for (const PlannedGradient& each : plan.trace->gradients) {
    gradients.push_back(compact(Json{{"name", each.name},
                                     {"type", each.type},
                                     {"shape", each.shape},
                                     {"bytes", each.bytes}}));
  }
  std::string cap, recorded;
  if (plan.trace->single_cap_bytes > 0) {
    cap = fmt::format(
        " \"single_cap\": {},\n",
        compact(Json{{"bytes", plan.trace->single_cap_bytes},
                     {"step_time_ns", plan.trace->single_cap_step_time_ns}}));
  }
  if (plan.trace->recorded_step_time_ns > 0) {
    recorded = fmt::format(
        " \"recorded\": {},\n",
        compact(Json{
            {"step_time_ns", plan.trace->recorded_step_time_ns},
            {"predicted_step_time_ns", plan.trace->replayed_step_time_ns}}));
  }
  return fmt::format(" \"trace_fingerprint\": {},\n \"gradients\": {},\n{}{}",
                     compact(plan.trace->fingerprint), lines(gradients), cap,
                     recorded);
}

std::string print_prediction(const PlanPrediction& prediction) {
  Json baselines = Json::object();
  for (const auto& [name, value] : prediction.baselines)
    baselines[name] = value;
  return compact(
      Json{{"step_time_ns", prediction.step_time_ns},
           {"baselines", std::move(baselines)},
           {"lower_bound_ns", prediction.lower_bound_ns},
           {"gap", std::isfinite(prediction.gap) ? prediction.gap : 0.0}});
}

}  // namespace

Plan identity_plan(const Module& module, int64_t ranks) {
  Plan plan;
  plan.program_fingerprint = fingerprint(module);
  plan.ranks = ranks;
  plan.made_by = "reprise " REPRISE_VERSION;
  return plan;
}

Result<Plan> parse_plan(std::string_view json, std::string_view file) {
  const Result<Json> document = parse_json<Json>(json, file);
  if (!document) {
    return pass(
        {document.error().kind,
         document.error().message + ", so no plan of `reprise optimize`"});
  }
  Plan plan;
  const std::string complaint = read_plan(*document, &plan);
  if (!complaint.empty())
    return fail(ErrorKind::kInvalid, "{}: {}", file, complaint);
  return plan;
}

bool begins_as_plan(std::string_view bytes) {
  constexpr size_t kHead = 1 << 16;
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{' &&
         bytes.substr(0, kHead).find("\"reprise.plan/") !=
             std::string_view::npos;
}

Result<Plan> load_plan(const std::string& path) {
  Result<std::string> text = read_text_file(path);
  if (!text) return pass(text.error());
  return parse_plan(*text, path);
}

std::string print_plan(const Plan& plan) {
  std::vector<std::string> groups, buckets, order;
  for (const FusionGroup& group : plan.fusion) {
    groups.push_back(compact(Json{{"unit", group.unit}, {"ops", group.ops}}));
  }
  for (const Bucket& bucket : plan.buckets) {
    Json item{{"unit", bucket.unit}, {"collectives", bucket.collectives}};
    if (bucket.chunks != 1) item["chunks"] = bucket.chunks;
    buckets.push_back(compact(item));
  }
  for (const std::string& unit : plan.order) order.push_back(compact(unit));
  std::string text = fmt::format(
      "{{\"schema\": \"{}\",\n{} \"device\": {},\n \"ranks\": {},\n", kSchema,
      print_subject(plan), compact(plan.device), plan.ranks);
  text += fmt::format(" \"fusion\": {},\n \"buckets\": {},\n", lines(groups),
                      lines(buckets));
  std::vector<std::string> called;
  for (const auto& names : plan.called) called.push_back(compact(names));
  if (!called.empty()) text += fmt::format(" \"called\": {},\n", lines(called));
  text += fmt::format(" \"order\": {},\n", lines(order));
  if (plan.predicted)
    text +=
        fmt::format(" \"predicted\": {},\n", print_prediction(*plan.predicted));
  Json best = Json::array();
  for (const SearchedPlan& each : plan.searched)
    best.push_back({each.evaluations, each.step_time_ns});
  text += fmt::format(
      " \"search\": {{\"seed\": {}, \"evaluations\": {}{}}},\n "
      "\"made_by\": {}}}\n",
      plan.seed, plan.evaluations,
      best.empty() ? "" : ", \"best\": " + compact(best),
      compact(plan.made_by));
  return text;
}

}  // namespace reprise
