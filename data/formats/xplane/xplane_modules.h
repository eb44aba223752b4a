// The programs in an XLA profile: HLO protos on the plane /host:metadata, kept
// as text, and what they say of collectives that device events only name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/reader.h"
#include "data/formats/xplane/xplane_proto.h"
#include "data/hlo/module.h"
#include "data/trace/trace_spool.h"

namespace reprise {

struct XplaneCollective {
  CollectiveInfo info;
  int64_t bytes = 0;  ///< Of its operands.
};

class XplaneModules {
 public:
  /// Adds every module of the plane to the spool, by the plane's name of it:
  /// "jit_train_step(15)", the module's name and program id. Counts those that
  /// cannot be read.
  void read(const Xplane& plane, TraceSpool& spool, FileReport& report);
  size_t count() const { return count_; }

  /// What the program says of an instruction; null if it is no collective or
  /// not known. A module without a name is found by its program's number.
  const XplaneCollective* find(std::string_view module, int64_t program,
                               std::string_view instruction) const;

 private:
  void note_collectives(const std::string& name, const Module& module,
                        const std::vector<int64_t>& devices);

  /// "jit_train_step(15)" -> instruction -> collective.
  std::map<std::string, std::map<std::string, XplaneCollective, std::less<>>,
           std::less<>>
      collectives_;
  size_t count_ = 0;
};

/// The collective that an HLO instruction of this name is ("all-reduce-start.1"
/// -> all-reduce); kUnknown for a permutation, whose messages are several; none
/// if the name is no collective's.
std::optional<CollectiveKind> collective_of_hlo_name(std::string_view name);

}  // namespace reprise
