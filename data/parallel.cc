#include "data/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace reprise {

void parallel_for(size_t count, size_t threads,
                  const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::once_flag failed;
  std::exception_ptr error;
  const auto take = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      std::call_once(failed, [&] { error = std::current_exception(); });
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (size_t i = 1; i < std::min(threads, count); ++i)
        others.emplace_back(take);
    } catch (const std::system_error&) {
      // As many as there are.
    }
    take();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace reprise
