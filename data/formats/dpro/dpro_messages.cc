// A push and the pull that follows it, of the same partition in the same step,
// are one exchange. BytePS cuts all tensors into partitions of one size, of
// which the last one of a tensor has the rest.
#include "data/formats/dpro/dpro_messages.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "data/formats/dpro/dpro_graph.h"
#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"

namespace reprise {
namespace {

constexpr std::string_view kArrow = " -> ", kWorker = "worker_",
                           kServer = "server_", kPart = "~PART";

std::string_view tensors_of(std::string_view part) {
  return part.substr(0, part.find(kPart));
}

/// Tensors of "BytePSPushPull.1+2~PART0" (TensorFlow),
/// "embedding0_weight~PART0" (MXNet). Source: dPRO,
/// dpro/bps_helper/preprocess.py.
std::vector<uint32_t> ids_of(std::string_view part,
                             const DproTensors& tensors) {
  const std::string_view whole = tensors_of(part);
  const int64_t named = tensors.id_of(whole);
  if (named >= 0) return {static_cast<uint32_t>(named)};
  return dpro_tensor_ids(whole.substr(whole.rfind('.') + 1));
}

std::optional<int64_t> number_of(std::string_view node, std::string_view role) {
  if (!node.starts_with(role)) return std::nullopt;
  const auto number = number_at_end(node);
  return number && *number < kMostDproServers ? number : std::nullopt;
}

/// How many bytes each partition has, as far as the tensors' sizes are known.
class Partitions {
 public:
  Partitions(const std::vector<DproMessage>& messages,
             const DproTensors& tensors) {
    std::map<std::string_view, std::set<std::string_view>> parts;
    for (const DproMessage& message : messages)
      parts[tensors_of(message.part)].insert(message.part);
    int64_t most = std::numeric_limits<int64_t>::max();
    for (const auto& [name, of_name] : parts) {
      Whole whole{.parts = static_cast<int64_t>(of_name.size())};
      for (const uint32_t id : ids_of(name, tensors)) {
        const DproTensor* const tensor = tensors.find(id);
        const int64_t bytes = tensor == nullptr ? 0 : tensor->bytes();
        if (bytes == 0 ||
            __builtin_add_overflow(whole.bytes, bytes, &whole.bytes)) {
          whole.bytes = 0;
          break;
        }
      }
      wholes_[std::string(name)] = whole;
      if (whole.bytes == 0) continue;
      partition_ = std::max(partition_, (whole.bytes - 1) / whole.parts + 1);
      if (whole.parts > 1)
        most = std::min(most, (whole.bytes - 1) / (whole.parts - 1));
    }
    if (partition_ <= kUsual && kUsual <= most) partition_ = kUsual;
  }

  int64_t bytes_of(const std::string& part) const {
    const auto whole = wholes_.find(std::string(tensors_of(part)));
    if (whole == wholes_.end() || whole->second.bytes == 0) return 0;
    const auto& [bytes, parts] = whole->second;
    const auto number = number_at_end(part);
    const bool cut = part.find(kPart) != part.npos && number && *number < parts;
    if (!cut) return bytes / parts;
    int64_t before = 0;
    if (__builtin_mul_overflow(*number, partition_, &before)) return 1;
    return std::clamp<int64_t>(bytes - before, 1, partition_);
  }

 private:
  /// BYTEPS_PARTITION_BYTES where nobody sets it. Source: BytePS,
  /// byteps/common/global.cc.
  static constexpr int64_t kUsual = 4'096'000;
  struct Whole {
    int64_t bytes = 0, parts = 0;
  };
  std::map<std::string, Whole> wholes_;  ///< By tensors.
  int64_t partition_ = 1;
};

bool one_at_a_time(const std::vector<DproTurn>& turns) {
  for (size_t i = 1; i < turns.size(); ++i)
    if (turns[i].span.start_ns < turns[i - 1].span.end_ns) return false;
  return true;
}

void add_chain(TraceSpool& spool, uint32_t rank,
               const std::vector<DproTurn>& turns) {
  for (size_t i = 1; i < turns.size(); ++i)
    spool.add_dependency({rank, turns[i - 1].id, turns[i].id});
}

}  // namespace

std::string_view dpro_part_of(std::string_view name) {
  return name.substr(0, std::min(name.rfind('.'), name.size()));
}

Event dpro_message_event(TraceSpool& spool, const DproMessage& message,
                         uint32_t rank, uint32_t stream, int64_t peer,
                         CollectiveKind kind) {
  return {.rank = rank,
          .stream = stream,
          .kind = EventKind::kCollective,
          .step = message.step_number,
          .name = spool.intern(message.name),
          .enqueue_ns = message.span.start_ns,
          .start_ns = message.span.start_ns,
          .end_ns = message.span.end_ns,
          .bytes = message.bytes,
          .detail = spool.add_collective({.kind = kind,
                                          .communicator = "byteps",
                                          .peer = static_cast<int32_t>(peer)})};
}

void add_turns(TraceSpool& spool, uint32_t rank, std::vector<DproTurn> turns) {
  const auto by_start = [](const DproTurn& a, const DproTurn& b) {
    return std::tie(a.span.start_ns, a.span.end_ns, a.id) <
           std::tie(b.span.start_ns, b.span.end_ns, b.id);
  };
  std::sort(turns.begin(), turns.end(), by_start);
  if (one_at_a_time(turns)) return add_chain(spool, rank, turns);
  std::map<int64_t, std::vector<DproTurn>> of_peers;
  for (const DproTurn& turn : turns) of_peers[turn.peer].push_back(turn);
  for (const auto& [peer, of_peer] : of_peers)
    if (one_at_a_time(of_peer)) add_chain(spool, rank, of_peer);
}

DproMessages::DproMessages(TraceSpool& spool, FileReport& report, uint32_t rank,
                           int64_t worker, uint32_t first_server,
                           const DproOperations& operations,
                           const DproTensors& tensors, int64_t& next_id)
    : spool_(spool),
      report_(report),
      rank_(rank),
      worker_(worker),
      first_server_(first_server),
      operations_(operations),
      tensors_(tensors),
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
  const bool pulls = name.ends_with(".PULL");
  DproMessage message{
      .worker = spool_.rank(rank_).rank,
      .server = number_of(sends ? to : from, kServer).value_or(-1),
      .stream = find_or_add(
          streams_, row.name,
          [&] {
            return spool_.add_stream(
                {.rank = rank_, .name = row.name, .kind = StreamKind::kTensor});
          }),
      .name = std::string(name),
      .part = std::string(dpro_part_of(name)),
      .pulls = pulls,
      .span = span,
      .step = operations_.step_at(span.start_ns)};
  if (sends != pulls) {
    messages_.push_back(std::move(message));
    return;
  }
  spool_.add({.rank = rank_,
              .stream = message.stream,
              .kind = EventKind::kOther,
              .step = operations_.number_of(message.step),
              .name = spool_.intern(name),
              .enqueue_ns = span.start_ns,
              .start_ns = span.start_ns,
              .end_ns = span.end_ns});
}

std::vector<DproExchange> DproMessages::finish() {
  std::sort(messages_.begin(), messages_.end(),
            [](const DproMessage& a, const DproMessage& b) {
              return std::tie(a.part, a.span.start_ns, a.pulls, a.stream) <
                     std::tie(b.part, b.span.start_ns, b.pulls, b.stream);
            });
  const Partitions partitions(messages_, tensors_);
  std::vector<DproTurn> pushes, pulls;
  for (DproMessage& message : messages_) {
    message.bytes = partitions.bytes_of(message.part);
    message.step_number = operations_.number_of(message.step);
    message.id = next_id_++;
    (message.pulls ? pulls : pushes)
        .push_back({message.server, message.span, message.id});
    Event event = dpro_message_event(
        spool_, message, rank_, message.stream,
        message.server < 0 ? -1 : first_server_ + message.server,
        message.pulls ? CollectiveKind::kReceive : CollectiveKind::kSend);
    event.external_id = message.id;
    spool_.add(event);
    ++report_.collectives;
  }
  add_turns(spool_, rank_, std::move(pushes));
  add_turns(spool_, rank_, std::move(pulls));
  return exchanges();
}

std::vector<DproExchange> DproMessages::exchanges() const {
  std::vector<DproExchange> exchanges;
  for (size_t i = 0; i < messages_.size(); ++i) {
    const DproMessage& push = messages_[i];
    if (push.pulls) continue;
    DproExchange exchange{push.step, ids_of(push.part, tensors_), push.id,
                          push.id};
    if (i + 1 < messages_.size() && messages_[i + 1].pulls &&
        messages_[i + 1].part == push.part) {
      exchange.last = messages_[i + 1].id;
      spool_.add_dependency({rank_, exchange.first, exchange.last});
    }
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

}  // namespace reprise
