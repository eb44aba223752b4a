// Viewers want slices of a thread to nest. Slices are sorted by start, the
// longer first, and each goes to the first lane whose open slices hold it or
// have ended (interval colouring by first fit); a lane is a thread of its own.
// Flows bind to the slice that encloses their end, so both ends are moved a
// little inside, and never back in time. Cost: sorting, then one pass over
// slices and open lanes.
#include "data/draw/chrome_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "data/file.h"
#include "data/integers.h"
#include "data/io/gzip.h"
#include "data/io/json_text.h"

namespace reprise {
namespace {

/// DevTools loses events at 0.
constexpr int64_t kFirstTimeNs = 1000;
constexpr std::string_view kFlowCategory = "critical path";

}  // namespace

uint32_t ChromeTimeline::add_process(std::string name) {
  processes_.push_back(std::move(name));
  return static_cast<uint32_t>(processes_.size() - 1);
}

uint32_t ChromeTimeline::add_track(uint32_t process, std::string name) {
  REPRISE_CHECK(process < processes_.size());
  tracks_.push_back({process, std::move(name)});
  return static_cast<uint32_t>(tracks_.size() - 1);
}

uint32_t ChromeTimeline::add_slice(uint32_t track, std::string_view name,
                                   std::string_view category, int64_t start_ns,
                                   int64_t end_ns,
                                   std::vector<Argument> arguments) {
  REPRISE_CHECK(track < tracks_.size() && start_ns <= end_ns);
  slices_.push_back({track, intern(name), intern(category), start_ns, end_ns,
                     std::move(arguments)});
  return static_cast<uint32_t>(slices_.size() - 1);
}

void ChromeTimeline::add_flow(uint32_t from, uint32_t to) {
  REPRISE_CHECK(from < slices_.size() && to < slices_.size());
  flows_.push_back({from, to});
}

StringId ChromeTimeline::intern(std::string_view text) {
  const auto [place, is_new] = ids_.try_emplace(
      std::string(text), StringId{static_cast<uint32_t>(strings_.size())});
  if (is_new) strings_.push_back(json_quoted(text));
  return place->second;
}

/// Slices of a thread must nest; what overlaps in part moves to a further lane,
/// a thread of its own beside the first.
struct ChromeTimeline::Lanes {
  explicit Lanes(const ChromeTimeline& timeline);

  /// Slices by (track, lane, start, longer first).
  std::vector<uint32_t> order;
  std::vector<uint32_t> lane;          ///< By slice.
  std::vector<uint32_t> first_thread;  ///< By track: tid of its lane 0.
  std::vector<uint32_t> count;         ///< By track.
};

ChromeTimeline::Lanes::Lanes(const ChromeTimeline& timeline)
    : order(timeline.slices_.size()),
      lane(timeline.slices_.size()),
      first_thread(timeline.tracks_.size()),
      count(timeline.tracks_.size(), 1) {
  const std::vector<Slice>& slices = timeline.slices_;
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(slices[a].track, slices[a].start_ns, slices[b].end_ns, a) <
           std::tie(slices[b].track, slices[b].start_ns, slices[a].end_ns, b);
  });
  std::vector<std::vector<int64_t>>
      open;  // By lane: ends of the slices around the next one.
  for (size_t i = 0; i < order.size(); ++i) {
    const Slice& slice = slices[order[i]];
    if (i == 0 || slice.track != slices[order[i - 1]].track) open.assign(1, {});
    uint32_t place = 0;
    for (;; ++place) {
      if (place == open.size()) open.emplace_back();
      std::vector<int64_t>& around = open[place];
      while (!around.empty() && around.back() <= slice.start_ns)
        around.pop_back();
      if (around.empty() || slice.end_ns <= around.back()) break;
    }
    open[place].push_back(slice.end_ns);
    lane[order[i]] = place;
    count[slice.track] = std::max(count[slice.track], place + 1);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(slices[a].track, lane[a]) <
           std::tie(slices[b].track, lane[b]);
  });
  std::vector<uint32_t> next_thread(timeline.processes_.size(), 1);
  for (size_t track = 0; track < first_thread.size(); ++track) {
    uint32_t& next = next_thread[timeline.tracks_[track].process];
    first_thread[track] = next;
    next += count[track];
  }
}

class ChromeTimeline::Printer {
 public:
  explicit Printer(const ChromeTimeline& timeline)
      : timeline_(timeline), lanes_(timeline) {
    for (const Slice& slice : timeline.slices_)
      base_ns_ = std::min(base_ns_, slice.start_ns);
    if (timeline.slices_.empty()) base_ns_ = 0;
  }

  std::string print() && {
    text_.append(
        std::string_view("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["));
    for (uint32_t i = 0; i < timeline_.processes_.size(); ++i) print_process(i);
    for (uint32_t i = 0; i < timeline_.tracks_.size(); ++i) print_track(i);
    for (const uint32_t slice : lanes_.order) print_slice(slice);
    for (size_t i = 0; i < timeline_.flows_.size(); ++i) print_flow(i);
    print_notes();
    return fmt::to_string(text_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format,
                   std::forward<Args>(args)...);
  }
  void begin_event() {
    add("{}\n", is_first_ ? "" : ",");
    is_first_ = false;
  }
  uint32_t pid(uint32_t track) const {
    return timeline_.tracks_[track].process + 1;
  }
  uint32_t tid(uint32_t slice) const {
    return lanes_.first_thread[timeline_.slices_[slice].track] +
           lanes_.lane[slice];
  }

  void print_process(uint32_t process) {
    begin_event();
    add(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})",
        process + 1, json_quoted(timeline_.processes_[process]));
    begin_event();
    add(R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})",
        process + 1, process + 1);
  }

  void print_track(uint32_t track) {
    for (uint32_t lane = 0; lane < lanes_.count[track]; ++lane) {
      const uint32_t thread = lanes_.first_thread[track] + lane;
      std::string name = timeline_.tracks_[track].name;
      if (lane > 0)
        name += lane == 1 ? " (overlap)" : fmt::format(" (overlap {})", lane);
      begin_event();
      add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
          pid(track), thread, json_quoted(name));
      begin_event();
      add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
          pid(track), thread, thread);
    }
  }

  /// Microseconds with three decimals, from integers: exact.
  void print_micros(int64_t ns) {
    const auto value = static_cast<uint64_t>(ns);
    add("{}.{:03}", value / 1000, value % 1000);
  }

  void print_time(int64_t ns) {
    print_micros(
        wrapping_subtract(wrapping_subtract(ns, base_ns_), -kFirstTimeNs));
  }

  void print_slice(uint32_t index) {
    const Slice& slice = timeline_.slices_[index];
    begin_event();
    add(R"({{"ph":"X","pid":{},"tid":{},"ts":)", pid(slice.track), tid(index));
    print_time(slice.start_ns);
    add(R"(,"dur":)");
    print_micros(wrapping_subtract(slice.end_ns, slice.start_ns));
    add(R"(,"name":{},"cat":{})", timeline_.strings_[index_of(slice.name)],
        timeline_.strings_[index_of(slice.category)]);
    if (!slice.arguments.empty()) print_arguments(slice.arguments);
    add("}}");
  }

  void print_arguments(const std::vector<Argument>& arguments) {
    add(R"(,"args":{{)");
    for (size_t i = 0; i < arguments.size(); ++i) {
      add("{}{}:", i == 0 ? "" : ",", json_quoted(arguments[i].key));
      if (const auto* text = std::get_if<std::string>(&arguments[i].value)) {
        add("{}", json_quoted(*text));
      } else if (const auto* whole =
                     std::get_if<int64_t>(&arguments[i].value)) {
        add("{}", *whole);
      } else {
        add("{}", json_number(std::get<double>(arguments[i].value)));
      }
    }
    add("}}");
  }

  struct Arrow {
    int64_t leaves = 0;
    int64_t arrives = 0;
  };

  /// Both ends lie inside their slices, not at the end, which would no longer
  /// be enclosed; and no arrow goes back in time, which viewers drop.
  static Arrow arrow_between(const Slice& from, const Slice& to) {
    const int64_t last =
        from.end_ns > from.start_ns ? from.end_ns - 1 : from.end_ns;
    // Back to what encloses `from`, or has waited for it elsewhere.
    if (to.start_ns < from.start_ns && to.end_ns > from.start_ns) {
      return {std::min(last, to.end_ns - 1),
              std::min(from.end_ns, to.end_ns - 1)};
    }
    // Into what lies in `from`: just before, or the inner one would be meant.
    const bool is_inner = from.track == to.track &&
                          to.start_ns > from.start_ns && to.start_ns <= last;
    return {std::max(from.start_ns,
                     std::min(last, is_inner ? to.start_ns - 1 : to.start_ns)),
            to.start_ns};
  }

  void print_flow(size_t index) {
    const Flow& flow = timeline_.flows_[index];
    const Arrow arrow =
        arrow_between(timeline_.slices_[flow.from], timeline_.slices_[flow.to]);
    print_flow_end("s", index, flow.from, arrow.leaves);
    print_flow_end("f", index, flow.to, arrow.arrives);
  }

  void print_flow_end(const char* phase, size_t index, uint32_t slice,
                      int64_t time_ns) {
    begin_event();
    add(R"({{"ph":"{}","id":{},"pid":{},"tid":{},"ts":)", phase, index + 1,
        pid(timeline_.slices_[slice].track), tid(slice));
    print_time(time_ns);
    add(R"(,"name":"{0}","cat":"{0}"{1}}})", kFlowCategory,
        *phase == 'f' ? R"(,"bp":"e")" : "");
  }

  void print_notes() {
    add("\n],\"otherData\":{{\"base_time_ns\":\"{}\"",
        wrapping_subtract(base_ns_, kFirstTimeNs));
    for (const auto& [key, value] : timeline_.notes_) {
      add(",{}:{}", json_quoted(key), json_quoted(value));
    }
    add("}}}}\n");
  }

  const ChromeTimeline& timeline_;
  const Lanes lanes_;
  int64_t base_ns_ = std::numeric_limits<int64_t>::max();
  bool is_first_ = true;
  fmt::memory_buffer text_;
};

std::string ChromeTimeline::json() const { return Printer(*this).print(); }

Status write_chrome(const ChromeTimeline& timeline, const std::string& path,
                    Existing existing) {
  const std::string text = timeline.json();
  return write_file_atomically(path, path.ends_with(".gz") ? gzip(text) : text,
                               existing);
}

}  // namespace reprise
