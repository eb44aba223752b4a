# What is installed, and the Debian packages made of it:
#   cpack --config build/release/CPackConfig.cmake
# reprise: the tool, what it loads into profiled processes, manual, completions, a sample trace.
# reprise-train: the trainer, which compiles kernels with g++, and the shipped programs.
# libreprise-dev: the libraries below the command line and beside the trainer, for find_package(reprise).
include(GNUInstallDirs)
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # Tests need not be built for it.

install(TARGETS reprise RUNTIME COMPONENT reprise)
install(TARGETS reprise_inject nccl_profiler_plugin nccl_preload
  LIBRARY DESTINATION lib/reprise NAMELINK_SKIP COMPONENT reprise)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/data/samples DESTINATION ${CMAKE_INSTALL_DATADIR}/reprise
  COMPONENT reprise PATTERN "*.py" EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT reprise)
# From the help pages, so that they say the same.
install(CODE "
  execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${CMAKE_SOURCE_DIR}/cmake/manual.py\"
    \"$<TARGET_FILE:reprise>\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\" COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT reprise)

install(TARGETS reprise-train RUNTIME COMPONENT trainer)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/data/programs DESTINATION ${CMAKE_INSTALL_DATADIR}/reprise
  COMPONENT trainer PATTERN "*.py" EXCLUDE)

# What reads, prices, replays and optimizes: static libraries, a target each as in this tree, reprise::reprise for all.
include(CMakePackageConfigHelpers)
add_library(reprise_libraries INTERFACE)
set_target_properties(reprise_libraries PROPERTIES EXPORT_NAME reprise)
get_property(libraries GLOBAL PROPERTY REPRISE_LIBRARIES)
foreach(library ${libraries})
  get_target_property(folder ${library} SOURCE_DIR)
  cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(folder MATCHES "^(data|costmodel|replay|optimizer)(/|$)")
    install(TARGETS ${library} EXPORT reprise_targets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/reprise COMPONENT development)
    target_link_libraries(reprise_libraries INTERFACE ${library})
  endif()
endforeach()
install(TARGETS reprise_libraries glpk EXPORT reprise_targets COMPONENT development)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/data ${CMAKE_SOURCE_DIR}/costmodel ${CMAKE_SOURCE_DIR}/replay
  ${CMAKE_SOURCE_DIR}/optimizer DESTINATION include/reprise COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "opcode_table.inc" PATTERN "samples" EXCLUDE PATTERN "programs" EXCLUDE)
install(EXPORT reprise_targets NAMESPACE reprise:: FILE reprise-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/reprise COMPONENT development)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/reprise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/reprise-config.cmake ${CMAKE_BINARY_DIR}/reprise-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/reprise COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Reprise maintainers <reprise@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Makes distributed training faster from its own traces")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL reprise trainer development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_REPRISE_PACKAGE_NAME reprise)
set(CPACK_COMPONENT_REPRISE_DESCRIPTION
  "Reads the traces that PyTorch, JAX, Nsight, Horovod and their kin leave behind,
replays them, says where the step goes, and finds faster plans.")
set(CPACK_DEBIAN_REPRISE_PACKAGE_RECOMMENDS reprise-train)
set(CPACK_DEBIAN_TRAINER_PACKAGE_NAME reprise-train)
set(CPACK_COMPONENT_TRAINER_DESCRIPTION
  "Runs data-parallel training steps, given as XLA HLO, under the plans of reprise.")
set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "g++, openmpi-bin, libopenblas0")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libreprise-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Libraries and headers of reprise: traces, programs, plans, prices, replay, search.
Programs that link the optimizer link GLPK, and are under GPL-3 terms then.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "g++, pkg-config, libboost-graph-dev, libtbb-dev, nlohmann-json3-dev, \
libsqlite3-dev, libfmt-dev, libexpected-dev, libssl-dev, libisal-dev, liblzma-dev, libsimdjson-dev, libglpk-dev")
include(CPack)
