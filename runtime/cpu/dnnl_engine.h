// oneDNN's handles, one of each in a process.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "data/primitive_type.h"
#include "data/result.h"

namespace reprise {

struct DnnlEngine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

DnnlEngine& dnnl_engine();

/// What oneDNN calls an element type. Errors: kUnsupported for those that it
/// does not compute with.
Result<dnnl::memory::data_type> dnnl_type(PrimitiveType type);

/// True for an implementation that oneDNN runs where it has no better one.
bool is_slow(const std::string& implementation);

/// True where the same of f32 and the widening before it take less time than
/// this implementation of oneDNN's for bf16.
///
/// Intel's cores multiply bf16 pairs (VDPBF16PS) at half the rate of f32, but
/// in tiles (AMX) many times as fast: 128x1024x1024 took 3.1 ms and, of f32,
/// 1.9 ms, with the widening 2.3 ms (Sapphire Rapids without AMX, oneDNN 2.6.3,
/// one core, 2026-11). AMD's Zen 4 multiplies them at twice the rate of f32.
bool is_quicker_widened(const std::string& implementation);

}  // namespace reprise
