# SPDX-License-Identifier: Apache-2.0
# Kernels for AMD's gfx942 with Debian's clang. A compile check: bookworm's device libraries stop
# one chip earlier, so the constant that names this one is made here, and its runtime is too old
# for the real thing.

find_program(TEPHRA_HIP_CLANG clang++-19 REQUIRED)
set(TEPHRA_HIP_LIBRARIES ${PROJECT_BINARY_DIR}/hip-device-libraries)

function(tephra_make_hip_libraries)
  if(EXISTS ${TEPHRA_HIP_LIBRARIES}/oclc_isa_version_942.bc)
    return()
  endif()
  file(GLOB bitcode /usr/lib/x86_64-linux-gnu/amdgcn/bitcode/*.bc)
  if(NOT bitcode)
    message(FATAL_ERROR "no AMD device libraries: install the package rocm-device-libs")
  endif()
  file(MAKE_DIRECTORY ${TEPHRA_HIP_LIBRARIES})
  foreach(file ${bitcode})
    get_filename_component(base ${file} NAME)
    file(CREATE_LINK ${file} ${TEPHRA_HIP_LIBRARIES}/${base} SYMBOLIC)
  endforeach()
  file(WRITE ${TEPHRA_HIP_LIBRARIES}/isa.ll "target triple = \"amdgcn-amd-amdhsa\"\n"
    "@__oclc_ISA_version = linkonce_odr protected local_unnamed_addr addrspace(4) constant "
    "i32 9402, align 4\n")
  execute_process(COMMAND ${TEPHRA_HIP_CLANG} --target=amdgcn-amd-amdhsa -nogpulib -x ir
    -emit-llvm -c ${TEPHRA_HIP_LIBRARIES}/isa.ll -o ${TEPHRA_HIP_LIBRARIES}/oclc_isa_version_942.bc
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()
tephra_make_hip_libraries()

find_program(CCACHE ccache)

# One object for each source. Warnings are not errors here: the backend also warns of registers. CMake's own HIP language does not work with this clang.
function(tephra_hip_objects sources result)
  set(objects)
  foreach(source ${sources})
    get_filename_component(base ${source} NAME)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/gpu/${base}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CCACHE} ${TEPHRA_HIP_CLANG} -x hip --offload-arch=gfx942 -std=c++20 -O2 -Wall
        -I${PROJECT_SOURCE_DIR} --rocm-path=/usr
        --rocm-device-lib-path=${TEPHRA_HIP_LIBRARIES} -DFMT_USE_FLOAT128=0
        -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d COMMENT "HIP ${base}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()
