#include "data/formats/xplane/xplane_proto.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace reprise {
namespace {

constexpr std::pair<std::string_view, XplaneStat> kStats[] = {
    {"correlation_id", XplaneStat::kCorrelation},
    {"hlo_op", XplaneStat::kHloOp},
    {"hlo_module", XplaneStat::kHloModule},
    {"program_id", XplaneStat::kProgram},
    {"name", XplaneStat::kOpName},
    {"memcpy_details", XplaneStat::kCopyDetails},
    {"memset_details", XplaneStat::kSetDetails},
    {"kernel_details", XplaneStat::kKernelDetails},
    {"bytes_accessed", XplaneStat::kBytesAccessed},
    {"step_num", XplaneStat::kStepNumber},
    {"profile_start_time", XplaneStat::kProfileStart},
    {"device_vendor", XplaneStat::kVendor},
    {"device_type_string", XplaneStat::kDeviceType},
    {"device_ordinal", XplaneStat::kDeviceOrdinal},
    {"_p", XplaneStat::kProducer},
    {"_c", XplaneStat::kConsumer},
};

constexpr size_t kMostLines = 1 << 20;
constexpr size_t kMostNames = 1 << 22;

/// A map's entry: its key and the message that it holds.
struct Entry {
  int64_t key = 0;
  std::string_view value;
};

Entry entry_of(std::string_view bytes) {
  Entry entry;
  ProtoCursor cursor(bytes);
  while (const ProtoField* field = cursor.next()) {
    if (field->number == 1) entry.key = field->as_int64();
    if (field->number == 2) entry.value = field->bytes;
  }
  return entry;
}

XplaneEventMetadata event_metadata(std::string_view bytes) {
  XplaneEventMetadata metadata;
  ProtoCursor cursor(bytes);
  while (const ProtoField* field = cursor.next()) {
    switch (field->number) {
      case 2:
        metadata.name = field->bytes;
        break;
      case 3:
        metadata.metadata = field->bytes;
        break;
      case 4:
        metadata.display_name = field->bytes;
        break;
      case 5:
        metadata.stats.push_back(field->bytes);
        break;
      default:
        break;
    }
  }
  return metadata;
}

std::string_view stat_name(std::string_view bytes) {
  std::string_view name;
  ProtoCursor cursor(bytes);
  while (const ProtoField* field = cursor.next()) {
    if (field->number == 2) name = field->bytes;
  }
  return name;
}

void add_stat_name(Xplane& plane, std::string_view bytes) {
  const Entry entry = entry_of(bytes);
  const std::string_view name = stat_name(entry.value);
  plane.stat_names[entry.key] = name;
  for (const auto& [word, stat] : kStats) {
    if (word == name) plane.known_stats[entry.key] = stat;
  }
}

}  // namespace

const XplaneEventMetadata* Xplane::find(int64_t id) const {
  const auto found = events.find(id);
  return found == events.end() ? nullptr : &found->second;
}

XplaneStatValue Xplane::stat(std::string_view bytes) const {
  XplaneStatValue value;
  ProtoCursor cursor(bytes);
  while (const ProtoField* field = cursor.next()) {
    switch (field->number) {
      case 1: {
        const auto known = known_stats.find(field->as_int64());
        if (known != known_stats.end()) value.stat = known->second;
        break;
      }
      case 3:
      case 4:
        value.number = field->as_int64();
        break;
      case 5:
      case 6:
        value.text = field->bytes;
        break;
      case 7: {
        const auto found = stat_names.find(field->as_int64());
        if (found != stat_names.end()) value.text = found->second;
        break;
      }
      default:
        break;
    }
  }
  return value;
}

std::string_view xplane_name(std::string_view plane) {
  ProtoCursor cursor(plane);
  while (const ProtoField* field = cursor.next()) {
    if (field->number == 2) return field->bytes;
  }
  return {};
}

std::string_view first_xplane_name(std::string_view head) {
  constexpr uint64_t kPlane = 1 << 3 | 2;
  size_t at = 0;
  if (read_varint(head, at) != std::optional(kPlane)) return {};
  const auto size = read_varint(head, at);
  return size ? xplane_name(head.substr(at, *size)) : std::string_view();
}

Xplane decode_xplane(std::string_view bytes) {
  Xplane plane;
  ProtoCursor cursor(bytes);
  const auto full = [&] {
    return plane.lines.size() >= kMostLines ||
           plane.stats.size() >= kMostLines ||
           plane.events.size() >= kMostNames ||
           plane.stat_names.size() >= kMostNames;
  };
  while (const ProtoField* field = full() ? nullptr : cursor.next()) {
    switch (field->number) {
      case 2:
        plane.name = field->bytes;
        break;
      case 3:
        plane.lines.push_back(field->bytes);
        break;
      case 4: {
        const Entry entry = entry_of(field->bytes);
        plane.events[entry.key] = event_metadata(entry.value);
        break;
      }
      case 5:
        add_stat_name(plane, field->bytes);
        break;
      case 6:
        plane.stats.push_back(field->bytes);
        break;
      default:
        break;
    }
  }
  plane.damaged = cursor.damaged() || full();
  return plane;
}

XplaneLine decode_xplane_line(std::string_view bytes) {
  XplaneLine line;
  std::string_view display_name;
  ProtoCursor cursor(bytes);
  while (const ProtoField* field = cursor.next()) {
    switch (field->number) {
      case 1:
        line.id = field->as_int64();
        break;
      case 2:
        line.name = field->bytes;
        break;
      case 3:
        line.timestamp_ns = field->as_int64();
        break;
      case 4:
        ++line.events;
        break;
      case 11:
        display_name = field->bytes;
        break;
      default:
        break;
    }
  }
  if (!display_name.empty()) line.name = display_name;
  line.bytes = bytes;
  line.damaged = cursor.damaged();
  return line;
}

bool XplaneEvents::next(std::string_view& event) {
  while (const ProtoField* field = cursor_.next()) {
    if (field->number != 4) continue;
    event = field->bytes;
    return true;
  }
  return false;
}

bool xplane_has_events(std::string_view bytes) {
  const Xplane plane = decode_xplane(bytes);
  return std::any_of(plane.lines.begin(), plane.lines.end(),
                     [](std::string_view line) {
                       return decode_xplane_line(line).events > 0;
                     });
}

void decode_xplane_event(std::string_view bytes, XplaneEvent& event) {
  event.metadata = event.offset_ps = event.duration_ps = 0;
  event.counted = false;
  event.stats.clear();
  ProtoCursor cursor(bytes);
  while (const ProtoField* field = cursor.next()) {
    switch (field->number) {
      case 1:
        event.metadata = field->as_int64();
        break;
      case 2:
        event.offset_ps = field->as_int64();
        break;
      case 3:
        event.duration_ps = field->as_int64();
        break;
      case 4:
        event.stats.push_back(field->bytes);
        break;
      case 5:
        event.counted = true;
        break;
      default:
        break;
    }
  }
  event.damaged = cursor.damaged();
}

}  // namespace reprise
