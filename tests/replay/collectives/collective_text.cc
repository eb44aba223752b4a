#include "tests/replay/collectives/collective_text.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

namespace reprise {
namespace {

class TextReader {
 public:
  Trace read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      Event event;
      std::string kind, stream, name;
      if (!(words >> event.rank >> kind >> stream >> event.start_ns >>
            event.end_ns >> name)) {
        continue;
      }
      for (const char* message : {"nccl:send_", "nccl:recv_"}) {
        if (name.starts_with(message)) name[9] = ' ';
      }
      event.kind = kind == "collective" ? EventKind::kCollective
                   : kind == "compute"  ? EventKind::kCompute
                   : kind == "host"     ? EventKind::kHostOp
                   : kind == "range"    ? EventKind::kAnnotation
                                        : EventKind::kRuntime;
      event.enqueue_ns = event.start_ns;
      event.stream = stream_of(event.rank, stream);
      event.name = StringId{intern(name)};
      read_keys(words, event);
      trace_.events.push_back(event);
    }
    std::stable_sort(trace_.events.begin(), trace_.events.end(),
                     [](const Event& a, const Event& b) {
                       return std::tie(a.rank, a.start_ns, a.stream) <
                              std::tie(b.rank, b.start_ns, b.stream);
                     });
    for (const Event& event : trace_.events) {
      if (trace_.ranks.empty() || trace_.ranks.back().rank != event.rank) {
        RankInfo info;
        info.rank = event.rank;
        info.clock_domain = "epoch";
        trace_.ranks.push_back(info);
      }
    }
    return std::move(trace_);
  }

 private:
  uint32_t intern(const std::string& text) {
    trace_.strings.push_back(text);
    return static_cast<uint32_t>(trace_.strings.size() - 1);
  }

  uint32_t stream_of(uint32_t rank, const std::string& name) {
    const auto [at, is_new] = streams_.try_emplace(
        {rank, name}, static_cast<uint32_t>(trace_.streams.size()));
    if (is_new) {
      trace_.streams.push_back({.rank = rank,
                                .name = name,
                                .kind = name[0] == 'd'
                                            ? StreamKind::kDeviceStream
                                            : StreamKind::kHostThread,
                                .number = std::stoll(name.substr(1))});
    }
    return at->second;
  }

  void read_keys(std::istringstream& words, Event& event) {
    CollectiveInfo info;
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals);
      std::string value = word.substr(equals + 1);
      const auto number = [&] { return std::stoll(value); };
      if (key == "op") {
        info.kind =
            collective_from_name(value).value_or(CollectiveKind::kOther);
      }
      if (key == "comm") info.communicator = value;
      if (key == "type") info.type = primitive_type_from_name(value);
      if (key == "size") info.group_size = number();
      if (key == "in") info.input_elements = number();
      if (key == "out") info.output_elements = number();
      if (key == "peer") info.peer = static_cast<int32_t>(number());
      if (key == "seq") event.sequence = number();
      if (key == "bytes") event.bytes = number();
      if (key == "step") event.step = static_cast<int32_t>(number());
      if (key == "corr") event.correlation = number();
      if (key == "ext") event.external_id = number();
      if (key == "group") {
        std::istringstream ranks(value);
        for (std::string rank; std::getline(ranks, rank, ',');) {
          info.group.push_back(static_cast<uint32_t>(std::stoul(rank)));
        }
      }
      if (key == "attr") {
        std::string rest;
        std::getline(words, rest);
        event.attributes = static_cast<int32_t>(intern(value + rest));
      }
    }
    if (info == CollectiveInfo{}) return;
    event.detail = static_cast<int32_t>(trace_.collectives.size());
    trace_.collectives.push_back(info);
  }

  Trace trace_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> streams_;
};

}  // namespace

Trace collective_trace(const std::string& text) {
  return TextReader().read(text);
}

}  // namespace reprise
