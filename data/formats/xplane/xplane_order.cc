#include "data/formats/xplane/xplane_order.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "data/formats/xplane/xplane_operations.h"

namespace reprise {
namespace {

/// What waits for a transfer was launched among so many after it, and what it
/// waits for among so many before.
constexpr size_t kFarthest = 512;

/// "%gather.1" in "… all-gather-done((f32[4], f32[16]) %gather.1)", without the
/// sign; the last operand.
std::string_view last_operand(std::string_view text) {
  const size_t end = text.find("), ");
  text = text.substr(0, end);
  const size_t at = text.rfind('%');
  if (at == text.npos || at == 0) return {};
  text.remove_prefix(at + 1);
  return text.substr(0, text.find_first_of("), "));
}

}  // namespace

void XplaneOrder::add_kernel(XplaneRow& row) {
  if (row.event.correlation < 0 || !row.stats.has(XplaneStat::kHloOp)) return;
  const XplanePlace* place =
      modules_.place_of(row.stats.text(XplaneStat::kHloModule),
                        row.stats.number(XplaneStat::kProgram, -1),
                        row.stats.text(XplaneStat::kHloOp));
  if (place == nullptr) return;
  row.event.external_id = ids_++;
  kernels_.push_back({.correlation = row.event.correlation,
                      .id = row.event.external_id,
                      .stream = row.event.stream,
                      .transfers = row.event.kind == EventKind::kCollective,
                      .place = *place});
}

void XplaneOrder::add_operation(XplaneRow& row, bool beside) {
  row.event.external_id = ids_++;
  const std::string_view opcode = xplane_opcode(row);
  const bool waits = opcode.ends_with("-done");
  operations_.push_back(
      {.at_ns = waits ? row.event.end_ns : row.event.start_ns,
       .id = row.event.external_id,
       .beside = beside,
       .opcode = opcode,
       .name = row.name,
       .awaited = waits ? last_operand(row.text) : std::string_view()});
}

void XplaneOrder::finish(uint32_t rank, TraceSpool& spool) {
  finish_kernels(rank, spool);
  finish_operations(rank, spool);
  kernels_.clear();
  operations_.clear();
}

/// All of one launch are a CUDA graph's, which has an order of its own.
void XplaneOrder::finish_kernels(uint32_t rank, TraceSpool& spool) {
  std::sort(
      kernels_.begin(), kernels_.end(), [](const Kernel& a, const Kernel& b) {
        return std::tie(a.correlation, a.id) < std::tie(b.correlation, b.id);
      });
  const auto shares_launch = [&](size_t at) {
    const int64_t own = kernels_[at].correlation;
    return (at > 0 && kernels_[at - 1].correlation == own) ||
           (at + 1 < kernels_.size() && kernels_[at + 1].correlation == own);
  };
  for (size_t at = 0; at < kernels_.size(); ++at) {
    const Kernel& transfer = kernels_[at];
    if (!transfer.transfers || transfer.place.awaited < 0 || shares_launch(at))
      continue;
    const auto computes = [&](const Kernel& one) {
      return !one.transfers && one.stream != transfer.stream;
    };
    const size_t first = at - std::min(at, kFarthest);
    for (size_t before = at; before-- > first;) {
      if (!computes(kernels_[before])) continue;
      spool.add_dependency({rank, kernels_[before].id, transfer.id});
      break;
    }
    const size_t last = std::min(kernels_.size(), at + kFarthest);
    for (size_t next = at + 1; next < last; ++next) {
      const Kernel& one = kernels_[next];
      if (!computes(one) || !one.place.awaits(transfer.place)) continue;
      spool.add_dependency({rank, transfer.id, one.id});
      break;
    }
  }
}

void XplaneOrder::finish_operations(uint32_t rank, TraceSpool& spool) {
  // What starts an operation stands before it.
  std::sort(operations_.begin(), operations_.end(),
            [](const Operation& a, const Operation& b) {
              return std::tie(a.at_ns, a.beside, a.id) <
                     std::tie(b.at_ns, b.beside, b.id);
            });
  std::map<std::string_view, int64_t> started, running;
  std::vector<int64_t> awaited;
  for (const Operation& one : operations_) {
    if (one.beside) {
      const auto start = started.find(one.name);
      if (start != started.end())
        spool.add_dependency({rank, start->second, one.id});
      running[one.name] = one.id;
    } else if (one.opcode.ends_with("-done")) {
      const auto found = running.find(one.awaited);
      if (found != running.end()) awaited.push_back(found->second);
    } else {
      if (one.opcode.ends_with("-start")) started[one.name] = one.id;
      for (const int64_t before : awaited)
        spool.add_dependency({rank, before, one.id});
      awaited.clear();
    }
  }
}

}  // namespace reprise
