#include "data/formats/horovod/fused_transfers.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise {
namespace {

/// A tensor's row closes with all its transfers (a hierarchical all-reduce has
/// three), and those of its fellows right behind it.
constexpr size_t kMostOpen = 16;

/// Too much to count, or not known of one of them: not known.
void add_up(int64_t& sum, int64_t more, int64_t unknown) {
  if (sum == unknown || more == unknown ||
      __builtin_add_overflow(sum, more, &sum)) {
    sum = unknown;
  }
}

}  // namespace

void FusedTransfers::take(const Event& event, const CollectiveInfo& info) {
  const auto same =
      std::find_if(open_.begin(), open_.end(), [&](const Transfer& transfer) {
        return transfer.event.name == event.name &&
               event.start_ns < transfer.first_end_ns &&
               transfer.event.start_ns < event.end_ns;
      });
  if (same == open_.end()) {
    if (open_.size() == kMostOpen) {
      add(open_.front());
      open_.pop_front();
    }
    open_.push_back(
        {.event = event, .info = info, .first_end_ns = event.end_ns});
    return;
  }
  ++same->tensors;
  same->first_end_ns = std::min(same->first_end_ns, event.end_ns);
  Event& whole = same->event;
  whole.start_ns = std::min(whole.start_ns, event.start_ns);
  whole.enqueue_ns = whole.start_ns;
  whole.end_ns = std::max(whole.end_ns, event.end_ns);
  add_up(whole.bytes, event.bytes, 0);
  add_up(same->info.input_elements, info.input_elements, -1);
  add_up(same->info.output_elements, info.output_elements, -1);
  if (same->info.type != info.type) same->info.type = {};
  Event shown = event;
  shown.kind = EventKind::kAnnotation;
  shown.bytes = 0;
  spool_.add(shown);
}

void FusedTransfers::add(const Transfer& transfer) {
  Event event = transfer.event;
  event.detail = spool_.add_collective(transfer.info);
  if (transfer.tensors > 1) {
    event.attributes = static_cast<int32_t>(index_of(spool_.intern(
        fmt::format(R"({{"fused_tensors":{}}})", transfer.tensors))));
  }
  spool_.add(event);
  ++report_.collectives;
}

void FusedTransfers::finish() {
  for (const Transfer& transfer : open_) add(transfer);
  open_.clear();
}

}  // namespace reprise
