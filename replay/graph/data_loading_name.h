// Ranges in which a step gets its batch.
#pragma once

#include <string_view>

namespace reprise {

/// By name: "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
/// "torch/utils/data/dataloader.py(521): __next__", "data_loading",
/// "load_batch".
bool names_data_loading(std::string_view name);

}  // namespace reprise
