// Which rank of the job a rank of a communicator is, for records of one
// process that know communicators alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/reader.h"
#include "data/trace/trace_spool.h"

namespace reprise {

class NcclRanks {
 public:
  explicit NcclRanks(TraceSpool& spool) : spool_(spool) {}

  /// The spool's rank for a communicator's; `size` of the communicator is -1
  /// when unknown. Of a new one, `added` (optional) becomes true.
  uint32_t local(const std::string& communicator, int64_t rank, int64_t size,
                 bool* added = nullptr);

  /// Numbers the spool's ranks by the largest communicator, which may be of a
  /// part of the job: unless another input has the number too. Where only
  /// communicators of one rank are known, they stay unknown.
  void finish(FileReport& report);

 private:
  struct Communicator {
    int64_t size = -1;
    std::map<int64_t, uint32_t> locals;  ///< By rank.
  };

  const Communicator* largest() const;

  TraceSpool& spool_;
  std::map<std::string, Communicator> communicators_;
};

}  // namespace reprise
