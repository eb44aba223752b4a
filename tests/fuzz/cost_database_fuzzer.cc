// Any bytes as a cost database: refused with a reason, or written as what is
// read again; what it states prices contention without leaving sane numbers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/calibration.h"
#include "costmodel/cost_database.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<CostDatabase> database = CostDatabase::parse(text, "fuzzed");
  if (!database) {
    REPRISE_CHECK(!database.error().message.empty());
    return 0;
  }
  const std::string written = database->text();
  const Result<CostDatabase> again = CostDatabase::parse(written, "written");
  REPRISE_CHECK(again && again->size() == database->size());
  REPRISE_CHECK(again->text() == written);
  const std::vector<Measurement> known = database->measurements("device=cpu");
  for (const Measurement& measurement : known) {
    REPRISE_CHECK(measurement.median_ns >= 0 && measurement.spread_ns >= 0);
  }
  constexpr double kGbit_bytes_per_s = 125e6;
  const Contention contention =
      with_measured(default_contention(kGbit_bytes_per_s), known);
  for (const double factor :
       {contention.library, contention.kernel, contention.collective}) {
    REPRISE_CHECK(std::isfinite(factor) && factor >= 1);
  }
  return 0;
}
