#include "replay/collectives/inferred_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "replay/collectives/collectives.h"
#include "tests/replay/collectives/collective_text.h"

namespace reprise {
namespace {

using Group = std::vector<uint32_t>;

// A job whose ranks call collectives of groups, with nothing recorded of which.
class Job {
 public:
  Job(uint32_t ranks, uint64_t seed) : now_ns_(ranks, 0), random_(seed) {}

  // Each member comes after up to 2 ms of its own; all leave within 30 us.
  void call(const Group& group, int64_t elements) {
    int64_t arrival_ns = 0;
    std::vector<int64_t> start_ns;
    for (const uint32_t rank : group) {
      start_ns.push_back(now_ns_[rank] + below(2'000'000));
      arrival_ns = std::max(arrival_ns, start_ns.back());
    }
    const int64_t end_ns = arrival_ns + 500'000 + below(1'000'000);
    for (size_t i = 0; i < group.size(); ++i) {
      const uint32_t rank = group[i];
      now_ns_[rank] = end_ns + below(30'000);
      text_ += fmt::format(
          "{} collective t2 {} {} gloo:all_reduce op=all-reduce in={} out={} "
          "type=f32\n",
          rank, start_ns[i], now_ns_[rank], elements, elements);
    }
    called_.push_back(fmt::format("{} of {}", elements * 4, listed(group)));
  }

  // What the trace tells, all groups that it lists, each ascending.
  Trace trace(const std::vector<Group>& groups) const {
    Trace trace = collective_trace(text_);
    for (const Group& group : groups)
      trace.collectives.push_back({.communicator = {}, .group = group});
    return trace;
  }
  std::vector<std::string> called() const { return sorted(called_); }
  static std::vector<std::string> matched(const Trace& trace) {
    std::vector<std::string> found;
    for (const MatchedCollective& one : match_collectives(trace).collectives) {
      Group members;
      for (const CollectiveMember& member : one.members)
        members.push_back(member.rank);
      found.push_back(fmt::format("{} of {}", one.bytes, listed(members)));
    }
    return sorted(found);
  }

 private:
  static std::vector<std::string> sorted(std::vector<std::string> texts) {
    std::sort(texts.begin(), texts.end());
    return texts;
  }
  static std::string listed(const Group& group) {
    std::string text;
    for (const uint32_t rank : group) text += fmt::format("{} ", rank);
    return text;
  }
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }

  std::string text_;
  std::vector<int64_t> now_ns_;  // [rank]
  std::vector<std::string> called_;
  std::mt19937_64 random_;
};

const std::vector<Group> kMesh = {{0, 1, 2, 3}, {0, 1}, {2, 3}, {0, 2}, {1, 3}};

// Tensor parallelism on rows of a mesh, data parallelism on its columns, a
// loss of all.
Job mesh_job(uint64_t seed, int64_t row, int64_t column, int64_t all) {
  Job job(4, seed);
  for (int step = 0; step < 12; ++step) {
    for (const Group& group : {kMesh[1], kMesh[2]}) job.call(group, row);
    for (const Group& group : {kMesh[3], kMesh[4]}) job.call(group, column);
    job.call(kMesh[0], all);
  }
  return job;
}

TEST(InferredGroups, AreThoseOfAMeshsRowsAndColumns) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Job job = mesh_job(seed, 64, 1000, 1);
    EXPECT_EQ(Job::matched(job.trace(kMesh)), job.called()) << seed;
  }
}

// By chance a call of two ends when one of all does: 4 of these 50 jobs.
TEST(InferredGroups, AreMostlyToldCallByCallWhereNoneIsThatOfAllOfAKind) {
  int exact = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Job job(4, seed);
    for (int step = 0; step < 12; ++step) {
      job.call({0, 1}, 64);
      job.call({0, 1, 2, 3}, 64);
    }
    exact += Job::matched(job.trace({kMesh[0], kMesh[1]})) == job.called();
  }
  EXPECT_GE(exact, 45);
}

TEST(InferredGroups, LeaveCallsOfFewRanksToThese) {
  Job job(3, 1);
  for (int step = 0; step < 4; ++step) {
    job.call({0, 1}, 10);
    job.call({0, 1, 2}, 1000);
  }
  EXPECT_EQ(Job::matched(job.trace({{0, 1, 2}, {0, 1}})), job.called());
}

TEST(InferredGroups, AreNoneWithoutListedGroupsOrWithoutOneClock) {
  const Job job = mesh_job(1, 64, 1000, 1);
  const auto of_all = [](const Trace& trace) {
    const std::vector<std::string> matched = Job::matched(trace);
    return std::all_of(matched.begin(), matched.end(), [](const auto& one) {
      return one.ends_with("of 0 1 2 3 ");
    });
  };
  EXPECT_TRUE(of_all(job.trace({})));
  EXPECT_TRUE(of_all(job.trace({kMesh[0]})));
  EXPECT_TRUE(of_all(job.trace({kMesh[0], kMesh[1], {2, 4}})));
  Trace hosts = job.trace(kMesh);
  hosts.ranks[3].host = "elsewhere";
  EXPECT_TRUE(of_all(hosts));
}

}  // namespace
}  // namespace reprise
