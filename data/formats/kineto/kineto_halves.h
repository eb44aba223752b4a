// Events that a file writes as two records, a begin and an end (phases B and
// E), made whole: an end is that of the last begin of its thread that has none.
// Source: "Duration Events" of the Trace Event Format.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/io/chrome_event.h"

namespace reprise {

class KinetoHalves {
 public:
  /// Keeps a copy of the begin. False where too many are open already.
  bool begin(const ChromeEvent& event);
  /// The complete event (phase X) that ends here, valid until the next call;
  /// null where none of its thread began. Of a time that cannot be read the
  /// event has no duration.
  const ChromeEvent* end(const ChromeEvent& event);
  /// Begins without an end.
  size_t open() const { return open_; }

 private:
  /// An event, and the text that its fields are of.
  struct Kept {
    ChromeEvent event;
    std::vector<char> text;
  };
  using Thread = std::pair<std::string, std::string>;  ///< Process and thread.

  std::map<Thread, std::vector<Kept>> begun_;
  size_t open_ = 0;
  Kept ended_;
  std::string duration_;
};

}  // namespace reprise
