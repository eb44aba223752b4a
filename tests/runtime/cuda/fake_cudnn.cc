// A cuDNN for tests (libcudnn.so.9): convolutions by their definition, enqueued
// on the fake driver's streams like a kernel. As strict about descriptors as
// the documentation: rows dense, outputs as many as the window has places, the
// filter's order of dimensions that of the arrays, a workspace as large as was
// offered. Offers that must not be taken come first: of the other algorithms,
// of results that vary, of tensor cores where FMA was asked for.
#include "tests/runtime/cuda/fake_cudnn.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/cuda/cudnn_functions.h"
#include "tests/runtime/cuda/fake_driver.h"

namespace {

using reprise::CudnnOffer;

constexpr int kBadParameter = 2000, kNotSupported = 3000,
              kExecutionFailed = 5000;
constexpr size_t kWorkspaceBytes = 4096;

enum class Form { kForward, kInputGradient, kFilterGradient };

struct Handle {
  CUstream stream = nullptr;
};
/// Of a filter: outputs, inputs of a group, taps; dense in either order.
struct Array {
  int type = -1;
  std::vector<int> extents, strides;
};
struct Convolution {
  std::vector<int> padding, stride, dilation;
  int mode = -1, compute_type = -1, groups = 1, math = 0;
};

/// Guards live(): ranks of a test are threads.
std::mutex objects_mutex;
std::set<const void*>& live() {
  static auto* objects = new std::set<const void*>();
  return *objects;
}
std::array<std::atomic<uint64_t>, 3> launches;
std::atomic<bool> refuses_last, refuses_first;

template <typename T>
int make(void** handle) {
  auto* made = new T();  // NOLINT: freed by drop, as in C.
  const std::lock_guard lock(objects_mutex);
  live().insert(made);
  *handle = made;
  return reprise::kCudnnSuccess;
}
template <typename T>
int drop(void* handle) {
  {
    const std::lock_guard lock(objects_mutex);
    if (live().erase(handle) == 0) return kBadParameter;
  }
  delete static_cast<T*>(handle);  // NOLINT
  return reprise::kCudnnSuccess;
}
bool lives(const void* handle) {
  const std::lock_guard lock(objects_mutex);
  return live().contains(handle);
}

size_t bytes_of(int type) {
  return type == reprise::kCudnnDouble  ? 8
         : type == reprise::kCudnnFloat ? 4
                                        : 2;
}

double read(int type, const std::byte* from) {
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  if (type == reprise::kCudnnDouble) return as(double{});
  if (type == reprise::kCudnnFloat) return static_cast<double>(as(float{}));
  if (type == reprise::kCudnnHalf) return static_cast<double>(as(_Float16{}));
  return static_cast<double>(
      std::bit_cast<float>(static_cast<uint32_t>(as(uint16_t{})) << 16));
}

void write(int type, double value, std::byte* to) {
  const auto put = [&](auto word) { std::memcpy(to, &word, sizeof word); };
  const auto single = static_cast<float>(value);
  if (type == reprise::kCudnnDouble) return put(value);
  if (type == reprise::kCudnnFloat) return put(single);
  if (type == reprise::kCudnnHalf) return put(static_cast<_Float16>(single));
  const auto bits = std::bit_cast<uint32_t>(single);  // To nearest, even.
  put(static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

bool is_dense(const Array& array, bool features_last) {
  std::vector<size_t> order;  // The fastest dimension first.
  if (features_last) order.push_back(1);
  for (size_t d = array.extents.size(); d-- > 2;) order.push_back(d);
  if (!features_last) order.push_back(1);
  order.push_back(0);
  int elements = 1;
  for (const size_t d : order) {
    if (array.strides[d] != elements) return false;
    elements *= array.extents[d];
  }
  return true;
}

size_t elements_of(const Array& array) {
  size_t all = 1;
  for (const int extent : array.extents) all *= static_cast<size_t>(extent);
  return all;
}

/// Images, filter and outputs of a convolution, whatever it computes.
struct Problem {
  Array image, filter, output;
  Convolution how;

  bool is_sound() const {
    const size_t rank = image.extents.size();
    if (how.mode != reprise::kCudnnCrossCorrelation || rank < 4 || rank > 5 ||
        filter.extents.size() != rank || output.extents.size() != rank ||
        how.padding.size() != rank - 2 || image.type != filter.type ||
        image.type != output.type || how.groups < 1)
      return false;
    const bool is_double = image.type == reprise::kCudnnDouble;
    if (is_double != (how.compute_type == reprise::kCudnnDouble)) return false;
    for (size_t d = 0; d + 2 < rank; ++d) {
      const int reach = how.dilation[d] * (filter.extents[d + 2] - 1) + 1;
      const int room = image.extents[d + 2] + 2 * how.padding[d] - reach;
      if (how.padding[d] < 0 || how.stride[d] < 1 || how.dilation[d] < 1 ||
          room < 0 || room / how.stride[d] + 1 != output.extents[d + 2])
        return false;
    }
    return image.extents[0] == output.extents[0] &&
           image.extents[1] == filter.extents[1] * how.groups &&
           output.extents[1] == filter.extents[0] &&
           filter.extents[0] % how.groups == 0 && order() >= 0;
  }
  /// 1 features last, 0 first, -1 neither. Some arrays are both.
  int order() const {
    for (const bool last : {true, false}) {
      if (is_dense(image, last) && is_dense(filter, last) &&
          is_dense(output, last) && !(last ? refuses_last : refuses_first))
        return last ? 1 : 0;
    }
    return -1;
  }
};

/// Calls `visit` with the offsets of every product: image, filter, output.
void for_each_product(
    const Problem& p,
    const std::function<void(size_t, size_t, size_t)>& visit) {
  const size_t places = p.how.padding.size();
  const auto inputs = p.filter.extents[1];
  const auto outputs_of_group = p.filter.extents[0] / p.how.groups;
  std::vector<int> at(2 + places);
  std::vector<int> tap(places);
  const auto next = [](std::vector<int>& index, auto extent_of) {
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < extent_of(d)) return true;
      index[d] = 0;
    }
    return false;
  };
  do {    // Every output,
    do {  // every tap
      int offset = at[0] * p.image.strides[0];
      bool inside = true;
      for (size_t d = 0; d < places; ++d) {
        const int place = at[d + 2] * p.how.stride[d] +
                          tap[d] * p.how.dilation[d] - p.how.padding[d];
        inside = inside && place >= 0 && place < p.image.extents[d + 2];
        offset += place * p.image.strides[d + 2];
      }
      if (!inside) continue;
      int output = 0, filter = at[1] * p.filter.strides[0];
      for (size_t d = 0; d < at.size(); ++d)
        output += at[d] * p.output.strides[d];
      for (size_t d = 0; d < places; ++d)
        filter += tap[d] * p.filter.strides[d + 2];
      const int group = at[1] / outputs_of_group;
      for (int c = 0; c < inputs; ++c) {  // and every input of the group.
        visit(static_cast<size_t>(offset +
                                  (group * inputs + c) * p.image.strides[1]),
              static_cast<size_t>(filter + c * p.filter.strides[1]),
              static_cast<size_t>(output));
      }
    } while (next(tap, [&](size_t d) { return p.filter.extents[d + 2]; }));
  } while (next(at, [&](size_t d) { return p.output.extents[d]; }));
}

struct Work {
  Problem problem;
  Form form = Form::kForward;
  std::array<const std::byte*, 2> operands = {};  ///< Images before outputs.
  std::byte* result = nullptr;
};

void convolve(void* data) {
  const auto& work = *static_cast<const Work*>(data);
  const Problem& p = work.problem;
  const Array& made = work.form == Form::kForward         ? p.output
                      : work.form == Form::kInputGradient ? p.image
                                                          : p.filter;
  const int type = made.type;
  const size_t bytes = bytes_of(type);
  std::vector<double> sums(elements_of(made));
  for_each_product(p, [&](size_t image, size_t filter, size_t output) {
    const auto value = [&](size_t operand, size_t at) {
      return read(type, work.operands[operand] + at * bytes);
    };
    if (work.form == Form::kForward)
      sums[output] += value(0, image) * value(1, filter);
    else if (work.form == Form::kInputGradient)
      sums[image] += value(0, output) * value(1, filter);
    else
      sums[filter] += value(0, image) * value(1, output);
  });
  for (size_t i = 0; i < sums.size(); ++i)
    write(type, sums[i], work.result + i * bytes);
}

const Array& array_of(const void* handle) {
  return *static_cast<const Array*>(handle);
}

int offer(const Problem& problem, Form form, int asked, int* found,
          CudnnOffer* offers) {
  *found = 0;
  if (!problem.is_sound())
    return problem.order() < 0 ? kNotSupported : kBadParameter;
  const bool is_forward = form == Form::kForward;
  const int other = is_forward ? 6 : 0, wanted = 1;
  const bool is_exact = problem.how.math == reprise::kCudnnFmaMath;
  const std::vector<CudnnOffer> all = {
      {.algorithm = other,
       .determinism = is_forward ? reprise::kCudnnDeterministic : 0,
       .math = problem.how.math},
      {.algorithm = wanted,
       .status = kNotSupported,
       .determinism = reprise::kCudnnDeterministic},
      {.algorithm = is_exact ? wanted : other,
       .determinism = is_exact ? reprise::kCudnnDeterministic : 0,
       .math = reprise::kCudnnTensorMath},
      {.algorithm = wanted,
       .memory_bytes = size_t{1} << 40,
       .determinism = reprise::kCudnnDeterministic,
       .math = problem.how.math},
      {.algorithm = wanted,
       .memory_bytes = kWorkspaceBytes,
       .determinism = reprise::kCudnnDeterministic,
       .math = problem.how.math}};
  for (const CudnnOffer& one : all) {
    if (*found < asked) offers[(*found)++] = one;
  }
  return reprise::kCudnnSuccess;
}

bool is_in_memory(const Array& array, const void* address) {
  return fake_cuda_is_device_memory(
             reinterpret_cast<uint64_t>(address),
             elements_of(array) * bytes_of(array.type)) != 0;
}

bool is_scale(const Problem& problem, const void* given, double wanted) {
  float single = -1;
  double exact = -1;
  std::memcpy(&single, given, sizeof single);
  if (problem.image.type != reprise::kCudnnDouble)
    return static_cast<double>(single) == wanted;
  std::memcpy(&exact, given, sizeof exact);
  return exact == wanted;
}

/// What a call names, in the order of images, filter and outputs.
struct Call {
  void* handle;
  const void *alpha, *beta;
  int algorithm;
  void* workspace;
  size_t workspace_bytes;
};

int enqueue(const Call& call, std::unique_ptr<Work> work,
            std::array<const Array*, 3> arrays) {
  const Problem& problem = work->problem;
  if (!lives(call.handle) || !problem.is_sound() || call.algorithm != 1 ||
      call.workspace_bytes < kWorkspaceBytes ||
      fake_cuda_is_device_memory(reinterpret_cast<uint64_t>(call.workspace),
                                 call.workspace_bytes) == 0 ||
      !is_scale(problem, call.alpha, 1) || !is_scale(problem, call.beta, 0) ||
      !is_in_memory(*arrays[0], work->operands[0]) ||
      !is_in_memory(*arrays[1], work->operands[1]) ||
      !is_in_memory(*arrays[2], work->result))
    return kBadParameter;
  ++launches[static_cast<size_t>(work->form)];
  fake_cuda_name_kernel("convolution");
  const CUresult enqueued = fake_cuda_enqueue(
      static_cast<const Handle*>(call.handle)->stream, convolve, work.release(),
      [](void* data) { delete static_cast<Work*>(data); });  // NOLINT
  return enqueued == CUDA_SUCCESS ? reprise::kCudnnSuccess : kExecutionFailed;
}

std::unique_ptr<Work> work_of(const void* image, const void* filter,
                              const void* output, const void* how, Form form,
                              const void* first, const void* second,
                              void* result) {
  return std::make_unique<Work>(
      Work{.problem = {array_of(image), array_of(filter), array_of(output),
                       *static_cast<const Convolution*>(how)},
           .form = form,
           .operands = {static_cast<const std::byte*>(first),
                        static_cast<const std::byte*>(second)},
           .result = static_cast<std::byte*>(result)});
}

Problem problem_of(const void* image, const void* filter, const void* output,
                   const void* how) {
  return {array_of(image), array_of(filter), array_of(output),
          *static_cast<const Convolution*>(how)};
}

}  // namespace

extern "C" {

void fake_cudnn_refuse(bool features_last, bool features_first) {
  refuses_last = features_last;
  refuses_first = features_first;
}
uint64_t fake_cudnn_launches(int form) {
  return launches[static_cast<size_t>(form)];
}

size_t cudnnGetVersion() { return 91900; }
size_t cudnnGetCudartVersion() { return 13000; }
const char* cudnnGetErrorString(int) { return "CUDNN_STATUS_OF_THE_FAKE"; }
int cudnnCreate(void** handle) { return make<Handle>(handle); }
int cudnnDestroy(void* handle) { return drop<Handle>(handle); }
int cudnnSetStream(void* handle, CUstream stream) {
  if (!lives(handle)) return kBadParameter;
  static_cast<Handle*>(handle)->stream = stream;
  return reprise::kCudnnSuccess;
}

int cudnnCreateTensorDescriptor(void** tensor) { return make<Array>(tensor); }
int cudnnDestroyTensorDescriptor(void* tensor) { return drop<Array>(tensor); }
int cudnnSetTensorNdDescriptor(void* tensor, int type, int dimensions,
                               const int extents[], const int strides[]) {
  if (!lives(tensor) || dimensions < 4) return kBadParameter;
  *static_cast<Array*>(tensor) = {
      type, {extents, extents + dimensions}, {strides, strides + dimensions}};
  return reprise::kCudnnSuccess;
}

int cudnnCreateFilterDescriptor(void** filter) { return make<Array>(filter); }
int cudnnDestroyFilterDescriptor(void* filter) { return drop<Array>(filter); }
int cudnnSetFilterNdDescriptor(void* filter, int type, int format,
                               int dimensions, const int extents[]) {
  if (!lives(filter) || dimensions < 4 || format < 0 || format > 1)
    return kBadParameter;
  Array array{type, {extents, extents + dimensions}, {}};
  array.strides.resize(array.extents.size());
  int elements = 1;
  if (format == reprise::kCudnnFeaturesLast) {
    array.strides[1] = 1;
    elements = array.extents[1];
  }
  for (size_t d = array.extents.size(); d-- > 2;) {
    array.strides[d] = elements;
    elements *= array.extents[d];
  }
  if (format == reprise::kCudnnFeaturesFirst) {
    array.strides[1] = elements;
    elements *= array.extents[1];
  }
  array.strides[0] = elements;
  *static_cast<Array*>(filter) = std::move(array);
  return reprise::kCudnnSuccess;
}

int cudnnCreateConvolutionDescriptor(void** made) {
  return make<Convolution>(made);
}
int cudnnDestroyConvolutionDescriptor(void* made) {
  return drop<Convolution>(made);
}
int cudnnSetConvolutionNdDescriptor(void* made, int places, const int padding[],
                                    const int strides[], const int dilations[],
                                    int mode, int compute_type) {
  if (!lives(made) || places < 2) return kBadParameter;
  auto& how = *static_cast<Convolution*>(made);
  how.padding = {padding, padding + places};
  how.stride = {strides, strides + places};
  how.dilation = {dilations, dilations + places};
  how.mode = mode;
  how.compute_type = compute_type;
  return reprise::kCudnnSuccess;
}
int cudnnSetConvolutionGroupCount(void* made, int groups) {
  static_cast<Convolution*>(made)->groups = groups;
  return reprise::kCudnnSuccess;
}
int cudnnSetConvolutionMathType(void* made, int math) {
  static_cast<Convolution*>(made)->math = math;
  return reprise::kCudnnSuccess;
}

int cudnnGetConvolutionForwardAlgorithm_v7(void*, const void* image,
                                           const void* filter, const void* how,
                                           const void* output, int asked,
                                           int* found, CudnnOffer* offers) {
  return offer(problem_of(image, filter, output, how), Form::kForward, asked,
               found, offers);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(
    void*, const void* filter, const void* output, const void* how,
    const void* image, int asked, int* found, CudnnOffer* offers) {
  return offer(problem_of(image, filter, output, how), Form::kInputGradient,
               asked, found, offers);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    void*, const void* image, const void* output, const void* how,
    const void* filter, int asked, int* found, CudnnOffer* offers) {
  return offer(problem_of(image, filter, output, how), Form::kFilterGradient,
               asked, found, offers);
}

int cudnnConvolutionForward(void* handle, const void* alpha, const void* image,
                            const void* x, const void* filter, const void* w,
                            const void* how, int algorithm, void* workspace,
                            size_t workspace_bytes, const void* beta,
                            const void* output, void* y) {
  return enqueue({handle, alpha, beta, algorithm, workspace, workspace_bytes},
                 work_of(image, filter, output, how, Form::kForward, x, w, y),
                 {&array_of(image), &array_of(filter), &array_of(output)});
}
int cudnnConvolutionBackwardData(void* handle, const void* alpha,
                                 const void* filter, const void* w,
                                 const void* output, const void* dy,
                                 const void* how, int algorithm,
                                 void* workspace, size_t workspace_bytes,
                                 const void* beta, const void* image,
                                 void* dx) {
  return enqueue(
      {handle, alpha, beta, algorithm, workspace, workspace_bytes},
      work_of(image, filter, output, how, Form::kInputGradient, dy, w, dx),
      {&array_of(output), &array_of(filter), &array_of(image)});
}
int cudnnConvolutionBackwardFilter(void* handle, const void* alpha,
                                   const void* image, const void* x,
                                   const void* output, const void* dy,
                                   const void* how, int algorithm,
                                   void* workspace, size_t workspace_bytes,
                                   const void* beta, const void* filter,
                                   void* dw) {
  return enqueue(
      {handle, alpha, beta, algorithm, workspace, workspace_bytes},
      work_of(image, filter, output, how, Form::kFilterGradient, x, dy, dw),
      {&array_of(image), &array_of(output), &array_of(filter)});
}

}  // extern "C"
