#include "tests/replay/graph/trace_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

namespace reprise {
namespace {

class Parser {
 public:
  Trace run(std::string_view text) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) parse_line(line);
    add_ranks();
    std::stable_sort(trace_.events.begin(), trace_.events.end(),
                     [](const Event& a, const Event& b) {
                       return std::tie(a.rank, a.start_ns, a.stream) <
                              std::tie(b.rank, b.start_ns, b.stream);
                     });
    return std::move(trace_);
  }

 private:
  void parse_line(const std::string& line) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first)) return;
    if (first == "step") {
      StepMark mark;
      std::string span;
      words >> mark.rank >> mark.step >> span;
      parse_span(span, mark.start_ns, mark.end_ns);
      std::string warmup;
      mark.warmup = bool(words >> warmup) && warmup == "warmup";
      ranks_.insert(mark.rank);
      trace_.steps.push_back(mark);
    } else if (first == "depends") {
      EventDependency edge;
      words >> edge.rank >> edge.before >> edge.after;
      trace_.dependencies.push_back(edge);
    } else if (first == "untimed") {
      untimed_ = true;
    } else {
      parse_event(first, words);
    }
    EXPECT_FALSE(words.bad()) << line;
  }

  void parse_event(const std::string& stream, std::istringstream& words) {
    Event event;
    event.stream = find_stream(stream);
    event.rank = trace_.streams[event.stream].rank;
    std::string kind, name, span, more;
    EXPECT_TRUE(words >> kind >> name >> span) << stream;
    event.kind = kind_of(kind);
    event.name = intern(name);
    parse_span(span, event.start_ns, event.end_ns);
    event.enqueue_ns = event.start_ns;
    int64_t peer = -1, ranks = -1;
    while (words >> more) {
      if (more[0] == '#') event.correlation = std::stoll(more.substr(1));
      if (more.starts_with("id=")) {
        event.external_id = std::stoll(more.substr(3));
      }
      if (more.starts_with("bytes=")) event.bytes = std::stoll(more.substr(6));
      if (more.starts_with("peer=")) peer = std::stoll(more.substr(5));
      if (more.starts_with("ranks=")) ranks = std::stoll(more.substr(6));
      if (more.starts_with("awaits=")) {
        const std::string on = more.substr(7);
        const int64_t waited =
            on == "?" ? -1 : trace_.streams[find_stream(on)].number;
        event.detail = static_cast<int32_t>(trace_.synchronizations.size());
        trace_.synchronizations.push_back(
            {.kind = SynchronizationKind::kStreamWait,
             .stream = trace_.streams[event.stream].number,
             .waited_stream = waited});
      }
    }
    if (event.kind == EventKind::kCollective) {
      event.detail = static_cast<int32_t>(trace_.collectives.size());
      CollectiveInfo info;
      info.kind = collective_from_name(name).value_or(CollectiveKind::kOther);
      info.communicator = "world";
      info.peer = static_cast<int32_t>(peer);
      info.group_size = ranks;
      trace_.collectives.push_back(info);
    }
    trace_.events.push_back(event);
  }

  uint32_t find_stream(const std::string& name) {
    const auto [known, added] = streams_.try_emplace(
        name, static_cast<uint32_t>(trace_.streams.size()));
    if (!added) return known->second;
    StreamInfo info;
    info.name = name;
    info.rank = static_cast<uint32_t>(std::stoul(name.substr(1)));
    info.kind =
        name[0] == 'h' ? StreamKind::kHostThread : StreamKind::kDeviceStream;
    info.device = name[0] == 'h' ? -1 : 0;
    info.number = known->second;
    ranks_.insert(info.rank);
    trace_.streams.push_back(info);
    return known->second;
  }

  static EventKind kind_of(const std::string& word) {
    for (int kind = 0; kind <= static_cast<int>(kLastEventKind); ++kind) {
      if (name_of(static_cast<EventKind>(kind)) == word) {
        return static_cast<EventKind>(kind);
      }
    }
    ADD_FAILURE() << "no kind " << word;
    return EventKind::kOther;
  }

  static void parse_span(const std::string& text, int64_t& start_ns,
                         int64_t& end_ns) {
    const size_t dash = text.find('-', 1);
    ASSERT_NE(dash, text.npos) << text;
    start_ns = std::stoll(text.substr(0, dash)) * 1000;
    end_ns = std::stoll(text.substr(dash + 1)) * 1000;
  }

  StringId intern(const std::string& text) {
    const auto [place, added] =
        ids_.try_emplace(text, static_cast<uint32_t>(trace_.strings.size()));
    if (added) trace_.strings.push_back(text);
    return StringId{place->second};
  }

  void add_ranks() {
    for (const uint32_t rank : ranks_) {
      RankInfo info;
      info.rank = rank;
      info.clock_domain = untimed_ ? "none" : "epoch";
      trace_.ranks.push_back(info);
    }
    const std::vector<uint32_t> group(ranks_.begin(), ranks_.end());
    for (CollectiveInfo& info : trace_.collectives) {
      if (info.group_size >= 0) continue;  // Who the others are is not known.
      info.group = group;
      info.group_size = static_cast<int64_t>(group.size());
    }
  }

  Trace trace_;
  std::map<std::string, uint32_t> streams_, ids_;
  std::set<uint32_t> ranks_;
  bool untimed_ = false;
};

}  // namespace

Trace parse_trace_text(std::string_view text) { return Parser().run(text); }

}  // namespace reprise
