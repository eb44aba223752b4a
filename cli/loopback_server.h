// A page for this machine's browsers alone: HTTP on 127.0.0.1, below a path
// that nobody can guess. Other programs of the same user aside, only who was
// told the address reads it: pages of other sites neither know the path nor
// pass the check of the Host header.
#pragma once

#include <cstdint>
#include <string>

#include "data/result.h"

namespace reprise {

class LoopbackServer {
 public:
  /// Listens on a port, 0: any that is free. SIGINT, SIGTERM and SIGHUP
  /// end `serve` from now on, not the process. Errors: kDevice where the port
  /// is taken.
  static Result<LoopbackServer> listen(uint16_t port);
  LoopbackServer(LoopbackServer&& other) noexcept;
  LoopbackServer& operator=(LoopbackServer&&) = delete;
  ~LoopbackServer();

  /// "http://127.0.0.1:PORT/TOKEN/"
  const std::string& address() const { return address_; }
  /// Answers with `html` until a signal comes. Returns its number.
  int serve(const std::string& html) const;

 private:
  LoopbackServer() = default;
  void answer(int connection, const std::string& html) const;

  int socket_ = -1;
  uint16_t port_ = 0;
  std::string path_, address_;
};

}  // namespace reprise
