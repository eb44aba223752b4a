// Every pair of ranks connected by TCP.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

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

}  // namespace reprise
