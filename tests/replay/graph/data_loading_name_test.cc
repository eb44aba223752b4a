#include "replay/graph/data_loading_name.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(DataLoadingName, IsHoweverItIsWritten) {
  for (const char* name :
       {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        "data_loading", "Data Loading", "load_data", "get_batch", "next batch",
        "IteratorGetNext:IteratorGetNext"})
    EXPECT_TRUE(names_data_loading(name)) << name;
  for (const char* name :
       {"aten::copy_", "load", "train_batch", "batch_norm",
        "Iterator::Root::Prefetch", "dataset", "/data/load_model.py(7): load"})
    EXPECT_FALSE(names_data_loading(name)) << name;
}

}  // namespace
}  // namespace reprise
