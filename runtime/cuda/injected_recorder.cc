#include "runtime/cuda/injected_recorder.h"

#include <dlfcn.h>

namespace reprise {
namespace {

template <typename Function>
void find_symbol(const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

InjectedRecorder InjectedRecorder::find() {
  InjectedRecorder recorder;
  find_symbol("reprise_push_unit", recorder.push_unit_);
  find_symbol("reprise_pop_unit", recorder.pop_unit_);
  find_symbol("reprise_mark_step", recorder.mark_step_);
  find_symbol("reprise_is_window_open", recorder.is_window_open_);
  find_symbol("reprise_hold", recorder.hold_);
  find_symbol("reprise_let_go", recorder.let_go_);
  find_symbol("reprise_leave_out_steps", recorder.leave_out_steps_);
  find_symbol("reprise_flush", recorder.flush_);
  return recorder;
}

}  // namespace reprise
