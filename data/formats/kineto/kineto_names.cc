// A hash table of the names as they stand in the file, so that unescaping,
// interning and the questions "is it a collective, a step, an operator whose
// arguments count" are paid once a name, not once an event: a trace of a
// million events has some thousand names. When a file of garbage fills it, it
// starts anew.
#include "data/formats/kineto/kineto_names.h"

#include <charconv>
#include <cstring>

#include "data/collective/collective_names.h"
#include "data/formats/kineto/kineto_details.h"
#include "data/formats/nvtx_ranges.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Names known by their text; beyond it the table starts anew.
constexpr size_t kMostKnownBytes = size_t{64} << 20;
constexpr size_t kFirstSlots = 4096;
/// A longer name is cut.
constexpr size_t kLongestName = 16384;

struct CategoryName {
  std::string_view name;
  KinetoCategory category;
};

// The frequent ones first. Capitals: torch 1.8 to 1.11.
constexpr CategoryName kCategories[] = {
    {"cpu_op", KinetoCategory::kHostOp},
    {"kernel", KinetoCategory::kKernel},
    {"cuda_runtime", KinetoCategory::kRuntime},
    {"python_function", KinetoCategory::kPythonFunction},
    {"Operator", KinetoCategory::kHostOp},
    {"Kernel", KinetoCategory::kKernel},
    {"Runtime", KinetoCategory::kRuntime},
    {"gpu_memcpy", KinetoCategory::kCopy},
    {"gpu_memset", KinetoCategory::kMemset},
    {"user_annotation", KinetoCategory::kAnnotation},
    {"cuda_driver", KinetoCategory::kRuntime},
    {"cuda_sync", KinetoCategory::kSynchronization},
    {"gpu_user_annotation", KinetoCategory::kDeviceAnnotation},
    {"overhead", KinetoCategory::kOverhead},
    {"Memcpy", KinetoCategory::kCopy},
    {"Memset", KinetoCategory::kMemset},
    {"memcpy", KinetoCategory::kCopy},
    {"memset", KinetoCategory::kMemset},
    {"Trace", KinetoCategory::kProfilerSpan},
    {"xpu_runtime", KinetoCategory::kRuntime},
    {"xpu_driver", KinetoCategory::kRuntime},
    {"glow_runtime", KinetoCategory::kRuntime},
    {"privateuse1_runtime", KinetoCategory::kRuntime},
    {"privateuse1_driver", KinetoCategory::kRuntime},
    {"cuda_event", KinetoCategory::kRepeated},
    {"xpu_sync", KinetoCategory::kRepeated},
    {"mtia_runtime", KinetoCategory::kMtia},
    {"mtia_ccp_events", KinetoCategory::kMtia},
    {"mtia_insight", KinetoCategory::kMtia},
    {"mtia_workloadd", KinetoCategory::kMtia},
};

uint64_t word_at(const char* place) {
  uint64_t word = 0;
  std::memcpy(&word, place, sizeof word);
  return word;
}

/// Sixteen bytes at a time; the last ones may be taken twice.
uint64_t hash_of(std::string_view text) {
  __extension__ using Product = unsigned __int128;
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
  constexpr size_t kWord = sizeof(uint64_t);
  uint64_t hash = text.size() * kOdd;
  const auto mix = [&](uint64_t low, uint64_t high) {
    const Product product = Product{hash ^ low} * (kOdd ^ high);
    hash =
        static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const char* const end = text.data() + text.size();
  for (; text.size() > 2 * kWord; text.remove_prefix(2 * kWord)) {
    mix(word_at(text.data()), word_at(text.data() + kWord));
  }
  if (text.size() >= kWord) {
    mix(word_at(text.data()), word_at(end - kWord));
  } else {
    uint64_t word = 0;
    if (!text.empty()) std::memcpy(&word, text.data(), text.size());
    mix(word, 0);
  }
  return hash;
}

/// What oneCCL's collectives compute beside the transfer, on a rank's own data.
bool is_local(std::string_view name) {
  return name.starts_with("oneccl_reduce_average") ||
         name.starts_with("oneccl_pre_operation");
}

/// Kernels of NCCL, RCCL and oneCCL, and of HCCL, MCCL and XCCL, which name
/// theirs alike.
bool starts_with_ccl(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  if (name.starts_with("oneccl")) return !is_local(name);
  if (name.size() < 4) return false;
  const auto lower = [](char c) { return static_cast<char>(c | 0x20); };
  constexpr std::string_view kFirst = "nrhmx";
  return kFirst.find(lower(name[0])) != kFirst.npos && lower(name[1]) == 'c' &&
         lower(name[2]) == 'c' && lower(name[3]) == 'l';
}

int32_t step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "ProfilerStep#";
  if (!name.starts_with(kPrefix)) return -1;
  const char* const end = name.data() + name.size();
  int32_t step = -1;
  const auto [last, error] =
      std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && last == end && step >= 0 ? step : -1;
}

}  // namespace

KinetoCategory kineto_category(std::string_view category) {
  if (category.size() < 2) return KinetoCategory::kNone;
  const std::string_view name = category.substr(1, category.size() - 2);
  for (const CategoryName& one : kCategories) {
    if (one.name == name) return one.category;
  }
  return KinetoCategory::kNone;
}

KinetoCategory autograd_category(std::string_view process) {
  if (process == "\"CPU functions\"") return KinetoCategory::kHostOp;
  if (process == "\"CUDA functions\"") return KinetoCategory::kKernel;
  return KinetoCategory::kNone;
}

KinetoNames::KinetoNames(TraceSpool& spool)
    : spool_(spool), slots_(kFirstSlots) {}

KinetoName KinetoNames::look_at(std::string_view raw) {
  std::string text = json_unescaped(raw);
  if (text.size() > kLongestName) {
    size_t cut = kLongestName;  // Not within a character.
    while (cut > 0 && (text[cut] & 0xC0) == 0x80) --cut;
    text.resize(cut);
  }
  const std::string_view view = text;
  KinetoName name;
  name.id = spool_.intern(text);
  name.communicates = starts_with_ccl(view);
  name.host_collective = view.starts_with("gloo:") || view.starts_with("mpi:");
  name.describes_collective = name.host_collective ||
                              view == "record_param_comms" ||
                              view.starts_with("nccl:");
  name.keeps_arguments = name.describes_collective ||
                         view.starts_with("c10d::") ||
                         view.starts_with("torch::autograd") ||
                         view.starts_with("fsdp::chunk_cat") ||
                         view.find("AccumulateGrad") != view.npos;
  name.hip = view.starts_with("hip");
  name.step = step_of(view);
  name.may_be_step = name.step < 0 && step_range(view).has_value();
  if (name.communicates || name.describes_collective) {
    name.kind = collective_named(view);
  }
  return name;
}

void KinetoNames::grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (size_t i = 0; i < known_.size(); ++i) {
    size_t slot = known_[i].hash & (slots_.size() - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

const KinetoName& KinetoNames::of_kernel(std::string_view raw,
                                         std::string_view arguments) {
  Known& one = known(raw);
  if (!one.is_kernel) {
    one.is_kernel = true;
    const std::string_view name = spool_.text(one.name.id);
    one.name.communicates |= !is_local(name) && tell_collective(arguments);
    if (!one.name.communicates) {
      const auto kind = kind_of_peer_memory_kernel(name);
      one.name.communicates = kind.has_value();
      one.name.kind = kind.value_or(CollectiveKind::kUnknown);
    }
  }
  return one.name;
}

KinetoNames::Known& KinetoNames::known(std::string_view raw) {
  const uint64_t hash = hash_of(raw);
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot] != 0) {
    Known& one = known_[slots_[slot] - 1];
    if (one.hash == hash && one.raw == raw) return one;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  if (known_bytes_ > kMostKnownBytes) {
    known_.clear();
    known_bytes_ = 0;
    slots_.assign(kFirstSlots, 0);
    slot = hash & (slots_.size() - 1);
  }
  known_bytes_ += raw.size() + sizeof(Known);
  known_.push_back(
      {.hash = hash, .raw = std::string(raw), .name = look_at(raw)});
  slots_[slot] = static_cast<uint32_t>(known_.size());
  if (known_.size() * 2 > slots_.size()) grow();
  return known_.back();
}

}  // namespace reprise
