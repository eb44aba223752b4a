# Debian packages only; nothing is downloaded at configure time.
# ccache, where it is installed and may write its cache: presets share what they compile alike.
find_program(REPRISE_CCACHE ccache)
if(REPRISE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  file(WRITE ${CMAKE_BINARY_DIR}/ccache_probe.cc "")
  execute_process(COMMAND ${REPRISE_CCACHE} ${CMAKE_CXX_COMPILER} -c ccache_probe.cc -o ccache_probe.o
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} RESULT_VARIABLE ccache_failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT ccache_failed)
    # Precompiled headers are part of what it compares, by content.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${REPRISE_CCACHE})
  endif()
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS graph)  # card: graphs
find_package(TBB REQUIRED)                          # card: parallel loops
find_package(nlohmann_json REQUIRED)                # card: plans, manifests, results
find_package(SQLite3 REQUIRED)                      # card: trace container
find_package(fmt REQUIRED)                          # number formatting, 20x nlohmann on timelines
find_package(CLI11 REQUIRED)                        # command line
find_package(tl-expected REQUIRED)                  # Result<T>; std::expected is C++23
find_package(OpenSSL REQUIRED COMPONENTS Crypto)    # SHA-256 of fingerprints and cache keys
find_package(Gloo REQUIRED)                         # CPU collectives
find_package(MPI REQUIRED COMPONENTS CXX)           # starts and bootstraps ranks
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)  # gzip and CRC-32
pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)  # nsys-jax reports and HLO dumps are .xz
find_package(simdjson REQUIRED)                     # bulk JSON of imported traces

# oneDNN's own CMake config demands OpenCL, which Debian only recommends.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl INTERFACE)
target_include_directories(dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl INTERFACE ${DNNL_LIBRARY})

# LAPACK, of OpenBLAS, which the CPU trainer loads when a program needs it.
find_path(LAPACK_INCLUDE_DIR lapack.h REQUIRED)
find_path(CBLAS_INCLUDE_DIR cblas.h REQUIRED)
add_library(lapack_headers INTERFACE)
target_include_directories(lapack_headers SYSTEM INTERFACE ${LAPACK_INCLUDE_DIR} ${CBLAS_INCLUDE_DIR})
target_link_libraries(lapack_headers INTERFACE ${CMAKE_DL_LIBS})

find_path(GLPK_INCLUDE_DIR glpk.h REQUIRED)         # card: exact windows
find_library(GLPK_LIBRARY glpk REQUIRED)
add_library(glpk INTERFACE)
target_include_directories(glpk SYSTEM INTERFACE ${GLPK_INCLUDE_DIR})
target_link_libraries(glpk INTERFACE ${GLPK_LIBRARY})

if(REPRISE_CUDA STREQUAL ON)
  find_package(CUDAToolkit REQUIRED)
elseif(REPRISE_CUDA STREQUAL AUTO)
  find_package(CUDAToolkit QUIET)
endif()

if(REPRISE_DEV)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()
