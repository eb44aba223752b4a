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
  /// Of a permutation the kind only where each of its devices both sends and
  /// receives, so that none leaves before those beside it have come.
  CollectiveInfo info;
  int64_t bytes = 0;  ///< Of its operands.
};

/// Where an instruction stands in its program's schedule.
struct XplanePlace {
  uint32_t module = 0, computation = 0, position = 0;
  int64_t awaited = -1;  ///< Of what starts something: where that must be done.

  /// Whether it comes behind the place where `start` is awaited, maybe in the
  /// next round of a loop.
  bool awaits(const XplanePlace& start) const {
    return module == start.module && computation == start.computation &&
           (position > start.awaited || position <= start.position);
  }
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
  /// Where an instruction stands; null if its program has no schedule or starts
  /// no collective in it.
  const XplanePlace* place_of(std::string_view module, int64_t program,
                              std::string_view instruction) const;

 private:
  void note_collectives(const std::string& name, const Module& module,
                        const std::vector<int64_t>& devices);

  void note_places(const std::string& name, const Module& module);

  /// "jit_train_step(15)" -> instruction -> what is said of it.
  template <typename Fact>
  using ByModule =
      std::map<std::string, std::map<std::string, Fact, std::less<>>,
               std::less<>>;
  template <typename Fact>
  static const Fact* find_in(const ByModule<Fact>& facts,
                             std::string_view module, int64_t program,
                             std::string_view instruction);

  ByModule<XplaneCollective> collectives_;
  ByModule<XplanePlace> places_;
  size_t count_ = 0;
};

/// The collective that an HLO instruction of this name is ("all-reduce-start.1"
/// -> all-reduce); kUnknown for a permutation, whose messages are several; none
/// if the name is no collective's.
std::optional<CollectiveKind> collective_of_hlo_name(std::string_view name);

}  // namespace reprise
