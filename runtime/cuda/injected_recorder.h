// What an injected profiler (libreprise_inject.so) wants to hear from the
// trainer: which unit launches what, and when steps were.
#pragma once

#include <cstdint>

namespace reprise {

/// The injection library's functions, found among the process's symbols; all
/// null where it is not loaded, which is the ordinary case.
class InjectedRecorder {
 public:
  static InjectedRecorder find();

  void push_unit(int64_t unit) const {
    if (push_unit_ != nullptr) push_unit_(unit);
  }
  void pop_unit() const {
    if (pop_unit_ != nullptr) pop_unit_();
  }
  void mark_step(int32_t step, bool warmup, int64_t start_ns,
                 int64_t end_ns) const {
    if (mark_step_ != nullptr)
      mark_step_(step, warmup ? 1 : 0, start_ns, end_ns);
  }
  /// Whether what is launched now is recorded.
  bool is_recording() const {
    return is_window_open_ != nullptr && is_window_open_() != 0;
  }
  /// Around the making of a context.
  void hold() const {
    if (hold_ != nullptr) hold_();
  }
  void let_go() const {
    if (let_go_ != nullptr) let_go_();
  }
  void leave_out_steps(int32_t first, int32_t end) const {
    if (leave_out_steps_ != nullptr) leave_out_steps_(first, end);
  }
  void flush() const {
    if (flush_ != nullptr) flush_();
  }

 private:
  void (*push_unit_)(int64_t) = nullptr;
  void (*pop_unit_)() = nullptr;
  void (*mark_step_)(int32_t, int32_t, int64_t, int64_t) = nullptr;
  int (*is_window_open_)() = nullptr;
  void (*hold_)() = nullptr;
  void (*let_go_)() = nullptr;
  void (*leave_out_steps_)(int32_t, int32_t) = nullptr;
  void (*flush_)() = nullptr;
};

/// Names everything that this thread launches meanwhile after one unit.
class UnitScope {
 public:
  UnitScope(const InjectedRecorder& recorder, int64_t unit)
      : recorder_(recorder) {
    recorder_.push_unit(unit);
  }
  ~UnitScope() { recorder_.pop_unit(); }
  UnitScope(const UnitScope&) = delete;
  UnitScope& operator=(const UnitScope&) = delete;

 private:
  const InjectedRecorder& recorder_;
};

}  // namespace reprise
