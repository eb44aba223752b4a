#include "runtime/cpu/lapack.h"

#include <cblas.h>
#include <dlfcn.h>
// Its complex numbers are to be those of C++.
#define LAPACK_COMPLEX_CUSTOM
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapack.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <type_traits>

namespace reprise::lapack {
namespace {

// Each has a name in s… for floats and in d… for doubles, and, some another
// one, in c… and z… for complex numbers of these.
#define REPRISE_LAPACK_ROUTINES(X) \
  X(potrf, potrf)                  \
  X(getrf, getrf)                  \
  X(geqrf, geqrf)                  \
  X(orgqr, ungqr)                  \
  X(syevd, heevd)                  \
  X(gesdd, gesdd)                  \
  X(gtsv, gtsv)                    \
  X(geqp3, geqp3)                  \
  X(ormqr, unmqr)                  \
  X(geev, geev) X(gees, gees) X(gehrd, gehrd) X(sytrd, hetrd) X(gesvd, gesvd)

struct Functions {
#define REPRISE_LAPACK_MEMBERS(routine, complex) \
  decltype(&s##routine##_) s##routine = nullptr; \
  decltype(&d##routine##_) d##routine = nullptr; \
  decltype(&c##complex##_) c##routine = nullptr; \
  decltype(&z##complex##_) z##routine = nullptr;
  REPRISE_LAPACK_ROUTINES(REPRISE_LAPACK_MEMBERS)
#undef REPRISE_LAPACK_MEMBERS
  decltype(&cblas_dgemm) dgemm = nullptr;
  decltype(&cblas_strsm) strsm = nullptr;
  decltype(&cblas_dtrsm) dtrsm = nullptr;
  decltype(&cblas_ctrsm) ctrsm = nullptr;
  decltype(&cblas_ztrsm) ztrsm = nullptr;
};

/// A name that OpenBLAS knows: of CPUs that are newer than itself it takes the
/// loops of 2004, eight times as slow.
const char* core_type() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return "Haswell";
#endif
  return nullptr;
}

std::optional<Functions> find_functions() {
  // What it reads when it is loaded.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  if (core_type() != nullptr) ::setenv("OPENBLAS_CORETYPE", core_type(), 0);
  void* library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  bool all = true;
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(
        ::dlsym(library, name));
    all = all && *function != nullptr;
  };
  Functions found;
#define REPRISE_LAPACK_FIND(routine, complex) \
  find(&found.s##routine, "s" #routine "_");  \
  find(&found.d##routine, "d" #routine "_");  \
  find(&found.c##routine, "c" #complex "_");  \
  find(&found.z##routine, "z" #complex "_");
  REPRISE_LAPACK_ROUTINES(REPRISE_LAPACK_FIND)
#undef REPRISE_LAPACK_FIND
  find(&found.dgemm, "cblas_dgemm");
  find(&found.strsm, "cblas_strsm");
  find(&found.dtrsm, "cblas_dtrsm");
  find(&found.ctrsm, "cblas_ctrsm");
  find(&found.ztrsm, "cblas_ztrsm");
  if (!all) return std::nullopt;
  return found;
}

const std::optional<Functions>& functions() {
  static const std::optional<Functions> found = find_functions();
  return found;
}

// The function of a routine for numbers of type T.
#define REPRISE_LAPACK_CHOICE(routine, unused)                     \
  template <typename T>                                            \
  auto routine##_of() {                                            \
    if constexpr (std::is_same_v<T, float>) {                      \
      return functions()->s##routine;                              \
    } else if constexpr (std::is_same_v<T, double>) {              \
      return functions()->d##routine;                              \
    } else if constexpr (std::is_same_v<T, std::complex<float>>) { \
      return functions()->c##routine;                              \
    } else {                                                       \
      return functions()->z##routine;                              \
    }                                                              \
  }
REPRISE_LAPACK_ROUTINES(REPRISE_LAPACK_CHOICE)
REPRISE_LAPACK_CHOICE(trsm, trsm)
#undef REPRISE_LAPACK_CHOICE

/// What a routine that was asked with a size of -1 wrote as its size.
template <typename T, typename Asked>
int32_t make_room(Asked asked, Array<T>* values) {
  const auto size =
      std::max<int32_t>(1, static_cast<int32_t>(std::real(asked)));
  if (values->size() < static_cast<size_t>(size))
    values->resize(static_cast<size_t>(size));
  return size;
}

constexpr int32_t kAsk = -1;
constexpr size_t kOne = 1;  ///< Fortran's length of a letter.

/// Calls a routine that takes room of the size for which it asks:
/// `call(room, size)`.
template <typename T, typename Call>
void with_room(Workspace<T>* work, Call call) {
  T asked = 0;
  call(&asked, &kAsk);
  const int32_t size = make_room(asked, &work->values);
  call(work->values.data(), &size);
}

/// Eigenvalues of a real matrix: real parts, then imaginary ones.
template <typename T>
void join(int32_t n, const T* parts, std::complex<T>* values) {
  for (int32_t i = 0; i < n; ++i) values[i] = {parts[i], parts[n + i]};
}

}  // namespace

Status load() {
  if (functions()) return {};
  return fail(ErrorKind::kDevice,
              "matrices are factored by OpenBLAS, and libopenblas.so.0 is not "
              "here or lacks LAPACK: install libopenblas0");
}

template <typename T>
int32_t potrf(bool lower, int32_t n, T* a) {
  const char triangle = lower ? 'L' : 'U';
  int32_t info = 0;
  potrf_of<T>()(&triangle, &n, a, &n, &info, kOne);
  return info;
}

template <typename T>
int32_t getrf(int32_t rows, int32_t columns, T* a, int32_t* pivots) {
  int32_t info = 0;
  getrf_of<T>()(&rows, &columns, a, &rows, pivots, &info);
  return info;
}

template <typename T>
void geqrf(int32_t rows, int32_t columns, T* a, T* tau, Workspace<T>* work) {
  int32_t info = 0;
  with_room(work, [&](T* room, const int32_t* size) {
    geqrf_of<T>()(&rows, &columns, a, &rows, tau, room, size, &info);
  });
}

template <typename T>
void orgqr(int32_t rows, int32_t columns, int32_t reflectors, T* a,
           const T* tau, Workspace<T>* work) {
  int32_t info = 0;
  with_room(work, [&](T* room, const int32_t* size) {
    orgqr_of<T>()(&rows, &columns, &reflectors, a, &rows, tau, room, size,
                  &info);
  });
}

template <typename T>
void geqp3(int32_t rows, int32_t columns, T* a, int32_t* pivots, T* tau,
           Workspace<T>* work) {
  int32_t info = 0;
  make_room(2 * columns, &work->reals);
  with_room(work, [&](T* room, const int32_t* size) {
    if constexpr (kIsComplex<T>) {
      geqp3_of<T>()(&rows, &columns, a, &rows, pivots, tau, room, size,
                    work->reals.data(), &info);
    } else {
      geqp3_of<T>()(&rows, &columns, a, &rows, pivots, tau, room, size, &info);
    }
  });
}

template <typename T>
void ormqr(bool left, bool transposed, int32_t rows, int32_t columns,
           int32_t reflectors, const T* a, const T* tau, T* c,
           Workspace<T>* work) {
  const char side = left ? 'L' : 'R';
  const char turned = !transposed ? 'N' : kIsComplex<T> ? 'C' : 'T';
  int32_t info = 0;
  with_room(work, [&](T* room, const int32_t* size) {
    ormqr_of<T>()(&side, &turned, &rows, &columns, &reflectors, a,
                  left ? &rows : &columns, tau, c, &rows, room, size, &info,
                  kOne, kOne);
  });
}

template <typename T>
int32_t geev(int32_t n, T* a, std::complex<Real<T>>* values, T* left, T* right,
             Workspace<T>* work) {
  const char of_left = left != nullptr ? 'V' : 'N';
  const char of_right = right != nullptr ? 'V' : 'N';
  int32_t info = 0;
  make_room(2 * n, &work->reals);
  Real<T>* reals = work->reals.data();
  with_room(work, [&](T* room, const int32_t* size) {
    if constexpr (kIsComplex<T>) {
      geev_of<T>()(&of_left, &of_right, &n, a, &n, values, left, &n, right, &n,
                   room, size, reals, &info, kOne, kOne);
    } else {
      geev_of<T>()(&of_left, &of_right, &n, a, &n, reals, reals + n, left, &n,
                   right, &n, room, size, &info, kOne, kOne);
    }
  });
  if constexpr (!kIsComplex<T>) join(n, reals, values);
  return info;
}

template <typename T>
int32_t gees(int32_t n, T* a, std::complex<Real<T>>* values, T* v,
             Workspace<T>* work) {
  const char of_v = v != nullptr ? 'V' : 'N', sort = 'N';
  int32_t info = 0, sorted = 0;
  make_room(2 * n, &work->reals);
  Real<T>* reals = work->reals.data();
  with_room(work, [&](T* room, const int32_t* size) {
    if constexpr (kIsComplex<T>) {
      gees_of<T>()(&of_v, &sort, nullptr, &n, a, &n, &sorted, values, v, &n,
                   room, size, reals, nullptr, &info, kOne, kOne);
    } else {
      gees_of<T>()(&of_v, &sort, nullptr, &n, a, &n, &sorted, reals, reals + n,
                   v, &n, room, size, nullptr, &info, kOne, kOne);
    }
  });
  if constexpr (!kIsComplex<T>) join(n, reals, values);
  return info;
}

template <typename T>
int32_t gehrd(int32_t n, int32_t low, int32_t high, T* a, T* tau,
              Workspace<T>* work) {
  int32_t info = 0;
  with_room(work, [&](T* room, const int32_t* size) {
    gehrd_of<T>()(&n, &low, &high, a, &n, tau, room, size, &info);
  });
  return info;
}

template <typename T>
int32_t sytrd(bool lower, int32_t n, T* a, Real<T>* diagonal, Real<T>* beside,
              T* tau, Workspace<T>* work) {
  const char triangle = lower ? 'L' : 'U';
  int32_t info = 0;
  with_room(work, [&](T* room, const int32_t* size) {
    sytrd_of<T>()(&triangle, &n, a, &n, diagonal, beside, tau, room, size,
                  &info, kOne);
  });
  return info;
}

template <typename T>
int32_t syevd(bool vectors, bool lower, int32_t n, T* a, Real<T>* values,
              Workspace<T>* work) {
  const char job = vectors ? 'V' : 'N', triangle = lower ? 'L' : 'U';
  int32_t info = 0, asked_integers = 0;
  T asked = 0;
  Real<T> asked_reals = 0;
  if constexpr (kIsComplex<T>) {
    syevd_of<T>()(&job, &triangle, &n, a, &n, values, &asked, &kAsk,
                  &asked_reals, &kAsk, &asked_integers, &kAsk, &info, kOne,
                  kOne);
  } else {
    syevd_of<T>()(&job, &triangle, &n, a, &n, values, &asked, &kAsk,
                  &asked_integers, &kAsk, &info, kOne, kOne);
  }
  const int32_t size = make_room(asked, &work->values);
  const int32_t reals = make_room(asked_reals, &work->reals);
  const int32_t integers = make_room(asked_integers, &work->integers);
  if constexpr (kIsComplex<T>) {
    syevd_of<T>()(&job, &triangle, &n, a, &n, values, work->values.data(),
                  &size, work->reals.data(), &reals, work->integers.data(),
                  &integers, &info, kOne, kOne);
  } else {
    syevd_of<T>()(&job, &triangle, &n, a, &n, values, work->values.data(),
                  &size, work->integers.data(), &integers, &info, kOne, kOne);
  }
  return info;
}

template <typename T>
int32_t gesdd(bool whole, int32_t rows, int32_t columns, T* a, Real<T>* values,
              T* u, T* vt, Workspace<T>* work) {
  const bool vectors = u != nullptr && vt != nullptr;
  const char job = !vectors ? 'N' : whole ? 'A' : 'S';
  const int32_t least = std::min(rows, columns);
  const int32_t most = std::max(rows, columns);
  const int32_t vt_rows = whole ? columns : least;
  int32_t info = 0;
  make_room(8 * least, &work->integers);
  if constexpr (kIsComplex<T>) {  // As its description says.
    const double n = least, m = most;
    make_room(std::max(7 * n, n * std::max(5 * n + 7, 2 * m + 2 * n + 1)),
              &work->reals);
  }
  with_room(work, [&](T* values_room, const int32_t* size) {
    if constexpr (kIsComplex<T>) {
      gesdd_of<T>()(&job, &rows, &columns, a, &rows, values, u, &rows, vt,
                    &vt_rows, values_room, size, work->reals.data(),
                    work->integers.data(), &info, kOne);
    } else {
      gesdd_of<T>()(&job, &rows, &columns, a, &rows, values, u, &rows, vt,
                    &vt_rows, values_room, size, work->integers.data(), &info,
                    kOne);
    }
  });
  return info;
}

template <typename T>
int32_t gesvd(bool whole, int32_t rows, int32_t columns, T* a, Real<T>* values,
              T* u, T* vt, Workspace<T>* work) {
  const bool vectors = u != nullptr && vt != nullptr;
  const char job = !vectors ? 'N' : whole ? 'A' : 'S';
  const int32_t least = std::min(rows, columns);
  const int32_t vt_rows = whole ? columns : least;
  int32_t info = 0;
  make_room(5 * least, &work->reals);
  with_room(work, [&](T* room, const int32_t* size) {
    if constexpr (kIsComplex<T>) {
      gesvd_of<T>()(&job, &job, &rows, &columns, a, &rows, values, u, &rows, vt,
                    &vt_rows, room, size, work->reals.data(), &info, kOne,
                    kOne);
    } else {
      gesvd_of<T>()(&job, &job, &rows, &columns, a, &rows, values, u, &rows, vt,
                    &vt_rows, room, size, &info, kOne, kOne);
    }
  });
  return info;
}

template <typename T>
int32_t gtsv(int32_t n, int32_t columns, T* lower, T* diagonal, T* upper,
             T* b) {
  int32_t info = 0;
  gtsv_of<T>()(&n, &columns, lower, diagonal, upper, b, &n, &info);
  return info;
}

template <typename T>
void trsm(const Triangle& triangle, int32_t rows, int32_t columns, const T* a,
          T* b) {
  const auto side = triangle.left ? CblasLeft : CblasRight;
  const auto part = triangle.lower ? CblasLower : CblasUpper;
  const auto turned = !triangle.transposed  ? CblasNoTrans
                      : triangle.conjugated ? CblasConjTrans
                                            : CblasTrans;
  const auto diagonal = triangle.unit_diagonal ? CblasUnit : CblasNonUnit;
  const int32_t extent = triangle.left ? rows : columns;
  const T one = 1;
  if constexpr (kIsComplex<T>) {
    trsm_of<T>()(CblasRowMajor, side, part, turned, diagonal, rows, columns,
                 &one, a, extent, b, columns);
  } else {
    trsm_of<T>()(CblasRowMajor, side, part, turned, diagonal, rows, columns,
                 one, a, extent, b, columns);
  }
}

void gemm(int32_t m, int32_t n, int32_t k, const Factor& a, const Factor& b,
          double* out, int32_t out_leading, bool adds) {
  const auto turned = [](const Factor& factor) {
    return factor.transposed ? CblasTrans : CblasNoTrans;
  };
  functions()->dgemm(CblasRowMajor, turned(a), turned(b), m, n, k, 1, a.data,
                     a.leading, b.data, b.leading, adds ? 1 : 0, out,
                     out_leading);
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type.
#define REPRISE_INSTANCES(T)                                                   \
  template int32_t potrf(bool, int32_t, T*);                                   \
  template int32_t getrf(int32_t, int32_t, T*, int32_t*);                      \
  template void geqrf(int32_t, int32_t, T*, T*, Workspace<T>*);                \
  template void geqp3(int32_t, int32_t, T*, int32_t*, T*, Workspace<T>*);      \
  template void ormqr(bool, bool, int32_t, int32_t, int32_t, const T*,         \
                      const T*, T*, Workspace<T>*);                            \
  template int32_t geev(int32_t, T*, std::complex<Real<T>>*, T*, T*,           \
                        Workspace<T>*);                                        \
  template int32_t gees(int32_t, T*, std::complex<Real<T>>*, T*,               \
                        Workspace<T>*);                                        \
  template int32_t gehrd(int32_t, int32_t, int32_t, T*, T*, Workspace<T>*);    \
  template int32_t sytrd(bool, int32_t, T*, Real<T>*, Real<T>*, T*,            \
                         Workspace<T>*);                                       \
  template int32_t gesvd(bool, int32_t, int32_t, T*, Real<T>*, T*, T*,         \
                         Workspace<T>*);                                       \
  template void orgqr(int32_t, int32_t, int32_t, T*, const T*, Workspace<T>*); \
  template int32_t syevd(bool, bool, int32_t, T*, Real<T>*, Workspace<T>*);    \
  template int32_t gesdd(bool, int32_t, int32_t, T*, Real<T>*, T*, T*,         \
                         Workspace<T>*);                                       \
  template int32_t gtsv(int32_t, int32_t, T*, T*, T*, T*);                     \
  template void trsm(const Triangle&, int32_t, int32_t, const T*, T*);
REPRISE_INSTANCES(float)
REPRISE_INSTANCES(double)
REPRISE_INSTANCES(std::complex<float>)
REPRISE_INSTANCES(std::complex<double>)
#undef REPRISE_INSTANCES
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace reprise::lapack
