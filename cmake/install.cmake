# What is installed, and the Debian packages made of it:
#   cpack --config build/release/CPackConfig.cmake
# reprise: the tool, what it loads into profiled processes, manual, completions, a sample trace.
# reprise-train: the trainer, which compiles kernels with g++, and the shipped programs.
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

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Reprise maintainers <reprise@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Makes distributed training faster from its own traces")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL reprise trainer)
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
set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "g++, openmpi-bin")
include(CPack)
