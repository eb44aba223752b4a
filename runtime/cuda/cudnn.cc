// The interface of cuDNN 7 to 9 that is one function a form: all three take
// first, second and result with their descriptors in the same places, so that a
// plan keeps the two functions of its form.
#include "runtime/cuda/cudnn.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtime/cuda/cudnn_functions.h"
#include "runtime/cuda/nvidia_library.h"

namespace reprise {

/// A convolution's descriptors and the algorithm that was chosen for it.
struct CudnnPlan {
  explicit CudnnPlan(std::shared_ptr<const CudnnFunctions> of)
      : functions(std::move(of)) {}
  ~CudnnPlan() {
    if (image != nullptr) functions->cudnnDestroyTensorDescriptor(image);
    if (filter != nullptr) functions->cudnnDestroyFilterDescriptor(filter);
    if (output != nullptr) functions->cudnnDestroyTensorDescriptor(output);
    if (convolution != nullptr)
      functions->cudnnDestroyConvolutionDescriptor(convolution);
  }
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;

  std::shared_ptr<const CudnnFunctions> functions;
  CanonicalConvolution numbers;
  void *image = nullptr, *filter = nullptr, *output = nullptr;
  void* convolution = nullptr;
  /// In the library's order.
  const void *first = nullptr, *second = nullptr, *result = nullptr;
  bool swaps_operands = false;  ///< Its first is the instruction's second.
  CudnnConvolve convolve = nullptr;
  const char* name = "";
  int algorithm = 0;
  size_t workspace_bytes = 0;
};

namespace {

/// Algorithms that the heuristics are asked for.
constexpr int kCudnnOffers = 16;
/// The library has arrays of two places or more.
constexpr size_t kLeastPlaces = 2;
/// By number: IMPLICIT_GEMM, IMPLICIT_PRECOMP_GEMM, GEMM and DIRECT forward;
/// ALGO_1 of the gradients.
constexpr std::array kForwardAlgorithms = {0, 1, 2, 3};
constexpr std::array kGradientAlgorithms = {1};

std::string key_of(const CanonicalConvolution& c) {
  return fmt::format(
      "{} {} {} {} [{}] [{}] [{}] groups {} pad {} stride {} "
      "dilate {}",
      static_cast<int>(c.form), primitive_type_name(c.type), c.features_last,
      c.images, fmt::join(c.image_shape(), ","),
      fmt::join(c.filter_shape(), ","), fmt::join(c.output_shape(), ","),
      c.groups, fmt::join(c.padding, ","), fmt::join(c.stride, ","),
      fmt::join(c.dilation, ","));
}

int cudnn_type(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF64:
      return kCudnnDouble;
    case PrimitiveType::kF16:
      return kCudnnHalf;
    case PrimitiveType::kBF16:
      return kCudnnBfloat16;
    default:
      return kCudnnFloat;
  }
}

/// What a convolution is asked for: f32 is exact unless tf32 was asked for.
int math_of(PrimitiveType type, MatrixMath math) {
  if (primitive_type_bits(type) == 16) return kCudnnTensorMath;
  const bool is_exact = type == PrimitiveType::kF32 && math == MatrixMath::kF32;
  return is_exact ? kCudnnFmaMath : kCudnnDefaultMath;
}

/// One number a place, `filling` before them where there are too few.
std::vector<int> places_of(const ArrayExtents& given, int filling) {
  std::vector<int> all(kLeastPlaces - std::min(kLeastPlaces, given.size()),
                       filling);
  for (const int64_t n : given) all.push_back(static_cast<int>(n));
  return all;
}

/// [first, second, place...], as descriptors have every array.
std::vector<int> extents_of(int64_t first, int64_t second,
                            const ArrayExtents& places) {
  std::vector<int> all = {static_cast<int>(first), static_cast<int>(second)};
  for (const int place : places_of(places, 1)) all.push_back(place);
  return all;
}

std::vector<int> strides_of(const std::vector<int>& extents,
                            bool features_last) {
  std::vector<int> strides(extents.size());
  int elements = 1;
  if (features_last) {
    strides[1] = 1;
    elements = extents[1];
  }
  for (size_t d = extents.size(); d-- > 2;) {
    strides[d] = elements;
    elements *= extents[d];
  }
  if (!features_last) {
    strides[1] = elements;
    elements *= extents[1];
  }
  strides[0] = elements;
  return strides;
}

/// Makes calls until one fails.
class CudnnPlanBuilder {
 public:
  CudnnPlanBuilder(const CudnnFunctions& functions, CudnnPlan& plan)
      : functions_(functions), plan_(plan), numbers_(plan.numbers) {}

  void describe(int math) {
    const CanonicalConvolution& c = numbers_;
    tensor(&plan_.image, extents_of(c.images, c.inputs, c.input_places));
    tensor(&plan_.output, extents_of(c.images, c.outputs, c.output_places));
    const std::vector<int> taps =
        extents_of(c.outputs, c.inputs / c.groups, c.taps);
    keep(functions_.cudnnCreateFilterDescriptor(&plan_.filter));
    if (holds()) {
      keep(functions_.cudnnSetFilterNdDescriptor(
          plan_.filter, cudnn_type(c.type),
          c.features_last ? kCudnnFeaturesLast : kCudnnFeaturesFirst,
          static_cast<int>(taps.size()), taps.data()));
    }
    const std::vector<int> padding = places_of(c.padding, 0),
                           stride = places_of(c.stride, 1),
                           dilation = places_of(c.dilation, 1);
    if (holds())
      keep(functions_.cudnnCreateConvolutionDescriptor(&plan_.convolution));
    if (holds()) {
      keep(functions_.cudnnSetConvolutionNdDescriptor(
          plan_.convolution, static_cast<int>(padding.size()), padding.data(),
          stride.data(), dilation.data(), kCudnnCrossCorrelation,
          c.type == PrimitiveType::kF64 ? kCudnnDouble : kCudnnFloat));
    }
    if (holds()) {
      keep(functions_.cudnnSetConvolutionGroupCount(
          plan_.convolution, static_cast<int>(c.groups)));
    }
    set_math(math);
  }

  /// False where no algorithm will do.
  bool choose(const void* handle, int math, size_t workspace_bytes) {
    if (!holds()) return false;
    std::array<CudnnOffer, kCudnnOffers> offers{};
    int found = 0;
    keep(by_form()(const_cast<void*>(handle), plan_.first, plan_.second,
                   plan_.convolution, plan_.result, kCudnnOffers, &found,
                   offers.data()));
    for (int i = 0; holds() && i < std::min(found, kCudnnOffers); ++i) {
      const CudnnOffer& offer = offers[static_cast<size_t>(i)];
      if (!is_wanted(offer, math) || offer.memory_bytes > workspace_bytes)
        continue;
      plan_.algorithm = offer.algorithm;
      plan_.workspace_bytes = offer.memory_bytes;
      if (math != kCudnnFmaMath) set_math(offer.math);
      return holds();
    }
    return false;
  }

 private:
  void keep(int status) {
    if (holds()) status_ = status;
  }
  bool holds() const { return status_ == kCudnnSuccess; }

  void set_math(int math) {
    if (holds())
      keep(functions_.cudnnSetConvolutionMathType(plan_.convolution, math));
  }

  void tensor(void** made, const std::vector<int>& extents) {
    if (holds()) keep(functions_.cudnnCreateTensorDescriptor(made));
    if (!holds()) return;
    const std::vector<int> strides =
        strides_of(extents, numbers_.features_last);
    keep(functions_.cudnnSetTensorNdDescriptor(*made, cudnn_type(numbers_.type),
                                               static_cast<int>(extents.size()),
                                               extents.data(), strides.data()));
  }

  /// Sets the plan's arrays in the library's order, and what convolves.
  CudnnGetAlgorithm by_form() {
    switch (numbers_.form) {
      case CanonicalForm::kForward:
        order(plan_.image, plan_.filter, plan_.output,
              functions_.cudnnConvolutionForward, "cudnnConvolutionForward");
        return functions_.cudnnGetConvolutionForwardAlgorithm_v7;
      case CanonicalForm::kByInput:
        order(plan_.filter, plan_.output, plan_.image,
              functions_.cudnnConvolutionBackwardData,
              "cudnnConvolutionBackwardData");
        plan_.swaps_operands = true;
        return functions_.cudnnGetConvolutionBackwardDataAlgorithm_v7;
      case CanonicalForm::kByFilter:
        break;
    }
    order(plan_.image, plan_.output, plan_.filter,
          functions_.cudnnConvolutionBackwardFilter,
          "cudnnConvolutionBackwardFilter");
    return functions_.cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  }

  void order(const void* first, const void* second, const void* result,
             CudnnConvolve convolve, const char* name) {
    plan_.first = first;
    plan_.second = second;
    plan_.result = result;
    plan_.convolve = convolve;
    plan_.name = name;
  }

  // A product of f32 is one only without tensor cores.
  bool is_wanted(const CudnnOffer& offer, int math) const {
    const auto is = [&](int algorithm) { return algorithm == offer.algorithm; };
    const bool sums = numbers_.form == CanonicalForm::kForward
                          ? std::any_of(kForwardAlgorithms.begin(),
                                        kForwardAlgorithms.end(), is)
                          : std::any_of(kGradientAlgorithms.begin(),
                                        kGradientAlgorithms.end(), is);
    const bool is_exact = math != kCudnnFmaMath ||
                          offer.math == kCudnnFmaMath ||
                          offer.math == kCudnnDefaultMath;
    return offer.status == kCudnnSuccess && sums && is_exact &&
           offer.determinism == kCudnnDeterministic;
  }

  const CudnnFunctions& functions_;
  CudnnPlan& plan_;
  const CanonicalConvolution& numbers_;
  int status_ = kCudnnSuccess;
};

/// What the library lacks; empty: nothing.
std::string find_cudnn(void* library, CudnnFunctions* functions) {
#define REPRISE_CUDNN_FIND(name)                                            \
  functions->name =                                                         \
      reinterpret_cast<decltype(functions->name)>(::dlsym(library, #name)); \
  if (functions->name == nullptr) return "it lacks " #name;
  REPRISE_CUDNN_FUNCTIONS(REPRISE_CUDNN_FIND)
#undef REPRISE_CUDNN_FIND
  return {};
}

size_t bytes_of(const CanonicalConvolution& c, const ArrayExtents& shape) {
  return static_cast<size_t>(product(shape) * primitive_type_bits(c.type) / 8);
}

}  // namespace

/// What keeps this copy from being used; empty: nothing, and there is a handle.
std::string CudnnLibrary::open(void* library, int driver_cuda) {
  auto functions = std::make_shared<CudnnFunctions>();
  if (std::string lacks = find_cudnn(library, functions.get()); !lacks.empty())
    return lacks;
  version_ = functions->cudnnGetVersion();
  // 12090 is 12.9.
  std::string why = too_new_for_driver(
      static_cast<int>(functions->cudnnGetCudartVersion() / 1000), driver_cuda);
  if (!why.empty()) return why;
  functions_ = std::move(functions);
  const Status created =
      check(functions_->cudnnCreate(&handle_), "cudnnCreate");
  return created ? std::string() : created.error().message;
}

Result<std::unique_ptr<CudnnLibrary>> CudnnLibrary::create(
    const Driver& driver, const Options& options) {
  std::unique_ptr<CudnnLibrary> library(new CudnnLibrary());
  library->driver_ = &driver;
  library->options_ = options;
  const auto refusal = [&](void* handle, const std::string&) {
    return library->open(handle, driver.version);
  };
  const Result<OpenedNvidiaLibrary> opened =
      open_nvidia_library(NvidiaLibrary::kCudnn, driver.version, refusal);
  if (!opened) {
    return fail(
        ErrorKind::kDevice,
        "no cuDNN: {} (`reprise doctor --for cuda` shows what there is)",
        opened.error().message);
  }
  return library;
}

CudnnLibrary::~CudnnLibrary() {
  plans_.clear();
  if (handle_ != nullptr && !driver_->is_abandoned())
    functions_->cudnnDestroy(handle_);
}

Status CudnnLibrary::check(int status, const char* call) const {
  if (status == kCudnnSuccess) return {};
  return fail(ErrorKind::kDevice, "{}: {} ({})", call,
              functions_->cudnnGetErrorString(status), status);
}

bool CudnnLibrary::wants_features_first(PrimitiveType type) const {
  return type == PrimitiveType::kF64 ||
         math_of(type, options_.math) == kCudnnFmaMath;
}

std::unique_ptr<CudnnPlan> CudnnLibrary::make_plan(
    const CanonicalConvolution& convolution) {
  auto plan = std::make_unique<CudnnPlan>(functions_);
  plan->numbers = convolution;
  const int math = math_of(convolution.type, options_.math);
  CudnnPlanBuilder builder(*functions_, *plan);
  builder.describe(math);
  if (!builder.choose(handle_, math, options_.workspace_bytes) ||
      !reserve(plan->workspace_bytes) || !runs(*plan))
    return nullptr;
  return plan;
}

Status CudnnLibrary::reserve(size_t bytes) {
  if (bytes <= workspace_.size_bytes()) return {};
  Result<DeviceMemory> memory = DeviceMemory::allocate(*driver_, bytes);
  if (!memory) return pass(memory.error(), "workspace of cuDNN");
  workspace_ = std::move(*memory);
  return {};
}

bool CudnnLibrary::runs(const CudnnPlan& plan) {
  const CanonicalConvolution& c = plan.numbers;
  std::array<DeviceMemory, 3> arrays;
  const std::array shapes = {c.lhs_shape(), c.rhs_shape(), c.result_shape()};
  for (size_t i = 0; i < arrays.size(); ++i) {
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(*driver_, bytes_of(c, shapes[i]));
    if (!memory) return false;
    arrays[i] = *std::move(memory);
  }
  Call call;
  call.library_ = this;
  call.plan_ = &plan;
  call.memory_ = {.lhs = arrays[0].address(),
                  .rhs = arrays[1].address(),
                  .result = arrays[2].address()};
  return call.enqueue(nullptr) && driver_->synchronize(nullptr);
}

bool CudnnLibrary::takes(const CanonicalConvolution& convolution) {
  std::string key = key_of(convolution);
  auto found = plans_.find(key);
  if (found == plans_.end())
    found = plans_.emplace(std::move(key), make_plan(convolution)).first;
  return found->second != nullptr;
}

Result<CudnnLibrary::Call> CudnnLibrary::bind(
    const CanonicalConvolution& convolution, const CudnnMemory& memory) {
  REPRISE_CHECK(takes(convolution));
  Call call;
  call.library_ = this;
  call.plan_ = plans_.at(key_of(convolution)).get();
  call.memory_ = memory;
  return call;
}

Status CudnnLibrary::Call::enqueue(CUstream stream) const {
  const CudnnFunctions& functions = *library_->functions_;
  Status status = library_->check(
      functions.cudnnSetStream(library_->handle_, stream), "cudnnSetStream");
  if (!status) return status;
  const auto at = [](CUdeviceptr address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA's addresses are integers.
    return reinterpret_cast<void*>(address);
  };
  const bool is_double = plan_->numbers.type == PrimitiveType::kF64;
  const double one = 1, zero = 0;
  const float one_f = 1, zero_f = 0;
  CUdeviceptr first = memory_.lhs, second = memory_.rhs;
  if (plan_->swaps_operands) std::swap(first, second);
  return library_->check(
      plan_->convolve(library_->handle_,
                      is_double ? static_cast<const void*>(&one) : &one_f,
                      plan_->first, at(first), plan_->second, at(second),
                      plan_->convolution, plan_->algorithm,
                      at(library_->workspace_.address()),
                      plan_->workspace_bytes,
                      is_double ? static_cast<const void*>(&zero) : &zero_f,
                      plan_->result, at(memory_.result)),
      plan_->name);
}

}  // namespace reprise
