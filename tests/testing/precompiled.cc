// Exists so that CMake has a target to precompile the tests' headers for.
int main() { return 0; }
