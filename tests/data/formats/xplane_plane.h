// XLA profiles for tests, written field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/proto_writer.h"

namespace reprise {

/// An XPlane whose events' names and statistics' names count from 1.
class Plane {
 public:
  explicit Plane(std::string_view name) { proto_.bytes(2, name); }

  uint64_t event(std::string_view name, std::string_view display = {}) {
    ProtoWriter metadata;
    ++events_;
    metadata.varint(1, events_).bytes(2, name);
    if (!display.empty()) metadata.bytes(4, display);
    proto_.message(4, ProtoWriter().varint(1, events_).message(2, metadata));
    return events_;
  }
  uint64_t stat(std::string_view name) {
    ++stats_;
    const ProtoWriter metadata = ProtoWriter().varint(1, stats_).bytes(2, name);
    proto_.message(5, ProtoWriter().varint(1, stats_).message(2, metadata));
    return stats_;
  }
  void line(std::string_view name, uint64_t timestamp_ns,
            const std::vector<ProtoWriter>& events, uint64_t id = 1) {
    ProtoWriter writer;
    writer.varint(1, id).bytes(2, name).varint(3, timestamp_ns);
    for (const ProtoWriter& one : events) writer.message(4, one);
    proto_.message(3, writer);
  }
  const ProtoWriter& proto() const { return proto_; }

 private:
  ProtoWriter proto_;
  uint64_t events_ = 0, stats_ = 0;
};

inline ProtoWriter event(uint64_t metadata, uint64_t offset_ps,
                         uint64_t duration_ps) {
  return ProtoWriter()
      .varint(1, metadata)
      .varint(2, offset_ps)
      .varint(3, duration_ps);
}

inline ProtoWriter number(uint64_t stat, uint64_t value) {
  return ProtoWriter().varint(1, stat).varint(4, value);
}

inline ProtoWriter reference(uint64_t stat, uint64_t to) {
  return ProtoWriter().varint(1, stat).varint(7, to);
}

inline std::string space(const std::vector<Plane>& planes) {
  ProtoWriter writer;
  for (const Plane& plane : planes) writer.message(1, plane.proto());
  return writer.bytes(4, "host0").text();
}

}  // namespace reprise
