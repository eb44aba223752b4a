#include "costmodel/cost_database.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "data/file.h"

namespace reprise {
namespace {

class CostDatabaseTest : public ::testing::Test {
 protected:
  std::string path() const {
    return ::testing::TempDir() +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() +
           "." + std::to_string(::getpid()) + ".costs.json";
  }
  void SetUp() override { std::filesystem::remove(path()); }
  void TearDown() override { std::filesystem::remove(path()); }

  Error refused(const std::string& text) {
    EXPECT_TRUE(write_file_atomically(path(), text).has_value());
    const auto database = CostDatabase::load(path());
    EXPECT_FALSE(database.has_value()) << text;
    return database ? Error{} : database.error();
  }
};

Measurement measured(const std::string& key, int64_t median_ns) {
  return {.key = key,
          .unit = "f0",
          .context = "solo",
          .median_ns = median_ns,
          .spread_ns = 2,
          .samples = 3};
}

TEST_F(CostDatabaseTest, KeepsTheNewestOfEachMachineAndKey) {
  CostDatabase database = *CostDatabase::load(path());
  EXPECT_EQ(database.size(), 0u);
  database.merge("here", std::vector{measured("a", 1), measured("b", 2)});
  database.merge("here", std::vector{measured("a", 7)});
  database.merge("there", std::vector{measured("a", 9)});
  ASSERT_TRUE(database.store(path()).has_value());
  const CostDatabase loaded = *CostDatabase::load(path());
  EXPECT_EQ(loaded.size(), 3u);
  const std::vector<Measurement> expected = {measured("a", 7),
                                             measured("b", 2)};
  EXPECT_EQ(loaded.measurements("here"), expected);
  EXPECT_TRUE(loaded.measurements("elsewhere").empty());
}

TEST_F(CostDatabaseTest, RefusesWhatIsNoDatabase) {
  EXPECT_EQ(refused("{\"schema\"").kind, ErrorKind::kParse);
  EXPECT_EQ(refused("[]").kind, ErrorKind::kParse);
  EXPECT_EQ(refused(R"({"schema": "reprise.costs/2"})").kind,
            ErrorKind::kUnsupported);
  EXPECT_EQ(refused(R"({"schema": "reprise.costs/1"})").kind,
            ErrorKind::kInvalid);
  const Error bad =
      refused(R"({"schema": "reprise.costs/1", "measurements": [{"key": 3}]})");
  EXPECT_EQ(bad.kind, ErrorKind::kInvalid);
  EXPECT_NE(bad.message.find("measurements[0]"), std::string::npos);
}

TEST(MachineName, NamesWhatPricesDependOn) {
  EXPECT_EQ(machine_name({{"cpu", "Xeon"}, {"device", "cpu"}, {"x", "y"}}),
            "device=cpu; cpu=Xeon");
}

}  // namespace
}  // namespace reprise
