// An NVTX instance as nvtx3's headers put one into each shared object: tables
// of places for functions, which an injection library fills. For tests where
// the headers are not installed.
#pragma once

#include <array>
#include <cstdint>

namespace reprise::fake {

using AnyFunction = void (*)();

class NvtxInstance {
 public:
  NvtxInstance() {
    for (size_t i = 0; i < kPlaces; ++i) {
      core_places_[i] = &core_[i];
      core2_places_[i] = &core2_[i];
    }
  }
  /// Calls InitializeInjectionNvtx2 as NVTX does at its first range.
  bool initialize(int (*injection)(const void* (*)(uint32_t))) {
    current() = this;
    return injection(export_table) != 0;
  }
  template <typename Function>
  Function* core(uint32_t id) const {
    return reinterpret_cast<Function*>(core_[id]);
  }
  template <typename Function>
  Function* core2(uint32_t id) const {
    return reinterpret_cast<Function*>(core2_[id]);
  }

 private:
  static constexpr size_t kPlaces = 16;
  struct Callbacks {
    size_t struct_size;
    int (*get_table)(uint32_t, AnyFunction***, unsigned*);
  };

  static NvtxInstance*& current() {
    static NvtxInstance* instance = nullptr;
    return instance;
  }
  static int get_table(uint32_t module, AnyFunction*** table, unsigned* size) {
    if (module != 1 && module != 5) return 0;
    *table = module == 1 ? current()->core_places_.data()
                         : current()->core2_places_.data();
    *size = kPlaces - 1;
    return 1;
  }
  static const void* export_table(uint32_t id) {
    static const Callbacks callbacks = {sizeof(Callbacks), get_table};
    return id == 1 ? &callbacks : nullptr;
  }

  std::array<AnyFunction, kPlaces> core_{}, core2_{};
  std::array<AnyFunction*, kPlaces> core_places_{}, core2_places_{};
};

}  // namespace reprise::fake
