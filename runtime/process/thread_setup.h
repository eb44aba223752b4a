// What every thread of a rank needs before it computes.
#pragma once

#include <span>

namespace reprise {

/// Flushes denormals to zero, as XLA does; they cost up to 15 times (measured
/// on AVX-512 convolutions, 2026-11-21).
void flush_denormals();

/// The same, and keeps OpenMP inside oneDNN to the calling thread: what a rank
/// shares among threads it shares itself, in parts whose bits do not depend on
/// how many there are, and spinning barriers on shared cores are ruinous.
void prepare_compute_thread();

/// Binds the calling thread, and those that it starts from now on, to some
/// cores; without effect where the system refuses.
void pin_this_thread(std::span<const int> cores);

/// Asks the scheduler for short, prompt turns for this thread and those that it
/// starts from now on: a communication thread that wakes beside a compute
/// thread runs at once, not after that one's slice (1.4 to 3 ms under EEVDF).
/// Needs no privilege; without effect on kernels before 6.12.
/// Source: sched_setattr(2), sched_runtime of SCHED_OTHER.
void prefer_prompt_turns();
/// Goes back to the scheduler's default.
void accept_usual_turns();

}  // namespace reprise
