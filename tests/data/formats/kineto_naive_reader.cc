#include "tests/data/formats/kineto_naive_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace reprise {
namespace {

using Json = nlohmann::json;

/// Builds a tree in which a fraction stays the text that it was: a double
/// cannot hold today's time. Of members of one name the last one stands, of
/// arguments the first.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(int64_t value) override { return put(value); }
  bool number_unsigned(uint64_t value) override { return put(value); }
  bool number_float(double, const std::string& text) override {
    return put(Json::object({{"fraction", text}}));
  }
  bool string(std::string& value) override { return put(value); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    open_.back().key = value;
    return true;
  }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }
  Json take() { return std::move(root_); }

 private:
  struct Open {
    Json value;
    std::string key;
  };
  bool open(Json value) {
    open_.push_back({std::move(value), {}});
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }
  bool put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Open& parent = open_.back();
    if (parent.value.is_array()) {
      parent.value.push_back(std::move(value));
      return true;
    }
    // Which of two phases is meant, nobody knows; nor which arguments.
    if ((parent.key == "ph" || parent.key == "args") &&
        parent.value.contains(parent.key)) {
      return false;
    }
    const bool argument =
        open_.size() > 1 && open_[open_.size() - 2].key == "args";
    if (!argument || !parent.value.contains(parent.key)) {
      parent.value[parent.key] = std::move(value);
    }
    return true;
  }

  std::vector<Open> open_;
  Json root_;
};

const Json& member(const Json& object, const char* key) {
  static const Json nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

/// The text that a scalar was written as; "" for anything else.
std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  if (value.is_object() && value.contains("fraction"))
    return value["fraction"].get<std::string>();
  return "";
}

std::optional<int64_t> integer(const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || text.empty()) return std::nullopt;
  return value;
}

int64_t id_of(const Json& value) {
  const int64_t id = integer(text_of(value)).value_or(-1);
  return id > 0 ? id : -1;
}

/// In long double, whose 64 bits of mantissa hold any of these times.
std::optional<int64_t> nanoseconds(const Json& value) {
  const std::string text = text_of(value);
  long double number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end || text.empty()) return std::nullopt;
  const long double result = std::round(number * 1000);
  if (!(std::abs(result) <= 4e18L)) return std::nullopt;
  return static_cast<int64_t>(result);
}

int64_t number_in(const Json& value) {
  const std::string text = text_of(value);
  if (const auto number = integer(text)) return *number;
  const size_t first = text.find_first_of("0123456789");
  if (first == text.npos) return -1;
  const size_t last = text.find_first_not_of("0123456789", first);
  return integer(text.substr(first, last - first)).value_or(-1);
}

std::string device_stream(const Json& event, const Json& arguments) {
  const auto either = [&](const char* argument, const char* own) {
    const Json& value = member(arguments, argument);
    return number_in(value.is_null() ? member(event, own) : value);
  };
  int64_t device = either("device", "pid"), stream = either("stream", "tid");
  if (device < 0 || device > 1 << 20) device = -1;
  if (stream < 0 || stream == UINT32_MAX) stream = -1;
  return std::to_string(device) + "/" + std::to_string(stream);
}

std::string host_stream(const Json& event) {
  const auto number = [&](const char* key, int64_t otherwise) {
    return integer(text_of(member(event, key))).value_or(otherwise);
  };
  return std::to_string(number("pid", 0)) + "/" +
         std::to_string(number("tid", -1));
}

enum class Place { kHost, kRuntime, kDevice };
struct Meaning {
  EventKind kind;
  Place place;
};

/// Nothing for categories that a trace keeps nothing of.
std::optional<Meaning> meaning_of(const std::string& category) {
  using enum EventKind;
  static const std::map<std::string, std::optional<Meaning>> kMeanings = {
      {"cpu_op", {{kHostOp, Place::kHost}}},
      {"Operator", {{kHostOp, Place::kHost}}},
      {"cuda_runtime", {{kRuntime, Place::kRuntime}}},
      {"cuda_driver", {{kRuntime, Place::kRuntime}}},
      {"Runtime", {{kRuntime, Place::kRuntime}}},
      {"user_annotation", {{kAnnotation, Place::kHost}}},
      {"python_function", {{kAnnotation, Place::kHost}}},
      {"overhead", {{kOverhead, Place::kHost}}},
      {"kernel", {{kCompute, Place::kDevice}}},
      {"Kernel", {{kCompute, Place::kDevice}}},
      {"gpu_memcpy", {{kCopy, Place::kDevice}}},
      {"Memcpy", {{kCopy, Place::kDevice}}},
      {"gpu_memset", {{kMemset, Place::kDevice}}},
      {"Memset", {{kMemset, Place::kDevice}}},
      {"cuda_sync", {{kSynchronization, Place::kDevice}}},
      {"Trace", std::nullopt},
      {"gpu_user_annotation", std::nullopt},
      {"mtia_runtime", std::nullopt},
      {"mtia_ccp_events", std::nullopt},
      {"mtia_insight", std::nullopt},
      {"mtia_workloadd", std::nullopt},
  };
  const auto found = kMeanings.find(category);
  if (found == kMeanings.end()) return Meaning{kOther, Place::kHost};
  return found->second;
}

bool is_collective(const NaiveEvent& event, Place place) {
  std::string name = event.name;
  if (place == Place::kHost) {
    return name.starts_with("gloo:") || name.starts_with("mpi:");
  }
  if (name.starts_with("void ")) name.erase(0, 5);
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  return event.kind == EventKind::kCompute &&
         (name.starts_with("nccl") || name.starts_with("rccl"));
}

/// Nothing for what is no event of a trace.
std::optional<NaiveEvent> event_of(const Json& source) {
  if (!source.is_object() || member(source, "ph") != "X") return std::nullopt;
  const auto meaning = meaning_of(text_of(member(source, "cat")));
  const auto start = nanoseconds(member(source, "ts"));
  const auto duration = nanoseconds(member(source, "dur"));
  if (!meaning || !start || !duration || *duration < 0 ||
      *start + *duration > 4'000'000'000'000'000'000) {
    return std::nullopt;
  }
  const Json& given = member(source, "args");
  const Json arguments = given.is_object() ? given : Json::object();
  NaiveEvent event;
  event.kind = meaning->kind;
  event.start_ns = *start;
  event.end_ns = *start + *duration;
  event.name = text_of(member(source, "name"));
  const bool device = meaning->place == Place::kDevice;
  event.stream =
      device ? device_stream(source, arguments) : host_stream(source);
  const Json& correlation = member(arguments, "correlation");
  const Json& external = arguments.contains("External id")
                             ? member(arguments, "External id")
                             : member(arguments, "external id");
  event.external_id = id_of(external);
  if (meaning->place != Place::kHost) {
    event.correlation = id_of(correlation);
    if (external == correlation) event.external_id = -1;
  }
  const bool moves =
      event.kind == EventKind::kCopy || event.kind == EventKind::kMemset;
  if (moves)
    event.copied_bytes =
        std::max<int64_t>(0, id_of(member(arguments, "bytes")));
  if (device && event.kind != EventKind::kSynchronization) {
    event.graph_node = id_of(member(arguments, "graph node id"));
  }
  if (is_collective(event, meaning->place)) event.kind = EventKind::kCollective;
  return event;
}

}  // namespace

std::optional<std::vector<NaiveEvent>> read_naively(std::string_view text) {
  TreeBuilder builder;
  if (!Json::sax_parse(text, &builder)) return std::nullopt;
  const Json root = builder.take();
  const Json& rows = root.is_array() ? root : member(root, "traceEvents");
  if (!rows.is_array()) return std::nullopt;
  std::vector<NaiveEvent> events;
  for (const Json& row : rows) {
    if (auto event = event_of(row)) events.push_back(std::move(*event));
  }
  constexpr int64_t kEpochNs = 1'000'000'000'000'000'000;
  const int64_t base =
      root.is_object() ? id_of(member(root, "baseTimeNanoseconds")) : -1;
  if (base > 0 && !events.empty() && events[0].start_ns < kEpochNs) {
    for (NaiveEvent& event : events) {
      event.start_ns += base;
      event.end_ns += base;
    }
  }
  std::sort(events.begin(), events.end());
  return events;
}

std::vector<NaiveEvent> naive_events(const Trace& trace) {
  std::vector<NaiveEvent> events;
  for (const Event& event : trace.events) {
    const StreamInfo& stream = trace.streams[event.stream];
    const bool device = stream.kind == StreamKind::kDeviceStream;
    const bool moves =
        event.kind == EventKind::kCopy || event.kind == EventKind::kMemset;
    events.push_back(
        {.start_ns = event.start_ns,
         .end_ns = event.end_ns,
         .kind = event.kind,
         .name = trace.text(event.name),
         .stream = std::to_string(device ? stream.device : stream.process) +
                   "/" + std::to_string(stream.number),
         .correlation = event.correlation,
         .external_id = event.external_id,
         .graph_node = event.graph_node,
         .copied_bytes = moves ? event.bytes : 0});
  }
  std::sort(events.begin(), events.end());
  return events;
}

}  // namespace reprise
