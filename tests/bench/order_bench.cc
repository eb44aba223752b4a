// The ordering search on ../shared/bench/order (read in place): best makespan
// and bound per instance, with and without exact windows, for 5 s each by
// default; then what windows do for order-50 at equal effort, seed by seed.
//   order_bench [SECONDS]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "optimizer/order/order_search.h"
#include "tests/optimizer/order/order_text.h"

namespace {

void run(int ops, double seconds, bool windows) {
  auto instance = reprise::load_bench_order(ops);
  if (instance.stream.empty()) {
    std::printf("%6d  ../shared/bench/order is not beside this checkout\n",
                ops);
    return;
  }
  const auto graph = reprise::OrderGraph::make(std::move(instance));
  reprise::OrderSearchOptions options;
  options.evaluations = uint64_t{1} << 40;
  options.time_limit =
      std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  options.threads = 2;
  options.windows = windows;
  const auto start = std::chrono::steady_clock::now();
  const auto found = reprise::search_order(*graph, options);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  std::printf(
      "%6d  %-8s %8lld %8lld %7.2f%%  %10llu %8llu  %6.2f s\n", ops,
      windows ? "on" : "off", static_cast<long long>(found.lower_bound),
      static_cast<long long>(found.best.makespan),
      100.0 * static_cast<double>(found.best.makespan - found.lower_bound) /
          static_cast<double>(found.lower_bound),
      static_cast<unsigned long long>(found.evaluations),
      static_cast<unsigned long long>(found.windows_improved), took.count());
}

/// Seeds of order-50 that end at 1081 or less for the same number of schedules
/// and MIP nodes.
void compare_windows(uint64_t evaluations, uint64_t seeds) {
  auto instance = reprise::load_bench_order(50);
  if (instance.stream.empty()) return;
  const auto graph = reprise::OrderGraph::make(std::move(instance));
  uint64_t reached[2] = {0, 0};
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    for (const bool windows : {false, true}) {
      reprise::OrderSearchOptions options;
      options.evaluations = evaluations;
      options.seed = seed;
      options.threads = 2;
      options.windows = windows;
      const auto found = reprise::search_order(*graph, options);
      reached[windows ? 1 : 0] += found.best.makespan <= 1081 ? 1 : 0;
    }
  }
  std::printf("%9llu schedules, seeds of %llu at <= 1081: on %llu, off %llu\n",
              static_cast<unsigned long long>(evaluations),
              static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(reached[1]),
              static_cast<unsigned long long>(reached[0]));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  std::printf("%6s  %-8s %8s %8s %8s  %10s %8s\n", "ops", "windows", "bound",
              "best", "gap", "schedules", "improved");
  for (const int ops : {20, 50, 100, 300, 500, 2000}) {
    run(ops, seconds, true);
    run(ops, seconds, false);
  }
  const uint64_t seeds = seconds < 1 ? 2 : 20;
  for (const uint64_t evaluations : {32000, 96000, 400000})
    compare_windows(evaluations, seeds);
}
