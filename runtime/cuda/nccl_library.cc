#include "runtime/cuda/nccl_library.h"

#include <dlfcn.h>

#include "runtime/cuda/nvidia_library.h"

namespace reprise {
namespace {

template <typename Function>
void find(void* library, const char* symbol, Function*& function,
          std::string& missing) {
  function = reinterpret_cast<Function*>(::dlsym(library, symbol));
  if (function == nullptr && missing.empty()) missing = symbol;
}

/// What keeps this copy from being used; empty: nothing, `nccl` is filled.
std::string bind_nccl(void* library, const std::string& path, int driver_cuda,
                      NcclLibrary* nccl) {
  *nccl = {};
  std::string missing, optional;
#define REPRISE_NCCL_FIND(member, symbol, ...) \
  find(library, #symbol, nccl->member, missing);
  REPRISE_NCCL_FUNCTIONS(REPRISE_NCCL_FIND)
#undef REPRISE_NCCL_FIND
  find(library, "ncclGetErrorString", nccl->get_error_string, missing);
  find(library, "ncclGetLastError", nccl->get_last_error, optional);
  if (!missing.empty()) return "it lacks " + missing + ": it is too old";
  nccl->get_version(&nccl->version);
  return too_new_for_driver(cuda_major_of_nccl(path), driver_cuda);
}

Result<NcclLibrary> load_nccl() {
  NcclLibrary nccl{};
  const int driver_cuda = installed_driver_cuda();
  const auto refusal = [&](void* library, const std::string& path) {
    return bind_nccl(library, path, driver_cuda, &nccl);
  };
  const Result<OpenedNvidiaLibrary> opened =
      open_nvidia_library(NvidiaLibrary::kNccl, driver_cuda, refusal);
  if (!opened) {
    return fail(
        ErrorKind::kDevice,
        "NCCL is missing: {} (install libnccl2 for this driver, put its "
        "directory into LD_LIBRARY_PATH, or use --collectives gloo)",
        opened.error().message);
  }
  return nccl;
}

}  // namespace

Result<const NcclLibrary*> NcclLibrary::load() {
  static const Result<NcclLibrary> nccl = load_nccl();
  if (!nccl) return pass(nccl.error());
  return &*nccl;
}

std::string NcclLibrary::words(int result, ncclComm* communicator) const {
  const char* words = get_error_string(result);
  std::string text = words == nullptr ? "error" : words;
  const char* last =
      get_last_error == nullptr ? nullptr : get_last_error(communicator);
  if (last != nullptr && *last != '\0') text += fmt::format(" ({})", last);
  return text;
}

std::optional<int> nccl_data_type(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kS8:
      return 0;
    case PrimitiveType::kU8:
      return 1;
    case PrimitiveType::kS32:
      return 2;
    case PrimitiveType::kU32:
      return 3;
    case PrimitiveType::kS64:
      return 4;
    case PrimitiveType::kU64:
      return 5;
    case PrimitiveType::kF16:
      return 6;
    case PrimitiveType::kF32:
      return 7;
    case PrimitiveType::kF64:
      return 8;
    case PrimitiveType::kBF16:
      return 9;
    default:
      return std::nullopt;
  }
}

int nccl_operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return 0;
    case Reduction::kProduct:
      return 1;
    case Reduction::kMax:
      return 2;
    case Reduction::kMin:
      return 3;
  }
  return 0;
}

}  // namespace reprise
