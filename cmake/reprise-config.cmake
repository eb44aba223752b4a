# find_package(reprise): what the libraries link, then a target each, reprise::data_trace and so on.
#   target_link_libraries(tool PRIVATE reprise::replay_analysis)   # one room with all below it
#   target_link_libraries(tool PRIVATE reprise::reprise)           # all of them
# Headers are included as in the sources: #include "data/trace/trace.h".
include(CMakeFindDependencyMacro)
foreach(dependency Boost TBB nlohmann_json SQLite3 fmt tl-expected simdjson Threads PkgConfig)
  find_dependency(${dependency})
endforeach()
find_dependency(OpenSSL COMPONENTS Crypto)
if(NOT TARGET PkgConfig::ISAL)
  pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
endif()
if(NOT TARGET PkgConfig::LZMA)
  pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/reprise-targets.cmake)
