#include "tests/profiler/inject/fake_cupti_records.h"

#include <cstdlib>
#include <cstring>

// FAKE_CUPTI_VERSION: what cuptiGetVersion says. Offsets and sizes are those
// of the headers of CUDA 13.0 (cupti_layout_test.cc compares them), written
// down apart from the library's own.
namespace reprise::fake {
namespace {

constexpr bool kIs12_8 = kCuptiVersion >= 26;
constexpr bool kIs13 = kCuptiVersion >= 130000;

/// A record with every byte that is not written at a telling value.
struct Raw {
  explicit Raw(const Activity& activity)
      : bytes(record_size(activity.kind), uint8_t{0xcd}) {
    set(0, activity.kind);
  }
  template <typename T>
  void set(size_t offset, T value) {
    if (offset + sizeof value > bytes.size()) std::abort();
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
  std::vector<uint8_t> bytes;
};

void set_kernel(const Activity& a, Raw* raw) {
  raw->set<uint16_t>(6, 32);  // Registers.
  raw->set(16, a.start);
  raw->set(24, a.end);
  raw->set(40, a.device);
  raw->set(44, a.context);
  raw->set(48, a.stream);
  const int32_t sizes[] = {a.grid, 1, 1, a.block, 1, 1, 1024, 4096};
  for (size_t i = 0; i < 8; ++i) raw->set(52 + 4 * i, sizes[i]);
  raw->set(92, a.correlation);
  raw->set(104, a.name);
  raw->set(144, a.graph_node);
}

void set_copy(const Activity& a, Raw* raw) {
  raw->set(4, static_cast<uint8_t>(a.type));
  raw->set<uint8_t>(5, a.type == kHostToDevice ? 2 : 3);  // From pinned memory
  raw->set<uint8_t>(6, a.type == kDeviceToHost ? 2 : 3);  // to the device's.
  raw->set(8, a.bytes);
  raw->set(16, a.start);
  raw->set(24, a.end);
  raw->set(32, a.device);
  raw->set(36, a.context);
  raw->set(40, a.stream);
  if (a.kind == 22) {
    raw->set<uint32_t>(44, 0);  // From device 0
    raw->set<uint32_t>(52, 1);  // to device 1.
    raw->set(60, a.correlation);
    raw->set(72, a.graph_node);
  } else {
    raw->set(44, a.correlation);
    raw->set(64, a.graph_node);
  }
}

void set_call(const Activity& a, Raw* raw) {
  raw->set(4, a.callback);
  raw->set(8, a.start);
  raw->set(16, a.end);
  raw->set(28, a.thread);
  raw->set(32, a.correlation);
}

void set_synchronization(const Activity& a, Raw* raw) {
  raw->set(4, a.type);
  raw->set(8, a.start);
  raw->set(16, a.end);
  raw->set(24, a.correlation);
  raw->set(28, a.context);
  raw->set(32, a.stream);
  raw->set(36, a.event);
  if (kIs12_8) raw->set(40, a.sync_id);
}

void set_event(const Activity& a, Raw* raw) {
  raw->set(4, a.correlation);
  raw->set(8, a.context);
  raw->set(12, a.stream);
  raw->set(16, a.event);
  if (kIs12_8) raw->set(48, a.sync_id);
}

void set_overhead(const Activity& a, Raw* raw) {
  raw->set(4, a.type);
  raw->set<uint32_t>(8, 2);  // Of a thread.
  raw->set(16, a.thread);
  raw->set(24, a.start);
  raw->set(32, a.end);
  if (kIs13) raw->set(48, std::malloc(12));  // The client's to free.
}

}  // namespace

size_t record_size(uint32_t kind) {
  switch (kind) {
    case 10:
      return kIs13 ? 216 : 208;
    case 1:
    case 22:
      return kIs12_8 ? 96 : 88;
    case 2:
      return 88;
    case 4:
    case 5:
      return 40;
    case 39:
      return 24;
    case 38:
      return kIs12_8 ? 56 : 40;
    case 36:
      return kIs12_8 ? 56 : 24;
    case 17:
      return kIs13 ? 56 : 48;
    default:
      return 0;
  }
}

std::vector<uint8_t> raw_record(const Activity& a) {
  Raw raw(a);
  switch (a.kind) {
    case 10:
      set_kernel(a, &raw);
      break;
    case 1:
    case 2:
    case 22:
      set_copy(a, &raw);
      break;
    case 4:
    case 5:
      set_call(a, &raw);
      break;
    case 38:
      set_synchronization(a, &raw);
      break;
    case 36:
      set_event(a, &raw);
      break;
    case 17:
      set_overhead(a, &raw);
      break;
    case 39:
      raw.set(4, uint32_t{a.type});
      raw.set(8, a.external);
      raw.set(16, a.correlation);
      break;
    default:
      std::abort();
  }
  return raw.bytes;
}

}  // namespace reprise::fake
