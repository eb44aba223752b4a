// What a CublasLibrary keeps of cuBLASLt: its functions, and one plan for each
// distinct shape. The only header that includes cuBLASLt's.
#pragma once

#include <cublasLt.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cuda/cublas_shape.h"

namespace reprise {

#define REPRISE_CUBLAS_FUNCTIONS(X)       \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusName)                \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmul)

struct CublasFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration.
#define REPRISE_CUBLAS_MEMBER(name) decltype(&::name) name;
  REPRISE_CUBLAS_FUNCTIONS(REPRISE_CUBLAS_MEMBER)
#undef REPRISE_CUBLAS_MEMBER
};

/// What cuBLASLt needs to be told for one shape, and the algorithms that it
/// offers for it.
struct CublasPlan {
  explicit CublasPlan(std::shared_ptr<const CublasFunctions> table)
      : functions(std::move(table)) {}
  ~CublasPlan() {
    for (cublasLtMatrixLayout_t layout : layouts) {
      if (layout != nullptr) functions->cublasLtMatrixLayoutDestroy(layout);
    }
    if (preference != nullptr)
      functions->cublasLtMatmulPreferenceDestroy(preference);
    if (operation != nullptr) functions->cublasLtMatmulDescDestroy(operation);
  }
  CublasPlan(const CublasPlan&) = delete;
  CublasPlan& operator=(const CublasPlan&) = delete;

  std::shared_ptr<const CublasFunctions> functions;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  std::array<cublasLtMatrixLayout_t, 3> layouts{};  ///< a, b, out.
  MatrixProduct product;   ///< Of the dot that was bound first;
  uint32_t alignment = 1;  ///< of all of its operands, bytes.
  /// Best first; the first is used, and dropped where it is refused.
  std::vector<cublasLtMatmulAlgo_t> algorithms;
};

}  // namespace reprise
