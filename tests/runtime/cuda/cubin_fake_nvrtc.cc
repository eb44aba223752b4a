// An NVRTC for tests without one: compiles the text as host C++, as which it
// also reads (runtime/kernels/print_cuda_prelude.inc), with g++. The "cubin" is
// a shared library; each entry of it is `void ENTRY(void* const* parameters,
// unsigned grid_blocks)`, the parameters themselves, not their addresses;
// `const int parameters_of_ENTRY` says how many.
//
// REPRISE_TWIN_DESCENDING=1 in the environment runs threads and blocks from the
// last to the first: no result may change. REPRISE_TWIN_CHECKS=1 makes races in
// shared memory abort. REPRISE_TWIN_REFUSES=TEXT makes texts that hold TEXT
// fail. REPRISE_TWIN_VERSION_BY_NAME=1 takes the version from the file's name.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

extern char** environ;

namespace {

struct Program {
  std::string text, image, log;
};

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int run(const std::vector<std::string>& arguments, const std::string& output) {
  std::vector<char*> list;
  for (const std::string& argument : arguments)
    list.push_back(const_cast<char*>(argument.c_str()));
  list.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t id = -1;
  const int error =
      ::posix_spawnp(&id, list[0], &actions, nullptr, list.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  int status = 0;
  while (::waitpid(id, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A count beside each entry; the text spells them RK_ENTRY(NAME).
std::string parameter_counts(const std::string& text) {
  std::string counts =
      "template <typename... A> constexpr int rk_count(void (*)(A...)) {"
      " return sizeof...(A); }\n";
  const std::string mark = "\nRK_ENTRY(";
  for (size_t at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + 1)) {
    const size_t start = at + mark.size();
    const std::string name = text.substr(start, text.find(')', start) - start);
    counts += "extern \"C\" const int parameters_of_" + name + " = rk_count(" +
              name + "_block);\n";
  }
  return counts;
}

bool compile(Program& program) {
  char directory[] = "/tmp/reprise_twin_XXXXXX";
  if (::mkdtemp(directory) == nullptr) return false;
  const std::string base = directory;
  const std::string source = base + "/kernels.cc", library = base + "/twin.so",
                    log = base + "/log";
  std::ofstream(source) << program.text << parameter_counts(program.text);
  std::vector<std::string> arguments{"g++",
                                     "-std=c++17",
                                     "-O1",
                                     "-march=native",
                                     "-ffp-contract=off",
                                     "-fno-math-errno",
                                     "-fno-trapping-math",
                                     "-fPIC",
                                     "-shared",
                                     "-w",
                                     "-o",
                                     library,
                                     source};
  if (std::getenv("REPRISE_TWIN_DESCENDING") != nullptr)
    arguments.insert(arguments.begin() + 1, "-DRK_DESCENDING");
  if (std::getenv("REPRISE_TWIN_CHECKS") != nullptr)
    arguments.insert(arguments.begin() + 1, "-DRK_CHECK");
  const bool compiled = run(arguments, log) == 0;
  program.log = read_whole(log);
  program.image = compiled ? read_whole(library) : std::string();
  for (const std::string& file : {source, library, log}) ::unlink(file.c_str());
  ::rmdir(directory);
  return compiled;
}

Program* program_of(void* handle) { return static_cast<Program*>(handle); }

constexpr int kCompilationFailed = 6;  // NVRTC_ERROR_COMPILATION.

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  // Of a copy under another name: libnvrtc.so.12 is of CUDA 12.
  if (std::getenv("REPRISE_TWIN_VERSION_BY_NAME") != nullptr) {
    Dl_info info{};
    ::dladdr(reinterpret_cast<const void*>(nvrtcVersion), &info);
    *major = std::atoi(std::strrchr(info.dli_fname, '.') + 1);
    *minor = 0;
    return 0;
  }
  // Their code must not mix in a cache.
  *major = std::getenv("REPRISE_TWIN_CHECKS") != nullptr ? 1 : 0;
  *minor = std::getenv("REPRISE_TWIN_DESCENDING") != nullptr ? 1 : 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return 0;
}
int nvrtcGetSupportedArchs(int* list) {
  list[0] = 80;
  list[1] = 90;
  list[2] = 100;
  return 0;
}
int nvrtcCreateProgram(void** program, const char* text, const char*, int,
                       const char* const*, const char* const*) {
  *program = new Program{text, {}, {}};
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete program_of(*program);
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(void* handle, int, const char* const*) {
  Program* program = program_of(handle);
  const char* refused = std::getenv("REPRISE_TWIN_REFUSES");
  if (refused != nullptr && program->text.find(refused) != std::string::npos) {
    program->log = "refused, as told";
    return kCompilationFailed;
  }
  return compile(*program) ? 0 : kCompilationFailed;
}
int nvrtcGetCUBINSize(void* program, size_t* size) {
  *size = program_of(program)->image.size();
  return 0;
}
int nvrtcGetCUBIN(void* program, char* bytes) {
  const std::string& image = program_of(program)->image;
  std::memcpy(bytes, image.data(), image.size());
  return 0;
}
int nvrtcGetProgramLogSize(void* program, size_t* size) {
  *size = program_of(program)->log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(void* program, char* text) {
  const std::string& log = program_of(program)->log;
  std::memcpy(text, log.c_str(), log.size() + 1);
  return 0;
}
const char* nvrtcGetErrorString(int code) {
  return code == kCompilationFailed ? "NVRTC_ERROR_COMPILATION" : "error";
}

}  // extern "C"
