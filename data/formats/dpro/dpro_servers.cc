// A message's begin and end carry the same name on the same row, and several of
// one name may be under way: the first to begin is the first to end. A push and
// the pull that follows it, of the same partition in the same step, are one
// exchange.
#include "data/formats/dpro/dpro_servers.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "data/formats/dpro/dpro_graph.h"
#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

constexpr std::string_view kArrow = " -> ", kWorker = "worker_",
                           kServer = "server_";
/// Equal names of one row that are under way at once.
constexpr size_t kMostOpen = 256;
constexpr int64_t kMostServers = 1 << 16;

/// Tensors of "BytePSPushPull.1+2~PART0".
std::vector<uint32_t> tensors_of(std::string_view name) {
  name = name.substr(0, name.find('~'));
  return dpro_tensor_ids(name.substr(name.rfind('.') + 1));
}

std::optional<int64_t> number_of(std::string_view node, std::string_view role) {
  if (!node.starts_with(role)) return std::nullopt;
  return number_at_end(node);
}

}  // namespace

std::optional<int64_t> number_at_end(std::string_view name) {
  const size_t last = name.find_last_not_of("0123456789");
  return parse_integer(name.substr(last == name.npos ? 0 : last + 1));
}

Status DproPairs::read(ByteSource& source, const Take& take) {
  using Key = std::pair<std::string, std::string>;
  std::map<std::string, std::string> names;  // Of processes.
  std::map<std::pair<Key, std::string>, std::vector<int64_t>> open;
  const auto visit = [&](const ChromeEvent& event) {
    if (event.phase == 'M' && event.name == "\"process_name\"") {
      names[std::string(event.process)] =
          json_unescaped(timeline_argument(event, "name"));
    }
    if (event.phase != 'B' && event.phase != 'E') {
      return count_ignored(event, report_);
    }
    const Key key(event.process, event.thread);
    std::vector<int64_t>& starts = open[{key, std::string(event.name)}];
    const auto time = parse_microseconds(event.start);
    if (!time) {
      ++report_.dropped["no usable time"];
    } else if (event.phase == 'B' && starts.size() < kMostOpen) {
      starts.push_back(*time);
    } else if (event.phase == 'B') {
      ++report_.dropped["too many of one name at once"];
    } else if (starts.empty() || starts.front() > *time) {
      ++report_.dropped["end without a begin"];
    } else {
      const TimelineSpan span{starts.front(), *time};
      starts.erase(starts.begin());
      take({names[key.first], json_unescaped(key.second)},
           json_unescaped(event.name), span);
    }
  };
  const Result<bool> read = read_timeline(source, report_, visit);
  if (!read) return pass(read.error());
  for (const auto& [key, starts] : open) {
    if (starts.empty()) continue;
    report_.dropped["begin without an end"] += std::ssize(starts);
  }
  return {};
}

DproMessages::DproMessages(TraceSpool& spool, FileReport& report, uint32_t rank,
                           int64_t worker, uint32_t first_server,
                           const DproOperations& operations, int64_t& next_id)
    : spool_(spool),
      report_(report),
      rank_(rank),
      worker_(worker),
      first_server_(first_server),
      operations_(operations),
      next_id_(next_id) {}

Status DproMessages::read(ByteSource& source) {
  return DproPairs(report_).read(
      source, [this](const DproPairs::Row& row, std::string_view name,
                     const TimelineSpan& span) { take(row, name, span); });
}

/// Gradients go out with a push to a server and come back with its answer to a
/// pull; the push's answer and the pull itself carry nothing.
void DproMessages::take(const DproPairs::Row& row, std::string_view name,
                        const TimelineSpan& span) {
  const size_t arrow = std::min(row.name.find(kArrow), row.name.size());
  const std::string_view from = std::string_view(row.name).substr(0, arrow);
  const std::string_view to = std::string_view(row.name).substr(
      std::min(arrow + kArrow.size(), row.name.size()));
  const bool sends = number_of(from, kWorker) == worker_;
  if (!sends && number_of(to, kWorker) != worker_) return;
  const auto server = number_of(sends ? to : from, kServer);
  const bool pulls = name.ends_with(".PULL");
  Event event;
  event.rank = rank_;
  event.stream = find_or_add(streams_, row.name, [&] {
    return spool_.add_stream(
        {.rank = rank_, .name = row.name, .kind = StreamKind::kTensor});
  });
  event.name = spool_.intern(name);
  event.step = operations_.step_at(span.start_ns);
  event.start_ns = event.enqueue_ns = span.start_ns;
  event.end_ns = span.end_ns;
  event.kind = EventKind::kOther;
  if (sends != pulls) {
    CollectiveInfo info{
        .kind = sends ? CollectiveKind::kSend : CollectiveKind::kReceive,
        .communicator = "byteps"};
    if (server && *server < kMostServers) {
      info.peer = static_cast<int32_t>(first_server_ + *server);
    }
    event.kind = EventKind::kCollective;
    event.detail = spool_.add_collective(info);
    event.external_id = next_id_++;
    const size_t dot = std::min(name.rfind('.'), name.size());
    messages_.push_back({event.step, std::string(name.substr(0, dot)), pulls,
                         span.start_ns, event.external_id});
    ++report_.collectives;
  }
  spool_.add(event);
}

std::vector<DproExchange> DproMessages::finish() {
  std::sort(messages_.begin(), messages_.end(),
            [](const Message& a, const Message& b) {
              return std::tie(a.tensor, a.start_ns, a.id) <
                     std::tie(b.tensor, b.start_ns, b.id);
            });
  std::vector<DproExchange> exchanges;
  for (size_t i = 0; i < messages_.size(); ++i) {
    const Message& push = messages_[i];
    if (push.pulls) continue;
    DproExchange exchange{push.step, tensors_of(push.tensor), push.id, push.id};
    if (i + 1 < messages_.size() && messages_[i + 1].pulls &&
        messages_[i + 1].tensor == push.tensor) {
      exchange.last = messages_[i + 1].id;
      spool_.add_dependency({rank_, exchange.first, exchange.last});
    }
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

Status read_dpro_servers(ByteSource& source, uint32_t first_server,
                         TraceSpool& spool, FileReport& report) {
  std::map<int64_t, uint32_t> ranks;
  std::map<std::pair<int64_t, std::string>, uint32_t> streams;
  const auto take = [&](const DproPairs::Row& row, std::string_view name,
                        const TimelineSpan& span) {
    const int64_t number = number_at_end(row.name).value_or(0);
    if (number >= kMostServers) {
      ++report.dropped["server of an impossible number"];
      return;
    }
    Event event;
    event.rank = find_or_add(ranks, number, [&] {
      RankInfo info;
      info.rank = first_server + static_cast<uint32_t>(number);
      info.host = row.name;
      info.device = "cpu";
      info.clock_domain.clear();
      return spool.add_rank(std::move(info));
    });
    event.stream = find_or_add(streams, {number, row.thread}, [&] {
      return spool.add_stream({.rank = event.rank,
                               .name = "engine " + row.thread,
                               .kind = StreamKind::kTensor});
    });
    event.kind = EventKind::kCompute;
    event.name = spool.intern(name);
    event.start_ns = event.enqueue_ns = span.start_ns;
    event.end_ns = span.end_ns;
    ++report.kernels;
    spool.add(event);
  };
  return DproPairs(report).read(source, take);
}

}  // namespace reprise
