#include "tests/runtime/cpu/rank_threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

namespace reprise {

void run_rank_threads(int ranks, double timeout_s,
                      const std::function<void(RankThread&)>& body) {
  std::string path = std::filesystem::temp_directory_path() / "reprise_XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = make_file_process_group(path + "/r", rank, ranks, 20);
      ASSERT_TRUE(group) << group.error().message;
      RankThread own{
          .rank = rank, .group = **group, .communicator = {}, .called = {}};
      for (auto* to : {&own.communicator, &own.called}) {
        auto made = make_gloo_communicator(**group, timeout_s);
        ASSERT_TRUE(made) << made.error().message;
        *to = std::move(*made);
      }
      body(own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove_all(path);
}

}  // namespace reprise
