// NVTX hands over a table of function pointers for each library that brings its
// headers along; ours are written into it. Push and pop belong to a thread,
// start and end to an id that another thread may end. A domain and a registered
// string are never freed, because ranges name them for as long as the process
// lives. Source: NVTX 3, nvToolsExt.h and nvtxDetail/nvtxTypes.h.
#include "profiler/inject/nvtx_callbacks.h"

#include <memory>
#include <string>
#include <string_view>

#include "data/io/json_text.h"
#include "profiler/inject/injection.h"
#include "profiler/inject/range_table.h"
#include "profiler/inject/thread_context.h"

namespace reprise::nvtx {
namespace {

using inject::OpenRange;

/// Behind nvtxDomainHandle_t; the default domain's handle is null. Texts, not
/// ids: a forked child's shard has its own ids. Neither is ever freed.
struct Domain {
  std::string info;  ///< JSON.
};
/// Behind nvtxStringHandle_t.
struct RegisteredString {
  std::string text;
};

/// ProcessRecord::flags of a start/end range, which need not nest.
constexpr uint16_t kStartEndRange = 1;

constinit RangeTable started_ranges;

/// wchar_t is UTF-32 here.
std::string utf8(const wchar_t* text) {
  std::string bytes;
  const auto add = [&](uint32_t byte) { bytes += static_cast<char>(byte); };
  for (; text != nullptr && *text != 0; ++text) {
    const uint32_t point{static_cast<char32_t>(*text)};
    if (point < 0x80) {
      add(point);
    } else if (point < 0x800) {
      add(0xc0 | point >> 6);
      add(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
      add(0xe0 | point >> 12);
      add(0x80 | (point >> 6 & 0x3f));
      add(0x80 | (point & 0x3f));
    } else {
      add(0xf0 | (point >> 18 & 0x07));
      add(0x80 | (point >> 12 & 0x3f));
      add(0x80 | (point >> 6 & 0x3f));
      add(0x80 | (point & 0x3f));
    }
  }
  return bytes;
}

std::string_view ascii(const char* text) {
  return text == nullptr ? std::string_view() : text;
}

/// A message's text, in `room` where it has to be made.
std::string_view message(const EventAttributes* event, std::string* room) {
  // The smallest version ends with the message.
  if (event == nullptr || event->size < sizeof(EventAttributes) ||
      event->message == nullptr) {
    return {};
  }
  switch (event->message_type) {
    case kAsciiMessage:
      return static_cast<const char*>(event->message);
    case kUnicodeMessage:
      return *room = utf8(static_cast<const wchar_t*>(event->message));
    case kRegisteredMessage:
      return static_cast<const RegisteredString*>(event->message)->text;
    default:
      return {};
  }
}

uint32_t info_of(const void* domain, ProcessRecorder& recorder) {
  return domain == nullptr
             ? 0
             : recorder.string_id(static_cast<const Domain*>(domain)->info);
}

ProcessRecord host_record(RecordKind kind, int64_t start_ns) {
  ProcessRecord record;
  record.kind = kind;
  record.start_ns = start_ns;
  record.end_ns = ProcessRecorder::now_ns();
  record.stream = ProcessRecorder::thread_id();
  return record;
}

int push(const void* domain, std::string_view name) {
  ProcessRecorder* recorder = inject::recorder();
  if (recorder == nullptr) return -1;
  auto& ranges = inject::this_thread().ranges;
  const auto level = static_cast<int>(ranges.depth());
  const int64_t step = inject::begin_range(name);
  OpenRange range{.step = step,
                  .domain = domain,
                  .name = recorder->string_id(name),
                  .info = info_of(domain, *recorder)};
  range.start_ns = ProcessRecorder::now_ns();
  if (!ranges.push(range)) recorder->count_lost("nvtx nested too deep", 1);
  return level;
}

int pop(const void* domain) {
  const int64_t now_ns = ProcessRecorder::now_ns();
  ProcessRecorder* recorder = inject::recorder();
  if (recorder == nullptr) return -1;
  auto& ranges = inject::this_thread().ranges;
  OpenRange range;
  const auto is_of_domain = [&](const OpenRange& open) {
    return open.domain == domain;
  };
  if (!ranges.pop(is_of_domain, &range)) return -1;
  if (inject::is_window_open()) {
    ProcessRecord record = host_record(RecordKind::kRange, range.start_ns);
    record.end_ns = now_ns;
    record.name = range.name;
    record.info = range.info;
    recorder->record(record);
  }
  inject::end_range(range.step);
  return static_cast<int>(ranges.depth());
}

uint64_t start(const void* domain, std::string_view name) {
  ProcessRecorder* recorder = inject::recorder();
  if (recorder == nullptr) return 0;
  const int64_t step = inject::begin_range(name);
  bool is_kept = false;
  const uint64_t id =
      started_ranges.start({.recorder = recorder,
                            .start_ns = ProcessRecorder::now_ns(),
                            .thread = ProcessRecorder::thread_id(),
                            .step = step,
                            .name = recorder->string_id(name),
                            .info = info_of(domain, *recorder)},
                           &is_kept);
  if (!is_kept) recorder->count_lost("nvtx too many ranges", 1);
  return id;
}

void end(uint64_t id) {
  ProcessRecorder* recorder = inject::recorder();
  StartedRange range;
  if (recorder == nullptr || !started_ranges.end(id, &range) ||
      range.recorder != recorder) {
    return;
  }
  if (inject::is_window_open()) {
    ProcessRecord record = host_record(RecordKind::kRange, range.start_ns);
    record.stream = range.thread;
    record.name = range.name;
    record.info = range.info;
    record.flags = kStartEndRange;
    recorder->record(record);
  }
  inject::end_range(range.step);
}

void mark(const void* domain, std::string_view name) {
  ProcessRecorder* recorder = inject::recorder();
  if (recorder == nullptr || !inject::is_window_open()) return;
  ProcessRecord record = host_record(RecordKind::kMark, 0);
  record.start_ns = record.end_ns;
  record.name = recorder->string_id(name);
  record.info = info_of(domain, *recorder);
  recorder->record(record);
}

void name_thread(uint32_t thread, std::string_view name) {
  ProcessRecorder* recorder = inject::recorder();
  if (recorder == nullptr) return;
  recorder->note("thread " + std::to_string(thread), name);
}

const void* create_domain(std::string_view name) {
  std::string info;
  info.append(R"({"domain":)").append(json_quoted(name)).append("}");
  return std::make_unique<Domain>(Domain{std::move(info)}).release();
}

const void* register_string(std::string_view text) {
  return std::make_unique<RegisteredString>(RegisteredString{std::string(text)})
      .release();
}

/// Runs `action` where nothing may be thrown: in a call from C.
template <typename Action>
auto guarded(const Action& action) -> decltype(action()) {
  try {
    return action();
  } catch (...) {
    return decltype(action())();
  }
}

// What NVTX calls, with its own signatures (nvtxDetail/nvtxTypes.h).
extern "C" {
void mark_a(const char* text) {
  guarded([&] { mark(nullptr, ascii(text)); });
}
void mark_w(const wchar_t* text) {
  guarded([&] { mark(nullptr, utf8(text)); });
}
void mark_ex(const EventAttributes* event) {
  std::string room;
  guarded([&] { mark(nullptr, message(event, &room)); });
}
uint64_t start_a(const char* text) {
  return guarded([&] { return start(nullptr, ascii(text)); });
}
uint64_t start_w(const wchar_t* text) {
  return guarded([&] { return start(nullptr, utf8(text)); });
}
uint64_t start_ex(const EventAttributes* event) {
  std::string room;
  return guarded([&] { return start(nullptr, message(event, &room)); });
}
void end_range(uint64_t id) {
  guarded([&] { end(id); });
}
int push_a(const char* text) {
  return guarded([&] { return push(nullptr, ascii(text)); });
}
int push_w(const wchar_t* text) {
  return guarded([&] { return push(nullptr, utf8(text)); });
}
int push_ex(const EventAttributes* event) {
  std::string room;
  return guarded([&] { return push(nullptr, message(event, &room)); });
}
int pop_any() {
  return guarded([] { return pop(nullptr); });
}
void name_thread_a(uint32_t thread, const char* name) {
  guarded([&] { name_thread(thread, ascii(name)); });
}
void name_thread_w(uint32_t thread, const wchar_t* name) {
  guarded([&] { name_thread(thread, utf8(name)); });
}
void domain_mark(const void* domain, const EventAttributes* event) {
  std::string room;
  guarded([&] { mark(domain, message(event, &room)); });
}
uint64_t domain_start(const void* domain, const EventAttributes* event) {
  std::string room;
  return guarded([&] { return start(domain, message(event, &room)); });
}
void domain_end(const void*, uint64_t id) {
  guarded([&] { end(id); });
}
int domain_push(const void* domain, const EventAttributes* event) {
  std::string room;
  return guarded([&] { return push(domain, message(event, &room)); });
}
int domain_pop(const void* domain) {
  return guarded([&] { return pop(domain); });
}
const void* register_string_a(const void*, const char* text) {
  return guarded([&] { return register_string(ascii(text)); });
}
const void* register_string_w(const void*, const wchar_t* text) {
  return guarded([&] { return register_string(utf8(text)); });
}
const void* create_domain_a(const char* name) {
  return guarded([&] { return create_domain(ascii(name)); });
}
const void* create_domain_w(const wchar_t* name) {
  return guarded([&] { return create_domain(utf8(name)); });
}
}

/// One module's table of an NVTX instance; ids it does not have are left out.
struct ModuleTable {
  AnyFunction** places = nullptr;
  unsigned size = 0;

  template <typename Function>
  void set(uint32_t id, Function* function) const {
    if (id <= size && places[id] != nullptr) {
      *places[id] = reinterpret_cast<AnyFunction>(function);
    }
  }
};

void install_core(const ModuleTable& table) {
  table.set(kMarkEx, mark_ex);
  table.set(kMarkA, mark_a);
  table.set(kMarkW, mark_w);
  table.set(kRangeStartEx, start_ex);
  table.set(kRangeStartA, start_a);
  table.set(kRangeStartW, start_w);
  table.set(kRangeEnd, end_range);
  table.set(kRangePushEx, push_ex);
  table.set(kRangePushA, push_a);
  table.set(kRangePushW, push_w);
  table.set(kRangePop, pop_any);
  table.set(kNameOsThreadA, name_thread_a);
  table.set(kNameOsThreadW, name_thread_w);
}

void install_core2(const ModuleTable& table) {
  table.set(kDomainMarkEx, domain_mark);
  table.set(kDomainRangeStartEx, domain_start);
  table.set(kDomainRangeEnd, domain_end);
  table.set(kDomainRangePushEx, domain_push);
  table.set(kDomainRangePop, domain_pop);
  table.set(kDomainRegisterStringA, register_string_a);
  table.set(kDomainRegisterStringW, register_string_w);
  table.set(kDomainCreateA, create_domain_a);
  table.set(kDomainCreateW, create_domain_w);
}

}  // namespace

bool install(GetExportTable get_export_table) {
  if (get_export_table == nullptr) return false;
  const auto* callbacks =
      static_cast<const CallbacksTable*>(get_export_table(kCallbacksTable));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(CallbacksTable)) {
    return false;
  }
  ModuleTable core, core2;
  if (callbacks->get_module_table(kCoreModule, &core.places, &core.size) == 0 ||
      core.places == nullptr) {
    return false;
  }
  install_core(core);
  if (callbacks->get_module_table(kCore2Module, &core2.places, &core2.size) !=
          0 &&
      core2.places != nullptr) {
    install_core2(core2);
  }
  return true;
}

}  // namespace reprise::nvtx
