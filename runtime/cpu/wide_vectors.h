// Functions compiled for instructions that only some machines have, called
// where this one has them.
#pragma once

namespace reprise {

#if defined(__x86_64__)
#define REPRISE_WITH_AVX2 __attribute__((target("avx2")))
#define REPRISE_WITH_FMA __attribute__((target("avx2,fma")))
// Every processor with AVX2 has these.
#define REPRISE_WITH_F16C __attribute__((target("avx2,f16c")))
inline bool has_avx2() { return __builtin_cpu_supports("avx2"); }
inline bool has_fma() { return has_avx2() && __builtin_cpu_supports("fma"); }
#else  // Every function is for every machine.
#define REPRISE_WITH_AVX2
#define REPRISE_WITH_FMA
inline bool has_avx2() { return true; }
inline bool has_fma() { return true; }
#endif

}  // namespace reprise
