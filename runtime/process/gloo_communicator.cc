// Collectives on the CPU over Gloo: a full mesh of TCP pairs, whose addresses a
// ProcessGroup exchanges once. Two ranks have an exchange of their own
// (pair_exchange.h), more use Gloo's ring, or combine in the order of ranks
// where each addition rounds to 16 bits. A peer that dies shows as a broken
// pair; closing our own connections then tells the others at once.
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "data/hlo/module.h"
#include "runtime/process/communicator.h"
#include "runtime/process/flat_transfers.h"
#include "runtime/process/group_collectives.h"
#include "runtime/process/group_context.h"
#include "runtime/process/mesh_context.h"
#include "runtime/process/pair_exchange.h"
#include "runtime/process/thread_setup.h"

namespace reprise {
namespace {

class SoloCommunicator : public Communicator {
 public:
  Status attach(std::span<std::byte>) override { return {}; }
  Status check(const CollectiveSpec&) const override { return {}; }
  bool is_immediate() const override { return true; }
  Status run(const CollectiveSpec& spec, std::span<const ArrayBytes> arrays,
             uint32_t) override {
    for (size_t a = 0; a < arrays.size(); ++a) {
      if (arrays[a].input == arrays[a].output) continue;
      // The whole of one rank; what several would leave, calibration needs not.
      const int64_t bytes = std::min(spec.arrays[a].input.size_bytes,
                                     spec.arrays[a].output.size_bytes);
      std::memcpy(arrays[a].output, arrays[a].input,
                  static_cast<size_t>(bytes));
    }
    return {};
  }
};

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
        !gloo_function(spec.type, spec.reduction)) {
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

  Status run(const CollectiveSpec& spec, std::span<const ArrayBytes> arrays,
             uint32_t tag) override {
    if (spec.bytes == 0) return {};
    const std::vector<int64_t>* const members = group_of(spec, context_->rank);
    if (members == nullptr && !fills_with_zeros(spec.kind)) return {};
    try {
      if (arrays.size() > 1) {
        transfer_together(spec, *members, arrays, tag);
      } else {
        transfer(spec, members, arrays[0].input, arrays[0].output, tag);
      }
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
        return collectives_.all_gather(group, input, output, bytes);
      case CollectiveKind::kReduceScatter:
        return collectives_.reduce_scatter(group, spec, input, output);
      case CollectiveKind::kAllToAll:
        return exchange_parts(group, input, output, bytes);
      case CollectiveKind::kBroadcast:
        return broadcast_bytes(group, input, output, bytes);
      default:
        REPRISE_CHECK(false);  // `check` refuses it.
    }
  }

  /// A bucket whose members do not share a buffer.
  void transfer_together(const CollectiveSpec& spec,
                         const std::vector<int64_t>& members,
                         std::span<const ArrayBytes> arrays, uint32_t tag) {
    std::vector<TransferArray> all;
    for (size_t a = 0; a < arrays.size(); ++a) {
      const CollectiveArray& array = spec.arrays[a];
      const auto part = static_cast<size_t>(
          std::min(array.input.size_bytes, array.output.size_bytes));
      if (members.size() > 1) {
        all.push_back({arrays[a].input, arrays[a].output, part});
      } else if (arrays[a].input != arrays[a].output) {
        std::memcpy(arrays[a].output, arrays[a].input, part);
      }
    }
    if (all.empty()) return;
    const TransferGroup group{context_of(members), tag};
    if (spec.kind == CollectiveKind::kAllGather)
      return all_gather_arrays(group, all);
    REPRISE_CHECK(spec.kind == CollectiveKind::kReduceScatter);
    collectives_.reduce_scatter_arrays(group, spec, all);
  }

  void all_reduce(const TransferGroup& group, const CollectiveSpec& spec,
                  void* data) {
    if (!exchange_ || group.tag != 0 || group.context->size != 2)
      return collectives_.all_reduce(group, spec, data);
    const auto element_bytes =
        static_cast<size_t>(primitive_type_bits(spec.type) / 8);
    exchange_->all_reduce(static_cast<std::byte*>(data),
                          static_cast<size_t>(spec.elements) * element_bytes,
                          element_bytes,
                          gloo_function(spec.type, spec.reduction));
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
  GroupCollectives collectives_;
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
