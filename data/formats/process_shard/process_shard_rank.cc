#include "data/formats/process_shard/process_shard_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "data/formats/spool_tables.h"

namespace reprise {
RankImport::RankImport(TraceSpool& spool, const JobRank& rank,
                       const RecordedProcess& main)
    : spool_(spool), rank_(rank), main_process_(main.identity.process) {
  local_count_ =
      static_cast<uint32_t>(std::max<size_t>(1, rank.devices.size()));
  for (uint32_t i = 0; i < local_count_; ++i) {
    RankInfo info;
    info.rank = rank.first_number + i;
    info.host = main.identity.host;
    info.process = std::max<int64_t>(0, main.identity.process);
    info.device =
        rank.devices.empty() ? "cpu" : fmt::format("cuda:{}", rank.devices[i]);
    const uint32_t local = spool.add_rank(std::move(info));
    if (i == 0) first_local_ = local;
  }
}

uint32_t RankImport::local_of_device(int32_t device) const {
  const auto found =
      std::lower_bound(rank_.devices.begin(), rank_.devices.end(), device);
  if (found == rank_.devices.end() || *found != device) return first_local_;
  return first_local_ + static_cast<uint32_t>(found - rank_.devices.begin());
}

uint32_t RankImport::host_stream(uint32_t local, const RecordedProcess& process,
                                 int64_t thread) {
  const int64_t pid = process.identity.process;
  return find_or_add(threads_, {local, pid, thread}, [&] {
    std::string name = fmt::format("thread {}", thread);
    if (pid != main_process_) {
      name += fmt::format(" ({} {})", base_name(process.identity.program), pid);
    }
    return spool_.add_stream({.rank = local,
                              .name = std::move(name),
                              .kind = StreamKind::kHostThread,
                              .process = std::max<int64_t>(0, pid),
                              .number = thread});
  });
}

uint32_t RankImport::device_stream(uint32_t local,
                                   const RecordedProcess& process,
                                   int32_t device, int64_t number) {
  const int64_t pid = process.identity.process;
  return find_or_add(streams_, {local, pid, device, number}, [&] {
    return spool_.add_stream({.rank = local,
                              .name = fmt::format("stream {}", number),
                              .kind = StreamKind::kDeviceStream,
                              .process = std::max<int64_t>(0, pid),
                              .device = device,
                              .number = number});
  });
}

uint32_t RankImport::range_stream(uint32_t local,
                                  const RecordedProcess& process) {
  const int64_t pid = process.identity.process;
  return find_or_add(ranges_, {local, pid}, [&] {
    return spool_.add_stream({.rank = local,
                              .name = "start/end ranges",
                              .kind = StreamKind::kTensor,
                              .process = std::max<int64_t>(0, pid)});
  });
}

uint32_t RankImport::communication_stream(uint32_t local) {
  return find_or_add(communication_, local, [&] {
    return spool_.add_stream({.rank = local,
                              .name = "communication",
                              .kind = StreamKind::kDeviceStream});
  });
}

void RankImport::add_step(const StepMark& mark) {
  marks_.try_emplace(mark.step, mark);
}

int64_t RankImport::finish_steps() {
  if (marks_.empty()) {
    // One alone may be all that a window of steps let through.
    const bool only =
        step_ranges_.size() == 1 && step_ranges_.front().number >= 0;
    const std::vector<StepRange> steps =
        only ? step_ranges_ : steps_among(step_ranges_);
    for (const StepRange& range : steps) {
      add_step({.step = static_cast<int32_t>(range.number),
                .start_ns = range.start_ns,
                .end_ns = range.end_ns});
    }
  }
  for (auto& [number, mark] : marks_) {
    for (uint32_t i = 0; i < local_count_; ++i) {
      mark.rank = first_local_ + i;
      spool_.add_step(mark);
    }
  }
  return std::ssize(marks_);
}

}  // namespace reprise
