// What every thread of a rank needs before it computes.
#pragma once

namespace reprise {

/// Flushes denormals to zero, as XLA does; they cost up to 15 times (measured
/// on AVX-512 convolutions, 2026-11-21).
void flush_denormals();

/// The same, and keeps OpenMP inside oneDNN to the calling thread: a rank is
/// one core, and spinning barriers on shared cores are ruinous.
void prepare_compute_thread();

/// Binds the calling thread to one core; without effect where the system
/// refuses.
void pin_this_thread(int core);

}  // namespace reprise
