// The injection library's one state: the recorder of this process, CUPTI's
// session once there is CUDA, and the window. Nothing exists, and every call
// returns at once, unless REPRISE_PROFILE_DIRECTORY is set. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "profiler/cupti/cupti_session.h"
#include "profiler/process_recorder.h"

namespace reprise::inject {

/// The recorder of this process; null when nothing is recorded. In the child
/// of a fork the first call starts the child's own.
ProcessRecorder* recorder();
/// Whether ranges and marks are to be recorded now.
bool is_window_open();

/// For InitializeInjection: looks for CUPTI, once.
void start_cuda();

/// A range that may mark a step begins: its number, -1 for any other range.
int64_t begin_range(std::string_view name);
/// The range that `begin_range` gave a number has ended.
void end_range(int64_t step);

void push_unit(int64_t unit);
void pop_unit();
void mark_step(int32_t step, bool is_warmup, int64_t start_ns, int64_t end_ns);
/// As Window::hold and let_go.
void hold();
void let_go();
/// As Window::leave_out.
void leave_out_steps(int32_t first, int32_t end);
void flush();
/// The session, for what another tool calls of CUPTI; null when there is none.
cupti::Session* session();
/// For a process that ends without its exit handlers, now.
void finish_quickly();

}  // namespace reprise::inject
