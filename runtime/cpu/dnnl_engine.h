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

}  // namespace reprise
