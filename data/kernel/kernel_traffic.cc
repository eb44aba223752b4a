// Distinct lines and fetched lines, from the innermost loop outwards: where
// what one iteration touches fits in the cache, the next finds it there, so a
// loop fetches its distinct lines; where not, it fetches all again each time.
// After the loop-nest cost of McKinley, Carr and Tseng, ACM TOPLAS 18(4), 1996,
// with a capacity.
#include "data/kernel/kernel_traffic.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

namespace reprise {
namespace {

using Kind = KernelStatement::Kind;

constexpr double kLine_bytes = 64, kCacheLines = 32768 / kLine_bytes;

double bytes_of(const KernelArgument& argument) {
  return static_cast<double>(argument.elements) *
         primitive_type_bits(argument.type) / 8;
}

/// One load or store: the distinct lines that it touches, and how many are
/// fetched for it.
struct Fetch {
  int32_t argument = -1, index = -1;
  double lines = 1, fetched = 1;
  double innermost_step_bytes = 0;  ///< Of the first loop that moves it.
};
using Fetches = std::vector<Fetch>;

/// Fetches of one argument are of the same lines, mostly: of the most.
std::map<int32_t, Fetch*> distinct(Fetches& accesses) {
  std::map<int32_t, Fetch*> most;
  for (Fetch& access : accesses) {
    Fetch*& one = most[access.argument];
    if (one == nullptr || one->lines < access.lines) one = &access;
  }
  return most;
}

bool fits(Fetches& accesses) {
  double lines = 0;
  for (const auto& [argument, access] : distinct(accesses))
    lines += access->lines;
  return lines <= kCacheLines;
}

/// Each line once.
void fetch_once(Fetches& accesses) {
  for (Fetch& access : accesses) access.fetched = 0;
  for (const auto& [argument, access] : distinct(accesses))
    access->fetched = access->lines;
}

class TrafficCount {
 public:
  explicit TrafficCount(const Kernel& kernel) : kernel_(kernel) {}

  double run() const {
    std::vector<double> fetched_bytes(kernel_.arguments.size(), 0);
    for (const KernelStatement& statement : kernel_.body) {
      if (statement.kind != Kind::kLoop ||
          !plain_nest(kernel_, statement).empty())
        continue;
      for (const Fetch& access : of_loop(statement)) {
        if (access.innermost_step_bytes < kLine_bytes) continue;
        fetched_bytes[static_cast<size_t>(access.argument)] +=
            access.fetched * kLine_bytes;
      }
    }
    double bytes = 0;
    for (size_t i = 0; i < fetched_bytes.size(); ++i)
      bytes += std::max(bytes_of(kernel_.arguments[i]), fetched_bytes[i]);
    return bytes;
  }

 private:
  const KernelLoop& loop_of(const KernelStatement& loop) const {
    return kernel_.loops[static_cast<size_t>(loop.target)];
  }

  Fetches of_block(const std::vector<KernelStatement>& block) const {
    Fetches all;
    for (const KernelStatement& statement : block) {
      if (statement.kind == Kind::kLoop) {
        const Fetches inner = of_loop(statement);
        all.insert(all.end(), inner.begin(), inner.end());
      } else if (statement.kind == Kind::kStore) {
        all.push_back({statement.target, statement.index});
      } else if (statement.kind == Kind::kLet) {
        const KernelValue& let =
            kernel_.values[static_cast<size_t>(statement.value)];
        if (let.kind == KernelValue::Kind::kLoad)
          all.push_back({let.source, let.index});
      }
    }
    if (fits(all)) fetch_once(all);
    return all;
  }

  Fetches of_loop(const KernelStatement& loop) const {
    Fetches all = of_block(loop.body);
    const bool stays = fits(all);
    const auto extent = static_cast<double>(loop_of(loop).extent);
    for (Fetch& access : all) {
      if (!stays) access.fetched *= extent;
      const double step = step_bytes(access, loop.target);
      if (step == 0) continue;
      if (access.innermost_step_bytes == 0) access.innermost_step_bytes = step;
      const double more = extent * std::min(1.0, step / kLine_bytes);
      access.lines = std::min(
          access.lines * std::max(1.0, more),
          bytes_of(kernel_.arguments[static_cast<size_t>(access.argument)]) /
                  kLine_bytes +
              1);
    }
    if (stays) fetch_once(all);
    return all;
  }

  double step_bytes(const Fetch& access, int32_t loop) const {
    const PrimitiveType type =
        kernel_.arguments[static_cast<size_t>(access.argument)].type;
    return static_cast<double>(std::abs(
               loop_coefficient(kernel_.indices, access.index, loop))) *
           primitive_type_bits(type) / 8;
  }

  const Kernel& kernel_;
};

}  // namespace

double kernel_bytes(const Kernel& kernel) {
  double bytes = 0;
  for (const KernelArgument& argument : kernel.arguments)
    bytes += bytes_of(argument);
  return bytes;
}

double kernel_traffic(const Kernel& kernel) {
  return TrafficCount(kernel).run();
}

}  // namespace reprise
