// Which work of a device waits for which transfer beside it. The program tells
// where an asynchronous operation is started and where it is awaited: what is
// issued behind that place waits for it, and it waits for what was issued
// before its start.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/formats/xplane/xplane_modules.h"
#include "data/formats/xplane/xplane_row.h"
#include "data/trace/trace_spool.h"

namespace reprise {

class XplaneOrder {
 public:
  explicit XplaneOrder(const XplaneModules& modules) : modules_(modules) {}

  /// Work on a stream, whose launches' order their correlation tells.
  void add_kernel(XplaneRow& row);
  /// A row of a device without streams. `beside`: of the line of what runs
  /// beside operations.
  void add_operation(XplaneRow& row, bool beside);
  /// Of all work since it was called last. **Cost** n log n, n being that.
  void finish(uint32_t rank, TraceSpool& spool);

 private:
  struct Kernel {
    int64_t correlation = 0, id = 0;
    uint32_t stream = 0;
    bool transfers = false;
    XplanePlace place;
  };
  struct Operation {
    /// Its start; of what waits its end: what it waits for may begin meanwhile.
    int64_t at_ns = 0;
    int64_t id = 0;
    bool beside = false;
    std::string_view opcode, name, awaited;
  };

  void finish_kernels(uint32_t rank, TraceSpool& spool);
  void finish_operations(uint32_t rank, TraceSpool& spool);

  const XplaneModules& modules_;
  std::vector<Kernel> kernels_;
  std::vector<Operation> operations_;
  int64_t ids_ = 0;  ///< External ids given so far.
};

}  // namespace reprise
