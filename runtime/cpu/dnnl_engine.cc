#include "runtime/cpu/dnnl_engine.h"

#include <string>

#include "data/hlo/module.h"

namespace reprise {

DnnlEngine& dnnl_engine() {
  static DnnlEngine engine;
  return engine;
}

Result<dnnl::memory::data_type> dnnl_type(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF32:
      return dnnl::memory::data_type::f32;
    case PrimitiveType::kBF16:
      return dnnl::memory::data_type::bf16;
    case PrimitiveType::kF16:
      return dnnl::memory::data_type::f16;
    default:
      return fail(ErrorKind::kUnsupported, "oneDNN does not compute {}",
                  primitive_type_name(type));
  }
}

bool is_slow(const std::string& implementation) {
  return implementation.find("ref") != std::string::npos ||
         implementation.find("gemm:") == 0 ||
         implementation.find(":gemm") != std::string::npos;
}

bool is_quicker_widened(const std::string& implementation) {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0 &&
         implementation.find("avx512_core_bf16") != std::string::npos &&
         implementation.find("amx") == std::string::npos;
#else
  return false;
#endif
}

}  // namespace reprise
