#include "data/formats/measured_times.h"

#include <algorithm>

namespace reprise {

void MeasuredTimes::add(const Subject& subject, int64_t time_ns) {
  const auto [place, added] = places_.try_emplace(subject, times_.size());
  if (added) {
    subjects_.push_back(&place->first);
    times_.emplace_back();
  }
  times_[place->second].push_back(time_ns);
}

void MeasuredTimes::add_to(TraceSpool& spool) {
  for (size_t i = 0; i < times_.size(); ++i) {
    std::vector<int64_t>& times = times_[i];
    std::sort(times.begin(), times.end());
    const size_t last = times.size() - 1;
    const int64_t low = times[last / 2], high = times[(last + 1) / 2];
    spool.add_measurement(
        {.key = subjects_[i]->key,
         .unit = subjects_[i]->unit,
         .context = subjects_[i]->context,
         .median_ns = low + (high - low) / 2,
         .spread_ns = times[last - last / 4] - times[last / 4],
         .samples = static_cast<int64_t>(times.size())});
  }
}

}  // namespace reprise
