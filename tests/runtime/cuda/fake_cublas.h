// Controls of the fake cuBLASLt.
//
// Environment: FAKE_CUBLAS_COSTS=NS,NS,...: what a process's heuristics offer.
#pragma once

#include <cstdint>

extern "C" {

/// The heuristics offer `count` algorithms, at most 16, that take so long
/// beyond a kernel of no work; number `refused` fails when it is used, none if
/// -1. Forgets launches.
void fake_cublas_offer(const int64_t* costs_ns, int count, int refused);
/// Products that algorithm `number` has computed.
uint64_t fake_cublas_launches(int number);
}
