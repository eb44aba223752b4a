#include "replay/collectives/message_peer.h"

#include <limits>
#include <string_view>

#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

int32_t rank_of(std::string_view text) {
  const auto rank = parse_integer(text);
  const bool is_rank =
      rank && *rank >= 0 && *rank <= std::numeric_limits<int32_t>::max();
  return is_rank ? static_cast<int32_t>(*rank) : -1;
}

/// "nccl:send 0->1" and "nccl:recv 1<-0": the own rank comes first. Source:
/// ProcessGroupNCCL::send and recv of PyTorch 2.x.
int32_t peer_in_name(std::string_view name) {
  const bool sends = name.starts_with("nccl:send ");
  if (!sends && !name.starts_with("nccl:recv ")) return -1;
  const size_t arrow = name.find(sends ? "->" : "<-");
  return arrow == name.npos ? -1 : rank_of(name.substr(arrow + 2));
}

/// "ncclSend", "ncclRecv" and the end of a group of one have it as `peer`.
int32_t peer_of_nccl_call(std::string_view attributes) {
  JsonScanner members(attributes);
  while (members.next()) {
    if (members.key() == "peer") return rank_of(members.value());
  }
  return -1;
}

}  // namespace

int32_t peer_named(const Trace& trace, const Event& event) {
  // "send(Tensor[] tensors, ProcessGroup process_group, int dst, int tag)", and
  // recv_ likewise with src. Source: torch/csrc/distributed/c10d/Ops.cpp of
  // PyTorch 2.15; c10d::recv_any_source_ has no such argument.
  constexpr size_t kPeer = 2;
  const std::string_view name = trace.text(event.name);
  const bool by_torch = name == "c10d::send" || name == "c10d::recv_";
  const bool by_nccl =
      name == "ncclSend" || name == "ncclRecv" || name == "ncclGroupEnd";
  if (!by_torch && !by_nccl) return peer_in_name(name);
  if (event.attributes < 0) return -1;
  const std::string& attributes =
      trace.strings[static_cast<size_t>(event.attributes)];
  if (by_nccl) return peer_of_nccl_call(attributes);
  JsonScanner members(attributes);
  while (members.next()) {
    if (members.key() != "concrete_inputs") continue;
    JsonScanner inputs(members.value());
    for (size_t i = 0; inputs.next(); ++i) {
      if (i == kPeer) return rank_of(json_unescaped(inputs.value()));
    }
  }
  return -1;
}

}  // namespace reprise
