// Tensors that Horovod fuses share one transfer, which its timeline shows on
// the row of each.
#pragma once

#include <cstdint>
#include <deque>

#include "data/formats/reader.h"

namespace reprise {

class FusedTransfers {
 public:
  FusedTransfers(TraceSpool& spool, FileReport& report)
      : spool_(spool), report_(report) {}

  /// Takes one tensor's transfer, of its bytes and elements. What runs at one
  /// time under one name is one transfer (all its tensors begin it before any
  /// ends it, and the library runs one after the other): a collective of all
  /// their bytes on the row of the first, and ranges on the others'.
  void take(const Event& event, const CollectiveInfo& info);
  /// After the last one.
  void finish();

 private:
  struct Transfer {
    Event event;
    CollectiveInfo info;
    int64_t tensors = 1;
    int64_t first_end_ns = 0;  ///< Of its tensors'.
  };

  void add(const Transfer& transfer);

  TraceSpool& spool_;
  FileReport& report_;
  std::deque<Transfer> open_;  ///< That may have more tensors.
};

}  // namespace reprise
