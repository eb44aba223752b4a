// Messages of XLA's profiles (tsl/profiler/protobuf/xplane.proto), decoded in
// place: strings are views of the file's bytes.
//
// XSpace: planes (one a device, host or kind of metadata) of lines (streams,
// threads) of events, which name their metadata by id.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/io/protobuf.h"

namespace reprise {

/// Statistics of events that mean something here.
enum class XplaneStat : uint8_t {
  kOther,
  kCorrelation,    ///< "correlation_id"
  kHloOp,          ///< "hlo_op"
  kHloModule,      ///< "hlo_module"
  kProgram,        ///< "program_id"
  kOpName,         ///< "name": the framework's path of the op.
  kCopyDetails,    ///< "memcpy_details"
  kSetDetails,     ///< "memset_details"
  kKernelDetails,  ///< "kernel_details"
  kBytesAccessed,  ///< "bytes_accessed"
  kStepNumber,     ///< "step_num"
  kProfileStart,   ///< "profile_start_time"
  kVendor,         ///< "device_vendor"
  kDeviceType,     ///< "device_type_string"
  kDeviceOrdinal,  ///< "device_ordinal": of a CPU device's work.
  kProducer,       ///< "_p": of what another event follows from.
  kConsumer,       ///< "_c": the producer that the event follows from.
};
constexpr size_t kXplaneStats = static_cast<size_t>(XplaneStat::kConsumer) + 1;

struct XplaneStatValue {
  XplaneStat stat = XplaneStat::kOther;
  int64_t number = 0;
  std::string_view text;  ///< Of a string, bytes or a reference to a name.
};

struct XplaneEventMetadata {
  std::string_view name, display_name;
  std::string_view metadata;            ///< An HloProto, in old files.
  std::vector<std::string_view> stats;  ///< XStat each.
};

/// A plane without its lines' events. What a sound profile never has so many
/// of (2^20 lines, 2^22 names) counts as damage.
struct Xplane {
  std::string_view name;
  std::vector<std::string_view> lines;  ///< XLine each.
  std::unordered_map<int64_t, XplaneEventMetadata> events;
  std::unordered_map<int64_t, std::string_view> stat_names;
  std::unordered_map<int64_t, XplaneStat> known_stats;
  std::vector<std::string_view> stats;  ///< XStat each.
  bool damaged = false;                 ///< Not all of it could be read.

  const XplaneEventMetadata* find(int64_t id) const;
  /// Decodes an XStat of this plane.
  XplaneStatValue stat(std::string_view bytes) const;
};

struct XplaneLine {
  int64_t id = 0;
  std::string_view name;  ///< For people.
  int64_t timestamp_ns = 0;
  std::string_view bytes;  ///< For XplaneEvents.
  int64_t events = 0;
  bool damaged = false;
};

/// Walks the XEvents of a line, which are not kept: there are millions.
class XplaneEvents {
 public:
  explicit XplaneEvents(const XplaneLine& line) : cursor_(line.bytes) {}
  /// The next one's bytes; false at the end.
  bool next(std::string_view& event);

 private:
  ProtoCursor cursor_;
};

struct XplaneEvent {
  int64_t metadata = 0;
  int64_t offset_ps = 0, duration_ps = 0;
  bool counted = false;  ///< It has a number of occurrences and no time.
  std::vector<std::string_view> stats;
  bool damaged = false;
};

/// The first XPlane's name, of a file of which only the start may be there;
/// empty if it does not start like an XSpace.
std::string_view first_xplane_name(std::string_view head);
/// A plane's name, decoding nothing else.
std::string_view xplane_name(std::string_view plane);

Xplane decode_xplane(std::string_view bytes);
XplaneLine decode_xplane_line(std::string_view bytes);
bool xplane_has_events(std::string_view plane);
/// Into `event`, whose memory is used again.
void decode_xplane_event(std::string_view bytes, XplaneEvent& event);

}  // namespace reprise
