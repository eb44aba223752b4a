// Controls of the fake cuDNN.
#pragma once

#include <cstdint>

extern "C" {

/// Refuses convolutions of arrays with features last (or first) from now on,
/// or takes them again.
void fake_cudnn_refuse(bool features_last, bool features_first);
/// Convolutions enqueued so far, by form: 0 forward, 1 the gradient by images,
/// 2 by the filter.
uint64_t fake_cudnn_launches(int form);
}
