// A server copies the first push of a partition, adds each other one, and
// copies the sum (COPY_FIRST, SUM, COPY_MERGED) before it answers pulls.
// Source: dPRO, dpro/bps_helper/graph.py.
#include "data/formats/dpro/dpro_servers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "data/formats/spool_tables.h"
#include "data/trace/epoch.h"

namespace reprise {
namespace {

class Server {
 public:
  Server(TraceSpool& spool, uint32_t rank) : spool_(spool), rank_(rank) {}

  void add_work(const DproPairs::Row& row, std::string_view name,
                const TimelineSpan& span) {
    Event event;
    event.rank = rank_;
    event.stream = find_or_add(streams_, "engine " + row.thread, [&] {
      return add_stream("engine " + row.thread);
    });
    event.kind = EventKind::kHostOp;
    event.name = spool_.intern(name);
    event.start_ns = event.enqueue_ns = span.start_ns;
    event.end_ns = span.end_ns;
    event.external_id = next_id_++;
    spool_.add(event);
    const auto engine = static_cast<int64_t>(event.stream);
    turns_[Lane::kEngine].push_back({engine, span, event.external_id});
    parts_[std::string(dpro_part_of(name))].work.push_back(
        {engine, span, event.external_id});
  }

  /// The server's side of a worker's message, at the same time.
  void add_message(const DproMessage& message) {
    const std::string row = message.pulls ? "to workers" : "from workers";
    Event event = dpro_message_event(
        spool_, message, rank_,
        find_or_add(streams_, row, [&] { return add_stream(row); }),
        message.worker,
        message.pulls ? CollectiveKind::kSend : CollectiveKind::kReceive);
    event.external_id = next_id_++;
    spool_.add(event);
    const DproTurn turn{message.worker, message.span, event.external_id};
    turns_[message.pulls ? Lane::kOut : Lane::kIn].push_back(turn);
    Part& part = parts_[message.part];
    (message.pulls ? part.pulls : part.pushes).push_back(turn);
    extend_step(message);
  }

  void finish(FileReport& report) {
    for (auto& [lane, turns] : turns_)
      add_turns(spool_, rank_, std::move(turns));
    for (auto& [name, part] : parts_) tie(part);
    for (const auto& [number, span] : steps_) {
      spool_.add_step({.rank = rank_,
                       .step = number,
                       .start_ns = span.start_ns,
                       .end_ns = span.end_ns});
    }
    report.steps += std::ssize(steps_);
  }

 private:
  enum class Lane { kIn, kEngine, kOut };
  struct Part {
    std::vector<DproTurn> pushes, work, pulls;
  };

  uint32_t add_stream(const std::string& name) {
    return spool_.add_stream(
        {.rank = rank_, .name = name, .kind = StreamKind::kTensor});
  }

  void extend_step(const DproMessage& message) {
    if (message.step_number < 0) return;
    const auto [step, added] =
        steps_.try_emplace(message.step_number, message.span);
    if (added) return;
    step->second.start_ns =
        std::min(step->second.start_ns, message.span.start_ns);
    step->second.end_ns = std::max(step->second.end_ns, message.span.end_ns);
  }

  /// Work takes up the first push that nothing took up before, if that had come
  /// by then; an answer waits for the last work that had ended.
  void tie(Part& part) {
    const auto by_end = [](const DproTurn& a, const DproTurn& b) {
      return std::tie(a.span.end_ns, a.id) < std::tie(b.span.end_ns, b.id);
    };
    for (std::vector<DproTurn>* turns : {&part.pushes, &part.work, &part.pulls})
      std::sort(turns->begin(), turns->end(), by_end);
    size_t push = 0;
    for (const DproTurn& work : part.work) {
      if (push == part.pushes.size()) break;
      if (part.pushes[push].span.end_ns > work.span.start_ns) continue;
      spool_.add_dependency({rank_, part.pushes[push++].id, work.id});
    }
    for (const DproTurn& pull : part.pulls) {
      const auto after = std::upper_bound(
          part.work.begin(), part.work.end(), pull.span.start_ns,
          [](int64_t time_ns, const DproTurn& work) {
            return time_ns < work.span.end_ns;
          });
      if (after == part.work.begin()) continue;
      spool_.add_dependency({rank_, std::prev(after)->id, pull.id});
    }
  }

  TraceSpool& spool_;
  uint32_t rank_;
  int64_t next_id_ = 0;
  std::map<std::string, uint32_t> streams_;
  std::map<Lane, std::vector<DproTurn>> turns_;
  std::map<std::string, Part> parts_;
  std::map<int32_t, TimelineSpan> steps_;  ///< By number.
};

}  // namespace

Status read_dpro_servers(ByteSource& source, uint32_t first_server,
                         const std::vector<DproMessage>& messages,
                         TraceSpool& spool, FileReport& report) {
  std::map<int64_t, Server> servers;
  const auto take = [&](const DproPairs::Row& row, std::string_view name,
                        const TimelineSpan& span) {
    const int64_t number = number_at_end(row.name).value_or(0);
    if (number >= kMostDproServers) {
      ++report.dropped["server of an impossible number"];
      return;
    }
    auto server = servers.find(number);
    if (server == servers.end()) {
      RankInfo info;
      info.rank = first_server + static_cast<uint32_t>(number);
      info.host = row.name;
      info.device = "cpu";
      info.clock_domain = span.start_ns >= kEpochNs ? "epoch" : "";
      const uint32_t rank = spool.add_rank(std::move(info));
      server = servers.try_emplace(number, spool, rank).first;
    }
    server->second.add_work(row, name, span);
  };
  Status read = DproPairs(report).read(source, take);
  for (const DproMessage& message : messages) {
    const auto server = servers.find(message.server);
    if (server != servers.end()) server->second.add_message(message);
  }
  for (auto& [number, server] : servers) server.finish(report);
  return read;
}

}  // namespace reprise
