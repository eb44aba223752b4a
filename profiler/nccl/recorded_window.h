// The window of steps that the injection library (profiler/inject/window.h)
// decides for the whole process, as NCCL's side sees it. Threads: any; without
// a lock.
#pragma once

namespace reprise {

class RecordedWindow {
 public:
  /// Looks for the injection library in this process. Without it, or without a
  /// window in the environment, the window is open for ever.
  void find();

  bool has_limits() const { return is_open_ != nullptr; }
  bool is_open() const { return is_open_ == nullptr || is_open_() != 0; }

 private:
  int (*is_open_)() = nullptr;
};

}  // namespace reprise
