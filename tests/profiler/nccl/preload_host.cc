// A program that uses NCCL: linked to it, or (with the path of a module as its
// argument) through a module opened for itself alone, as Python opens torch.
#include <dlfcn.h>

#include <cstdio>

#ifdef REPRISE_TEST_LINKED
extern "C" void reprise_test_nccl_work();
#endif

int main(int count, char** arguments) {
#ifdef REPRISE_TEST_LINKED
  reprise_test_nccl_work();
  return count == 1 && arguments != nullptr ? 7 : 1;
#else
  void* module =
      count < 2 ? nullptr : ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return 1;
  const auto work =
      reinterpret_cast<void (*)()>(::dlsym(module, "reprise_test_nccl_work"));
  if (work == nullptr) return 2;
  work();
  return 7;
#endif
}
