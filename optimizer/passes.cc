#include "optimizer/passes.h"

#include "optimizer/buckets/bucket_pass.h"
#include "optimizer/fusion/fusion_pass.h"
#include "optimizer/recompute/recompute_pass.h"
#include "optimizer/refine/refine_pass.h"
#include "optimizer/reorder/reorder_pass.h"

namespace reprise {

const std::vector<PassEntry>& registered_passes() {
  static const std::vector<PassEntry> passes{
      fusion_pass(),
      recompute_pass(),
      bucket_pass(),
      reorder_pass(),
      refine_pass(),
  };
  return passes;
}

std::string pass_names() {
  std::string names;
  for (const PassEntry& pass : registered_passes()) {
    if (!names.empty()) names += ',';
    names += pass.name;
  }
  return names;
}

}  // namespace reprise
