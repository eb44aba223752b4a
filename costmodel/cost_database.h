// Measured costs that outlive a trace: a JSON file of Measurements by
// structural key and by the machine that they hold for. Schema reprise.costs/1:
//   {"schema": "reprise.costs/1", "measurements": [{"machine": …, "key": …,
//    "unit": …, "context": …, "median_ns": …, "spread_ns": …, "samples": …}]}
// sorted by (machine, key, context), so that equal contents are equal bytes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// Names what prices depend on besides the unit: device, CPU, cores, compiler
/// and flags, of those that a trace's environment states.
std::string machine_name(const std::map<std::string, std::string>& environment);

class CostDatabase {
 public:
  /// Reads a database; a file that does not exist is an empty one.
  /// Errors: kIo; kParse, kInvalid with the entry; kUnsupported (newer schema).
  static Result<CostDatabase> load(const std::string& path);

  /// Parses the text of one, which errors call `file`. Errors: as load.
  static Result<CostDatabase> parse(std::string_view text,
                                    const std::string& file);

  /// Adds measurements of one machine; of two with one key and context the
  /// newer replaces the older.
  void merge(const std::string& machine,
             std::span<const Measurement> measurements);

  /// Those of one machine, ascending by key.
  std::vector<Measurement> measurements(const std::string& machine) const;

  size_t size() const { return entries_.size(); }

  /// The text of a file: equal databases, equal bytes.
  std::string text() const;

  /// Replaces the file atomically. Errors: kIo.
  Status store(const std::string& path) const;

 private:
  /// By (machine, key, context).
  std::map<std::tuple<std::string, std::string, std::string>, Measurement>
      entries_;
};

/// What a database knows of the machine that an environment names; nothing
/// without a `path`. Errors: as CostDatabase::load.
Result<std::vector<Measurement>> load_measurements(
    const std::string& path,
    const std::map<std::string, std::string>& environment);

/// Where measurements are kept for later commands.
struct MeasurementPlaces {
  Trace* trace = nullptr;       ///< Null: in none.
  std::string trace_path = {};  ///< Of `trace`, written again.
  std::string costs_path = {};  ///< A database; empty: in none.
  std::string machine = {};     ///< That they hold for, in the database.
};

/// Newer measurements replace older ones of the same key and context.
/// Errors: as write_trace, CostDatabase::load and store.
Status keep_measurements(std::span<const Measurement> measurements,
                         const MeasurementPlaces& places);

}  // namespace reprise
