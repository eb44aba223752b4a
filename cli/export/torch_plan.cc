#include "cli/export/torch_plan.h"

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "data/collective/collective_names.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// Extents of "512x320"; null of anything else.
Json shape_of(std::string_view text) {
  Json shape = Json::array();
  while (!text.empty()) {
    int64_t extent = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) return {};
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    shape.push_back(extent);
    if (text.empty()) break;
    if (text.front() != 'x' || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  return shape;
}

}  // namespace

Result<Json> torch_plan(const BucketPlan& plan) {
  Json gradients = Json::array(), buckets = Json::array();
  std::map<std::string, size_t> places;
  for (const PlannedGradient& each : plan.trace().gradients) {
    Json shape = shape_of(each.shape);
    if (shape.is_null()) {
      return fail(ErrorKind::kInvalid, "{}: the shape of {} is not known: '{}'",
                  plan.path, each.name, each.shape);
    }
    places.emplace(each.name, gradients.size());
    gradients.push_back({{"shape", std::move(shape)}, {"bytes", each.bytes}});
  }
  for (const Bucket& bucket : plan.plan.buckets) {
    Json members = Json::array();
    for (const std::string& name : bucket.collectives) {
      const auto place = places.find(name);
      if (place == places.end()) {
        return fail(ErrorKind::kInvalid,
                    "{}: bucket {} names no gradient: '{}'", plan.path,
                    bucket.unit, name);
      }
      members.push_back(place->second);
    }
    buckets.push_back(std::move(members));
  }
  return Json{{"gradients", std::move(gradients)},
              {"buckets", std::move(buckets)}};
}

Result<int64_t> elements_in(const BucketPlan& plan, int64_t bytes) {
  std::string type;
  for (const PlannedGradient& each : plan.trace().gradients) {
    if (type.empty()) type = each.type;
    if (each.type == type) continue;
    return fail(ErrorKind::kInvalid,
                "{}: gradients are of several types ({}, {}), sizes of buckets "
                "of elements of one",
                plan.path, type, each.type);
  }
  const int64_t element = element_bytes(element_type_named(type));
  if (element <= 0) {
    return fail(ErrorKind::kInvalid,
                "{}: the size of an element of type '{}' is not known",
                plan.path, type);
  }
  return std::max<int64_t>(bytes / element, 1);
}

Artefact torch_artefact(const std::string& name, const Provenance& provenance,
                        const Json& plan, std::string_view documentation,
                        std::string_view body, std::string advice) {
  Json data = {{"schema", "reprise." + name + "/1"},
               {"reprise", json_of(provenance)}};
  data.update(plan);
  const std::string file = name + "_plan.json";
  std::string module = "\"\"\"";
  module += documentation;
  module +=
      "\"\"\"\n\nimport json\nimport pathlib\n\nPLAN = json.loads("
      "(pathlib.Path(__file__).parent / \"" +
      file + "\").read_text())\n\n";
  module += body;
  return {.files = {{file, pretty(data)},
                    {"reprise_" + name + ".py", std::move(module)}},
          .advice = std::move(advice) + comment_of(provenance, "")};
}

}  // namespace reprise
