# One library per folder, one test binary per mirrored test file.

# Warnings are errors under the presets of developers (those with sanitizers) with every compiler, and
# in a release with those that this source has been built with: a later one may know more of them.
set(REPRISE_WERROR OFF)
if(REPRISE_SANITIZE
   OR (CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
  set(REPRISE_WERROR ${REPRISE_DEV})
endif()

# What a room's sources include is parsed once for all of them: half of the compile time of a whole
# build. Off where one file is compiled again and again, and for tools that look at files.
option(REPRISE_UNITY "Compile the sources of each library as one" OFF)

# Flags that every target of the project shares.
add_library(reprise_flags INTERFACE)
target_include_directories(reprise_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(reprise_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion
  # Where sources are compiled as one, what is local to one of them looks like a header's.
  $<$<AND:$<BOOL:${REPRISE_UNITY}>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>
  # What ccache needs to look into a precompiled header.
  $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
  # g++ 12 sees overlaps in string concatenations that are none (GCC bug 105651), and where threads are watched writes
  # past the end.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict
    $<$<STREQUAL:${REPRISE_SANITIZE},thread>:-Wno-array-bounds>>
  # Garbage is collected from half a GiB on, where 128 MiB is usual: 6 to 10 % of the compile time.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>
  $<$<BOOL:${REPRISE_WERROR}>:-Werror> $<$<STREQUAL:${REPRISE_SANITIZE},address>:-O1 -fsanitize=address,undefined
    -fno-sanitize-recover=all -fno-omit-frame-pointer>
  # GCC takes std::function in std::regex for uninitialized under ASan (its bug 105562).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<STREQUAL:${REPRISE_SANITIZE},address>>:-Wno-maybe-uninitialized>
  $<$<STREQUAL:${REPRISE_SANITIZE},thread>:-fsanitize=thread>
  $<$<STREQUAL:${REPRISE_SANITIZE},fuzzer>:-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all>)
target_link_options(reprise_flags INTERFACE
  $<$<STREQUAL:${REPRISE_SANITIZE},address>:-fsanitize=address,undefined>
  # UBSan's tables hold two million addresses, which each start of a position-independent program corrects.
  $<$<AND:$<STREQUAL:${REPRISE_SANITIZE},address>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>:-no-pie>
  $<$<STREQUAL:${REPRISE_SANITIZE},thread>:-fsanitize=thread>
  $<$<STREQUAL:${REPRISE_SANITIZE},fuzzer>:-fsanitize=address,undefined>)

# A release is compiled at -O2; what computes tensors, or runs thousands of times in a search, at -O3 (HOT); what runs a
# few times for each event or instruction read, at -O1 (WARM); what runs once a command, or waits for something else most
# of the time, at -Og (COLD). WARM takes two thirds of -O2's compile time, COLD half.
# What only tests link is compiled as they are (TESTING).
add_compile_options($<$<CONFIG:Release>:-O2>)

# What calls the code under test need not be fast itself: at -O0 it compiles in little more than half of the time, and
# nearly all tests run as fast. Those that compute themselves (naive readers, sums to compare with) are HOT.
set(REPRISE_TEST_FLAGS $<$<CONFIG:Release>:-O0>)

# reprise_library(name [HOT|WARM|COLD|TESTING] SOURCES a.cc b.cc DEPS other_library ... [HEADERS_OF library ...])
# A static library; without SOURCES, a header-only one. Of HEADERS_OF it uses what is inline, and links nothing.
function(reprise_library name)
  cmake_parse_arguments(ARG "HOT;WARM;COLD;TESTING" "" "SOURCES;DEPS;HEADERS_OF" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:reprise_flags> ${ARG_DEPS})
    target_include_directories(${name} PUBLIC $<INSTALL_INTERFACE:include/reprise>)
    target_compile_features(${name} PUBLIC cxx_std_20)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ${REPRISE_UNITY} UNITY_BUILD_BATCH_SIZE 0)
    set(headers reprise_headers)
    if(ARG_TESTING)
      # -fPIE as programs are, whose headers these are.
      target_compile_options(${name} PRIVATE -fPIE ${REPRISE_TEST_FLAGS})
      target_link_libraries(${name} PUBLIC GTest::gtest)
      set(headers testing_headers)
    endif()
    # Of what reads headers precompiled at -O2, GCC 12 makes no vectors at -O3 around functions of another target: not one
    # loop of our products of matrices.
    if(REPRISE_UNITY AND NOT ARG_HOT)
      target_precompile_headers(${name} REUSE_FROM ${headers})
    endif()
    if(ARG_HOT)
      target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O3>)
    elseif(ARG_WARM)
      target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    elseif(ARG_COLD)
      target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Og>)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE $<BUILD_INTERFACE:reprise_flags> ${ARG_DEPS})
    target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:include/reprise>)
  endif()
  set_property(GLOBAL APPEND PROPERTY REPRISE_LIBRARIES ${name})
  set_target_properties(${name} PROPERTIES REPRISE_HEADERS_OF "${ARG_HEADERS_OF}")
endfunction()

set(REPRISE_HOT_TEST_FLAGS $<$<CONFIG:Release>:-O1>)

# reprise_room_tests(program): where libraries compile as one, so do the tests of this folder, and of those below it that
# name no program of their own: one program for all from this line on that do not say ALONE. Each stays a test of its
# own for ctest, a process that runs its suites alone.
macro(reprise_room_tests program)
  if(REPRISE_UNITY)
    set(REPRISE_ROOM_TESTS ${program})
    add_executable(${program})
    set_target_properties(${program} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    reprise_test_program(${program})
  endif()
endmacro()

function(reprise_test_program name)
  target_link_libraries(${name} PRIVATE testing_directories reprise_flags GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM testing_headers)
  target_compile_options(${name} PRIVATE ${REPRISE_TEST_FLAGS})
endfunction()

# The --gtest_filter that runs what the sources define, and nothing else of the room's program. A suite belongs to one
# test; cases of TEST_P are called prefix/suite.case/parameter, those of TYPED_TEST suite/type.case.
function(reprise_suites_filter name result)
  set(filter "")
  foreach(source ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} lines REGEX "^(TEST|TEST_F|TEST_P|TYPED_TEST)\\(")
    list(TRANSFORM lines REPLACE "^[A-Z_]+\\( *([A-Za-z0-9_]+).*$" "\\1" OUTPUT_VARIABLE suites)
    list(REMOVE_DUPLICATES suites)
    foreach(suite ${suites})
      get_property(owner TARGET ${REPRISE_ROOM_TESTS} PROPERTY REPRISE_TEST_OF_${suite})
      if(owner AND NOT owner STREQUAL name)
        message(FATAL_ERROR "${source}: suite ${suite} is ${owner}'s already; ctest tells tests of a room apart by suite")
      endif()
      set_property(TARGET ${REPRISE_ROOM_TESTS} PROPERTY REPRISE_TEST_OF_${suite} ${name})
      list(APPEND filter "${suite}.*" "*/${suite}.*" "${suite}/*.*")
    endforeach()
  endforeach()
  if(NOT filter)
    message(FATAL_ERROR "${name}: no TEST in its sources")
  endif()
  list(REMOVE_DUPLICATES filter)
  list(JOIN filter ":" filter)
  set(${result} --gtest_filter=${filter} PARENT_SCOPE)
endfunction()

# reprise_test(name SOURCES a_test.cc DEPS library ... [LABELS unit] [ENVIRONMENT K=V ...] [ALONE] [HOT])
# GoogleTest sources as one test; tests/testing/directories.h names the checkout and the build. A program of that name,
# or a part of the room's (reprise_room_tests); ALONE where the program itself matters, by what it links or who starts it.
function(reprise_test name)
  cmake_parse_arguments(ARG "ALONE;HOT" "TIMEOUT" "SOURCES;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(REPRISE_SANITIZE)  # Instrumented code takes several times as long.
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 4")
  endif()
  # Leaks are looked for in unit tests alone: commands start Open MPI, which keeps memory for good and unloads whose
  # that is before LeakSanitizer could say so.
  if(REPRISE_SANITIZE AND NOT "${ARG_ENVIRONMENT}" MATCHES LSAN_OPTIONS)
    list(APPEND ARG_ENVIRONMENT LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp)
  endif()
  if(ARG_HOT)
    set_source_files_properties(${ARG_SOURCES} PROPERTIES
      SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS ${REPRISE_HOT_TEST_FLAGS})
  endif()
  if(REPRISE_ROOM_TESTS AND NOT ARG_ALONE)
    list(TRANSFORM ARG_SOURCES REPLACE "^([^/].*)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
    target_sources(${REPRISE_ROOM_TESTS} PRIVATE ${ARG_SOURCES})
    target_link_libraries(${REPRISE_ROOM_TESTS} PRIVATE ${ARG_DEPS})
    reprise_suites_filter(${name} filter ${ARG_SOURCES})
    set(command ${REPRISE_ROOM_TESTS} ${filter})
  else()
    add_executable(${name} ${ARG_SOURCES})
    reprise_test_program(${name})
    target_link_libraries(${name} PRIVATE ${ARG_DEPS})
    set(command ${name})
  endif()
  add_test(NAME ${name} COMMAND ${command})
  # For those who give the program more, or run it in other ways too.
  list(GET command 0 program)
  set(REPRISE_PROGRAM_OF_${name} ${program} PARENT_SCOPE)
  set(REPRISE_COMMAND_OF_${name} ${command} PARENT_SCOPE)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

# reprise_benchmark(name DEPS library ... [ARGUMENTS argument ...] [TIMEOUT seconds]): NAME.cc as a program, compiled as
# the product is; ctest sees that it runs, Google Benchmark's at its shortest unless other arguments are given.
function(reprise_benchmark name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "DEPS;ARGUMENTS" ${ARGN})
  if(NOT ARG_ARGUMENTS)
    set(ARG_ARGUMENTS --benchmark_min_time=0.01)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} testing_directories reprise_flags)
  if(REPRISE_UNITY)
    target_compile_options(${name} PRIVATE -fPIC)  # As what the product's headers were precompiled with.
    target_precompile_headers(${name} REUSE_FROM reprise_headers)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS bench TIMEOUT ${ARG_TIMEOUT})
endfunction()
