# SPDX-License-Identifier: Apache-2.0
# One function makes a room, one makes a test binary. Sources are found by name: a new file needs
# no edit here.

# Presets whose flags are the same (release, hip, emulated) share what is compiled: paths below the
# source are relative to ccache, and those in the build folders are alike.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Everything our own code is compiled with. The baseline is AVX2 (Haswell, 2013); wider instruction
# sets are chosen at run time by Highway and oneDNN. Contraction is off so that an expression gives
# the same bits wherever the compiler inlines it; kernels say MulAdd where they mean it.
add_library(tephra_flags INTERFACE)
target_include_directories(tephra_flags INTERFACE ${PROJECT_SOURCE_DIR})
set(flags -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage> -Werror -ffp-contract=off)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND flags -march=haswell -mtune=generic)
endif()
target_compile_options(tephra_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
target_compile_definitions(tephra_flags INTERFACE TEPHRA_VERSION="${PROJECT_VERSION}"
  TEPHRA_GPU=$<NOT:$<STREQUAL:${TEPHRA_GPU_BACKEND},off>>)
target_link_libraries(tephra_flags INTERFACE fmt::fmt Threads::Threads)
if(TEPHRA_SANITIZE)
  target_compile_options(tephra_flags INTERFACE -fsanitize=${TEPHRA_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tephra_flags INTERFACE -fsanitize=${TEPHRA_SANITIZE})
  target_compile_definitions(tephra_flags INTERFACE TEPHRA_SANITIZED=1)
endif()

# Highway counts AES as part of its AVX2 target: without the flag it would compile every kernel for
# SSSE3 and SSE4, too, which the baseline makes useless.
set(TEPHRA_KERNEL_OPTIONS)
if(NOT TEPHRA_SANITIZE)  # there -O3 would cost minutes of compile time
  list(APPEND TEPHRA_KERNEL_OPTIONS -O3)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND TEPHRA_KERNEL_OPTIONS -maes)
  # AddressSanitizer sees every instruction set; races and parsers do not depend on it.
  if(TEPHRA_SANITIZE MATCHES "thread|fuzzer")
    list(APPEND TEPHRA_KERNEL_OPTIONS -DHWY_COMPILE_ONLY_STATIC)
  endif()
else()  # on ARM the baseline is NEON; SVE's vectors cannot be kept in arrays, as kernels do
  list(APPEND TEPHRA_KERNEL_OPTIONS -march=armv8-a+crypto -DHWY_COMPILE_ONLY_STATIC)
endif()

# tephra_room(NAME LINKS rooms... USES libraries...): one static library per folder of tephra/.
function(tephra_room name)
  cmake_parse_arguments(ROOM "" "" "LINKS;USES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*_cpu.cpp)
  add_library(tephra_${name} STATIC ${sources})
  set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${TEPHRA_KERNEL_OPTIONS}"
    SKIP_UNITY_BUILD_INCLUSION ON)
  # Files are compiled eight at a time: most of a small file's cost is its headers. Kernels, and the
  # specs of ops and the commands, which all say run, stay alone. So within a room what is in an unnamed
  # namespace has a name of its own.
  list(FILTER sources INCLUDE REGEX "_spec\\.cpp$|/cmd_[^/]*\\.cpp$")
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(tephra_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  target_link_libraries(tephra_${name} PUBLIC tephra_flags)
  foreach(room ${ROOM_LINKS})
    target_link_libraries(tephra_${name} PUBLIC tephra_${room})
  endforeach()
  target_link_libraries(tephra_${name} PRIVATE ${ROOM_USES})
  tephra_gpu_library(${name} "${ROOM_LINKS}")
endfunction()

# tephra_embed(ROOM FILE): the text of the file as a std::string_view of the room, tephra::kChatPage for
# chat_page.html; who uses it declares it.
function(tephra_embed room file)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${room}/${file})
  set(result ${CMAKE_CURRENT_BINARY_DIR}/${room}/${file}.cpp)
  add_custom_command(OUTPUT ${result}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DRESULT=${result} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake COMMENT "embed ${file}" VERBATIM)
  target_sources(tephra_${room} PRIVATE ${result})
  set_source_files_properties(${result} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# tephra_test(ROOM LINKS rooms... [SHARDS n]): one test binary per folder of tests/. ctest runs it whole
# (or in n parts), because a process for each of thousands of tests would cost more than the tests.
# Suites whose name ends in Slow are an entry of their own, labelled slow, and so are those with Gpu in
# their name, which are skipped where there is none. A filter looks at suites only, never at the names of
# tests; tests/entries_test.py sees that each test is in one entry.
function(tephra_test room)
  cmake_parse_arguments(TEST "" "SHARDS;LABEL" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*_test.cpp)
  add_executable(${room}_test ${sources})
  foreach(name ${TEST_LINKS})
    target_link_libraries(${room}_test PRIVATE tephra_${name})
  endforeach()
  target_link_libraries(${room}_test PRIVATE tephra_test_support GTest::gtest)
  target_compile_definitions(${room}_test PRIVATE
    TEPHRA_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden"
    TEPHRA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(${room}_test PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  # What tests spend is spent in the rooms: compile them fast.
  target_compile_options(${room}_test PRIVATE -O0)

  if(NOT TEST_SHARDS)
    set(TEST_SHARDS 1)
  endif()
  if(NOT TEST_LABEL)
    set(TEST_LABEL fast)
  endif()
  math(EXPR last "${TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(entry ${room})
    if(last GREATER 0)
      set(entry ${room}.${shard})
    endif()
    tephra_test_entry(${entry} ${TEST_LABEL} ${room}_test "-*Slow.*:*Gpu*.*" ${shard} ${TEST_SHARDS})
  endforeach()
  foreach(source ${sources})
    file(STRINGS ${source} gpu REGEX "^(TYPED_)?TEST(_[FP])?\\([A-Za-z0-9]*Gpu")
    if(gpu)
      tephra_test_entry(${room}.gpu gpu ${room}_test "*Gpu*.*" 0 1)
      break()
    endif()
  endforeach()
  foreach(source ${sources})
    file(STRINGS ${source} slow REGEX "^(TYPED_)?TEST(_[FP])?\\([A-Za-z0-9]*Slow,")
    if(slow)
      tephra_test_entry(${room}.slow slow ${room}_test "*Slow.*" 0 1)
      break()
    endif()
  endforeach()
endfunction()

function(tephra_test_entry entry label binary filter shard shards)
  add_test(NAME ${entry} COMMAND ${binary} --gtest_brief=1 --gtest_filter=${filter})
  set_tests_properties(${entry} PROPERTIES LABELS ${label} TIMEOUT 1200
    ENVIRONMENT "GTEST_SHARD_INDEX=${shard};GTEST_TOTAL_SHARDS=${shards};${TEPHRA_TEST_ENVIRONMENT}")
  if(label STREQUAL gpu AND TEPHRA_GPU_BACKEND STREQUAL emulated)
    set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT EMULATED_GPU=1)
  endif()
endfunction()

# A test of running out of memory needs the sanitizer to refuse as the system does.
set(TEPHRA_TEST_ENVIRONMENT "ASAN_OPTIONS=allocator_may_return_null=1"
  "UBSAN_OPTIONS=print_stacktrace=1" "TSAN_OPTIONS=allocator_may_return_null=1")
