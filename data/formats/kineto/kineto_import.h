// Maps the events of one Kineto or Chrome JSON file to a spool.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "data/formats/kineto/kineto_details.h"
#include "data/formats/kineto/kineto_halves.h"
#include "data/formats/kineto/kineto_names.h"
#include "data/formats/kineto/kineto_streams.h"
#include "data/formats/nvtx_ranges.h"
#include "data/formats/reader.h"
#include "data/io/chrome_event.h"

namespace reprise {

/// What is kept that not everybody needs.
struct KinetoKept {
  bool python_functions = true;
  bool shapes = false;
};

class KinetoImport {
 public:
  KinetoImport(TraceSpool& spool, FileReport& report, KinetoKept kept);

  /// Takes one event in.
  void add(const ChromeEvent& event);
  /// Takes a member of the file's object in that is not its events.
  void add_member(std::string_view key, std::string_view value);
  /// After the last event: rank, time base, names, dialect and counts.
  void finish(bool bare_array);

 private:
  /// Records that a trace keeps nothing of, counted apart from the report's
  /// map for speed.
  enum class Ignored : uint8_t {
    kFlow,
    kMetadata,
    kInstant,
    kCounter,
    kSpan,
    kDeviceAnnotation,
    kPythonFunction,
    kEnd,
    kRepeated,
    kCount
  };

  void add_complete(const ChromeEvent& event);
  void add_half(const ChromeEvent& event);
  void add_other(const ChromeEvent& event);
  bool times(const ChromeEvent& source, Event& event);
  void add_host(const ChromeEvent& source, Event& event, EventKind kind);
  void add_device(const ChromeEvent& source, Event& event, EventKind kind);
  void add_synchronization(const ChromeEvent& source, Event& event);
  void describe(const ChromeEvent& source, const KinetoName& name,
                Event& event);
  void keep_shapes(const ChromeEvent& source, Event& event);
  void mark_step(int32_t step, int64_t start_ns, int64_t end_ns);
  void push(Event& event);
  void ignore(Ignored what) { ++ignored_[static_cast<size_t>(what)]; }
  void learn_device(std::string_view properties);
  void note_host_op(const ChromeEvent& event);
  void note_operator_process(std::string_view process);
  void note_process_name(const ChromeEvent& row);
  bool is_ascend(const ChromeEvent& event) const {
    return event.category.empty() && !ascend_process_.empty() &&
           event.process == ascend_process_;
  }

  std::string dialect(bool bare_array) const;
  std::string platform() const;
  void finish_rank();
  void finish_report();

  TraceSpool& spool_;
  FileReport& report_;
  KinetoKept kept_;
  uint32_t rank_;
  KinetoNames names_;
  KinetoStreams streams_;
  KinetoGroups groups_;
  KinetoHalves halves_;
  std::unordered_set<int32_t> steps_;
  std::vector<StepRange> step_ranges_;  ///< That count without those.
  std::array<int64_t, static_cast<size_t>(Ignored::kCount)> ignored_{};
  int64_t device_events_ = 0, addressed_groups_ = 0;
  int64_t foreign_events_ = 0;  ///< Of devices that are not understood.
  std::string ascend_process_;  ///< As in the file.
  int64_t nameless_ = 0;        ///< Collectives of no communicator or group.
  /// Of operators; of rows that are called "rank N".
  std::set<std::string, std::less<>> operator_processes_, named_ranks_;
  std::string last_process_;
  // What tells one dialect from another.
  int64_t base_ns_ = -1, first_time_ns_ = -1;
  int noted_ = 0;
  bool upper_case_ = false, event_index_ = false, profiler_index_ = false,
       fraction_ = false, torch_ = false, hip_ = false, cuda_ = false,
       autograd_ = false;
  std::vector<std::pair<int64_t, std::string>> devices_;  ///< Id, name.
  std::string host_;
};

}  // namespace reprise
