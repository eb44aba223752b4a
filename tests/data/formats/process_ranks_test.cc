#include "data/formats/process_ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/nccl_inspector/nccl_inspector_reader.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

struct Log {
  std::string host;
  int process = 0, tensor_place = 0, data_place = 0;
};

/// Logs of NCCL's Inspector of two by two ranks that never call among all.
std::vector<uint32_t> ranks_of(const std::vector<Log>& logs,
                               std::vector<std::string>* missing = nullptr) {
  std::list<ReadInput> read;
  std::vector<RankedInput> inputs;
  for (const Log& log : logs) {
    std::string text;
    const std::vector<std::pair<char, int>> places = {{'a', log.tensor_place},
                                                      {'b', log.data_place}};
    for (const auto& [communicator, place] : places) {
      text += fmt::format(
          R"({{"header":{{"id":"0x{}","rank":{},"n_ranks":2,"nnodes":1}},)"
          R"("metadata":{{"inspector_output_format_version":"v4.0",)"
          R"("hostname":"{}","pid":{}}},"coll_perf":{{"coll":"AllReduce",)"
          R"("coll_sn":1,"coll_msg_size_bytes":8,"coll_exec_time_us":5}}}})"
          "\n",
          communicator, place, log.host, log.process);
    }
    read.push_back(read_input(nccl_inspector_reader(), text));
    inputs.push_back({fmt::format("{}-pid{}.log", log.host, log.process),
                      "nccl-inspector", &read.back().spool, missing});
  }
  EXPECT_TRUE(assign_ranks(inputs, {}));
  std::vector<uint32_t> ranks;
  for (ReadInput& input : read) ranks.push_back(input.spool.rank(0).rank);
  return ranks;
}

// Places 0 and 1 are those of two processes each, so they are no ranks.
TEST(ProcessRanks, AreByHostAndProcessWhereCommunicatorsAreOfPartsOfTheJob) {
  std::vector<std::string> missing;
  EXPECT_EQ(ranks_of({{"n0", 907, 0, 0},
                      {"n0", 11, 1, 0},
                      {"n1", 500, 0, 1},
                      {"n1", 4, 1, 1}},
                     &missing),
            (std::vector<uint32_t>{1, 0, 3, 2}));
  EXPECT_EQ(missing.size(), 4U);
}

TEST(ProcessRanks, AreTheirPlacesWhereEachIsOneProcess) {
  EXPECT_EQ(ranks_of({{"n0", 907, 1, 1}, {"n0", 911, 0, 0}}),
            (std::vector<uint32_t>{1, 0}));
}

}  // namespace
}  // namespace reprise
