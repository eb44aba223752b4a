// What `reprise export` writes for another tool: files, each of which says in
// its head where it comes from, what it is predicted to give, how far that can
// be trusted, and how to see that it took effect.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/plan/plan.h"
#include "data/result.h"

namespace reprise {

struct ExportedFile {
  std::string name;  ///< Within the artefact's directory.
  std::string text;
};

struct Artefact {
  /// The first is the data: it alone is written where one file is asked for.
  std::vector<ExportedFile> files;
  std::string advice;  ///< What to do with it, for people.
};

/// The head of an artefact, a sentence or two each.
struct Provenance {
  std::string source, predicted, trust, check;
};

/// Lines of a comment: "# source: …", none longer than a terminal's. Control
/// characters of strangers' text become escapes.
std::string comment_of(const Provenance& provenance,
                       const std::string& prefix = "# ");
/// {"source", "predicted", "trust", "check"}.
nlohmann::ordered_json json_of(const Provenance& provenance);

/// Of a plan of an imported trace, whose buckets are of gradients.
struct BucketPlan {
  Plan plan;
  std::string path;
  const TracePlan& trace() const { return *plan.trace; }
};

/// Errors: as load_plan; kInvalid, saying what `target` takes, of a plan of a
/// program, or one without buckets, prediction or single cap.
Result<BucketPlan> load_bucket_plan(const std::string& path,
                                    const std::string& target);

/// Source, prediction and trust of a plan; `check` is the target's. With
/// `single_cap`, of one cap for all buckets instead of the buckets themselves.
Provenance provenance_of(const BucketPlan& plan, std::string check,
                         bool single_cap = false);

/// JSON with an indent of one, a newline at its end.
std::string pretty(const nlohmann::ordered_json& json);

/// Sizes in MiB, which are exact in a double.
nlohmann::ordered_json mebibytes(const std::vector<int64_t>& sizes_bytes);

}  // namespace reprise
