#include "data/collective/device_groups.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise {
namespace {

using Groups = std::vector<std::vector<uint32_t>>;

TEST(DeviceGroups, AreReadAsTheyAreNamed) {
  EXPECT_EQ(name_of_groups({{0, 1}, {2, 3}}), "devices:{0,1},{2,3}");
  EXPECT_EQ(groups_named("devices:{0,1},{2,3}"), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(groups_named("devices:{3,10}"), (Groups{{3, 10}}));
  EXPECT_EQ(groups_named("devices:{2,0}"), (Groups{{0, 2}}));
}

TEST(DeviceGroups, OtherNamesHaveNone) {
  for (const char* name :
       {"", "0", "devices:", "devices:{", "devices:{}", "devices:{0,1",
        "devices:{0,1},", "devices:{0,1},{1,2}", "devices:{0,-1}",
        "devices:{0,99999999999}", "devices:{0,1}x"}) {
    EXPECT_FALSE(groups_named(name).has_value()) << name;
  }
}

TEST(DeviceGroups, OfTooManyDevicesHaveNoName) {
  EXPECT_EQ(name_of_groups({std::vector<int64_t>((1 << 16) + 1)}), "");
}

}  // namespace
}  // namespace reprise
