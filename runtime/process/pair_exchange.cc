#include "runtime/process/pair_exchange.h"

#include <algorithm>

#include "data/result.h"

namespace reprise {

PairExchange::PairExchange(gloo::transport::Pair& pair,
                           std::span<std::byte> memory)
    : memory_(memory),
      slots_(kSlots * kSegmentBytes),
      send_(pair.createSendBuffer(0, memory.data(), memory.size())),
      segment_(pair.createSendBuffer(
          0, slots_.data() + slots_.size() - kSegmentBytes, kSegmentBytes)),
      receive_(pair.createRecvBuffer(0, slots_.data(), slots_.size())) {}

void PairExchange::widen_socket() {
  segment_->send(0, kSegmentBytes, 0);
  receive_->waitRecv();
  segment_->waitSend();
}

void PairExchange::all_reduce(std::byte* data, size_t size_bytes,
                              size_t element_bytes, const Reduce& reduce) {
  REPRISE_CHECK(data >= memory_.data() &&
                data + size_bytes <= memory_.data() + memory_.size());
  const size_t base = static_cast<size_t>(data - memory_.data());
  const size_t segments = (size_bytes + kSegmentBytes - 1) / kSegmentBytes;
  const auto length = [&](size_t i) {
    return std::min(kSegmentBytes, size_bytes - i * kSegmentBytes);
  };
  const auto slot = [&](size_t i) {
    return (sequence_ + i) % kSlots * kSegmentBytes;
  };
  size_t sent = 0;
  for (size_t i = 0; i < segments; ++i) {
    for (; sent < std::min(segments, i + kWindow); ++sent) {
      send_->send(base + sent * kSegmentBytes, length(sent), slot(sent));
    }
    receive_->waitRecv();
    send_->waitSend();
    std::byte* target = data + i * kSegmentBytes;
    reduce(target, target, slots_.data() + slot(i), length(i) / element_bytes);
  }
  sequence_ += segments;
}

}  // namespace reprise
