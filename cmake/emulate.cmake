# The CUDA backend with its kernels run on the processor (tests/emulate): each .cu file,
# preprocessed, becomes C++. For tests on machines without a GPU; slow.
enable_language(CXX)
find_program(PYTHON3 python3)
if(NOT NVCC OR NOT PYTHON3)
  message(FATAL_ERROR "MLXCEL_EMULATE is on, which needs the CUDA toolkit's headers (nvcc in PATH, "
    "CUDA_HOME/bin or /usr/local/cuda/bin) and python3")
endif()
get_filename_component(CUDA_INCLUDE ${NVCC} REALPATH)
get_filename_component(CUDA_INCLUDE ${CUDA_INCLUDE}/../../include ABSOLUTE)
set(EMULATE ${CMAKE_SOURCE_DIR}/tests/emulate)
set(CXX_OPTIONS -std=gnu++17 -O1 -g -march=x86-64-v3 -ffp-contract=off -fno-math-errno
  -fno-strict-aliasing -fno-omit-frame-pointer -w -Wno-psabi)
if(MLXCEL_SANITIZE MATCHES thread) # the emulator tells of races itself
  list(APPEND CXX_OPTIONS -DWATCH_RACES)
  set(UNWATCHED -fno-sanitize=thread)
endif()

# Source, made of a .cu file.
function(translate FROM TO)
  get_filename_component(FROM_FOLDER ${FROM} DIRECTORY)
  add_custom_command(OUTPUT ${TO} DEPENDS ${FROM} ${EMULATE}/translate.py
    DEPFILE ${TO}.d
    COMMAND ${CMAKE_CXX_COMPILER} ${CXX_OPTIONS} -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR}/src
      -I${EMULATE} -isystem ${CUDA_INCLUDE} -MD -MT ${TO} -MF ${TO}.d -include emulate.h -x c++ -E
      -o ${TO}.e ${FROM}
    COMMAND ${PYTHON3} ${EMULATE}/translate.py ${FROM_FOLDER}/ < ${TO}.e > ${TO}
    VERBATIM)
endfunction()

file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS src/compute/cuda/*.cu)
foreach(SOURCE ${CUDA_SOURCES})
  get_filename_component(NAME ${SOURCE} NAME_WE)
  translate(${SOURCE} ${CMAKE_BINARY_DIR}/emulated/${NAME}.cc)
  list(APPEND EMULATED_SOURCES ${CMAKE_BINARY_DIR}/emulated/${NAME}.cc)
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/emulated)
set(EMULATOR_SOURCES ${EMULATE}/emulate.cc ${EMULATE}/runtime.cc ${EMULATE}/blas.cc)
add_library(emulator OBJECT ${EMULATED_SOURCES} ${EMULATOR_SOURCES})
target_include_directories(emulator PRIVATE ${EMULATE})
target_compile_options(emulator PRIVATE ${CXX_OPTIONS})
target_link_libraries(emulator PRIVATE options)
set_source_files_properties(${EMULATOR_SOURCES} PROPERTIES COMPILE_OPTIONS "-O2;${UNWATCHED}")
target_include_directories(options SYSTEM INTERFACE ${CUDA_INCLUDE})

file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS src/compute/cuda/*.c)
list(FILTER CUDA_SOURCES EXCLUDE REGEX "/blas\\.c$")
list(APPEND LIB_SOURCES ${CUDA_SOURCES} $<TARGET_OBJECTS:emulator>)

# Kernels with a fault each, to see that the emulator tells.
translate(${EMULATE}/faults.cu ${CMAKE_BINARY_DIR}/emulated/faults.cc)
add_executable(emulate_faults EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/emulated/faults.cc
  ${EMULATOR_SOURCES})
target_include_directories(emulate_faults PRIVATE ${EMULATE})
target_compile_options(emulate_faults PRIVATE ${CXX_OPTIONS})
target_link_libraries(emulate_faults PRIVATE options PkgConfig::JSONC ${CMAKE_DL_LIBS})
