// Gradients that accumulate over several backward passes of a step.
#pragma once

#include "optimizer/ddp/ddp_recording.h"

namespace reprise {

/// Under `no_sync` all-reduces carry the gradients of a step's last backward
/// pass alone: keeps those, and notes it. False, and nothing changed, where the
/// recorded ones are no passes that repeat each other of which one has as many
/// bytes as some step's all-reduces. Cost: O(gradients * divisors).
bool keep_last_pass(DdpRecording& recording);

}  // namespace reprise
