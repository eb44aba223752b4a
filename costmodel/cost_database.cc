// The file is read whole, merged and replaced under a temporary name.
#include "costmodel/cost_database.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/file.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kSchema = "reprise.costs/1";

Result<Measurement> measurement_of(const Json& entry) {
  Measurement result;
  const auto text = [&](const char* name, std::string& value) {
    const auto found = entry.find(name);
    if (found == entry.end() || !found->is_string()) return false;
    value = found->get<std::string>();
    return true;
  };
  const auto number = [&](const char* name, int64_t& value) {
    const auto found = entry.find(name);
    if (found == entry.end() || !found->is_number_integer()) return false;
    value = found->get<int64_t>();
    return value >= 0;
  };
  const bool complete = entry.is_object() && text("key", result.key) &&
                        text("unit", result.unit) &&
                        text("context", result.context) &&
                        number("median_ns", result.median_ns) &&
                        number("spread_ns", result.spread_ns) &&
                        number("samples", result.samples);
  if (!complete) {
    return fail(ErrorKind::kInvalid,
                "expected key, unit, context (text) and median_ns, spread_ns, "
                "samples (whole numbers >= 0)");
  }
  return result;
}

}  // namespace

std::string machine_name(
    const std::map<std::string, std::string>& environment) {
  std::string name;
  for (const char* part : {"device", "cpu", "cores", "compiler", "flags"}) {
    const auto found = environment.find(part);
    if (found == environment.end()) continue;
    name +=
        fmt::format("{}{}={}", name.empty() ? "" : "; ", part, found->second);
  }
  return name;
}

Result<CostDatabase> CostDatabase::load(const std::string& path) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return CostDatabase();
  const Result<std::string> text = read_text_file(path);
  if (!text) return pass(text.error());
  return parse(*text, path);
}

Result<CostDatabase> CostDatabase::parse(std::string_view text,
                                         const std::string& file) {
  CostDatabase database;
  const Result<Json> tree = parse_json<Json>(text, file);
  if (!tree) return pass(tree.error());
  const Json& json = *tree;
  if (!json.is_object()) {
    return fail(ErrorKind::kParse, "{}: not a cost database (JSON object)",
                file);
  }
  const std::string schema = json.value("schema", Json()).is_string()
                                 ? json["schema"].get<std::string>()
                                 : "none";
  if (schema != kSchema) {
    return fail(ErrorKind::kUnsupported, "{}: schema {}, expected {}", file,
                schema, kSchema);
  }
  const auto list = json.find("measurements");
  if (list == json.end() || !list->is_array()) {
    return fail(ErrorKind::kInvalid, "{}: no list 'measurements'", file);
  }
  for (size_t place = 0; place < list->size(); ++place) {
    const Json& entry = (*list)[place];
    const Result<Measurement> measurement = measurement_of(entry);
    if (!measurement) {
      return pass(measurement.error(),
                  fmt::format("{}: measurements[{}]", file, place));
    }
    const bool named =
        entry.contains("machine") && entry["machine"].is_string();
    database.merge(named ? entry["machine"].get<std::string>() : "",
                   std::span(&*measurement, 1));
  }
  return database;
}

void CostDatabase::merge(const std::string& machine,
                         std::span<const Measurement> measurements) {
  for (const Measurement& measurement : measurements) {
    entries_[{machine, measurement.key, measurement.context}] = measurement;
  }
}

std::vector<Measurement> CostDatabase::measurements(
    const std::string& machine) const {
  std::vector<Measurement> result;
  for (const auto& [key, measurement] : entries_) {
    if (std::get<0>(key) == machine) result.push_back(measurement);
  }
  return result;
}

std::string CostDatabase::text() const {
  Json list = Json::array();
  for (const auto& [key, measurement] : entries_) {
    list.push_back({{"machine", std::get<0>(key)},
                    {"key", measurement.key},
                    {"unit", measurement.unit},
                    {"context", measurement.context},
                    {"median_ns", measurement.median_ns},
                    {"spread_ns", measurement.spread_ns},
                    {"samples", measurement.samples}});
  }
  const Json json = {{"schema", kSchema}, {"measurements", list}};
  return json_text(json, 1) + "\n";
}

Status CostDatabase::store(const std::string& path) const {
  return write_file_atomically(path, text());
}

Result<std::vector<Measurement>> load_measurements(
    const std::string& path,
    const std::map<std::string, std::string>& environment) {
  if (path.empty()) return std::vector<Measurement>{};
  const Result<CostDatabase> database = CostDatabase::load(path);
  if (!database) return pass(database.error());
  return database->measurements(machine_name(environment));
}

Status keep_measurements(std::span<const Measurement> measurements,
                         const MeasurementPlaces& places) {
  if (places.trace != nullptr) {
    CostDatabase merged;
    merged.merge("", places.trace->measurements);
    merged.merge("", measurements);
    places.trace->measurements = merged.measurements("");
    Status written = write_trace(*places.trace, places.trace_path);
    if (!written) return written;
  }
  if (places.costs_path.empty()) return {};
  Result<CostDatabase> database = CostDatabase::load(places.costs_path);
  if (!database) return pass(database.error());
  database->merge(places.machine, measurements);
  return database->store(places.costs_path);
}

}  // namespace reprise
