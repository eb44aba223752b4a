// Exists so that CMake has a target to precompile headers for.
