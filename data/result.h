// Result<T>: the one error type of the project. Malformed input and infeasible
// plans are ordinary outcomes and travel by value; broken invariants abort.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace reprise {

/// What went wrong, as far as a caller acts on it; cli maps each to an exit
/// code.
enum class ErrorKind {
  kIo,           ///< A file cannot be read or written (exit 3).
  kParse,        ///< Input text or bytes are malformed (exit 3).
  kUnsupported,  ///< Well-formed input that Reprise does not handle (exit 3).
  /// Well-formed input that contradicts itself or its program (exit 3).
  kInvalid,
  kInfeasible,  ///< No answer exists under the stated limits (exit 1).
  /// The environment lacks or lost something: a rank, a compiler, a GPU (exit
  /// 4).
  kDevice,
};

/// An error with a message that says where (file:line or name), what was found
/// and what was expected.
struct Error {
  ErrorKind kind = ErrorKind::kInvalid;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// Builds the error side of a Result: `return fail(ErrorKind::kParse, "{}:{}:
/// …", file, line);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorKind kind,
                                         fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(
      Error{kind, fmt::format(format, std::forward<Args>(args)...)});
}

/// Passes on an error, with the context of the caller in front.
[[nodiscard]] inline tl::unexpected<Error> pass(
    Error error, const std::string& context = {}) {
  if (!context.empty()) error.message = context + ": " + error.message;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace reprise

/// Always-on invariant: a bug, not an input error, so it aborts.
#define REPRISE_CHECK(condition)                                            \
  do {                                                                      \
    if (!(condition)) {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, \
                   #condition);                                             \
      std::abort();                                                         \
    }                                                                       \
  } while (false)
