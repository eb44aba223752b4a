// A plan's buckets as Python modules for PyTorch are told of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/export/artefact.h"
#include "data/result.h"

namespace reprise {

/// {"gradients": [{"shape", "bytes"}], "buckets": [[places]]}: gradients in the
/// order of readiness. Errors: kInvalid where a shape or a bucket's member is
/// not known.
Result<nlohmann::ordered_json> torch_plan(const BucketPlan& plan);

/// Elements in so many bytes of the gradients' type. Errors: kInvalid where
/// they are of several types, or of one that is not known.
Result<int64_t> elements_in(const BucketPlan& plan, int64_t bytes);

/// Files: `NAME_plan.json`, which a module `reprise_NAME.py` reads. Of the
/// module, no text is a plan's. `body` follows its imports and PLAN.
Artefact torch_artefact(const std::string& name, const Provenance& provenance,
                        const nlohmann::ordered_json& plan,
                        std::string_view documentation, std::string_view body,
                        std::string advice);

}  // namespace reprise
