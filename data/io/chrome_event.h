// One event of a Kineto or Chrome JSON trace, as its text: what the reader
// needs of it, found but not yet interpreted. Two ways lead here, a fast one
// for blocks of well-formed events and a tolerant one for a single event; on
// good text they agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace reprise {

/// Values as they stand in the file, strings with their quotes; empty where
/// the event has none.
struct ChromeEvent {
  char phase = 0;  ///< 0: none.
  std::string_view category, name, process, thread, start, duration;
  // Of "args".
  std::string_view external_id, correlation, device, stream, bytes, graph_node;
  /// "args" from where it starts; what follows it may stand behind.
  std::string_view arguments;
};

/// Reads one event; returns its defects (JsonDefect). Where it is broken
/// beyond them, fields are missing.
uint8_t read_chrome_event(std::string_view text, ChromeEvent& event);

/// Reads the events of a block, an array that JsonEventStream cut.
class ChromeEventBlock {
 public:
  static constexpr size_t kAllRead = static_cast<size_t>(-1);

  ChromeEventBlock();
  ~ChromeEventBlock();

  /// Calls `take(const ChromeEvent&)` for each event that is read for certain.
  /// Returns kAllRead, or the offset of the first event that must be read
  /// another way. `block` needs 64 readable bytes behind it,
  /// the first of them zero.
  template <typename Take>
  size_t read(std::string_view block, Take&& take) {
    begin(block);
    while (const ChromeEvent* event = next()) take(*event);
    return rest_;
  }

 private:
  struct Parser;
  void begin(std::string_view block);
  const ChromeEvent* next();

  std::unique_ptr<Parser> parser_;
  size_t rest_ = 0;
};

}  // namespace reprise
