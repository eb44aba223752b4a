// The ordering search on ../shared/bench/order (read in place): best makespan
// and bound per instance, with and without exact windows, for 5 s each by
// default.
//   order_bench [SECONDS]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "optimizer/order/order_search.h"
#include "tests/optimizer/order_text.h"

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

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  std::printf("%6s  %-8s %8s %8s %8s  %10s %8s\n", "ops", "windows", "bound",
              "best", "gap", "schedules", "improved");
  for (const int ops : {20, 50, 100, 300, 500, 2000}) {
    run(ops, seconds, true);
    run(ops, seconds, false);
  }
}
