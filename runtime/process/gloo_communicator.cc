// Collectives on the CPU over Gloo: a full mesh of TCP pairs, whose addresses a
// ProcessGroup exchanges once. Two ranks have an exchange of their own
// (pair_exchange.h), more use Gloo's ring, or combine in the order of ranks
// where each addition rounds to 16 bits. A peer that dies shows as a broken
// pair; closing our own connections then tells the others at once.
#include <gloo/math.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "data/hlo/module.h"
#include "runtime/process/communicator.h"
#include "runtime/process/flat_transfers.h"
#include "runtime/process/group_context.h"
#include "runtime/process/pair_exchange.h"
#include "runtime/process/reduce_functions.h"
#include "runtime/process/thread_setup.h"

namespace reprise {
namespace {

class SoloCommunicator : public Communicator {
 public:
  Status attach(std::span<std::byte>) override { return {}; }
  Status check(const CollectiveSpec&) const override { return {}; }
  bool is_immediate() const override { return true; }
  Status run(const CollectiveSpec& spec, const void* input, void* output,
             uint32_t) override {
    if (input == output) return {};
    // The whole of one rank; what several would leave, calibration needs not.
    const int64_t bytes =
        std::min(spec.input.size_bytes, spec.output.size_bytes);
    std::memcpy(output, input, static_cast<size_t>(bytes));
    return {};
  }
};

/// A full mesh whose addresses were exchanged by a ProcessGroup (Debian builds
/// Gloo without its own MPI context).
class MeshContext : public gloo::Context {
 public:
  using gloo::Context::Context;

  /// Listens; returns the addresses to be dialled by each peer, one after the
  /// other, all of the same length.
  std::string open(const std::shared_ptr<gloo::transport::Device>& device,
                   std::chrono::milliseconds timeout) {
    device_ = device;
    setTimeout(timeout);
    transportContext_ = device->createContext(rank, size);
    transportContext_->setTimeout(timeout);
    std::vector<std::string> addresses(static_cast<size_t>(size));
    size_t length = 0;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const std::vector<char> bytes =
          transportContext_->createPair(peer)->address().bytes();
      addresses[static_cast<size_t>(peer)].assign(bytes.begin(), bytes.end());
      length = bytes.size();
    }
    addresses[static_cast<size_t>(rank)].resize(length);
    std::string row;
    for (const std::string& address : addresses) row += address;
    return row;
  }

  void connect(const std::vector<std::string>& addresses) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const std::string& row = addresses[static_cast<size_t>(peer)];
      const size_t length = row.size() / static_cast<size_t>(size);
      const char* mine = row.data() + static_cast<size_t>(rank) * length;
      const std::vector<char> address(mine, mine + length);
      transportContext_->getPair(peer)->connect(address);
    }
  }
};

template <typename T>
PairExchange::Reduce reduction_of(Reduction reduction) {
  using Function = void (*)(void*, const void*, const void*, size_t);
  switch (reduction) {
    case Reduction::kSum:
      return static_cast<Function>(&gloo::sum<T>);
    case Reduction::kMax:
      return static_cast<Function>(&gloo::max<T>);
    case Reduction::kMin:
      return static_cast<Function>(&gloo::min<T>);
    case Reduction::kProduct:
      return static_cast<Function>(&gloo::product<T>);
  }
  return nullptr;
}

PairExchange::Reduce function_of(PrimitiveType type, Reduction reduction) {
  switch (type) {
    case PrimitiveType::kF32:
      return reduction_of<float>(reduction);
    case PrimitiveType::kF64:
      return reduction_of<double>(reduction);
    case PrimitiveType::kS32:
      return reduction_of<int32_t>(reduction);
    case PrimitiveType::kS64:
      return reduction_of<int64_t>(reduction);
    case PrimitiveType::kU8:
      return reduction_of<uint8_t>(reduction);
    case PrimitiveType::kS8:
      return reduction_of<int8_t>(reduction);
    default:
      if (const ReduceFunction own = reduce_function(type, reduction))
        return own;
      return nullptr;
  }
}

class GlooCommunicator : public Communicator {
 public:
  explicit GlooCommunicator(ProcessGroup& group)
      : group_(group),
        context_(std::make_shared<MeshContext>(group.rank(), group.size())) {}

  Status connect(const gloo::transport::tcp::attr& address, double timeout_s) {
    const auto timeout =
        std::chrono::milliseconds(static_cast<int64_t>(timeout_s * 1000));
    std::string mine;       // Addresses, or after kFailed why there are none.
    prefer_prompt_turns();  // Of the thread that the device starts.
    try {
      mine =
          context_->open(gloo::transport::tcp::CreateDevice(address), timeout);
    } catch (const std::exception& error) {
      mine =
          fmt::format("{}cannot listen on '{}': {}; set REPRISE_INTERFACE",
                      kFailed, address.iface + address.hostname, error.what());
    }
    accept_usual_turns();
    // A rank without an address still takes part: the others wait for it here.
    const Result<std::vector<std::string>> all = group_.all_gather(mine);
    if (!all) return pass(all.error());
    for (size_t rank = 0; rank < all->size(); ++rank) {
      const std::string& row = (*all)[rank];
      if (row.starts_with(kFailed)) {
        return fail(ErrorKind::kDevice, "rank {} {}", rank,
                    row.substr(kFailed.size()));
      }
    }
    try {
      context_->connect(*all);
    } catch (const std::exception& error) {
      return fail(ErrorKind::kDevice, "rank {} cannot reach its peers: {}",
                  group_.rank(), error.what());
    }
    return {};
  }

  Status attach(std::span<std::byte> memory) override {
    if (context_->size != 2) return group_.barrier();
    exchange_.emplace(*context_->getPair(1 - context_->rank), memory);
    if (const Status built = group_.barrier(); !built) return built;
    try {
      exchange_->widen_socket();
    } catch (const std::exception& error) {
      return lost(error.what(), nullptr);
    }
    return group_.barrier();
  }

  Status check(const CollectiveSpec& spec) const override {
    if (!facts_of(spec.kind).runs) {
      return fail(ErrorKind::kUnsupported, "{} does not run on CPU",
                  name_of(spec.kind));
    }
    if (facts_of(spec.kind).reduces &&
        !function_of(spec.type, spec.reduction)) {
      return fail(ErrorKind::kUnsupported, "{} of {}", name_of(spec.kind),
                  primitive_type_name(spec.type));
    }
    for (const std::vector<int64_t>& group : spec.groups) {
      for (const int64_t rank : group) {
        if (rank >= 0 && rank < context_->size) continue;
        return fail(ErrorKind::kInvalid, "{} with rank {} of {}",
                    name_of(spec.kind), rank, context_->size);
      }
    }
    return {};
  }

  Status run(const CollectiveSpec& spec, const void* input, void* output,
             uint32_t tag) override {
    if (spec.bytes == 0) return {};
    const std::vector<int64_t>* const members = group_of(spec, context_->rank);
    if (members == nullptr && !fills_with_zeros(spec.kind)) return {};
    try {
      transfer(spec, members, input, output, tag);
    } catch (const std::exception& error) {
      return lost(error.what(), members);
    }
    return {};
  }

  void abandon() override { context_->closeConnections(); }

 private:
  /// The members' context; the mesh itself where they are all ranks in order.
  std::shared_ptr<gloo::Context> context_of(
      const std::vector<int64_t>& members) {
    const std::vector<int> ranks(members.begin(), members.end());
    std::shared_ptr<gloo::Context>& made = groups_[ranks];
    if (made) return made;
    bool is_mesh = ranks.size() == static_cast<size_t>(context_->size);
    for (size_t i = 0; i < ranks.size(); ++i)
      is_mesh = is_mesh && ranks[i] == static_cast<int>(i);
    made = is_mesh ? context_ : make_group_context(*context_, ranks);
    return made;
  }

  void transfer(const CollectiveSpec& spec, const std::vector<int64_t>* members,
                const void* input, void* output, uint32_t tag) {
    const auto bytes = static_cast<size_t>(spec.bytes);
    if (spec.kind == CollectiveKind::kPermute)
      return permute(spec, input, output, tag);
    if (members == nullptr) {
      std::memset(output, 0, bytes);
      return;
    }
    if (members->size() == 1) {
      if (input != output) std::memcpy(output, input, bytes);
      return;
    }
    const TransferGroup group{context_of(*members), tag};
    switch (spec.kind) {
      case CollectiveKind::kAllReduce:
        REPRISE_CHECK(input == output);
        return all_reduce(group, spec, output);
      case CollectiveKind::kAllGather:
        return all_gather(group, input, output, bytes);
      case CollectiveKind::kReduceScatter:
        return reduce_scatter(group, spec, input, output);
      case CollectiveKind::kAllToAll:
        return exchange_parts(group, input, output, bytes);
      case CollectiveKind::kBroadcast:
        return broadcast_bytes(group, input, output, bytes);
      default:
        REPRISE_CHECK(false);  // `check` refuses it.
    }
  }

  void all_reduce(const TransferGroup& group, const CollectiveSpec& spec,
                  void* data) {
    const auto elements = static_cast<size_t>(spec.elements);
    const auto element_bytes =
        static_cast<size_t>(primitive_type_bits(spec.type) / 8);
    const PairExchange::Reduce reduce = function_of(spec.type, spec.reduction);
    const CombineFunction combine = combine_of(group, spec);
    if (combine != nullptr) {
      all_reduce_in_order(group, data, elements, combine);
    } else if (exchange_ && group.tag == 0) {
      exchange_->all_reduce(static_cast<std::byte*>(data),
                            elements * element_bytes, element_bytes, reduce);
    } else if (elements * element_bytes <= kMostDirectBytes) {
      all_reduce_directly(group, data, elements, element_bytes, reduce);
    } else {
      ring_all_reduce(group, data, elements, element_bytes, reduce);
    }
  }

  /// Up to so many bytes a part goes to all others at once: one round of
  /// messages, where Gloo's rings take ranks - 1 or twice as many, of two or
  /// more segments each. A round costs tens of microseconds, as much as 8 KiB
  /// on 1 Gbit/s; Open MPI's tuned all-reduce leaves its ring's like at 10,000
  /// bytes (coll_tuned_decision_fixed.c).
  static constexpr size_t kMostDirectBytes = 8192;

  /// What all ranks give, part after part: every rank gives `bytes` to all.
  void give_to_all(const TransferGroup& group, const void* data, size_t bytes,
                   void* received) {
    const auto ranks = static_cast<size_t>(group.context->size);
    copies_.resize(ranks * bytes);
    for (size_t rank = 0; rank < ranks; ++rank)
      std::memcpy(copies_.data() + rank * bytes, data, bytes);
    exchange_parts(group, copies_.data(), received, copies_.size());
  }

  void all_gather(const TransferGroup& group, const void* input, void* output,
                  size_t size_bytes) {
    const size_t part = size_bytes / static_cast<size_t>(group.context->size);
    if (part > kMostDirectBytes)
      return all_gather_parts(group, input, output, size_bytes);
    give_to_all(group, input, part, output);
  }

  void all_reduce_directly(const TransferGroup& group, void* data,
                           size_t elements, size_t element_bytes,
                           const PairExchange::Reduce& reduce) {
    const size_t bytes = elements * element_bytes;
    scratch_.resize(static_cast<size_t>(group.context->size) * bytes);
    give_to_all(group, data, bytes, scratch_.data());
    reduce_parts(scratch_, elements, bytes, reduce, data);
  }

  /// Of parts that lie one behind the other, in their order.
  static void reduce_parts(std::span<const std::byte> parts, size_t elements,
                           size_t part_bytes,
                           const PairExchange::Reduce& reduce, void* result) {
    std::memcpy(result, parts.data(), part_bytes);
    for (size_t at = part_bytes; at < parts.size(); at += part_bytes)
      reduce(result, result, parts.data() + at, elements);
  }

  /// Of two ranks' elements either order rounds once.
  static CombineFunction combine_of(const TransferGroup& group,
                                    const CollectiveSpec& spec) {
    return group.context->size > 2 ? combine_function(spec.type, spec.reduction)
                                   : nullptr;
  }

  /// Each rank combines one part of all ranks' elements, of two bytes each, and
  /// gives it to the others: as many bytes on the wire as a ring sends.
  void all_reduce_in_order(const TransferGroup& group, void* data,
                           size_t elements, CombineFunction combine) {
    const auto ranks = static_cast<size_t>(group.context->size);
    const size_t part = (elements + ranks - 1) / ranks;
    const size_t bytes = 2 * part * ranks;
    scratch_.assign(2 * bytes, std::byte{0});
    std::byte* const received = scratch_.data() + bytes;
    std::memcpy(scratch_.data(), data, 2 * elements);
    exchange_parts(group, scratch_.data(), received, bytes);
    combine(scratch_.data(), received, ranks, part);
    all_gather_parts(group, scratch_.data(), received, bytes);
    std::memcpy(data, received, 2 * elements);
  }

  /// Gloo has none: each rank gets all ranks' elements of its own part, as many
  /// bytes as a ring sends, and reduces them in the order of ranks.
  void reduce_scatter(const TransferGroup& group, const CollectiveSpec& spec,
                      const void* input, void* output) {
    const auto ranks = static_cast<size_t>(group.context->size);
    const size_t elements = static_cast<size_t>(spec.elements) / ranks;
    scratch_.resize(static_cast<size_t>(spec.bytes));
    exchange_parts(group, input, scratch_.data(), scratch_.size());
    if (const CombineFunction combine = combine_of(group, spec))
      return combine(output, scratch_.data(), ranks, elements);
    reduce_parts(scratch_, elements, scratch_.size() / ranks,
                 function_of(spec.type, spec.reduction), output);
  }

  void permute(const CollectiveSpec& spec, const void* input, void* output,
               uint32_t tag) {
    std::optional<int> source, target;
    for (const auto& [from, to] : spec.pairs) {
      if (from == context_->rank) target = static_cast<int>(to);
      if (to == context_->rank) source = static_cast<int>(from);
    }
    send_and_receive({context_, tag}, target, source, input, output,
                     static_cast<size_t>(spec.bytes));
  }

  // Gloo names a peer by its ephemeral port at best, so among more than two
  // ranks the caller asks who still answers (ProcessGroup::roll_call). Closing
  // our connections tells the others at once.
  Status lost(const std::string& reason, const std::vector<int64_t>* members) {
    const bool silent = reason.find("imed out") != std::string::npos ||
                        reason.find("imeout") != std::string::npos;
    context_->closeConnections();
    std::string who = "a rank";
    if (members != nullptr && members->size() == 2) {
      const size_t other = (*members)[0] == context_->rank ? 1 : 0;
      who = fmt::format("rank {}", (*members)[other]);
    }
    return fail(ErrorKind::kDevice, "rank {}: {} {}: {}", context_->rank, who,
                silent ? "kept silent" : "was lost", reason);
  }

  /// No address starts so: its first bytes are 0 or an address family.
  static constexpr std::string_view kFailed = "failed: ";

  ProcessGroup& group_;
  std::shared_ptr<MeshContext> context_;
  std::optional<PairExchange> exchange_;
  std::map<std::vector<int>, std::shared_ptr<gloo::Context>> groups_;
  std::vector<std::byte> scratch_;  ///< Of what is combined beside the data.
  std::vector<std::byte> copies_;   ///< Of what goes to all.
};

/// Gloo writes without MSG_NOSIGNAL: a peer that is gone must come back as its
/// error, not end this process. A handler of the host's stays.
void ignore_broken_pipes() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 &&
      action.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator() {
  return std::make_unique<SoloCommunicator>();
}

Result<std::unique_ptr<Communicator>> make_gloo_communicator(
    ProcessGroup& group, double timeout_s) {
  gloo::transport::tcp::attr address;
  if (const char* interface = std::getenv("REPRISE_INTERFACE")) {
    address.iface = interface;
  } else if (group.local_size() == group.size()) {
    address.hostname = "127.0.0.1";
  } else {
    address.hostname = host_name();
  }
  ignore_broken_pipes();
  auto communicator = std::make_unique<GlooCommunicator>(group);
  const Status connected = communicator->connect(address, timeout_s);
  if (!connected) return pass(connected.error());
  return communicator;
}

}  // namespace reprise
