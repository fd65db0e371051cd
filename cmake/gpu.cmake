# SPDX-License-Identifier: Apache-2.0
# The GPU backend: every *.cu of a room becomes a library of its own, so that a change of CPU code
# compiles no kernel. One source for two vendors: nvcc, or clang for AMD (build preset hip, a
# compile check). Files named *_cuda.cu are fast paths that only the first gets.

set(TEPHRA_GPU_BACKEND ${TEPHRA_GPU})
if(TEPHRA_SANITIZE OR TEPHRA_FUZZ)  # no sanitizer sees into a kernel
  set(TEPHRA_GPU_BACKEND off)
endif()

if(TEPHRA_GPU_BACKEND STREQUAL auto)
  find_program(TEPHRA_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(TEPHRA_NVCC)
    set(TEPHRA_GPU_BACKEND cuda)
  else()
    set(TEPHRA_GPU_BACKEND off)
  endif()
endif()

if(TEPHRA_GPU_BACKEND STREQUAL cuda)
  find_program(CCACHE ccache)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  if(TEPHRA_NVCC AND NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${TEPHRA_NVCC})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${TEPHRA_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  # This CMake knows no C++20 for nvcc, and drops CUDA_STANDARD 20 without a word.
  string(APPEND CMAKE_CUDA_FLAGS " -std=c++20 --expt-relaxed-constexpr -Xcompiler=-Wall -diag-suppress=445")
  # Its front end cannot evaluate the checks of format strings that the C++ compiler makes, and fmt
  # leaves half of its functions without constexpr when it sees nvcc, which gcc 12 refuses.
  string(APPEND CMAKE_CUDA_FLAGS " -DFMT_CONSTEVAL= -DFMT_USE_CONSTEXPR=1")
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
elseif(TEPHRA_GPU_BACKEND STREQUAL hip)
  include(cmake/hip.cmake)
elseif(NOT TEPHRA_GPU_BACKEND STREQUAL off)
  message(FATAL_ERROR "TEPHRA_GPU: expected auto, cuda, hip or off, got ${TEPHRA_GPU}")
endif()

# Headers cost more than kernels, so several files are compiled as one.
set(TEPHRA_GPU_BATCH 8 CACHE STRING "kernel files that are compiled together")

# Sources that include `files`, TEPHRA_GPU_BATCH of them each.
function(tephra_gpu_batches name files result)
  set(batches)
  set(text "")
  set(in_batch 0)
  foreach(file ${files} end)
    if(NOT file STREQUAL end)
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${file})
      string(APPEND text "#include \"${path}\"\n")
      math(EXPR in_batch "${in_batch} + 1")
    endif()
    if(in_batch EQUAL TEPHRA_GPU_BATCH OR (file STREQUAL end AND in_batch GREATER 0))
      list(LENGTH batches index)
      set(batch ${CMAKE_CURRENT_BINARY_DIR}/gpu/${name}_${index}.cu)
      file(CONFIGURE OUTPUT ${batch} CONTENT "${text}" @ONLY)
      list(APPEND batches ${batch})
      set(text "")
      set(in_batch 0)
    endif()
  endforeach()
  set(${result} ${batches} PARENT_SCOPE)
endfunction()

# The kernels of a room, linked into it. `links`: the rooms below.
function(tephra_gpu_library name links)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cu)
  if(TEPHRA_GPU_BACKEND STREQUAL off OR NOT files)
    return()
  endif()
  if(TEPHRA_GPU_BACKEND STREQUAL hip)
    list(FILTER files EXCLUDE REGEX "_cuda\\.cu$")
  endif()
  tephra_gpu_batches(${name} "${files}" batches)
  if(TEPHRA_GPU_BACKEND STREQUAL hip)
    tephra_hip_objects("${batches}" objects)
    add_library(tephra_${name}_gpu STATIC ${objects})
    set_target_properties(tephra_${name}_gpu PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(tephra_${name}_gpu PUBLIC amdhip64)
  else()
    add_library(tephra_${name}_gpu STATIC ${batches})
    set_target_properties(tephra_${name}_gpu PROPERTIES CXX_STANDARD_REQUIRED OFF
      CUDA_STANDARD_REQUIRED OFF)
    target_include_directories(tephra_${name}_gpu PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(tephra_${name}_gpu PUBLIC fmt::fmt)
  endif()
  target_link_libraries(tephra_${name} PUBLIC tephra_${name}_gpu)
  foreach(room ${links})
    target_link_libraries(tephra_${name}_gpu INTERFACE tephra_${room})
  endforeach()
endfunction()
