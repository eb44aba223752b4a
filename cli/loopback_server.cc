#include "cli/loopback_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <system_error>
#include <utility>

namespace reprise {
namespace {

constexpr size_t kLongestRequest = 16 << 10;
constexpr int kPatienceMs = 5000;  ///< A browser asks at once.

/// 128 bits as hexadecimal digits; empty where there is no randomness.
std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    return {};
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

/// The head of a request, or "" where none comes.
std::string read_request(int connection) {
  std::string request;
  std::array<char, 4096> buffer{};
  while (request.size() < kLongestRequest &&
         request.find("\r\n\r\n") == std::string::npos) {
    pollfd ready = {.fd = connection, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kPatienceMs) != 1) return {};
    const ssize_t size = ::recv(connection, buffer.data(), buffer.size(), 0);
    if (size <= 0) return {};
    request.append(buffer.data(), static_cast<size_t>(size));
  }
  return request;
}

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    pollfd ready = {.fd = connection, .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, kPatienceMs) != 1) return;
    const ssize_t size =
        ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (size <= 0) return;
    text.remove_prefix(static_cast<size_t>(size));
  }
}

/// The value of "Host: …", whatever its case.
std::string_view host_of(std::string_view request) {
  constexpr std::string_view kName = "\r\nhost:";
  for (size_t at = request.find("\r\n"); at != std::string_view::npos;
       at = request.find("\r\n", at + 1)) {
    bool same = request.size() - at > kName.size();
    for (size_t i = 2; same && i < kName.size(); ++i) {
      same = (request[at + i] | 0x20) == (kName[i] | 0x20);
    }
    if (!same) continue;
    std::string_view value = request.substr(at + kName.size());
    value = value.substr(0, value.find("\r\n"));
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    return value;
  }
  return {};
}

std::string head_of(std::string_view status, size_t size) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/html; charset=utf-8\r\n"
      "Content-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
      "Connection: close\r\n\r\n",
      status, size);
}

constexpr std::array<int, 3> kEnding = {SIGINT, SIGTERM, SIGHUP};

/// Where the handler says which signal came: a pipe, since any thread of the
/// process may take a signal, those that made the report too.
std::array<int, 2> ending = {-1, -1};

void note_ending(int number) {
  const auto byte = static_cast<uint8_t>(number);
  const int before = errno;
  // A full pipe has said it already.
  [[maybe_unused]] const ssize_t written = ::write(ending[1], &byte, 1);
  errno = before;
}

bool await_ending() {
  if (::pipe2(ending.data(), O_CLOEXEC | O_NONBLOCK) != 0) return false;
  struct sigaction action = {};
  action.sa_handler = note_ending;
  return std::all_of(kEnding.begin(), kEnding.end(), [&](int number) {
    struct sigaction before = {};
    if (::sigaction(number, nullptr, &before) != 0) return false;
    // What nohup or a shell had ignored stays so.
    return before.sa_handler == SIG_IGN ||
           ::sigaction(number, &action, nullptr) == 0;
  });
}

}  // namespace

Result<LoopbackServer> LoopbackServer::listen(uint16_t port) {
  const auto failed = [&](std::string_view what) {
    return fail(ErrorKind::kDevice, "127.0.0.1:{}: {}: {}", port, what,
                std::generic_category().message(errno));
  };
  LoopbackServer server;
  server.socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (server.socket_ < 0) return failed("cannot open a socket");
  const int yes = 1;
  ::setsockopt(server.socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(port);
  socklen_t size = sizeof name;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as sockets are
  auto* any = reinterpret_cast<sockaddr*>(&name);
  if (::bind(server.socket_, any, size) != 0 ||
      ::listen(server.socket_, 16) != 0 ||
      ::getsockname(server.socket_, any, &size) != 0) {
    return failed("cannot listen there; --port 0 takes any that is free");
  }
  const std::string token = random_token();
  if (token.empty()) return failed("no random numbers");
  if (!await_ending()) return failed("cannot wait for signals");
  server.port_ = ntohs(name.sin_port);
  server.path_ = "/" + token + "/";
  server.address_ =
      fmt::format("http://127.0.0.1:{}{}", server.port_, server.path_);
  return server;
}

LoopbackServer::LoopbackServer(LoopbackServer&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      port_(other.port_),
      path_(std::move(other.path_)),
      address_(std::move(other.address_)) {}

LoopbackServer::~LoopbackServer() {
  if (socket_ >= 0) ::close(socket_);
}

int LoopbackServer::serve(const std::string& html) const {
  while (true) {
    std::array<pollfd, 2> ready = {
        {{.fd = ending[0], .events = POLLIN, .revents = 0},
         {.fd = socket_, .events = POLLIN, .revents = 0}}};
    if (::poll(ready.data(), ready.size(), -1) < 0) continue;
    if (ready[0].revents != 0) {
      uint8_t number = 0;
      if (::read(ending[0], &number, 1) > 0) return number;
    }
    if (ready[1].revents == 0) continue;
    const int connection =
        ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) continue;
    answer(connection, html);
    ::close(connection);
  }
}

void LoopbackServer::answer(int connection, const std::string& html) const {
  const std::string request = read_request(connection);
  const std::string_view line =
      std::string_view(request).substr(0, request.find("\r\n"));
  const std::string_view host = host_of(request);
  const bool ours = host == fmt::format("127.0.0.1:{}", port_) ||
                    host == fmt::format("localhost:{}", port_);
  const bool head = line.starts_with("HEAD ");
  if (!head && !line.starts_with("GET ")) {
    send_all(connection, head_of("405 Method Not Allowed", 0));
    return;
  }
  std::string_view target = line.substr(line.find(' ') + 1);
  target = target.substr(0, target.find(' '));
  if (!ours || target != path_) {
    send_all(connection, head_of("404 Not Found", 0));
    return;
  }
  send_all(connection, head_of("200 OK", html.size()));
  if (!head) send_all(connection, html);
}

}  // namespace reprise
