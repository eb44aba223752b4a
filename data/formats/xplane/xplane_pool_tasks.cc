#include "data/formats/xplane/xplane_pool_tasks.h"

#include <algorithm>
#include <optional>

namespace reprise {
namespace {

enum class PoolMark : uint8_t { kNone, kHandOver, kBegin, kEnd };

/// The task that a hand-over or start names; -1: none.
int64_t task_of(const XplaneRow& row) {
  const int64_t given = row.stats.number(XplaneStat::kProducer, -1);
  return row.stats.number(XplaneStat::kConsumer, given);
}

/// What an event of a host's thread says of the pool's tasks.
PoolMark mark_of(const XplaneRow& row) {
  if (!row.name.starts_with("ThreadpoolListener::")) return PoolMark::kNone;
  if (row.name.ends_with("::StopRegion")) return PoolMark::kEnd;
  if (task_of(row) < 0) return PoolMark::kNone;
  if (row.name.ends_with("::Record")) return PoolMark::kHandOver;
  return row.name.ends_with("::StartRegion") ? PoolMark::kBegin
                                             : PoolMark::kNone;
}

/// XProf's name of a task's start and end as one event.
constexpr std::string_view kTaskName = "ThreadpoolListener::Region";

/// What the marks say of one task.
struct Marks {
  bool handed_over = false, begun = false;
  std::optional<uint32_t> handed_by;  ///< The operation's rank that did so.
  std::optional<uint32_t> works_for;  ///< The rank of an operation in it.
  uint32_t beside = 0;  ///< That of what stands around the hand-over.
};

/// Reads the marks of one thread into those of all tasks.
class MarkReader {
 public:
  MarkReader(const CpuDevices& devices, std::map<int64_t, Marks>& marks)
      : devices_(devices), marks_(marks) {}

  void read(const Xplane& plane, const XplaneLine& line) {
    open_.clear();
    within_.clear();
    const std::vector<uint32_t> ranks = devices_.places(plane, line);
    XplaneRow row;
    FileReport uncounted;
    XplaneEvents events(line);
    size_t place = 0;
    for (std::string_view one; events.next(one); ++place) {
      if (read_xplane_row(plane, line, one, row, uncounted))
        take(row, ranks[place]);
    }
  }

 private:
  struct Operation {
    int64_t end_ns = 0;
    uint32_t rank = 0;
  };

  void take(const XplaneRow& row, uint32_t rank) {
    const int64_t now_ns = row.event.start_ns;
    while (!within_.empty() && within_.back().end_ns <= now_ns)
      within_.pop_back();
    const PoolMark mark = mark_of(row);
    if (mark == PoolMark::kEnd) {
      if (!open_.empty()) open_.pop_back();
    } else if (mark == PoolMark::kBegin) {
      Marks& task = marks_[task_of(row)];
      task.begun = true;
      open_.push_back(&task);
    } else if (mark == PoolMark::kHandOver) {
      Marks& task = marks_[task_of(row)];
      task.handed_over = true;
      if (!within_.empty()) task.handed_by = within_.back().rank;
      task.beside = rank;
    } else if (row.stats.has(XplaneStat::kDeviceOrdinal)) {
      within_.push_back({row.event.end_ns, rank});
      if (!open_.empty() && !open_.back()->works_for)
        open_.back()->works_for = rank;
    }
  }

  const CpuDevices& devices_;
  std::map<int64_t, Marks>& marks_;
  std::vector<Marks*> open_;       // Tasks that the thread is in,
  std::vector<Operation> within_;  // and operations.
};

}  // namespace

PoolTasks::PoolTasks(const std::vector<std::string_view>& hosts,
                     const CpuDevices& devices) {
  std::map<int64_t, Marks> marks;
  MarkReader reader(devices, marks);
  for (const std::string_view bytes : hosts) {
    const Xplane plane = decode_xplane(bytes);
    for (const std::string_view line : plane.lines)
      reader.read(plane, decode_xplane_line(line));
  }
  int64_t next_id = 0;
  for (const auto& [id, task] : marks) {
    if (!task.handed_over || !task.begun) continue;
    tasks_[id] = {
        .external_id = next_id,
        .rank = task.handed_by.value_or(task.works_for.value_or(task.beside))};
    next_id += 2;
  }
}

const PoolTasks::Task* PoolTasks::find(int64_t id) const {
  const auto found = tasks_.find(id);
  return found == tasks_.end() ? nullptr : &found->second;
}

bool PoolTaskWalk::take(const XplaneRow& row, std::vector<PoolEvent>& found) {
  const PoolMark mark = mark_of(row);
  if (mark == PoolMark::kHandOver) return hand_over(row, found);
  work_until(row.event.start_ns, found);
  if (mark == PoolMark::kBegin) return begin(row, found);
  if (mark == PoolMark::kEnd) return end();
  told_ns_ = std::max(told_ns_, row.event.end_ns);
  return false;
}

bool PoolTaskWalk::hand_over(const XplaneRow& row,
                             std::vector<PoolEvent>& found) const {
  const PoolTasks::Task* const task = tasks_.find(task_of(row));
  if (task == nullptr) return false;
  const int64_t now_ns = row.event.start_ns;
  found.push_back({row.name, {now_ns, now_ns}, task->rank, task->external_id});
  return true;
}

bool PoolTaskWalk::begin(const XplaneRow& row, std::vector<PoolEvent>& found) {
  const PoolTasks::Task* const task = tasks_.find(task_of(row));
  open_.push_back(task);
  if (task == nullptr) return false;
  const int64_t now_ns = row.event.start_ns;
  found.push_back({kTaskName,
                   {now_ns, now_ns},
                   task->rank,
                   task->external_id + 1,
                   task->external_id});
  return true;
}

bool PoolTaskWalk::end() {
  if (open_.empty()) return false;
  const bool known = open_.back() != nullptr;
  open_.pop_back();
  return known;
}

void PoolTaskWalk::work_until(int64_t now_ns, std::vector<PoolEvent>& found) {
  if (now_ns <= told_ns_) return;
  if (!open_.empty() && open_.back() != nullptr)
    found.push_back({kTaskName, {told_ns_, now_ns}, open_.back()->rank});
  told_ns_ = now_ns;
}

}  // namespace reprise
