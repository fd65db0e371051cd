# SPDX-License-Identifier: Apache-2.0
# What an emulated GPU runs within minutes, label emulated; tests of many tiles would take hours.
function(tephra_emulated_entry name filter)
  string(REGEX MATCH "^[a-z]+" room ${name})
  add_test(NAME emulated.${name} COMMAND ${room}_test --gtest_brief=1 --gtest_filter=${filter})
  set_tests_properties(emulated.${name} PROPERTIES LABELS emulated TIMEOUT 1200
    FAIL_REGULAR_EXPRESSION "PASSED  . 0 tests|SKIPPED"  # a name that no test has any more
    ENVIRONMENT "EMULATED_GPU=1;${ARGN};${TEPHRA_TEST_ENVIRONMENT}")
endfunction()

foreach(shard RANGE 3)
  tephra_emulated_entry(ops.${shard} "Ops/GpuSuite.*" GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=${shard})
endforeach()
tephra_emulated_entry(ops.more "*Gpu*.*-*GpuSuite.*:GpuManyTiles.*:GpuGroupedLinear.MultipliesTiles*:\
PackedGpu.MultipliesALarge*:Heads/GpuAttention.*/1:Heads/GpuAttention.*/2")
tephra_emulated_entry(device "*Gpu*.*")
tephra_emulated_entry(core "*Gpu*.*")
tephra_emulated_entry(optim "*Gpu*.*-*Large*:*ManyTiles*:*SymmetricToTheBit")
tephra_emulated_entry(infer "PackedStepGpu.ComputesInF32*:DecodeStepGpu.TellsTheTokens*")

# What calls AMD's library of products, with a stand-in for it.
set(library TEPHRA_HIPBLASLT=$<TARGET_FILE:emulated_hipblaslt>)
tephra_emulated_entry(ops.hipblaslt "Ops/GpuSuite.*/linear_?:Ops/GpuSuite.*/linear_??:Ops/GpuSuite.*/linear_???" ${library})
tephra_emulated_entry(optim.hipblaslt "*Gpu*.Updates*:*Gpu*.Rounds*" ${library})
tephra_emulated_entry(infer.hipblaslt "DecodeStepGpu.TellsTheTokens*" ${library})
# What `doctor` says of a GPU's libraries with these settings.
function(tephra_emulated_doctor name says)
  add_test(NAME emulated.doctor.${name} COMMAND tephra doctor --no-measure)
  set_tests_properties(emulated.doctor.${name} PROPERTIES LABELS emulated ENVIRONMENT "EMULATED_GPU=1;${ARGN}"
    PASS_REGULAR_EXPRESSION ${says})
endfunction()
tephra_emulated_doctor(library "emulated on this CPU.*hipBLASLt +0\\.1\\.2" ${library})
tephra_emulated_doctor(no_library "hipBLASLt +not opened")
tephra_emulated_doctor(wrong_library "TEPHRA_HIPBLASLT: expected the file of hipBLASLt" TEPHRA_HIPBLASLT=/dev/null)
tephra_emulated_doctor(portable "hipBLASLt +left out" ${library} TEPHRA_GPU_PORTABLE=1)
tephra_emulated_doctor(wrong_setting "TEPHRA_GPU_PORTABLE: expected 0 or 1, got 'banana'" TEPHRA_GPU_PORTABLE=banana)

# Golden models and recorded training runs.
function(tephra_emulated_golden name folder file)
  add_test(NAME emulated.golden.${name} COMMAND tephra verify --model ${PROJECT_SOURCE_DIR}/tests/golden/${folder}
    --golden ${PROJECT_SOURCE_DIR}/tests/golden/${folder}/${file}.safetensors --device gpu ${ARGN})
  set_tests_properties(emulated.golden.${name} PROPERTIES LABELS emulated TIMEOUT 600 ENVIRONMENT EMULATED_GPU=1)
endfunction()
tephra_emulated_golden(f32 zaya-tiny golden --dtype f32)
tephra_emulated_golden(bf16 zaya-tiny golden --dtype bf16)
tephra_emulated_golden(muon train-muon trajectory --optimizer muon)
tephra_emulated_golden(adamw train-adamw trajectory --optimizer adamw)
