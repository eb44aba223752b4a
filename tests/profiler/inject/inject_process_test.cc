// Programs that know nothing of CUDA under the real injection library: they do
// and return what they always do, and their shards are whole.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/profiler/inject/host_process.h"

namespace reprise {
namespace {

class InjectProcess : public testing::Test {
 protected:
  HostProcesses host_;
};

int exited(int status) { return status << 8; }

TEST_F(InjectProcess, RecordsThatItRan) {
  EXPECT_EQ(host_.run_injected({"/bin/true"}, {{"OMPI_COMM_WORLD_RANK", "2"},
                                               {"OMPI_COMM_WORLD_SIZE", "4"}}),
            exited(0));
  const auto shards = host_.shards();
  ASSERT_EQ(shards.size(), 1U);
  const StrictShardContents& shard = shards.begin()->second;
  const auto process = shard.header.at("process").get<int64_t>();
  const auto host = shard.header.at("host").get<std::string>();
  EXPECT_EQ(shards.begin()->first,
            host + "." + std::to_string(process) + ".process.shard");
  EXPECT_EQ(shard.header.at("parent"), ::getpid());
  EXPECT_EQ(shard.header.at("rank"), 2);
  EXPECT_EQ(shard.header.at("ranks"), 4);
  EXPECT_EQ(shard.header.at("arguments"), nlohmann::json({"/bin/true"}));
  EXPECT_EQ(shard.header.at("program"),
            std::filesystem::canonical("/bin/true").string());
  EXPECT_TRUE(shard.records.empty());
  EXPECT_FALSE(shard.end.is_null());
}

TEST_F(InjectProcess, KeepsTheExitStatusOfAShellAndItsPrograms) {
  EXPECT_EQ(host_.run_injected({"/bin/sh", "-c", "/bin/false; exit 7"}),
            exited(7));
  // The shell ends by _exit, without exit handlers: its end is there too.
  std::map<std::string, bool> programs;
  for (const auto& [name, shard] : host_.shards()) {
    programs[shard.header.at("arguments").at(0)] = !shard.end.is_null();
  }
  EXPECT_EQ(programs, (std::map<std::string, bool>{{"/bin/sh", true},
                                                   {"/bin/false", true}}));
}

TEST_F(InjectProcess, KeepsTheSignalThatEndedIt) {
  EXPECT_EQ(host_.run_injected({"/bin/sh", "-c", "kill -TERM $$"}), SIGTERM);
  EXPECT_EQ(host_.run_injected({"/bin/sh", "-c", "kill -KILL $$"}), SIGKILL);
  const auto shards = host_.shards();
  EXPECT_EQ(shards.size(), 2U);
  for (const auto& [name, shard] : shards) EXPECT_TRUE(shard.end.is_null());
}

TEST_F(InjectProcess, AProgramRunByExecHasAShardOfItsOwn) {
  EXPECT_EQ(host_.run_injected({"/bin/sh", "-c", "exec /bin/true"}), exited(0));
  const auto shards = host_.shards();
  ASSERT_EQ(shards.size(), 2U);
  std::map<int, std::string> images;
  std::set<int64_t> processes;
  for (const auto& [name, shard] : shards) {
    images[shard.header.at("image")] = shard.header.at("arguments").at(0);
    processes.insert(shard.header.at("process").get<int64_t>());
  }
  EXPECT_EQ(processes.size(), 1U);
  EXPECT_EQ(images,
            (std::map<int, std::string>{{1, "/bin/sh"}, {2, "/bin/true"}}));
}

TEST_F(InjectProcess, PrintsNothing) {
  const std::string output = (host_.directory() / "output").string();
  EXPECT_EQ(host_.run_injected(
                {"/bin/sh", "-c", "exec >" + output + " 2>&1; /bin/echo seen"}),
            exited(0));
  std::ifstream file(output);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "seen\n");
}

TEST_F(InjectProcess, ADirectoryThatIsGoneDisturbsNobody) {
  EXPECT_EQ(host_.run({"/bin/sh", "-c", "exit 7"},
                      {{"REPRISE_PROFILE_DIRECTORY", "/no/such/directory"},
                       {"LD_PRELOAD", REPRISE_INJECT}}),
            exited(7));
}

TEST_F(InjectProcess, AProgramWithALimitOnItsFilesKeepsIt) {
  // A write beyond the limit would end the shell by SIGXFSZ.
  EXPECT_EQ(host_.run_injected({"/bin/sh", "-c",
                                "ulimit -f 0; LD_PRELOAD=" REPRISE_INJECT
                                " /bin/sh -c 'exit 5'; exit $?"}),
            exited(5));
}

TEST_F(InjectProcess, WithoutADirectoryNothingHappens) {
  EXPECT_EQ(
      host_.run({"/bin/sh", "-c", "exit 7"}, {{"LD_PRELOAD", REPRISE_INJECT}}),
      exited(7));
  EXPECT_TRUE(host_.shards().empty());
}

}  // namespace
}  // namespace reprise
