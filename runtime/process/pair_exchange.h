// All-reduce between two ranks in one message each way, half the latency of a
// two-rank ring at the same bytes on the wire.
#pragma once

#include <gloo/transport/pair.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace reprise {

/// Both ranks send their whole operand in segments into a ring of slots at the
/// peer and add what arrives. `a + b` has the same bits in either order, so
/// both ranks hold the same result.
///
/// No credits travel: segments are numbered alike in both directions, and a
/// rank sends number j only after it consumed j - kWindow. Then the peer sent
/// j - kWindow, so it had consumed j - 2 kWindow, the last user of the slot
/// (j mod 2 kWindow).
class PairExchange {
 public:
  using Reduce =
      std::function<void(void*, const void*, const void*, size_t elements)>;

  /// Requires: all later operands lie in `memory`; both ranks construct it
  /// before either calls `all_reduce`.
  PairExchange(gloo::transport::Pair& pair, std::span<std::byte> memory);

  /// Sends a whole segment for nothing, before anything else. Gloo makes the
  /// socket's send buffer as large as what a pair's buffers send, which ends
  /// the kernel's own tuning: after a first message of some bytes, every
  /// message of other collectives that is larger than a page would wait for a
  /// delayed acknowledgement, 40 ms where a link's frames are large (loopback).
  /// Requires: both ranks have constructed it. Throws as all_reduce.
  void widen_socket();

  /// Throws gloo::IoException when the peer is lost or silent.
  void all_reduce(std::byte* data, size_t size_bytes, size_t element_bytes,
                  const Reduce& reduce);

 private:
  /// Large enough to amortize a wake-up (about 10 µs), small enough that the
  /// last segment's addition hides nothing (about 15 µs).
  static constexpr size_t kSegmentBytes = 128 << 10;
  static constexpr size_t kWindow = 4;
  static constexpr size_t kSlots = 2 * kWindow;

  std::span<std::byte> memory_;
  std::vector<std::byte> slots_;
  uint64_t sequence_ = 0;  ///< Segments consumed since the start.
  /// One that is destroyed takes the others' registration with it.
  std::unique_ptr<gloo::transport::Buffer> send_, segment_, receive_;
};

}  // namespace reprise
