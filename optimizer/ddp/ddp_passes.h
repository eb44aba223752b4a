// The backward passes of a step: gradients that accumulate over several, and
// gradients of several models.
#pragma once

#include <vector>

#include "data/result.h"
#include "optimizer/ddp/ddp_rank.h"
#include "optimizer/ddp/ddp_recording.h"

namespace reprise {

/// Under `no_sync` all-reduces carry the gradients of a step's last backward
/// pass alone: keeps those, and notes it. False, and nothing changed, where the
/// recorded ones are no passes that repeat each other of which one has as many
/// bytes as some step's all-reduces. Of `forwards` of DDP in a step, 0 where
/// none is recorded, there are no more passes: half the bytes of one are those
/// of a hook that compresses. Cost: O(gradients * divisors).
bool keep_last_pass(size_t forwards, DdpRecording& recording);

/// Notes where several forwards of DDP go before the one backward pass.
/// Requires: a recording whose all-reduces carry its gradients, and a rank's
/// `step` of it. Errors: kUnsupported where these are of several passes, which
/// share no bucket: of two models (a GAN), or of one without `no_sync`.
Status check_single_pass(const DdpRankStep& step, DdpRecording& recording);

}  // namespace reprise
