// The fast way walks over the structural places that simdjson's first stage
// finds (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019):
// brackets, colons, commas and starts of values. Members become views of the
// text, keys are told by their first letter and one comparison, and numbers are
// parsed only by who wants them. The tolerant way asks JsonScanner for one
// event's members. Cost: a few instructions a structural character.
#include "data/io/chrome_event.h"

#include <simdjson.h>

#include <array>

#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Of keys whose end nobody has looked for; blocks are padded.
constexpr size_t kLongestKey = 16;

/// How much deeper a character leads.
constexpr auto kDepth = [] {
  std::array<int8_t, 256> table{};
  table['{'] = table['['] = 1;
  table['}'] = table[']'] = -1;
  return table;
}();

/// The member of the event that `key` names; null for those that nobody needs.
/// `key` goes up to its closing quote or beyond.
std::string_view ChromeEvent::*event_field(std::string_view key) {
  const auto is = [key](std::string_view name) {
    return key.starts_with(name);
  };
  switch (key[0]) {
    case 't':
      if (is("ts\"")) return &ChromeEvent::start;
      return is("tid\"") ? &ChromeEvent::thread : nullptr;
    case 'p':
      return is("pid\"") ? &ChromeEvent::process : nullptr;
    case 'c':
      return is("cat\"") ? &ChromeEvent::category : nullptr;
    case 'n':
      return is("name\"") ? &ChromeEvent::name : nullptr;
    case 'd':
      return is("dur\"") ? &ChromeEvent::duration : nullptr;
    default:
      return nullptr;
  }
}

std::string_view ChromeEvent::*argument_field(std::string_view key) {
  const auto is = [key](std::string_view name) {
    return key.starts_with(name);
  };
  switch (key[0]) {
    case 'E':
      return is("External id\"") ? &ChromeEvent::external_id : nullptr;
    case 'e':
      return is("external id\"") ? &ChromeEvent::external_id : nullptr;
    case 'c':
      return is("correlation\"") ? &ChromeEvent::correlation : nullptr;
    case 'd':
      return is("device\"") ? &ChromeEvent::device : nullptr;
    case 's':
      return is("stream\"") ? &ChromeEvent::stream : nullptr;
    case 'b':
      return is("bytes\"") ? &ChromeEvent::bytes : nullptr;
    case 'g':
      return is("graph node id\"") ? &ChromeEvent::graph_node : nullptr;
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

/// Arrows and counters: nobody needs more of them than their number.
bool is_only_counted(char phase) {
  return phase == 's' || phase == 't' || phase == 'f' || phase == 'C';
}

char phase_of(std::string_view value) {
  return value.size() == 3 && value[0] == '"' ? value[1] : '\0';
}

void read_arguments(std::string_view text, ChromeEvent& event) {
  if (!text.starts_with('{')) return;  // An array has no keys.
  JsonScanner arguments(text);
  while (arguments.next()) {
    const auto field = argument_field(with_quote(arguments.key()));
    if (field != nullptr && (event.*field).empty()) {
      event.*field = arguments.value();
    }
  }
}

}  // namespace

uint8_t read_chrome_event(std::string_view text, ChromeEvent& event) {
  event = ChromeEvent{};
  JsonScanner members(text);
  while (members.next()) {
    if (members.key() == "ph") {
      event.phase = phase_of(members.value());
    } else if (members.key() == "args") {
      if (event.arguments.empty()) event.arguments = members.value();
      read_arguments(members.value(), event);
    } else if (const auto field = event_field(with_quote(members.key()));
               field != nullptr) {
      event.*field = members.value();
    }
  }
  return members.defects();
}

namespace {

/// Walks over the places that simdjson's first stage finds: brackets, colons,
/// commas, and where strings and other values start. The rest is not looked at
/// unless somebody wants it.
struct Walk {
  const char* text = nullptr;
  const uint32_t *at = nullptr, *end = nullptr;  ///< *end: the text's size.

  char here() const { return text[*at]; }
  std::string_view rest() const { return {text + *at, size_t{*end} - *at}; }
  bool ended_well() const { return here() == ']' && at + 1 == end; }
  /// The string or other simple value that starts here.
  std::string_view value() const {
    return trimmed({text + *at, size_t{at[1]} - *at});
  }

  /// Takes a key and its colon; empty if there is none. It goes on up to its
  /// closing quote or beyond.
  std::string_view take_key() {
    if (here() != '"' || text[at[1]] != ':') return {};
    const std::string_view key(text + *at + 1, kLongestKey);
    at += 2;
    return key;
  }

  /// Goes past the end of the object or array that this is in.
  bool leave() {
    int64_t depth = 1;
    for (; depth > 0 && at < end; ++at) {
      depth += kDepth[static_cast<unsigned char>(here())];
    }
    return depth == 0;
  }

  bool skip_value() {
    const char c = here();
    if (c == '}' || c == ']' || c == ',' || c == ':' || at == end) return false;
    ++at;
    return (c != '{' && c != '[') || leave();
  }

  /// Goes into an object; `more` says whether it has members.
  void enter(bool& more) {
    ++at;
    more = here() != '}';
    if (!more) ++at;
  }

  /// After a member: goes past the comma, or the end of the object.
  bool next_of(bool& more) {
    more = here() == ',';
    if (!more && here() != '}') return false;
    ++at;
    return true;
  }
};

// False, here and below, when the event must be read another way.
bool read_arguments(Walk& walk, ChromeEvent& event) {
  if (event.arguments.empty()) event.arguments = walk.rest();
  if (walk.here() != '{') return walk.skip_value();  // Of no use to anybody.
  const bool one = is_host_operator(event.category);
  bool more = false;
  for (walk.enter(more); more;) {
    const std::string_view key = walk.take_key();
    if (key.empty()) return false;
    const auto field = argument_field(key);
    if (field != nullptr && (event.*field).empty()) {
      event.*field = walk.value();
      if (one && field == &ChromeEvent::external_id) return walk.leave();
    }
    if (!walk.skip_value() || !walk.next_of(more)) return false;
  }
  return true;
}

bool read_member(Walk& walk, std::string_view key, ChromeEvent& event) {
  if (key.starts_with("args\"")) return read_arguments(walk, event);
  if (key.starts_with("ph\"")) {
    event.phase = phase_of(walk.value());
  } else if (const auto field = event_field(key); field != nullptr) {
    event.*field = walk.value();
  }
  return walk.skip_value();
}

bool read_members(Walk& walk, ChromeEvent& event) {
  if (walk.here() != '{') return false;
  bool more = false;
  for (walk.enter(more); more;) {
    const std::string_view key = walk.take_key();
    if (key.empty() || !read_member(walk, key, event)) return false;
    if (is_only_counted(event.phase)) return walk.leave();
    if (!walk.next_of(more)) return false;
  }
  return true;
}

}  // namespace

struct ChromeEventBlock::Parser {
  std::unique_ptr<simdjson::internal::dom_parser_implementation> finder;
  Walk walk;
  ChromeEvent event;

  bool find_places(std::string_view block);
  bool read_event();
};

bool ChromeEventBlock::Parser::find_places(std::string_view block) {
  if (finder == nullptr || finder->capacity() < block.size()) {
    constexpr size_t kNesting = 1;  // Of the second stage, which never runs.
    const simdjson::error_code made =
        simdjson::get_active_implementation()->create_dom_parser_implementation(
            block.size(), kNesting, finder);
    if (made != simdjson::SUCCESS) return false;
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(block.data());
  if (finder->stage1(bytes, block.size(), simdjson::stage1_mode::regular) !=
      simdjson::SUCCESS) {
    return false;
  }
  const uint32_t* const places = finder->structural_indexes.get();
  walk = {block.data(), places, places + finder->n_structural_indexes};
  return walk.here() == '[';
}

bool ChromeEventBlock::Parser::read_event() {
  Walk at = walk;  // In registers.
  event = ChromeEvent{};
  const bool good = read_members(at, event);
  walk = at;
  // What follows proves that the event ended where it should.
  return good &&
         ((at.here() == ',' && at.text[at.at[1]] == '{') || at.ended_well());
}

ChromeEventBlock::ChromeEventBlock() : parser_(std::make_unique<Parser>()) {}
ChromeEventBlock::~ChromeEventBlock() = default;

void ChromeEventBlock::begin(std::string_view block) {
  rest_ = parser_->find_places(block) ? kAllRead : 1;
}

const ChromeEvent* ChromeEventBlock::next() {
  Parser& parser = *parser_;
  if (rest_ != kAllRead || parser.walk.ended_well()) return nullptr;
  ++parser.walk.at;  // The bracket before the first event, or a comma.
  const uint32_t start = *parser.walk.at;
  if (parser.read_event()) return &parser.event;
  rest_ = start;
  return nullptr;
}

}  // namespace reprise
