// The computing units of a schedule, bound to their memory: a step's, or those
// of a loop's body inside a unit of it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/dot.h"
#include "runtime/cpu/kernel_code.h"
#include "runtime/cpu/routine.h"
#include "runtime/cpu/routine_scratch.h"
#include "runtime/cpu/shared_work.h"

namespace reprise {

/// What units are bound to. All of it must outlive the calls.
struct UnitContext {
  const Module& module;  ///< Inlined.
  const Schedule& schedule;
  std::vector<KernelCode> kernels;  ///< Of Schedule::kernels, in order.
  /// [buffer] Its first byte.
  std::vector<std::byte*> buffers;
  RoutineScratch* scratch = nullptr;  ///< Of the unit bound next.
  SharedWork team = {};
  int64_t rank = 0;
  /// Needed where something communicates; `entries` only in called programs.
  CalledCollectives* collectives = nullptr;
  const ProgramEntries* entries = nullptr;

  std::span<std::byte> bytes_of(const Location& location) const {
    return {buffers[index_of(location.buffer)] + location.offset_bytes,
            static_cast<size_t>(location.size_bytes)};
  }
};

class UnitCalls {
 public:
  UnitCalls();
  ~UnitCalls();
  UnitCalls(UnitCalls&&) noexcept;
  UnitCalls& operator=(UnitCalls&&) noexcept;

  /// Binds one unit after those bound before. Errors: kUnsupported when it
  /// cannot run.
  Status bind(const UnitContext& context, const Unit& unit);
  size_t size() const;
  /// Runs the unit bound as number `place`; false when a library or a called
  /// collective failed, which no later call repairs.
  bool run(size_t place);
  /// All units, in order, up to one that fails.
  bool run_all();

 private:
  struct Call;
  Result<Call> make_call(const UnitContext& context, const Unit& unit);
  std::vector<size_t> share_kernel(const SharedWork& team, double estimate_ns,
                                   Call* call) const;
  Status share(const UnitContext& context, const Unit& unit, Call* call);
  bool run(Call& call);
  bool run_part(const Call& call, size_t part) const;
  bool run_whole(const Call& call) const;
  bool run_shared(Call& call);

  DotLibrary dots_;
  std::vector<Call> calls_;
  std::vector<void*> arguments_;  ///< Of all kernels.
};

}  // namespace reprise
