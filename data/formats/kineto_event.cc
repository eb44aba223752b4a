#include "data/formats/kineto_event.h"

#include <simdjson.h>

#include <string_view>

#include "data/formats/json_scan.h"

namespace reprise {
namespace {

namespace ondemand = simdjson::ondemand;

/// Of keys that simdjson hands over without their length; blocks are padded.
constexpr size_t kLongestKey = 16;

/// The member of the event that `key` names; null for those that nobody needs.
/// `key` goes up to its closing quote or beyond.
std::string_view KinetoEvent::*event_field(std::string_view key) {
  const auto is = [key](std::string_view name) {
    return key.starts_with(name);
  };
  switch (key[0]) {
    case 't':
      if (is("ts\"")) return &KinetoEvent::start;
      return is("tid\"") ? &KinetoEvent::thread : nullptr;
    case 'p':
      return is("pid\"") ? &KinetoEvent::process : nullptr;
    case 'c':
      return is("cat\"") ? &KinetoEvent::category : nullptr;
    case 'n':
      return is("name\"") ? &KinetoEvent::name : nullptr;
    case 'd':
      return is("dur\"") ? &KinetoEvent::duration : nullptr;
    default:
      return nullptr;
  }
}

std::string_view KinetoEvent::*argument_field(std::string_view key) {
  const auto is = [key](std::string_view name) {
    return key.starts_with(name);
  };
  switch (key[0]) {
    case 'E':
      return is("External id\"") ? &KinetoEvent::external_id : nullptr;
    case 'e':
      return is("external id\"") ? &KinetoEvent::external_id : nullptr;
    case 'c':
      return is("correlation\"") ? &KinetoEvent::correlation : nullptr;
    case 'd':
      return is("device\"") ? &KinetoEvent::device : nullptr;
    case 's':
      return is("stream\"") ? &KinetoEvent::stream : nullptr;
    case 'b':
      return is("bytes\"") ? &KinetoEvent::bytes : nullptr;
    case 'g':
      return is("graph node id\"") ? &KinetoEvent::graph_node : nullptr;
    default:
      return nullptr;
  }
}

/// A scanned key and its closing quote.
std::string_view with_quote(std::string_view key) {
  return {key.data(), key.size() + 1};
}

std::string_view trimmed(std::string_view token) {
  while (!token.empty() && is_json_space(token.back())) token.remove_suffix(1);
  return token;
}

/// Whether nothing but the external id is wanted of its arguments.
bool is_host_operator(std::string_view category) {
  return category == "\"cpu_op\"" || category == "\"Operator\"";
}

/// Whether the phase is of events that are taken ("X") or that name threads.
bool is_wanted(char phase) { return phase == 'X' || phase == 'M'; }

char phase_of(std::string_view value) {
  return value.size() == 3 && value[0] == '"' ? value[1] : '\0';
}

void read_arguments(std::string_view text, KinetoEvent& event) {
  if (!text.starts_with('{')) return;  // An array's elements have no keys.
  if (!text.starts_with('{')) return;  // An array has no keys.
  JsonScanner arguments(text);
  while (arguments.next()) {
    const auto field = argument_field(with_quote(arguments.key()));
    if (field != nullptr && (event.*field).empty()) {
      event.*field = arguments.value();
    }
  }
}

simdjson::error_code read_arguments(ondemand::value value, KinetoEvent& event) {
  ondemand::object arguments;
  if (value.get_object().get(arguments) != simdjson::SUCCESS) {
    return simdjson::SUCCESS;  // No object: nothing that anybody needs.
  }
  const bool one = is_host_operator(event.category);
  for (simdjson::simdjson_result<ondemand::field> member : arguments) {
    if (member.error() != simdjson::SUCCESS) return member.error();
    const auto field = argument_field({member.key().raw(), kLongestKey});
    if (field == nullptr || !(event.*field).empty()) continue;
    event.*field = trimmed(member.value_unsafe().value().raw_json_token());
    if (one && field == &KinetoEvent::external_id) break;
  }
  return simdjson::SUCCESS;
}

}  // namespace

uint8_t read_kineto_event(std::string_view text, KinetoEvent& event) {
  event = KinetoEvent{};
  event.text = text;
  JsonScanner members(text);
  while (members.next()) {
    if (members.key() == "ph") {
      event.phase = phase_of(members.value());
    } else if (members.key() == "args") {
      read_arguments(members.value(), event);
    } else if (const auto field = event_field(with_quote(members.key()));
               field != nullptr) {
      event.*field = members.value();
    }
  }
  return members.defects();
}

/// Holds an event back until the next one has begun: only then is it known to
/// have ended where it should.
struct KinetoBlock::Parser {
  ondemand::parser parser;
  ondemand::document document;
  ondemand::array events;
  ondemand::array_iterator at, end;
  std::string_view block;
  bool done = false, broken = false;
  KinetoEvent slots[2];
  KinetoEvent* pending = nullptr;

  bool begin(std::string_view text);
  void read_event(KinetoEvent& event);
  bool read_member(ondemand::field& member, KinetoEvent& event);
  bool ended_well();
  size_t offset_of(const KinetoEvent& event) const {
    return static_cast<size_t>(event.text.data() - block.data());
  }
};

bool KinetoBlock::Parser::begin(std::string_view text) {
  block = text;
  pending = nullptr;
  broken = false;
  done = parser.iterate(text.data(), text.size(),
                        text.size() + simdjson::SIMDJSON_PADDING)
                 .get(document) != simdjson::SUCCESS ||
         document.get_array().get(events) != simdjson::SUCCESS ||
         events.begin().get(at) != simdjson::SUCCESS ||
         events.end().get(end) != simdjson::SUCCESS;
  return !done;
}

/// False when the rest of the event is not wanted, or broken.
bool KinetoBlock::Parser::read_member(ondemand::field& member,
                                      KinetoEvent& event) {
  const std::string_view key(member.key().raw(), kLongestKey);
  if (key.starts_with("ph\"")) {
    event.phase = phase_of(trimmed(member.value().raw_json_token()));
    return is_wanted(event.phase);
  }
  if (key.starts_with("args\"")) {
    broken = read_arguments(member.value(), event) != simdjson::SUCCESS;
    return !broken;
  }
  if (const auto field = event_field(key); field != nullptr) {
    event.*field = trimmed(member.value().raw_json_token());
  }
  return true;
}

/// Sets `broken`; event.text is empty if not even its start is certain.
void KinetoBlock::Parser::read_event(KinetoEvent& event) {
  event = KinetoEvent{};
  broken = true;
  ondemand::value element;
  const char* place = nullptr;
  if ((*at).get(element) != simdjson::SUCCESS ||
      element.current_location().get(place) != simdjson::SUCCESS) {
    return;
  }
  event.text = block.substr(static_cast<size_t>(place - block.data()));
  ondemand::object members;
  if (element.get_object().get(members) != simdjson::SUCCESS) return;
  broken = false;
  for (simdjson::simdjson_result<ondemand::field> member : members) {
    ondemand::field field;
    broken = std::move(member).get(field) != simdjson::SUCCESS;
    if (broken || !read_member(field, event)) return;
  }
}

bool KinetoBlock::Parser::ended_well() {
  const char* place = nullptr;
  return document.current_location().get(place) == simdjson::OUT_OF_BOUNDS;
}

KinetoBlock::KinetoBlock() : parser_(std::make_unique<Parser>()) {}
KinetoBlock::~KinetoBlock() = default;

void KinetoBlock::begin(std::string_view block) {
  rest_ = parser_->begin(block) ? kAllRead : 1;
}

const KinetoEvent* KinetoBlock::next() {
  Parser& parser = *parser_;
  while (!parser.done) {
    const KinetoEvent* const before = parser.pending;
    if (!(parser.at != parser.end)) {
      parser.done = true;
      if (parser.ended_well()) return before;
      rest_ = before == nullptr ? 1 : parser.offset_of(*before);
      return nullptr;
    }
    KinetoEvent& fresh = parser.slots[before == &parser.slots[0]];
    parser.read_event(fresh);
    parser.pending = &fresh;
    if (parser.broken) {
      parser.done = true;
      const bool begun = !fresh.text.empty();
      rest_ = begun               ? parser.offset_of(fresh)
              : before == nullptr ? 1
                                  : parser.offset_of(*before);
      return begun ? before : nullptr;
    }
    ++parser.at;
    if (before != nullptr) return before;
  }
  return nullptr;
}

}  // namespace reprise
