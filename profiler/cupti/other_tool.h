// Which other tool watches this process's device, as its variables and
// libraries show.
#pragma once

#include <string>

namespace reprise::cupti {

/// "Nsight Systems", "Nsight Compute", "compute-sanitizer", another library
/// that the driver was told to load; empty where none is seen. DCGM is not
/// among them: it reads counters, beside CUPTI's activity records.
/// Source: names of the libraries that these tools of 2020 to 2025 inject.
std::string other_tool();

}  // namespace reprise::cupti
