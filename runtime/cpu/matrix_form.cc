#include "runtime/cpu/matrix_form.h"

namespace reprise {
namespace {

using enum MatrixArray;

constexpr ArrayForm kInfo = {kIntegers, ""};
constexpr ArrayForm kSquare[] = {{kNumbers, "nn"}};
constexpr ArrayForm kMatrix[] = {{kNumbers, "mn"}};

constexpr ArrayForm kFactor[] = {{kNumbers, "nn"}, kInfo};
constexpr ArrayForm kLeftSystem[] = {{kNumbers, "nn"}, {kNumbers, "nx"}};
constexpr ArrayForm kRightSystem[] = {{kNumbers, "nn"}, {kNumbers, "xn"}};
constexpr ArrayForm kLuFactors[] = {{kNumbers, "mn"}, {kIntegers, "k"}, kInfo};
constexpr ArrayForm kReflectors[] = {{kNumbers, "mn"}, {kNumbers, "k"}};
constexpr ArrayForm kOrdered[] = {{kNumbers, "mn"}, {kIntegers, "n"}};
constexpr ArrayForm kOrderedReflectors[] = {
    {kNumbers, "mn"}, {kIntegers, "n"}, {kNumbers, "k"}};
constexpr ArrayForm kSomeReflectors[] = {{kNumbers, "mn"}, {kNumbers, "r"}};
constexpr ArrayForm kLeftProduct[] = {
    {kNumbers, "mn"}, {kNumbers, "r"}, {kNumbers, "mx"}};
constexpr ArrayForm kRightProduct[] = {
    {kNumbers, "mn"}, {kNumbers, "r"}, {kNumbers, "xm"}};

constexpr ArrayForm kSymmetricEigen[] = {
    {kNumbers, "nn"}, {kReals, "n"}, kInfo};
constexpr ArrayForm kEigen[] = {
    {kComplex, "n"}, {kComplex, "nn"}, {kComplex, "nn"}, kInfo};
constexpr ArrayForm kPackedEigen[] = {{kNumbers, "nn"},
                                      {kComplex, "n"},
                                      {kNumbers, "nn"},
                                      {kNumbers, "nn"},
                                      kInfo};
constexpr ArrayForm kSchur[] = {
    {kNumbers, "nn"}, {kNumbers, "nn"}, {kComplex, "n"}, kInfo, kInfo};
constexpr ArrayForm kHessenberg[] = {{kNumbers, "nn"}, {kNumbers, "p"}, kInfo};
constexpr ArrayForm kTridiagonal[] = {
    {kNumbers, "nn"}, {kReals, "n"}, {kReals, "p"}, {kNumbers, "p"}, kInfo};

constexpr ArrayForm kValues[] = {{kNumbers, "mn"},
                                 {kReals, "k"},
                                 {kNumbers, kAnyExtents},
                                 {kNumbers, kAnyExtents},
                                 kInfo};
constexpr ArrayForm kUVt[] = {
    {kNumbers, "mn"}, {kReals, "k"}, {kNumbers, "mu"}, {kNumbers, "vn"}, kInfo};
constexpr ArrayForm kUV[] = {
    {kNumbers, "mn"}, {kReals, "k"}, {kNumbers, "mu"}, {kNumbers, "nv"}, kInfo};
constexpr ArrayForm kVtU[] = {
    {kNumbers, "mn"}, {kReals, "k"}, {kNumbers, "vn"}, {kNumbers, "mu"}, kInfo};

constexpr ArrayForm kDiagonals[] = {
    {kNumbers, "n"}, {kNumbers, "n"}, {kNumbers, "n"}, {kNumbers, "nx"}};
constexpr ArrayForm kEliminated[] = {
    {kNumbers, "n"}, {kNumbers, "n"}, {kNumbers, "n"}, {kNumbers, "nx"}, kInfo};

std::span<const ArrayForm> singular_form(const MatrixOperation& operation) {
  if (!operation.vectors) return kValues;
  switch (operation.singular) {
    case SingularVectors::kUV:
      return kUV;
    case SingularVectors::kVtU:
      return kVtU;
    default:
      return kUVt;
  }
}

template <size_t kOperands>
MatrixForm in_place_of_last(const ArrayForm (&operands)[kOperands]) {
  return {operands, std::span(operands).last(1)};
}

}  // namespace

MatrixForm matrix_form(const MatrixOperation& operation) {
  switch (operation.kind) {
    case MatrixKind::kCholesky:
      return {kSquare, kFactor};
    case MatrixKind::kTriangularSolve:
      return in_place_of_last(operation.left ? kLeftSystem : kRightSystem);
    case MatrixKind::kLu:
      return {kMatrix, kLuFactors};
    case MatrixKind::kQr:
      return {kMatrix, kReflectors};
    case MatrixKind::kPivotedQr:
      return {kOrdered, kOrderedReflectors};
    case MatrixKind::kHouseholderProduct:
      return {kSomeReflectors, kMatrix};
    case MatrixKind::kReflectorProduct:
      return in_place_of_last(operation.left ? kLeftProduct : kRightProduct);
    case MatrixKind::kSymmetricEigen:
      return {kSquare, kSymmetricEigen};
    case MatrixKind::kEigen:
      if (operation.packed_vectors) return {kSquare, kPackedEigen};
      return {kSquare, kEigen};
    case MatrixKind::kSchur:
      return {kSquare, kSchur};
    case MatrixKind::kHessenberg:
      return {kSquare, kHessenberg};
    case MatrixKind::kTridiagonal:
      return {kSquare, kTridiagonal};
    case MatrixKind::kTridiagonalSolve:
      if (operation.solution_alone) return in_place_of_last(kDiagonals);
      return {kDiagonals, kEliminated};
    default:
      return {kMatrix, singular_form(operation)};
  }
}

}  // namespace reprise
