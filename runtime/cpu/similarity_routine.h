// Forms of a square matrix that have its eigenvalues, and these.
#pragma once

#include <memory>

#include "runtime/cpu/matrix_call.h"

namespace reprise {

/// Requires: kSymmetricEigen, kEigen, kSchur, kHessenberg or kTridiagonal, and
/// lapack::load.
std::unique_ptr<Routine> make_similarity_routine(const MatrixCall& call);

}  // namespace reprise
