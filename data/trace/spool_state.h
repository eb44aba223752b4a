// What a TraceSpool holds; for trace_spool.cc and spool_gatherer.cc alone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/trace/columns.h"
#include "data/trace/segment_store.h"
#include "data/trace/string_table.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// Distinct values numbered in the order in which they came.
template <typename Value>
class ValueTable {
 public:
  int32_t add(const Value& value) {
    key_.clear();
    append_key(key_, value);
    const uint32_t id = keys_.intern(key_);
    if (id == values_.size()) values_.push_back(value);
    return static_cast<int32_t>(id);
  }
  const std::vector<Value>& values() const { return values_; }
  int32_t size() const { return static_cast<int32_t>(keys_.size()); }

 private:
  StringTable keys_;
  std::string key_;  ///< Kept, so that a known value allocates nothing.
  std::vector<Value> values_;
};

/// Appends bytes that only an equal value has.
void append_key(std::string& key, const CollectiveInfo& collective);
void append_key(std::string& key, const SynchronizationInfo& synchronization);

struct TraceSpool::State {
  explicit State(std::string directory)
      : encoder(event_columns()), segments(std::move(directory)) {}
  /// Sorts and encodes the events that are pending.
  void flush();

  StringTable strings;
  std::vector<RankInfo> ranks;
  std::set<uint32_t> assumed;  ///< Whose numbers are.
  std::vector<int64_t> bases;  ///< By rank.
  std::vector<StreamInfo> streams;
  std::vector<uint32_t> stream_ranks;
  ValueTable<CollectiveInfo> collectives;
  ValueTable<SynchronizationInfo> synchronizations;
  std::vector<Event> events;  ///< Less than a segment.
  SegmentEncoder<Event> encoder;
  SegmentStore segments;
  int64_t flushed_events = 0;
  std::vector<StepMark> steps;
  std::vector<EventDependency> dependencies;
  std::vector<Measurement> measurements;
  std::map<std::string, std::string> modules, environment;
  std::vector<std::string> warnings;
};

}  // namespace reprise
