// How far a trainer is, from its first rank to who started it, by a file in
// their private folder: mpirun hands on neither a terminal nor a descriptor.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "data/progress.h"

namespace reprise {

/// Writes what it is told to `path`, ten times a second at most. A run is never
/// the worse for it: what cannot be written is not.
ProgressWatcher write_progress(std::string path);

/// Shows, while it lives, what write_progress left in `path`.
class ShownTrainer {
 public:
  explicit ShownTrainer(std::string path);
  ~ShownTrainer();
  ShownTrainer(const ShownTrainer&) = delete;
  ShownTrainer& operator=(const ShownTrainer&) = delete;

 private:
  void watch() const;

  std::string path_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace reprise
